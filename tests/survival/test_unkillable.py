"""Processes that SIGKILL doesn't end: the run says which, and goes to its end without them.

Here they are held by a debugger that doesn't look: killed, they stay zombies, as far as everybody else can see.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from helpers.runs import Runs, python, wait_until
from hora.agent import keeper, proc

pytestmark = [
    pytest.mark.leaks,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no ptrace that seizes a process"),
]
SEIZE, ALL = 0x4206, 0x40000000


@pytest.fixture
def hold() -> Iterator[Callable[[int], None]]:
    held: list[int] = []

    def seize(pid: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.ptrace(SEIZE, pid, None, None) == 0, os.strerror(ctypes.get_errno())
        held.append(pid)

    yield seize
    for pid in held:
        while os.WIFSTOPPED(os.waitpid(pid, ALL)[1]):
            os.kill(pid, 9)


def test_what_a_rank_leaves_behind_and_cannot_be_killed_does_not_hold_up_the_run(
    runs: Runs, hold: Callable[[int], None]
) -> None:
    code = """
        import os, subprocess, time
        print(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid, flush=True)
        while not os.path.exists("go"): time.sleep(0.02)
    """
    run = runs.start(python(code), workers=1)
    line = wait_until(lambda: next(iter(run.logs(follow=False)), None), "its child's number")
    hold(int(line.text))
    (runs.work / "go").touch()
    status = run.wait(25.0, check=False)
    assert status.phase == "succeeded", status
    (note,) = [note for note in status.notes if "SIGKILL did not end it" in note]
    assert f"process {line.text} (sleep, state " in note


def test_a_rank_that_cannot_be_killed_does_not_hold_up_a_stop(
    runs: Runs, hold: Callable[[int], None]
) -> None:
    run = runs.start(["sleep", "1000"], workers=1)
    wait_until(lambda: run.status().phase == "running", "the rank runs")
    pid = run.status().members[0].ranks[0].pid
    assert pid
    hold(pid)
    run.stop(kill=True)
    status = run.wait(25.0, check=False)
    assert (status.phase, status.exit_code) == ("stopped", 143), status
    assert status.members[0].ranks[0].stopped


def test_a_keeper_leaves_behind_what_cannot_be_killed(
    hold: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(keeper, "SWEEP_LIMIT", 0.5)
    reader, writer = os.pipe()
    above = os.fork()
    if not above:
        child = os.posix_spawn("/bin/sleep", ["sleep", "1000"], {})
        os.read(reader, 1)
        begun = time.monotonic()
        keeper.sweep(set(), lambda pid, status: None)
        os._exit(0 if child and time.monotonic() - begun < 5 else 1)
    (pid,) = wait_until(lambda: proc.children(above), "the child")
    hold(pid)
    os.write(writer, b"x")
    ended = wait_until(lambda: [end for end in [os.waitpid(above, os.WNOHANG)] if end[0]], "the end", 15.0)
    assert os.waitstatus_to_exitcode(ended[0][1]) == 0
    assert f"process {pid} (sleep" in capfd.readouterr().err
    os.close(reader)
    os.close(writer)
