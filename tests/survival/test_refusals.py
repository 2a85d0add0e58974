"""What can't be started is refused in one sentence, with the exit code that a shell would give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hora as api
from helpers.cli import Cli, Result
from helpers.runs import Runs, is_running, lines_of, python

pytestmark = pytest.mark.leaks


def sentence(result: Result) -> str:
    """The one line that was said; more may follow that begins with blanks, as advice."""
    remark = "hora: framework "  # what was found in the script, or that it couldn't be read
    told = [line for line in result.stderr.splitlines() if line and not line.startswith((" ", remark))]
    assert len(told) == 1 and "Traceback" not in result.stderr, result
    return told[0]


def test_a_command_that_is_not_there(hora: Cli) -> None:
    told = sentence(hora("run", "-n", "4", "no-such-program").check(127))
    assert "'no-such-program' was not found: it is not on the PATH" in told
    told = sentence(hora("run", "-n", "1", "./no-such-program").check(127))
    assert "'./no-such-program' was not found: no such file in " in told
    told = sentence(hora("run", "-n", "1", "/no/such/program").check(127))
    assert "'/no/such/program' was not found: no such file" in told


def test_a_file_that_is_not_executable(hora: Cli, work: Path) -> None:
    (work / "train.sh").write_text("echo hello\n")
    told = sentence(hora("run", "-n", "1", "./train.sh").check(126))
    assert "'./train.sh' is not executable" in told and "chmod +x" in told


def test_a_folder_as_command(hora: Cli, work: Path) -> None:
    (work / "folder").mkdir()
    assert "'./folder' is a folder" in sentence(hora("run", "-n", "1", "./folder").check(126))


def test_an_interpreter_that_is_not_there(hora: Cli, work: Path) -> None:
    (work / "train").write_text("#!/no/such/interpreter\n")
    (work / "train").chmod(0o755)
    result = hora("run", "-n", "1", "./train").check(127)
    assert "its first line asks for /no/such/interpreter, which is not here" in sentence(result)


def test_a_script_with_the_line_ends_of_windows(hora: Cli, work: Path) -> None:
    (work / "train").write_bytes(b"#!/bin/sh\r\necho hello\r\n")
    (work / "train").chmod(0o755)
    assert "as on Windows" in sentence(hora("run", "-n", "1", "./train").check(127))


def test_a_script_without_a_first_line_runs_as_in_a_shell(hora: Cli, work: Path) -> None:
    (work / "train").write_text("echo hello $1\n")
    (work / "train").chmod(0o755)
    assert hora("run", "-n", "1", "./train", "you").check().ranks() == {"worker-0/0": ["hello you"]}


def test_a_program_for_another_machine(hora: Cli, work: Path) -> None:
    (work / "train").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xf3\x00" + bytes(100))
    (work / "train").chmod(0o755)
    result = hora("run", "-n", "1", "./train").check(126)
    assert "can't be started: Exec format error" in sentence(result)


def test_a_script_that_is_not_there_is_the_interpreters_word(hora: Cli) -> None:
    result = hora("run", "-n", "2", "python", "no_such_script.py").check(2)
    assert "can't open file" in sentence(result) and "no_such_script.py" in sentence(result)


@pytest.mark.parametrize("code", ["no-such-folder", "file"])
def test_a_code_folder_that_is_none(hora: Cli, work: Path, code: str) -> None:
    (work / "file").touch()
    told = sentence(hora("run", "-n", "1", "--code", code, "true").check(2))
    assert code in told and "code" in told
    assert api.list_runs() == []


def test_a_code_folder_that_goes_away_before_the_start(hora: Cli, work: Path) -> None:
    (work / "job.json").write_text(json.dumps({"name": "job", "command": ["true"], "code": "./code"}))
    told = sentence(hora("run", "job.json").check(2))
    assert "code" in told


@pytest.mark.parametrize("name", ["Big", "under_score", "-dash", "a" * 41, "", "two words", "größe"])
def test_a_name_that_is_none(hora: Cli, name: str) -> None:
    told = sentence(hora("run", "-n", "1", "--name", name, "true").check(2))
    assert "name" in told


def test_two_runs_may_have_one_name(runs: Runs) -> None:
    first, _ = runs.ended(["true"])
    second, _ = runs.ended(["true"])
    assert first.id != second.id
    assert api.get_run("job").id == second.id


def test_a_set_up_that_fails_ends_the_run_with_its_code(runs: Runs, work: Path) -> None:
    _run, status = runs.ended(["touch", "started"], workers=2, setup="echo no wheel for torch >&2; exit 9")
    assert (status.phase, status.exit_code) == ("failed", 9)
    assert "set-up command failed" in status.reason and "no wheel for torch" in status.reason
    assert not (work / "started").exists()


def test_a_set_up_runs_once_for_all_ranks_of_a_host(runs: Runs, work: Path) -> None:
    run, status = runs.ended(["cat", "setups"], workers=3, setup="echo done >> setups; echo preparing")
    assert status.phase == "succeeded", status
    assert (work / "setups").read_text() == "done\n"
    lines = lines_of(run)
    assert {label: lines[label] for label in lines if label.startswith("worker")} == {
        f"worker-{i}/0": ["done"] for i in range(3)
    }
    assert ["preparing"] in lines.values()


def test_what_a_set_up_leaves_running_is_ended(runs: Runs, work: Path) -> None:
    setup = "sleep 1000 & echo $! > left"
    _run, status = runs.ended(["true"], setup=setup)
    assert status.phase == "succeeded"
    assert not is_running(int((work / "left").read_text()))


def test_a_set_up_that_hangs_is_ended_by_the_limit_of_the_start(runs: Runs) -> None:
    _run, status = runs.ended(["true"], setup="sleep 1000", timeouts={"start": "1s", "grace": "1s"})
    assert (status.phase, status.exit_code, status.origin) == ("failed", 124, "hora")
    assert "set-up" in status.reason and "timeouts.start" in status.reason


def test_a_run_that_takes_too_long_is_ended_with_124(runs: Runs) -> None:
    _run, status = runs.ended(["sleep", "1000"], workers=2, timeouts={"total": "1s", "grace": "1s"})
    assert (status.phase, status.exit_code, status.origin) == ("failed", 124, "hora")
    assert "timeouts.total" in status.reason


def test_a_run_that_is_not_there(hora: Cli) -> None:
    for command in ("status", "logs", "stop", "wait", "rm"):
        told = sentence(hora(command, "nosuch").check(2))
        assert "no run 'nosuch'" in told


def test_a_place_that_is_not_there(hora: Cli) -> None:
    assert "kubernetes" not in api.__dict__
    told = sentence(hora("run", "--on", "moon", "-n", "1", "true").check(2))
    assert "moon" in told and "local" in told


def test_an_empty_program(hora: Cli, work: Path) -> None:
    (work / "train").touch()
    (work / "train").chmod(0o755)
    hora("run", "-n", "1", "./train").check(0)


def test_a_command_with_a_zero_byte_is_refused_before_the_start() -> None:
    from hora.errors import HoraError

    with pytest.raises(HoraError):
        api.submit(api.Job(command=["echo", "a\0b"], name="job"))
    with pytest.raises(HoraError):
        api.submit(api.Job(command=["true"], env={"A": "b\0c"}, name="job"))
    assert api.list_runs() == []


def test_a_job_that_prints_and_fails_says_the_code_of_python(runs: Runs) -> None:
    _run, status = runs.ended(python("raise SystemExit('no data in /data')"))
    assert status.exit_code == 1 and "no data in /data" in status.reason


def test_the_set_up_has_the_variables_and_secrets_of_the_job(runs: Runs, work: Path) -> None:
    (work / "token").write_text("s3cret")
    run, status = runs.ended(
        ["true"],
        workers=2,
        env={"PIP_INDEX_URL": "http://here"},
        secrets={"TOKEN": {"file": str(work / "token")}},
        setup='echo "$PIP_INDEX_URL $TOKEN $HORA_RUN" > set-up',
    )
    assert status.phase == "succeeded", status.reason
    assert (work / "set-up").read_text() == f"http://here s3cret {run.id}\n"
