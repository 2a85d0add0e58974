"""A run that has come to a halt is told so, with the stack of the rank that the others wait for."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from helpers.runs import Runs, is_running, python, wait_until
from hora.agent import proc
from hora.api import Run

pytestmark = pytest.mark.leaks

# Rank 2 never sends, so the ring of receivers waits for it.  `stuck` is what it does instead.
RING = """
    import ctypes, os, socket, sys, threading, time
    rank, size = int(os.environ["HORA_RANK"]), int(os.environ["HORA_WORLD_SIZE"])

    def stuck():
        {stuck}

    def listen(rank):
        server = socket.socket(socket.AF_UNIX)
        server.bind("ring-%d" % rank)
        server.listen()
        return server

    def dial(rank):
        while True:
            try:
                sock = socket.socket(socket.AF_UNIX)
                sock.connect("ring-%d" % rank)
                return sock
            except OSError:
                sock.close()
                time.sleep(0.01)

    def all_reduce(left):
        return left.recv(1)

    server = listen(rank)
    right = dial((rank + 1) % size)
    left, _ = server.accept()
    if rank == 2:
        stuck()
    all_reduce(left)
"""
IN_C = {
    "a C call": "ctypes.CDLL(None).read(os.pipe()[0], ctypes.create_string_buffer(1), 1)",
    "a C call that keeps the interpreter": "ctypes.PyDLL(None).read(os.pipe()[0], ctypes.create_string_buffer(1), 1)",
    "a lock": "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "a sleep": "time.sleep(1000)",
}


def ring(stuck: str) -> list[str]:
    return python(RING.format(stuck=IN_C[stuck]))


def said(run: Run, word: str, timeout: float = 15.0) -> str:
    """What the run has to say about it."""
    notes = wait_until(
        lambda: [note for note in run.status().notes if word in note], f"the run says {word!r}", timeout
    )
    return notes[0]


def alive(run: Run) -> list[int]:
    return [rank.pid for member in run.status().members for rank in member.ranks if rank.pid]


def all_running(run: Run, ranks: int) -> None:
    wait_until(lambda: run.status().phase == "running" and len(alive(run)) == ranks, "all ranks run")


@pytest.mark.parametrize("stuck", list(IN_C))
def test_the_stuck_rank_is_named_with_its_stack_and_the_run_goes_on(runs: Runs, stuck: str) -> None:
    run = runs.start(ring(stuck), workers=4, timeouts={"stall": "2s", "grace": "1s"})
    told = said(run, "stalled")
    first = told.splitlines()[0]
    assert "worker-2/0" in first and "stuck" in first, told
    assert "the 3 others wait in all_reduce" in first, told
    assert "<- the odd one out" in told
    assert run.status().phase == "running"
    assert len([pid for pid in alive(run) if is_running(pid)]) == 4
    run.stop()
    assert run.wait(20, check=False).phase == "stopped"


def test_a_stall_is_told_once(runs: Runs) -> None:
    run = runs.start(ring("a lock"), workers=4, timeouts={"stall": "1s", "grace": "1s"})
    said(run, "stalled")
    with pytest.raises(AssertionError):
        wait_until(lambda: len([n for n in run.status().notes if "stalled" in n]) > 1, "a second word", 3.0)
    run.stop(kill=True)


def test_a_stall_ends_the_run_where_that_is_asked_for(runs: Runs) -> None:
    run = runs.start(ring("a C call"), workers=4, stall="kill", timeouts={"stall": "2s", "grace": "1s"})
    status = run.wait(30, check=False)
    assert (status.phase, status.exit_code, status.origin) == ("failed", 124, "hora")
    assert "worker-2/0" in status.reason and "stalled" in status.reason


def test_ranks_that_wait_for_one_that_has_left_are_stalled(runs: Runs) -> None:
    """One had less data than the others, and ended well."""
    code = """
        import os, time
        if os.environ["HORA_RANK"] == "0":
            time.sleep(5)  # until heartbeats have told of it
        else:
            time.sleep(1000)
    """
    run = runs.start(python(code), workers=2, stall="kill", timeouts={"stall": "3s", "grace": "1s"})
    status = run.wait(40, check=False)
    assert (status.phase, status.exit_code) == ("failed", 124)
    assert "worker-1/0" in status.reason and "stalled" in status.reason


def test_ranks_that_compute_without_a_word_are_not_stalled(runs: Runs) -> None:
    code = """
        import time
        end = time.monotonic() + 5
        while time.monotonic() < end:
            pass
    """
    _, status = runs.ended(python(code), workers=1, stall="kill", timeouts={"stall": "1s"})
    assert (status.phase, status.notes) == ("succeeded", ())


def test_ranks_that_print_now_and_then_are_not_stalled(runs: Runs) -> None:
    command = ["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.5; done"]
    _, status = runs.ended(command, stall="kill", timeouts={"stall": "2s"})
    assert status.phase == "succeeded", status.reason


def test_stacks_can_be_asked_for_at_any_time(runs: Runs) -> None:
    run = runs.start(ring("a C call"), workers=4, timeouts={"grace": "1s"})
    all_running(run, 4)

    def settled() -> bool:
        tops = {stack.label: stack.frames[0] for stack in run.stacks() if stack.frames}
        return len(tops) == 4 and "stuck" in tops["worker-2/0"] and "all_reduce" in tops["worker-0/0"]

    wait_until(settled, "each rank's stack is seen")
    (one,) = run.stacks(["worker-2/0"])
    assert one.label == "worker-2/0"
    run.stop(kill=True)


C_RANK = """
#include <stdio.h>
#include <unistd.h>
int main(void) { puts("up"); fflush(stdout); for (;;) pause(); }
"""


def native(work: Path) -> list[str]:
    """A program that knows nothing of us."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return ["sleep", "1000"]
    (work / "rank.c").write_text(C_RANK)
    subprocess.run([compiler, "-o", "rank", "rank.c"], cwd=work, check=True)
    return ["./rank"]


