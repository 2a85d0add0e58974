"""The Python API, as far as no other suite runs it (tests/conformance/test_api.py does on every place)."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import typing
from pathlib import Path

import pytest

import hora
import hora.errors
from helpers.reader import Reader
from hora.api import _Begun
from hora.following import Following
from hora.job_keys import CallKeys, JobKeys
from hora.load import models
from hora.places.base import Chunk

REPO = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.leaks


def running(*command: str, attached: bool = True) -> hora.Run:
    return hora.submit(hora.Job(command=list(command or ("sleep", "600")), name="job"), attached=attached)


# --- jobs ---


def test_a_job_knows_what_it_is() -> None:
    job = hora.Job(
        command=["python", "train.py"], workers=4, ranks_per_worker=2, name="digits", framework="torch"
    )
    assert repr(job) == "<Job digits (torch; worker: 4 × 2)>"
    assert job.spec.roles[0].replicas == 4


def test_mistakes_in_a_job_are_all_told_at_once() -> None:
    with pytest.raises(hora.JobFileError) as caught:
        hora.Job(command=["true"], nmae="digits", workers=0)  # type: ignore[call-arg]
    assert len(caught.value.problems) == 2
    assert "did you mean name" in str(caught.value)


def test_a_job_file_and_the_same_keys_in_python_are_the_same_job(work: Path) -> None:
    path = work / "job.yaml"
    path.write_text("name: digits\nworkers: 2\ncommand: [true]\ntimeouts: {total: 90s, stall: none}\n")
    written = hora.Job(
        name="digits", workers=2, command=["true"], timeouts={"total": 90, "stall": None}, code=str(work)
    )
    assert hora.Job.from_file(path).spec.timeouts == written.spec.timeouts
    assert hora.Job.from_file(path).spec.roles == written.spec.roles


def test_a_job_from_a_file_is_changed_as_the_command_line_would(work: Path) -> None:
    path = work / "job.yaml"
    path.write_text("name: digits\ncommand: [true]\n")
    job = hora.Job.from_file(path, hora.Overrides(workers=5, env=("LR=0.2",)))
    assert (job.spec.roles[0].replicas, job.spec.roles[0].env) == (5, (("LR", "0.2"),))


def test_type_checkers_know_every_key_of_a_job() -> None:
    known = set(typing.get_type_hints(JobKeys))
    assert known == set(models.JobKeys.model_fields)
    assert known - set(typing.get_type_hints(CallKeys)) == {"command", "workers", "roles"}


def test_what_a_job_would_start_is_shown_without_starting_it() -> None:
    assert '"sleep"' in hora.Job(command=["sleep", "600"]).render()
    assert hora.list_runs() == []


# --- lines ---


def lines(*pieces: bytes, attempts: tuple[int, ...] = ()) -> list[str]:
    begun = _Begun(Chunk(0, "worker-0/0", 0.0, 1, b""))
    found = [line.text for piece in pieces for line in begun.feed(Chunk(0, "worker-0/0", 0.0, 1, piece))]
    return found + ([begun.end().text] if begun.parts else [])


def test_lines_come_whole_however_the_bytes_are_cut() -> None:
    data = "one\ntwo\r\n\nGrüße\nlast".encode()
    for size in range(1, len(data) + 1):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        assert lines(*pieces) == ["one", "two", "", "Grüße", "last"]


def test_a_line_of_many_pieces_is_not_copied_for_each() -> None:
    pieces = [b"x" * 1000] * 20_000
    assert lines(*pieces, b"\n") == ["x" * 20_000_000]


# --- runs that belong to this process ---


def test_a_run_knows_what_it_is() -> None:
    with running() as run:
        assert repr(run) == f"<Run {run.id} on local>"


def test_two_followers_of_an_attached_run_do_not_take_each_others_lines() -> None:
    with running("sh", "-c", "for n in 1 2 3; do echo $n; done; sleep 600") as run:
        first, second = Following(run), Following(run)
        for following in (first, second):
            found = b""
            while found != b"1\n2\n3\n":
                found += b"".join(event.chunk.data for event in following.events(10) if event.chunk)
            following.close()
        third = Following(run, output=False)
        assert third.connection is run.owner, "the owner's connection is free again"
        third.close()


def test_a_follower_that_leaves_an_attached_run_does_not_end_it() -> None:
    with running("sh", "-c", "echo one; sleep 600") as run:
        assert next(run.logs()).text == "one"
        gc.collect()
        with pytest.raises(hora.WaitTimeout):
            run.wait(timeout=0.3)
        assert run.status().phase == "running"


def test_nothing_is_left_open_by_waiting_following_and_stopping() -> None:
    run = running(attached=False)
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    with pytest.raises(hora.WaitTimeout):
        run.wait(timeout=0.1)
    run.stacks()
    run.stop()
    list(run.logs())
    run.wait(check=False)
    after = set(os.listdir("/proc/self/fd")) if before else set()
    assert len(after) <= len(before)


def test_waiting_no_time_for_an_ended_run_is_no_timeout() -> None:
    run = running("true", attached=False)
    run.wait(30)
    assert run.wait(timeout=0).phase == "succeeded"


SCRIPT = """
    import hora, sys
    rank = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True) or {end}); " \\
           "print('ready', flush=True); [signal.pause() for _ in iter(int, 1)]"
    job = hora.Job(command=[sys.executable, "-c", rank], timeouts={{"grace": "10m"}})
    with hora.submit(job, attached=True) as run:
        for line in run.logs():
            print(line.text, flush=True)
