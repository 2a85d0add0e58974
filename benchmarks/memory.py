"""How much memory Hora's own processes take at most, for 2 ranks and for 64, while output flows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import measure

PROGRAM = """
import signal, sys
for number in range(int(sys.argv[1])):
    print(number, "x" * 80)
signal.pause()
"""
PROCESSES = ("hora", "hora-keeper", "hora-lead", "hora-agent")


def run(quick: bool) -> dict[str, Any]:
    rows = []
    for ranks, lines in (("2", 10_000 if quick else 500_000), ("64", 100)):
        with measure.own_state():
            peaks = peaks_of(ranks, lines)
        rows += [
            measure.row(f"{name}, {ranks} ranks", [peaks[name]], "MiB") for name in PROCESSES if name in peaks
        ]
    return {"name": "memory", "what": "peak resident memory", "rows": rows, "goal": "", "met": None}


def peaks_of(ranks: str, lines: int) -> dict[str, float]:
    """The ranks wait when they have written, so that all is still there to be looked at."""
    argv = measure.hora("run", "-q", "-n", ranks, sys.executable, "-c", PROGRAM, str(lines))
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        wanted, seen = int(ranks) * lines, 0
        while seen < wanted:
            data = os.read(process.stdout.fileno(), 1 << 20)
            if not data:
                raise RuntimeError("the run ended before its output had come")
            seen += data.count(b"\n")
        peaks = {name: peak for pid in below(process.pid) for name, peak in [peak_of(pid)]}
        peaks["hora"] = peak_of(process.pid)[1]
        process.terminate()
        while os.read(process.stdout.fileno(), 1 << 20):
            pass
    return peaks


def below(pid: int) -> list[int]:
    """All descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            parent = int(text[text.rindex(")") + 2 :].split()[1])
            children.setdefault(parent, []).append(int(entry))
    found, todo = [], [pid]
    while todo:
        mine = children.get(todo.pop(), [])
        found += mine
        todo += mine
    return found


def peak_of(pid: int) -> tuple[str, float]:
    """(name, MiB); zero for a process that has ended."""
    try:
        text = Path("/proc", str(pid), "status").read_text()
    except OSError:
        return "", 0.0
    fields = dict(line.partition(":")[::2] for line in text.splitlines())
    return fields["Name"].strip(), int(fields.get("VmHWM", "0").split()[0]) / 1024
