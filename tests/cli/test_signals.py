"""Ctrl-C, a closed terminal, suspension, readers that leave or stop: real signals, real terminals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.cli import COMMAND, Cli
from helpers.runs import is_running, wait_until
from helpers.terminal import CTRL_C, CTRL_Z, ENTER, Terminal

from .conftest import Rank, status_of

pytestmark = pytest.mark.leaks

READY = "print('ready', flush=True)\n"
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY + "time.sleep(600)"
POLITE = (
    "def leave(*_):\n    print('bye', flush=True); sys.exit(0)\nsignal.signal(signal.SIGTERM, leave)\n"
    + READY
    + "time.sleep(600)"
)


def read_until(process: subprocess.Popen[bytes], text: bytes) -> bytes:
    """What it writes to stdout, up to and with a line that holds the text."""
    seen = b""
    assert process.stdout is not None
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    raise AssertionError(f"{text!r} was never written: {seen!r}")


# --- Ctrl-C -----------------------------------------------------------------------------------------------


def test_ctrl_c_stops_the_run_says_so_and_what_a_second_one_does(
    pty_run: Callable[..., Terminal], rank: Rank
) -> None:
    term = pty_run("run", "-n", "2", *rank(POLITE))
    for _ in range(2):
        term.expect(r"worker-\d/0 \| ready")
    term.send(CTRL_C)
    term.expect(r"hora: stopping: SIGTERM to the ranks, SIGKILL after 30 s; Ctrl-C again kills them now\n")
    assert term.wait() == 130
    assert {"worker-0/0 | bye", "worker-1/0 | bye"} <= set(term.text.splitlines())
    assert re.search(r"hora: rank1 \w+ stopped by Ctrl-C\n\Z", term.text), term.text


def test_a_second_ctrl_c_kills_what_does_not_want_to_end(
    pty_run: Callable[..., Terminal], rank: Rank, hora: Cli
) -> None:
    term = pty_run("run", "-n", "1", *rank(STUBBORN))
    term.expect("ready")
    term.send(CTRL_C)
    term.expect("Ctrl-C again kills them now")
    term.expect("stopping")  # progress: it waits
    term.send(CTRL_C)
    term.expect("killing the ranks")
    assert term.wait(10.0) == 130
    assert status_of(hora)["members"][0]["ranks"][0]["signal"] == signal.SIGKILL


def test_sigint_to_the_client_alone_is_ctrl_c(hora: Cli, rank: Rank) -> None:
    process = hora.start("run", "-n", "1", *rank(POLITE))
    read_until(process, b"ready")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"worker-0/0 | bye\n")
    assert b"stopped by Ctrl-C" in err


def test_where_the_shell_ignores_ctrl_c_so_do_we(hora: Cli, rank: Rank, work: Path) -> None:
    """As for a job in the background of a script."""
    program = (
        f"import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv({sys.executable!r}, "
        f"{[*COMMAND, 'run', '-n', '1', *rank(READY + 'sys.stdin.read()' + chr(10) + 'while not os.path.exists(sys.argv[1]): time.sleep(0.02)', str(work / 'go'))]!r})"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    read_until(process, b"ready")
    process.send_signal(signal.SIGINT)
    (work / "go").touch()
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err


# --- SIGTERM, SIGHUP ----------------------------------------------------------------------------------------


def test_sigterm_stops_the_run_with_143(hora: Cli, rank: Rank) -> None:
    process = hora.start("run", "-n", "1", *rank(POLITE))
    read_until(process, b"ready")
    process.terminate()
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (143, b"worker-0/0 | bye\n")
    assert b"SIGTERM" in err


def test_closing_the_terminal_stops_an_attached_run(
    pty_run: Callable[..., Terminal], rank: Rank, hora: Cli
) -> None:
    term = pty_run("run", "-n", "2", *rank(POLITE))
    for _ in range(2):
        term.expect(r"worker-\d/0 \| ready")
    term.hang_up()
    term.process.wait(20)
    assert term.process.returncode in (129, -signal.SIGHUP)
    wait_until(lambda: status_of(hora)["phase"] == "stopped", "the run is stopped")
    assert status_of(hora)["exitCode"] == 129
    assert hora("logs").check().stdout.count("bye") == 2


def test_closing_the_terminal_leaves_a_detached_run_alone(
    work: Path, rank: Rank, hora: Cli, alive: Callable[..., str]
) -> None:
    command = [*COMMAND, "run", "--detach", "-n", "1", *rank.sleeps]
    with Terminal(["sh", "-c", '"$@"; echo over; cat', "sh", *command], cwd=work) as term:
        run = term.expect(r"^(\w{5})\n")[1]
        term.expect("over")
        term.hang_up()
        term.process.wait(20)
    wait_until(lambda: status_of(hora, run)["phase"] == "running", "it runs")
    (pid,) = [known["pid"] for member in status_of(hora, run)["members"] for known in member["ranks"]]
    assert is_running(pid)
    hora("stop", run).check()


def test_nohup_keeps_an_attached_run(hora: Cli, rank: Rank, work: Path) -> None:
    command = rank(READY + "while not os.path.exists(sys.argv[1]): time.sleep(0.02)", str(work / "go"))
    argv = ["nohup", *COMMAND, "run", "-n", "1", *command]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    read_until(process, b"ready")
    process.send_signal(signal.SIGHUP)
    (work / "go").touch()
    process.communicate(timeout=30)
    assert process.returncode == 0


# --- suspended ------------------------------------------------------------------------------------------------


def test_a_suspended_client_stops_no_rank_and_goes_on_showing_after_fg(
    work: Path, rank: Rank, hora: Cli
) -> None:
    counting = rank(
        "for number in range(1, 10**6):\n"
        "    print('count', number, flush=True)\n"
        "    open(sys.argv[1], 'w').write(str(number))\n"
        "    if os.path.exists(sys.argv[2]): break\n"
        "    time.sleep(0.01)\n"
        "print('last', number)",
        str(work / "count"),
        str(work / "enough"),
    )
    script = " ".join(f"'{word}'" for word in [*COMMAND, "run", "-n", "1", *counting])
    with Terminal(["bash", "--norc", "-i"], cwd=work, env={"PS1": "$ ", "HISTFILE": ""}) as term:
        term.send(script.encode() + ENTER)
        term.expect("count 3")
        term.send(CTRL_Z)
        term.expect("Stopped")
        before = int((work / "count").read_text() or 0)
        wait_until(lambda: int((work / "count").read_text() or 0) > before + 20, "the rank goes on counting")
        (work / "enough").touch()
        wait_until(lambda: status_of(hora)["phase"] != "running", "the rank ends")
        term.send(b"fg" + ENTER)
        last = int(term.expect(r"worker-0/0 \| last (\d+)")[1])
        term.expect("succeeded")
        shown = [int(number) for number in re.findall(r"worker-0/0 \| count (\d+)", term.text)]
        assert shown == list(range(1, last + 1))
        term.send(b"exit" + ENTER)
        term.wait()


# --- readers ---------------------------------------------------------------------------------------------------


def test_when_nobody_reads_any_more_the_run_is_stopped_quietly(hora: Cli, rank: Rank) -> None:
    process = hora.start("run", "-n", "2", *rank("while True: print('line', flush=True); time.sleep(0.01)"))
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(20) == 141
    assert process.stderr.read() == b""
    status = status_of(hora)
    assert (status["phase"], status["exitCode"]) == ("stopped", 141)
    assert "nobody reads" in status["reason"]


def test_ranks_may_say_goodbye_at_length_when_nobody_reads(hora: Cli, rank: Rank, work: Path) -> None:
    code = (
        "def leave(*_):\n"
        "    for number in range(20): print('bye', number, flush=True); time.sleep(0.02)\n"
        "    open(sys.argv[1], 'w').close(); os._exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\n" + READY + "time.sleep(600)"
    )
    process = hora.start("run", "-n", "1", *rank(code, str(work / "saved")))
    read_until(process, b"ready")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(20) == 141
    assert (work / "saved").exists()
    assert hora("logs").check().stdout.count("bye") == 20


def test_a_reader_that_leaves_is_seen_even_where_the_ranks_are_silent(hora: Cli, rank: Rank) -> None:
    process = hora.start("run", "-n", "1", *rank(READY + "time.sleep(600)"))
    read_until(process, b"ready")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(20) == 141


def test_a_pipe_to_head_ends_like_any_other_program(work: Path, rank: Rank) -> None:
    command = " ".join(
        f"'{word}'" for word in [*COMMAND, "run", "-n", "1", *rank("while True: print('line')")]
    )
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -1"], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (141, b"worker-0/0 | line\n", b"")


def test_a_reader_that_stops_reading_blocks_no_rank(hora: Cli, rank: Rank, work: Path) -> None:
    """The ranks write 20 MB and end while nobody reads; all of it is there when the reader wakes up."""
    lines = 20_000
    code = (
        f"for number in range({lines}): print(number, 'x' * 500)\nopen(sys.argv[1] + str(rank), 'w').close()"
    )
    process = hora.start("run", "-n", "2", *rank(code, str(work / "ended")))
    wait_until(lambda: (work / "ended0").exists() and (work / "ended1").exists(), "both ranks end")
    wait_until(lambda: status_of(hora)["phase"] == "succeeded", "the run has succeeded")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    for label in (b"worker-0/0", b"worker-1/0"):
        numbers = [int(line.split()[2]) for line in out.splitlines() if line.startswith(label)]
        assert numbers == list(range(lines))


def test_ctrl_c_reaches_the_ranks_while_the_reader_does_not_read(hora: Cli, rank: Rank) -> None:
    process = hora.start("run", "-n", "1", *rank("while True: print('x' * 1000)"))
    wait_until(lambda: status_of(hora)["phase"] == "running" if hora("ps").stdout else False, "it runs")
    process.send_signal(signal.SIGINT)
    wait_until(lambda: status_of(hora)["phase"] == "stopped", "the run is stopped")
    assert process.poll() is None  # it still has to hand over what was written

    def leaves() -> bool:  # at the third Ctrl-C; two at once are one
        process.send_signal(signal.SIGINT)
        return process.poll() is not None

    wait_until(leaves, "it leaves")
    assert process.returncode == 130


def test_nothing_is_left_of_the_warmed_up_processes_when_the_job_is_wrong(hora: Cli) -> None:
    hora("run", "-n", "0", "true").check(2)
    hora("run", "--secret", "TOKEN=env:NOT_SET_ANYWHERE", "true").check(2)


def test_a_killed_client_takes_its_run_along(hora: Cli, rank: Rank) -> None:
    process = hora.start("run", "-n", "2", *rank(POLITE))
    read_until(process, b"ready")
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: status_of(hora)["phase"] == "stopped", "the run is stopped")
    assert status_of(hora)["exitCode"] == 129