"""


def test_what_needs_living_ranks_says_that_the_run_has_ended_however_soon_it_is_asked() -> None:
    for _ in range(4):
        run = running()
        run.stop(kill=True)
        run.wait(check=False)
        for ask in (run.stacks, lambda run=run: run.exec(["true"])):
            with pytest.raises(hora.errors.RunEnded) as caught:
                ask()
            assert str(caught.value) == f"run {run.id} has ended: hora status {run.id}; hora logs {run.id}"
            assert caught.value.exit_code == 2


def test_how_a_run_ended_is_said_once() -> None:
    run = running("sh", "-c", "exit 3")
    with pytest.raises(hora.JobFailed, match=rf"^run {run.id} failed: worker-0/0 exited with code 3"):
        run.wait()
    run = running(attached=False)
    run.stop(kill=True)
    with pytest.raises(hora.JobFailed, match=rf"^run {run.id} stopped by "):
        run.wait()


def test_misuse_is_told_in_words(work: Path) -> None:
    (work / "job.yaml").write_text("command: [sleep, '600']\n")
    for job in ("x", {"command": "x"}):
        with pytest.raises(
            hora.UsageError, match=r"hora\.submit takes a job, as hora\.Job\(.*got (str|dict)"
        ):
            hora.submit(job)  # type: ignore[arg-type]
    with pytest.raises(hora.UsageError, match=r"Job\.from_file takes hora\.Overrides\(.*got dict"):
        hora.Job.from_file(work / "job.yaml", {"workers": 5})  # type: ignore[arg-type]
    with pytest.raises(hora.UsageError, match=r"^place 'moon': there is no such place; allowed: local"):
        hora.list_runs("moon")
    with pytest.raises(hora.UsageError, match=r"^place 'ssh': it comes with a later version"):
        hora.list_runs("ssh")
    with running() as run:
        with pytest.raises(
            hora.UsageError, match=r"timeout must be a number of seconds or None, got str '3'"
        ):
            run.wait(timeout="3")  # type: ignore[arg-type]
        with pytest.raises(hora.UsageError, match=r"exec takes a list of words.*got str 'ls'"):
            run.exec("ls")
        run.stop(kill=True)


@pytest.mark.parametrize(("times", "end"), [(1, "sys.exit(0)"), (2, "None")])
def test_ctrl_c_stops_an_attached_run_and_a_second_one_kills_it(work: Path, times: int, end: str) -> None:
    script = textwrap.dedent(SCRIPT).format(end=end)
    process = subprocess.Popen([sys.executable, "-c", script], cwd=work, stdout=-1, stderr=-1)
    with process:
        Reader(process.stdout).until("ready")
        process.send_signal(signal.SIGINT)
        [run] = hora.list_runs()
        if times == 2:
            wait_for_line(run.id, "asked")
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert b"KeyboardInterrupt" in errors.splitlines()[-1]
    [status] = hora.list_runs()
    assert (status.phase, status.exit_code) == ("stopped", 130)


def wait_for_line(run: str, text: str) -> None:
    for line in hora.get_run(run).logs():
        if line.text == text:
            return
    raise AssertionError(f"{text!r} never came")


def test_a_program_that_ends_without_a_word_takes_its_attached_run_along(work: Path) -> None:
    script = 'import hora, os; hora.submit(hora.Job(command=["sleep", "600"]), attached=True); os._exit(0)'
    subprocess.run([sys.executable, "-c", script], cwd=work, check=True)
    [status] = hora.list_runs()
    run = hora.get_run(status.id)
    assert run.wait(20, check=False).exit_code == 129


# --- the package ---


def test_importing_hora_loads_nothing_else() -> None:
    script = "import sys; before = set(sys.modules); import hora; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['__future__', 'hora']"


def test_the_api_is_loaded_without_yaml_pydantic_and_typing() -> None:
    heavy = "{'typing', 'yaml', 'pydantic', 'cloudpickle', 'dataclasses', 'asyncio', 'ssl'}"
    script = f"import sys; import hora.api; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'hora' has no attribute 'sumbit'"):
        hora.sumbit  # noqa: B018


def test_type_checkers_are_told_that_the_package_is_typed() -> None:
    assert (Path(hora.__file__).parent / "py.typed").exists()


def test_the_reference_page_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, REPO / "scripts" / "docs-api", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
