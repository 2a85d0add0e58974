"""64 ranks on this machine: start them, run `true`, give the verdict."""

from __future__ import annotations

from typing import Any

from benchmarks import measure

RANKS = "64"
HANGS = 20.0  # seconds: Open MPI 5.0 sometimes waits for ever for ranks that have ended at once


def run(quick: bool) -> dict[str, Any]:
    limit = 4.0 if quick else HANGS
    contestants = {
        f"hora run -n {RANKS} true": lambda: (
            measure.timed(measure.hora("run", "-q", "-n", RANKS, "true"), limit=limit).seconds
        )
    }
    mpirun = measure.mpirun()
    if mpirun:
        contestants[f"mpirun -n {RANKS} true"] = lambda: (
            measure.timed([*mpirun, "-n", RANKS, "true"], limit=limit).seconds
        )
    with measure.own_state():
        found = measure.in_turn(contestants, measure.rounds(9, quick))
    rows = [measure.row(who, values) for who, values in found.items()]
    if not mpirun:
        rows.append(measure.absent("mpirun", measure.NO_MPIRUN))
    ours, theirs = rows[0]["value"], rows[1]["value"]
    return {
        "name": "ranks",
        "what": f"{RANKS} ranks that run `true`: exec of the launcher → its exit",
        "rows": rows,
        "goal": "at most mpirun's time",
        "met": None if ours is None or theirs is None else ours <= theirs,
        "remark": "All processes of a run are Python here, and each rank has a session, pipes and a record of its own.",
    }
