"""Much output: 2 ranks write 500,000 lines of 100 bytes each, and every byte must come out.

Three programs, since what a launcher pays for is how often its ranks write, not how much: line by line (what Python
does under Hora, so that nothing is held back when a rank dies; the goal is for this one), through a buffer of 4 KiB
(what C's stdio does to a pipe), and 100 KB at a time.
"""

from __future__ import annotations

import hashlib
import re
import sys
from typing import Any

from benchmarks import measure

FACTOR = 5.0
LINES = 500_000
WIDTH = 100
PROGRAM = """
import os, sys
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK") or os.environ.get("HORA_RANK"))
lines, buffer = int(sys.argv[1]), int(sys.argv[2])
out = open(1, "wb", buffering=buffer)
fill = b"x" * 88
for first in range(0, lines, 1000):
    block = [b"%d %08d %s\\n" % (rank, number, fill) for number in range(first, min(first + 1000, lines))]
    if buffer > 1000:
        out.write(b"".join(block)) if buffer > 50000 else list(map(out.write, block))
    else:
        list(map(out.write, block))
out.flush()
"""
BY_LINE = 0
BUFFERS = {"line by line": BY_LINE, "through a buffer of 4 KiB": 4096, "100 KB at a time": 1 << 17}
_PREFIX = re.compile(rb"^worker-\d+/\d+ \| ", re.MULTILINE)
LABELLED = "mpirun -n 2, line by line, each labelled"
FLOOR = "no launcher: two programs into one pipe, line by line"


_TWO = 'HORA_RANK=0 "$@" & HORA_RANK=1 "$@" & wait'


def expected(rank: int, lines: int) -> str:
    digest = hashlib.sha256()
    fill = b"x" * 88
    for number in range(lines):
        digest.update(b"%d %08d %s\n" % (rank, number, fill))
    return digest.hexdigest()


def check(out: bytes, hashes: dict[int, str], lines: int) -> None:
    """Every byte of both ranks, in their order, once the prefixes are off."""
    out = _PREFIX.sub(b"", out)
    if len(out) != 2 * lines * WIDTH:
        raise RuntimeError(f"{len(out)} bytes came out instead of {2 * lines * WIDTH}")
    whole = out.splitlines(keepends=True)
    for rank, digest in hashes.items():
        mine = b"".join(line for line in whole if line.startswith(b"%d " % rank))
        if hashlib.sha256(mine).hexdigest() != digest:
            raise RuntimeError(f"what came out of rank {rank} is not what it wrote")


def carry(argv: list[str], buffer: int, hashes: dict[int, str], lines: int) -> float:
    found = measure.timed([*argv, sys.executable, "-c", PROGRAM, str(lines), str(buffer)])
    check(found.out, hashes, lines)
    return found.seconds


def pass_on(argv: list[str], lines: int) -> float:
    """Line by line, where two ranks' lines mix as they come: only that all came can be told."""
    found = measure.timed([*argv, sys.executable, "-c", PROGRAM, str(lines), str(BY_LINE)])
    if len(found.out) < 2 * lines * WIDTH:
        raise RuntimeError(f"{len(found.out)} bytes came out instead of {2 * lines * WIDTH}")
    return found.seconds


def run(quick: bool) -> dict[str, Any]:
    lines = LINES // 50 if quick else LINES
    hashes = {rank: expected(rank, lines) for rank in (0, 1)}
    mpirun = measure.mpirun()
    contestants = {}
    for how, buffer in BUFFERS.items():
        contestants[f"hora run -n 2, {how}"] = lambda buffer=buffer: carry(
            measure.hora("run", "-q", "-n", "2"), buffer, hashes, lines
        )
        if mpirun:
            contestants[f"mpirun -n 2, {how}"] = lambda buffer=buffer: carry(
                [*mpirun, "-n", "2"], buffer, hashes, lines
            )
    others = {FLOOR: lambda: pass_on(["sh", "-c", _TWO, "sh"], lines)}
    if mpirun and set(measure.MPIRUN_FLAGS) <= set(mpirun):  # Open MPI
        others[LABELLED] = lambda: pass_on([*mpirun, "--output", "tag", "-n", "2"], lines)
    with measure.own_state():
        found = measure.in_turn({**contestants, **others}, measure.rounds(5, quick))
    rows = [measure.row(who, values) for who, values in found.items() if who in contestants]
    ratios = _ratios(rows) if mpirun else []
    rows += [measure.row(who, found[who]) for who in others]
    if not mpirun:
        rows.append(measure.absent("mpirun", measure.NO_MPIRUN))
    return {
        "name": "output",
        "what": f"2 ranks × {lines:,} lines of {WIDTH} bytes: exec of the launcher → every byte out of it, checked",
        "rows": rows,
        "goal": f"at least {FACTOR:g} times faster than mpirun, line by line",
        "met": ratios[0] >= FACTOR if ratios else None,
        "remark": "Writing alone, with nobody between the programs and the reader, is the floor: no launcher can be "
        "faster. Hora labels each line; so does the last row's `mpirun`.",
    }


def _ratios(rows: list[dict[str, Any]]) -> list[float]:
    """How many times faster, for each way of writing; also noted in our rows."""
    ratios = []
    for ours, theirs in zip(rows[::2], rows[1::2], strict=True):
        ratios.append(theirs["value"] / ours["value"])
        ours["note"] = f"{ratios[-1]:.1f} times faster than mpirun"
    return ratios
