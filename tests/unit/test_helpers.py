"""The tests' own tools: a guard that sees nothing guards nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers import leftovers
from helpers.cli import Cli
from helpers.terminal import CTRL_C, Terminal

ORPHAN = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
"""


def test_an_orphan_in_a_session_of_its_own_is_found_and_killed(test_id: str) -> None:
    subprocess.run([sys.executable, "-c", ORPHAN], check=True)
    left = leftovers.wait_gone(test_id, timeout=0.3)
    assert len(left) == 1, left
    assert "os.setsid" in str(left[0])
    leftovers.kill(test_id)
    assert leftovers.carrying(test_id) == []


def test_the_process_of_another_test_is_left_alone(test_id: str) -> None:
    other = subprocess.Popen(["sleep", "60"], env={**os.environ, leftovers.VARIABLE: "another"})
    try:
        assert leftovers.carrying(test_id) == []
        leftovers.kill(test_id)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_test_that_leaves_a_process_fails_and_the_process_is_ended(tmp_path: Path) -> None:
    """The real fixture in a real pytest; the time limit is shortened, not the check."""
    tests = Path(__file__).resolve().parents[1]
    suite = tmp_path / "conformance"
    suite.mkdir()
    conftest = (tests / "conftest.py").read_text().replace("timeout=10.0", "timeout=0.3")
    (tmp_path / "conftest.py").write_text(conftest)
    (suite / "test_it.py").write_text(
        f"import subprocess, sys\ndef test_leaves():\n    subprocess.run([sys.executable, '-c', {ORPHAN!r}])"
    )
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmarkers = leaks\npythonpath = {tests}\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 1, run.stdout + run.stderr
    assert "left behind 10 s after the test" in run.stdout
    assert "1 passed, 1 error" in run.stdout


def test_the_home_of_a_test_is_empty_and_its_socket_paths_are_short(home: Path) -> None:
    assert os.environ["HOME"] == str(home)
    assert list(home.iterdir()) == []
    assert len(os.environ["XDG_RUNTIME_DIR"]) < 40
    assert len(os.environ["XDG_STATE_HOME"]) < 40


def test_the_terminal_is_one_and_has_the_size_asked_for() -> None:
    code = (
        "import os; print(os.isatty(0), os.isatty(1), os.get_terminal_size(), os.tcgetpgrp(0) == os.getpid())"
    )
    with Terminal([sys.executable, "-c", code], rows=11, columns=77) as terminal:
        assert terminal.wait() == 0
        assert "True True os.terminal_size(columns=77, lines=11) True" in terminal.text


def test_ctrl_c_on_the_terminal_is_a_sigint_to_the_program() -> None:
    with Terminal(
        ["sh", "-c", "trap 'echo got it; exit 7' INT; echo ready; while :; do sleep 0.05; done"]
    ) as terminal:
        terminal.expect("ready")
        terminal.send(CTRL_C)
        terminal.expect("got it")
        assert terminal.wait() == 7


def test_closing_the_terminal_is_a_sighup_to_the_program() -> None:
    with Terminal(
        [sys.executable, "-c", "print('ready', flush=True); import time; time.sleep(60)"]
    ) as terminal:
        terminal.expect("ready")
        terminal.hang_up()
        assert terminal.process.wait(10) == -signal.SIGHUP


def test_expect_says_what_was_shown_instead() -> None:
    with (
        Terminal(["sh", "-c", "echo something else; sleep 60"]) as terminal,
        pytest.raises(AssertionError, match="something else"),
    ):
        terminal.expect("never", timeout=0.5)


def test_a_command_line_that_hangs_is_ended_and_its_output_is_shown(work: Path, tmp_path: Path) -> None:
    package = tmp_path / "hora"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import time; print('so far', flush=True); time.sleep(60)")
    cli = Cli(work)
    began = time.monotonic()
    with pytest.raises(AssertionError, match=r"not over after 1 s(.|\n)*so far"):
        cli("run", timeout=1.0, env={"PYTHONPATH": str(tmp_path)})
    assert time.monotonic() - began < 10
    cli.close()