def test_native_ranks_without_a_handler_survive_the_question(runs: Runs, work: Path) -> None:
    run = runs.start(native(work), workers=3, timeouts={"grace": "1s"})
    all_running(run, 3)
    for _ in range(3):
        stacks = run.stacks()
        assert [stack.label for stack in stacks] == [f"worker-{i}/0" for i in range(3)]
        assert all(stack.how or stack.note for stack in stacks)
    assert all(is_running(pid) for pid in alive(run))
    assert run.status().phase == "running"
    run.stop()
    run.wait(20, check=False)


def test_native_ranks_that_stall_are_described_and_live(runs: Runs, work: Path) -> None:
    run = runs.start(native(work), workers=2, timeouts={"stall": "2s", "grace": "1s"})
    told = said(run, "stalled")
    assert "all 2 ranks" in told.splitlines()[0]
    assert all(is_running(pid) for pid in alive(run))
    run.stop(kill=True)


def test_the_threads_of_a_rank_are_seen(runs: Runs) -> None:
    code = """
        import threading, time
        def loading_data():
            time.sleep(1000)
        threading.Thread(target=loading_data, name="loader", daemon=True).start()
        def training():
            time.sleep(1000)
        training()
    """
    run = runs.start(python(code), timeouts={"grace": "1s"})

    def seen() -> bool:
        (stack,) = run.stacks() or [None]
        text = str([] if stack is None else [stack.frames, stack.threads])
        return "training" in text and "loading_data" in text

    wait_until(seen, "main thread and loader are seen")
    run.stop(kill=True)


def test_a_rank_that_blocks_all_signals_is_described_from_outside(runs: Runs, work: Path) -> None:
    code = """
        import pathlib, signal, time
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        pathlib.Path("blocked").touch()
        time.sleep(1000)
    """
    run = runs.start(python(code), timeouts={"grace": "1s"})
    wait_until((work / "blocked").exists, "the rank blocks its signals")
    all_running(run, 1)
    (stack,) = run.stacks()
    assert stack.label == "worker-0/0" and (stack.note or stack.frames)
    (pid,) = alive(run)
    assert is_running(pid)
    run.stop()
    status = run.wait(20, check=False)
    assert status.phase == "stopped" and not is_running(pid)


def test_a_suspended_rank_is_described_and_ended(runs: Runs) -> None:
    run = runs.start(python("import time; time.sleep(1000)"), workers=2, timeouts={"grace": "1s"})
    all_running(run, 2)
    pid = alive(run)[0]
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: proc.state(pid) == "T", "the rank is suspended")
    stacks = run.stacks()
    assert [stack.label for stack in stacks] == ["worker-0/0", "worker-1/0"]
    assert stacks[0].state == "T" and proc.state(pid) == "T"
    run.stop()
    assert run.wait(20, check=False).phase == "stopped"


def test_a_rank_that_takes_the_signal_for_itself_is_not_ended_by_the_question(runs: Runs, work: Path) -> None:
    code = """
        import os, pathlib, signal, time
        for number in (int(os.environ["HORA_STACK_SIGNAL"]), int(os.environ["HORA_STACK_SIGNAL"]) + 1):
            signal.signal(number, signal.SIG_DFL)
        pathlib.Path("ready").touch()
        time.sleep(1000)
    """
    run = runs.start(python(code), timeouts={"grace": "1s"})
    wait_until((work / "ready").exists, "the rank has taken its handlers away")
    all_running(run, 1)
    assert len(run.stacks()) == 1
    assert is_running(alive(run)[0])
    run.stop(kill=True)
