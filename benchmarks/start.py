"""How long until both ranks have said something: what a user waits for after pressing Enter."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from benchmarks import measure

ALLOWED = 0.2  # seconds more than mpirun
WORD = "here-i-am"
PROGRAM = [sys.executable, "-c", f"print({WORD!r}, flush=True)"]


def first_line(argv: list[str]) -> float:
    found = measure.timed([*argv, *PROGRAM], lambda out: out.count(WORD.encode()) >= 2)
    if found.first is None:
        raise RuntimeError(f"{argv[0]}: both ranks should have said {WORD}, got {found.out!r}")
    return found.first


def _contestants() -> dict[str, Callable[[], float]]:
    contestants = {"hora run -n 2": lambda: first_line(measure.hora("run", "-q", "-n", "2"))}
    mpirun, torchrun = measure.mpirun(), measure.torchrun()
    if mpirun:
        contestants["mpirun -n 2"] = lambda: first_line([*mpirun, "-n", "2"])
    if torchrun:
        contestants["torchrun --nproc_per_node 2"] = lambda: first_line(
            [*torchrun, "--nproc_per_node", "2", "--no_python"]
        )
    return contestants


def run(quick: bool) -> dict[str, Any]:
    with measure.own_state():
        found = measure.in_turn(_contestants(), measure.rounds(15, quick))
    rows = [measure.row(who, values) for who, values in found.items()]
    if "mpirun -n 2" not in found:
        rows.append(measure.absent("mpirun -n 2", measure.NO_MPIRUN))
    if "torchrun --nproc_per_node 2" not in found:
        rows.append(measure.absent("torchrun", "no torch: scripts/torch-env installs it"))
    ours, theirs = rows[0]["value"], rows[1]["value"]
    return {
        "name": "start",
        "what": "exec of the launcher → both ranks' first line seen",
        "rows": rows,
        "goal": f"at most mpirun + {ALLOWED} s",
        "met": None if theirs is None else ours <= theirs + ALLOWED,
    }
