"""`hora exec` and `hora shell`: beside a rank, with its environment, in its folder."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.cli import Cli
from helpers.runs import is_running, wait_until
from helpers.terminal import CTRL_C, CTRL_D, CTRL_Z, ENTER, Terminal

from .conftest import Rank, status_of

pytestmark = pytest.mark.leaks


def test_exec_joins_stdin_stdout_stderr_and_the_exit_code(hora: Cli, alive: Callable[..., str]) -> None:
    run = alive()
    done = hora("exec", run, "--", "sh", "-c", "cat; echo wrong >&2; exit 7", input="one\ntwo").check(7)
    assert (done.stdout, done.stderr) == ("one\ntwo", "wrong\n")
    hora("exec", run, "--", "sh", "-c", "kill -9 $$").check(128 + 9)
    hora("exec", run, "true").check()


def test_exec_has_the_environment_and_the_folder_of_the_rank(
    hora: Cli, alive: Callable[..., str], work: Path
) -> None:
    run = alive()
    for words, number in ((("--rank", "1"), "1"), (("--rank", "worker-1/0"), "1"), ((), "0")):
        done = hora("exec", run, *words, "--", "sh", "-c", "echo $HORA_RANK; pwd").check()
        assert done.lines == [number, str(work)]


def test_words_of_the_command_arrive_unchanged(
    hora: Cli, alive: Callable[..., str], hostile_names: dict[str, str]
) -> None:
    run = alive()
    names = list(hostile_names.values())
    code = "import sys; print(ascii(sys.argv[1:]))"
    done = hora("exec", run, "--", "python3", "-c", code, *names).check()
    assert done.stdout == ascii(names) + "\n"


def test_exec_everywhere_marks_each_line_and_ends_with_the_first_failure(
    hora: Cli, alive: Callable[..., str], rank: Rank
) -> None:
    run = alive("-n", "3", *rank.sleeps)
    done = hora(
        "exec", run, "--all", "--", "sh", "-c", "echo out $HORA_RANK; echo err $HORA_RANK >&2"
    ).check()
    assert done.ranks() == {f"worker-{number}/0": [f"out {number}"] for number in range(3)}
    assert sorted(done.stderr.splitlines()) == [f"worker-{number}/0 | err {number}" for number in range(3)]
    hora("exec", run, "--all", "--", "sh", "-c", "test $HORA_RANK != 1 || exit 9").check(9)
    assert "say --rank or --all" in hora("exec", run, "--all", "--rank", "1", "--", "true").check(2).stderr


def test_exec_says_what_it_can_not_start(hora: Cli, alive: Callable[..., str], rank: Rank) -> None:
    run = alive()
    done = hora("exec", run, "--", "no-such-program").check(127)
    assert "'no-such-program' was not found" in done.stderr
    done = hora("exec", run, "--rank", "9", "--", "true").check(2)
    assert "has no rank 9" in done.stderr
    hora("stop", run).check()
    assert (
        hora("exec", run, "--", "true")
        .check(2)
        .stderr.startswith(f"hora: run {run} has ended: hora status {run}; ")
    )


def test_many_bytes_pass_both_ways_unchanged(hora: Cli, alive: Callable[..., str], work: Path) -> None:
    run = alive()
    data = os.urandom(1 << 20) * 20
    (work / "data").write_bytes(data)
    with open(work / "data", "rb") as stdin:
        process = hora.start("exec", run, "--", "cat", stdin=stdin.fileno())
        out, _ = process.communicate(timeout=60)
    assert hashlib.sha256(out).digest() == hashlib.sha256(data).digest()


def test_a_command_that_reads_nothing_and_a_client_that_reads_nothing_fill_no_memory(
    hora: Cli, alive: Callable[..., str]
) -> None:
    run = alive()
    pids = status_of(hora, run)["pids"]
    flood = hora.start("exec", run, "--", "cat", "/dev/zero")
    with open("/dev/zero", "rb") as zeros:
        sink = hora.start("exec", run, "--", "sleep", "600", stdin=zeros.fileno())
        before = [pages(pid) for pid in pids.values()]
        for _ in range(5):
            assert hora("exec", run, "--", "echo", "hello").check().lines == ["hello"]
        after = [pages(pid) for pid in pids.values()]
        assert all(now - then < 32 << 20 for then, now in zip(before, after)), (before, after)
        assert pages(sink.pid) < 100 << 20
    flood.kill()
    sink.kill()


def pages(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_ctrl_c_reaches_the_command_and_not_the_run(
    hora: Cli, alive: Callable[..., str], pty_run: Callable[..., Terminal]
) -> None:
    run = alive()
    term = pty_run("exec", run, "--", "sh", "-c", "trap 'echo caught; exit 4' INT; echo ready; cat")
    term.expect("ready")
    term.send(CTRL_C)
    term.expect("caught")
    assert term.wait() == 4
    assert status_of(hora, run)["phase"] == "running"


def test_a_command_whose_client_is_killed_ends_too(hora: Cli, alive: Callable[..., str], work: Path) -> None:
    run = alive()
    process = hora.start("exec", run, "--", "sh", "-c", "echo $$; exec sleep 600")
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_running(pid), "the command ends")


def test_exec_ends_when_its_run_ends(hora: Cli, alive: Callable[..., str]) -> None:
    run = alive()
    process = hora.start("exec", run, "--", "sh", "-c", "echo here; sleep 600")
    assert process.stdout is not None
    process.stdout.readline()
    hora("stop", run).check()
    process.communicate(timeout=20)
    assert process.returncode != 0


# --- shell -------------------------------------------------------------------------------------------------


def test_a_shell_is_a_terminal_with_the_window_of_ours(
    alive: Callable[..., str], pty_run: Callable[..., Terminal]
) -> None:
    run = alive()
    term = pty_run("shell", run, "1", rows=31, columns=97, env={"TERM": "dumb"})
    term.expect(rf"hora: a shell beside worker-1/0 of {run}; `exit` leaves it\n")
    term.send(b"stty size; echo rank=$HORA_RANK; tty" + ENTER)
    term.expect(r"^31 97\n")
    term.expect(r"^rank=1\n")
    term.expect(r"^/dev/pts/\d+\n")
    term.resize(40, 120)
    os.kill(term.pid, signal.SIGWINCH)
    term.send(b"while test \"$(stty size)\" != '40 120'; do :; done; echo resized" + ENTER)
    term.expect(r"^resized\n")
    term.send(b"exit 6" + ENTER)
    assert term.wait() == 6


def test_in_a_shell_ctrl_c_and_ctrl_z_belong_to_its_commands(
    hora: Cli, alive: Callable[..., str], pty_run: Callable[..., Terminal]
) -> None:
    run = alive()
    term = pty_run("goto", run, env={"TERM": "dumb"})
    term.expect("leaves it")

    def wait_for(command: str) -> None:
        wait_until(lambda: command in hora("exec", run, "--", "ps", "-eo", "args").lines, f"{command} runs")

    term.send(b"sleep 601; echo code=$?" + ENTER)
    wait_for("sleep 601")
    term.send(CTRL_C)
    term.send(b"echo back" + ENTER)
    term.expect(r"^back\n")
    term.send(b"sleep 602" + ENTER)
    wait_for("sleep 602")
    term.send(CTRL_Z)
    term.expect("Stopped")
    term.send(b"kill %1; exec cat - /dev/null" + ENTER)
    wait_for("cat - /dev/null")
    term.send(b"some text" + ENTER)
    term.expect("some text\n+some text")
    term.send(CTRL_D)
    assert term.wait() == 0
    assert status_of(hora, run)["phase"] == "running"


def test_the_terminal_is_as_before_when_a_shell_ends_or_its_run_does(
    hora: Cli, alive: Callable[..., str], work: Path
) -> None:
    run = alive()
    script = (
        f"stty -a > before; {sys.executable} -m hora shell {run}; echo code=$?; stty -a > after; echo done"
    )
    with Terminal(["sh", "-c", script], cwd=work) as term:
        term.expect("leaves it")
        hora("stop", run, "--kill").check()
        term.expect(r"code=[1-9]")
        term.expect("done")
    assert (work / "before").read_text() == (work / "after").read_text()


def test_a_shell_needs_a_terminal(hora: Cli, alive: Callable[..., str]) -> None:
    done = hora("shell", alive()).check(2)
    assert re.match(r"hora: shell: needs a terminal; `hora exec RUN -- COMMAND`", done.stderr)
