"""Find the processes that a test left behind: they carry its HORA_TEST_ID in their environment."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "HORA_TEST_ID"


@dataclass(frozen=True)
class Process:
    pid: int
    command: str
    state: str

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.state}): {self.command}"


def carrying(test_id: str) -> list[Process]:
    """Every process, but this one, whose environment at its start held the test's id; zombies have none."""
    if not Path("/proc/self/environ").exists():
        return _carrying_by_ps(test_id)
    needle = f"{VARIABLE}={test_id}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            if needle in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                found.append(_describe(int(entry)))
        except OSError:
            continue  # it ended while we looked, or is another user's
    return found


def _describe(pid: int) -> Process:
    command = (
        Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    )
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return Process(pid, command, state)


def _carrying_by_ps(test_id: str) -> list[Process]:
    listing = subprocess.run(
        ["ps", "-axEww", "-o", "pid=,command="], capture_output=True, text=True, check=False
    )
    lines = [line.split(None, 1) for line in listing.stdout.splitlines() if f"{VARIABLE}={test_id}" in line]
    return [Process(int(pid), command[:200], "?") for pid, command in lines if int(pid) != os.getpid()]


def wait_gone(test_id: str, timeout: float = 10.0) -> list[Process]:
    """Wait until no such process is left; returns those that stayed.

    Two looks in a row must find none: one alone can miss a process that was born while /proc was read, by a
    parent that was gone when its turn came.
    """
    end = time.monotonic() + timeout
    empty = 0
    while empty < 2:
        left = carrying(test_id)
        empty = 0 if left else empty + 1
        if left and time.monotonic() > end:
            return left
        time.sleep(0.02)
    return []


def kill(test_id: str, rounds: int = 20) -> None:
    """Kill them, one by one; again for those that were forked meanwhile."""
    for _ in range(rounds):
        if not wait_gone(test_id, timeout=0.0):
            return
        for process in carrying(test_id):
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.05)
