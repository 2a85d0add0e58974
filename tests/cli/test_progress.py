"""What is said while a run waits: on a terminal redrawn, elsewhere plain lines, nothing when it is quick."""

from __future__ import annotations

import re
from collections.abc import Callable

from helpers.cli import Cli
from helpers.terminal import Terminal

from .conftest import Rank

SETUP = "python3 -c 'import time; time.sleep(0.8)'"


def test_a_quick_run_says_only_how_it_ended(pty_run: Callable[..., Terminal]) -> None:
    term = pty_run("run", "-n", "2", "echo", "hello")
    assert term.wait() == 0
    *output, verdict = term.text.splitlines()
    assert sorted(output) == ["worker-0/0 | hello", "worker-1/0 | hello"]
    assert " succeeded: " in verdict


def test_on_a_terminal_progress_is_drawn_and_wiped_away(pty_run: Callable[..., Terminal]) -> None:
    term = pty_run("run", "-n", "2", "--setup", SETUP, "echo", "hello", columns=80)
    assert term.wait() == 0
    drawn = re.findall(r"^starting .*", term.text, re.MULTILINE)
    assert drawn
    assert max(map(len, drawn)) < 80
    lines = screen(bytes(term.seen))
    assert sorted(lines[:2]) == ["worker-0/0 | hello", "worker-1/0 | hello"]
    assert " succeeded: " in lines[2]
    assert len(lines) == 3


def test_elsewhere_each_phase_is_one_plain_line(hora: Cli) -> None:
    done = hora("run", "-n", "2", "--setup", SETUP, "true").check()
    waiting, verdict = done.stderr.splitlines()
    assert waiting.startswith("hora: starting: setting up: ")
    assert " succeeded: " in verdict
    assert "\x1b" not in done.stderr
    assert hora("run", "-q", "-n", "2", "--setup", SETUP, "true").check().stderr == ""


def test_while_ranks_are_stopped_those_that_still_live_are_named(
    pty_run: Callable[..., Terminal], rank: Rank
) -> None:
    code = (
        "signal.signal(signal.SIGTERM, (lambda *_: None) if rank else signal.SIG_DFL)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(600)"
    )
    term = pty_run("run", "-n", "3", *rank(code))
    for _ in range(3):
        term.expect("ready")
    term.send(b"\x03")
    term.expect(r"stopping +\d s")
    term.expect("worker-1 ")
    term.expect("worker-2 ")
    term.send(b"\x03")
    assert term.wait() == 130


def test_a_line_without_an_end_is_not_glued_to_the_verdict(
    pty_run: Callable[..., Terminal], rank: Rank
) -> None:
    code = "sys.stdout.write('prompt> '); sys.stdout.flush(); time.sleep(1.6); sys.exit(3)"
    term = pty_run("run", "-n", "1", *rank(code))
    term.expect(r"worker-0/0 \| prompt> ")
    assert term.wait() == 3
    assert screen(bytes(term.seen))[0] == "worker-0/0 | prompt>"
    assert screen(bytes(term.seen))[1].startswith("hora: rank1 ")


def screen(seen: bytes) -> list[str]:
    """The lines that a terminal shows in the end: text, returns, and the two movements that we use."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", seen.decode()):
        if part.endswith("F") and part[0] == "\x1b":
            row, column = row - int(part[2:-1]), 0
        elif part == "\x1b[J":
            lines[row:] = [lines[row][:column]]
        elif part == "\r":
            column = 0
        elif part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part[0] != "\x1b":
            lines[row] = lines[row][:column] + part + lines[row][column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in lines if line.strip()]
