"""exec, shell and stacks: looking into a run that lives."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator

import pytest

from helpers.places import Place, User
from helpers.reader import Reader
from helpers.terminal import Terminal

HOLDS = """
    import time

    def waiting_for_peers():
        print("ready")
        time.sleep(600)

    waiting_for_peers()
"""


@pytest.fixture
def run(user: User) -> Iterator[str]:
    """A run of two ranks that wait."""
    run = user.detached("-n", "2", "--env", "COLOUR=blue", *user.python(HOLDS))
    user.written(run, "worker-0/0 | ready")
    user.written(run, "worker-1/0 | ready")
    yield run
    user("stop", "--kill", run).check()


def test_exec_runs_beside_the_first_rank_with_its_environment_and_folder(user: User, run: str) -> None:
    (user.hora.cwd / "data.txt").write_text("here")
    script = 'echo "$COLOUR $HORA_RANK"; echo oops >&2; ls'
    done = user("exec", run, "--", "sh", "-c", script).check()
    assert done.lines[0] == "blue 0"
    assert user.place.same_disk is False or "data.txt" in done.lines
    assert "oops" in done.stdout + done.stderr


def test_exec_runs_beside_a_rank_of_choice(user: User, run: str) -> None:
    for name in ("1", "worker-1/0"):
        assert user("exec", run, "--rank", name, "--", "sh", "-c", "echo $HORA_RANK").check().stdout == "1\n"


@pytest.mark.parametrize("code", [0, 1, 77])
def test_exec_ends_with_the_exit_code_of_its_command(user: User, run: str, code: int) -> None:
    user("exec", run, "--", "sh", "-c", f"exit {code}").check(code)


def test_exec_passes_its_input_on_byte_by_byte(user: User, run: str) -> None:
    data = bytes(range(256)) * 4000
    process = user.start("exec", run, "--", "cat", stdin=subprocess.PIPE)
    out, _ = process.communicate(data, timeout=60)
    assert out == data
    assert process.returncode == 0


def test_exec_beside_all_ranks_labels_their_lines(user: User, run: str) -> None:
    done = user("exec", run, "--all", "--", "sh", "-c", "echo I am $HORA_RANK; exit $HORA_RANK").check(1)
    assert done.ranks() == {"worker-0/0": ["I am 0"], "worker-1/0": ["I am 1"]}


def test_exec_of_a_program_that_is_not_there_is_said(user: User, run: str) -> None:
    done = user("exec", run, "--", "no-such-program").check(127)
    assert "no-such-program" in done.stderr
    assert "Traceback" not in done.stderr


def test_exec_beside_a_rank_that_is_not_there_is_said(user: User, run: str) -> None:
    assert "no rank 5" in user("exec", run, "--rank", "5", "--", "true").check(2).stderr


def test_exec_does_not_end_the_run(user: User, run: str) -> None:
    user("exec", run, "--", "sh", "-c", "kill $$").check(143)
    assert user.status(run)["phase"] == "running"


def test_exec_in_an_ended_run_is_said(user: User) -> None:
    run = user.detached("true")
    user("wait", run).check()
    done = user("exec", run, "--", "true")
    assert done.code != 0
    assert "ended" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_exec_that_is_left_ends_its_command(user: User, run: str) -> None:
    process = user.start("exec", run, "--", "sh", "-c", "echo begun; exec sleep 600")
    Reader(process.stdout).until("begun")
    process.kill()
    process.wait()
    # What is left after the test is found by the fixture that looks for leftovers.
    assert user.status(run)["phase"] == "running"


def test_a_shell_is_a_terminal_of_the_callers_size(
    user: User, run: str, place: Place, pty_run: Callable[..., Terminal]
) -> None:
    with pty_run("shell", "--on", place.name, run, "1", rows=31, columns=97) as terminal:
        terminal.send("stty size; echo rank=$HORA_RANK colour=$COLOUR\r")
        terminal.expect("31 97")
        terminal.expect("rank=1 colour=blue")
        terminal.resize(40, 120)
        terminal.send("true\r")  # a shell looks at its size after each command
        terminal.send("stty size\r")
        terminal.expect("40 120")
        terminal.send("exit 5\r")
        assert terminal.wait() == 5
    assert user.status(run)["phase"] == "running"


def test_ctrl_c_in_a_shell_is_the_commands_not_ours(
    user: User, run: str, place: Place, pty_run: Callable[..., Terminal]
) -> None:
    with pty_run("shell", "--on", place.name, run) as terminal:
        terminal.send("sh -c 'echo be\"\"gun; exec sleep 600'\r")  # it says so once it is in the foreground
        terminal.expect("begun")
        terminal.send(b"\x03")
        terminal.send("echo still he''re\r")
        terminal.expect("still here")
        terminal.send("exit\r")
        terminal.wait()
    assert user.status(run)["phase"] == "running"


def test_stacks_show_where_each_rank_is_and_equal_ones_together(user: User, run: str) -> None:
    shown = user("stacks", run).check().lines
    assert "all 2 ranks" in shown[0] and "waiting_for_peers" in shown[0]
    assert "worker-0/0, worker-1/0" in shown
    found = user("stacks", run, "-o", "json").check().json
    assert sorted(stack["label"] for stack in found) == ["worker-0/0", "worker-1/0"]
    assert "waiting_for_peers" in json.dumps(found[0])


def test_stacks_of_one_rank(user: User, run: str) -> None:
    found = user("stacks", run, "--rank", "1", "-o", "json").check().json
    assert [stack["label"] for stack in found] == ["worker-1/0"]


def test_asking_for_stacks_does_not_end_ranks_that_know_nothing_of_it(user: User) -> None:
    run = user.detached("-n", "2", "sh", "-c", "echo ready; exec sleep 600")
    user.written(run, "worker-1/0 | ready")
    user("stacks", run).check()
    assert user.status(run)["phase"] == "running"
    user("stop", run).check()
