"""Runs through the API, from tests that need no command line, and what one asks of them."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import hora
from hora.api import Run
from hora.errors import LeadGone
from hora.state import RunStatus

T = TypeVar("T")

PATIENCE = 60.0  # for a run to end; those that hang must fail, not the slow ones


def wait_until(look: Callable[[], T], what: str, timeout: float = 20.0) -> T:
    """The first true answer of `look`."""
    end = time.monotonic() + timeout
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < end, f"{what}: not within {timeout:g} s"
        time.sleep(0.02)


def python(code: str, *arguments: str) -> list[str]:
    """The command that runs some lines of Python."""
    return [sys.executable, "-c", textwrap.dedent(code), *arguments]


class Runs:
    """`runs.start(command, workers=4)`; what still runs at the end of the test is killed."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.started: list[Run] = []

    def start(self, command: list[str], attached: bool = False, **keys: Any) -> Run:
        run = hora.submit(hora.Job(**{"name": "job", "command": command, **keys}), attached=attached)
        self.started.append(run)
        return run

    def ended(self, command: list[str], **keys: Any) -> tuple[Run, RunStatus]:
        """Start it and wait for its end, whatever that is."""
        run = self.start(command, **keys)
        return run, run.wait(PATIENCE, check=False)

    def close(self) -> None:
        for run in self.started:
            try:
                run.stop(kill=True)
            except LeadGone:
                continue  # it has ended
            run.wait(PATIENCE, check=False)
            if run.owner is not None:
                run.owner.close()


def output_of(run: Run) -> dict[str, bytes]:
    """Everything that each rank wrote, by label."""
    found: dict[str, bytearray] = {}
    for chunk in run.chunks():
        found.setdefault(chunk.label, bytearray()).extend(chunk.data)
    return {label: bytes(data) for label, data in found.items()}


def lines_of(run: Run) -> dict[str, list[str]]:
    """The lines of each rank, by label."""
    found: dict[str, list[str]] = {}
    for line in run.logs():
        found.setdefault(line.label, []).append(line.text)
    return found


def peak(pid: int) -> float:
    """The most memory that a living process has had, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} has no memory any more")


def is_running(pid: int) -> bool:
    """Whether a process lives; a zombie doesn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
