"""The Python API on each place."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import hora
from helpers.places import Place, User
from helpers.runs import wait_until

Submit = Callable[..., hora.Run]


@pytest.fixture
def submit(user: User, place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Submit]:
    """Starts a job on the place; what still runs after the test is killed."""
    monkeypatch.chdir(user.hora.cwd)
    runs: list[hora.Run] = []

    def start(*command: str, attached: bool = False, **keys: Any) -> hora.Run:
        job = hora.Job(command=list(command), name="job", **{**place.keys, **keys})
        runs.append(hora.submit(job, on=place.name, attached=attached))
        return runs[-1]

    yield start
    known = {status.id for status in hora.list_runs(on=place.name)}
    for run in runs:
        if run.id in known:
            run.stop(kill=True)
            run.wait(30, check=False)


def test_submit_returns_before_the_run_has_ended(submit: Submit) -> None:
    run = submit("sleep", "600")
    assert not run.status().ended
    with pytest.raises(hora.WaitTimeout, match=f"run {run.id} was still .* after 0.2 s"):
        run.wait(timeout=0.2)


def test_wait_returns_the_last_status(submit: Submit) -> None:
    status = submit("true", workers=2).wait(30)
    assert (status.phase, status.exit_code) == ("succeeded", 0)
    assert [rank.exit_code for member in status.members for rank in member.ranks] == [0, 0]


def test_a_failed_run_raises_with_the_first_failure(submit: Submit) -> None:
    run = submit("sh", "-c", "echo out of luck; exit 3")
    with pytest.raises(hora.JobFailed, match="worker-0/0 exited with code 3") as caught:
        run.wait(30)
    assert caught.value.exit_code == 3
    assert caught.value.status.first_failure.last_lines == ("out of luck",)
    assert run.wait(30, check=False).phase == "failed"


def test_logs_are_lines_while_they_come_and_afterwards(submit: Submit) -> None:
    run = submit("sh", "-c", "echo one; echo two; printf three", workers=2)
    found = [(line.label, line.text) for line in run.logs()]
    wanted = [(f"worker-{n}/0", text) for n in (0, 1) for text in ("one", "two", "three")]
    assert sorted(found) == sorted(wanted)
    run.wait(30)
    assert sorted((line.label, line.text) for line in run.logs(follow=False)) == sorted(wanted)
    assert [line.text for line in run.logs(labels=["worker-1/0"])] == ["one", "two", "three"]


def test_logs_without_follow_do_not_wait(submit: Submit) -> None:
    run = submit("sh", "-c", "echo one; sleep 600")
    assert next(run.logs()).text == "one"
    assert wait_until(lambda: [line.text for line in run.logs(follow=False)], "the line is kept") == ["one"]


def test_the_bytes_are_those_that_were_written(submit: Submit) -> None:
    run = submit("printf", r"\377\000\n\r\n")
    assert b"".join(chunk.data for chunk in run.chunks()) == b"\xff\x00\n\r\n"


def test_following_tells_states_and_output(submit: Submit) -> None:
    events = list(submit("echo", "hello").follow())
    phases = [event.status.phase for event in events if event.status is not None]
    assert phases[-1] == "succeeded"
    assert b"".join(event.chunk.data for event in events if event.chunk is not None) == b"hello\n"


def test_waiting_while_following_loses_no_line(submit: Submit) -> None:
    run = submit("sh", "-c", "for n in 1 2 3 4 5; do echo $n; sleep 0.3; done", attached=True)
    found = []
    for line in run.logs():
        found.append(line.text)
        with pytest.raises(hora.WaitTimeout):
            run.wait(timeout=0) if line.text == "1" else run.wait(
                timeout=0.01
            ) if line.text == "2" else _raise()
    assert found == ["1", "2", "3", "4", "5"]


def _raise() -> None:
    raise hora.WaitTimeout


def test_logs_can_be_read_again_after_leaving_them_early(submit: Submit) -> None:
    run = submit("sh", "-c", "echo one; echo two; sleep 0.3; echo three", attached=True)
    for line in run.logs():
        assert line.text == "one"
        break
    assert [line.text for line in run.logs()] == ["one", "two", "three"]


def test_stop_ends_the_run_and_is_harmless_afterwards(submit: Submit) -> None:
    run = submit("sleep", "600", workers=2)
    run.stop()
    assert run.wait(30, check=False).phase == "stopped"
    run.stop()
    assert run.status().exit_code == 143


def test_an_attached_run_ends_with_its_block(submit: Submit, place: Place) -> None:
    with submit("sleep", "600", attached=True) as run:
        assert not run.status().ended
    assert run.status().ended or not place.owns_attached
    with submit("sleep", "600", attached=True) as run:
        run.detach()
    assert not run.status().ended


def test_an_exception_in_the_block_ends_the_run_and_is_raised(submit: Submit) -> None:
    with pytest.raises(ZeroDivisionError), submit("sleep", "600", attached=True) as run:
        1 / 0  # noqa: B018
    assert run.status().ended


def test_runs_are_found_listed_and_forgotten(submit: Submit, place: Place) -> None:
    run = submit("true")
    run.wait(30)
    assert hora.get_run(run.id, on=place.name).id == run.id
    assert hora.get_run("job", on=place.name).id == run.id
    assert [status.id for status in hora.list_runs(on=place.name)] == [run.id]
    run.delete()
    assert hora.list_runs(on=place.name) == []
    with pytest.raises(hora.RunNotFound, match=run.id):
        hora.get_run(run.id, on=place.name)


def test_results_are_what_ranks_left(submit: Submit) -> None:
    run = submit("sh", "-c", 'printf "$HORA_RANK" > "$HORA_RESULT"', workers=3)
    run.wait(30)
    assert run.results() == {f"worker-{n}/0": str(n).encode() for n in range(3)}


def test_ranks_are_named_by_number_or_label(submit: Submit) -> None:
    run = submit("true", workers=2, ranks_per_worker=2)
    run.wait(30)
    assert [run.label_of(name) for name in (0, "3", "worker-1", "worker-0/1")] == [
        "worker-0/0", "worker-1/1", "worker-1/0", "worker-0/1",
    ]  # fmt: skip
    with pytest.raises(hora.UsageError, match="has no rank 9; it has worker-0/0"):
        run.label_of(9)


def test_an_unknown_place_is_said_with_those_that_are_there(place: Place) -> None:
    with pytest.raises(hora.UsageError, match=f"there is no such place; allowed: .*{place.name}"):
        hora.submit(hora.Job(command=["true"]), on="mars")


# --- hora.call ---


def rank() -> int:
    return int(os.environ["HORA_RANK"])


def test_a_function_runs_on_every_rank_and_its_results_come_in_order(submit: Submit, place: Place) -> None:
    assert hora.call(lambda factor: rank() * factor, 10, workers=4, on=place.name, **place.keys) == [
        0,
        10,
        20,
        30,
    ]


def test_what_a_rank_raises_is_raised_here_with_its_traceback(submit: Submit, place: Place) -> None:
    def train() -> None:
        if rank() == 1:
            raise ValueError("loss is NaN")
        time.sleep(600)

    with pytest.raises(ValueError, match="loss is NaN") as caught:
        hora.call(train, workers=2, on=place.name, echo=False, **place.keys, timeouts={"grace": 1})
    told = caught.value.__cause__
    assert isinstance(told, hora.RemoteError)
    assert str(told).startswith("worker-1/0 raised:\nTraceback")


def test_a_result_that_can_not_travel_back_is_said(submit: Submit, place: Place) -> None:
    with pytest.raises(hora.RemoteError, match="the function's result can't travel back"):
        hora.call(lambda: (number for number in range(3)), on=place.name, echo=False, **place.keys)


def test_what_called_functions_print_goes_to_stderr(
    submit: Submit, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    hora.call(lambda: print("hello from", rank()), workers=2, on=place.name, **place.keys)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert sorted(shown.err.splitlines()) == ["worker-0/0 | hello from 0", "worker-1/0 | hello from 1"]


def test_a_rank_that_dies_in_a_called_function_is_named(submit: Submit, place: Place) -> None:
    with pytest.raises(hora.RemoteError, match=r"was killed by signal 9 \(SIGKILL\)"):
        hora.call(lambda: os.kill(os.getpid(), signal.SIGKILL), on=place.name, echo=False, **place.keys)
