"""`hora demo`: four ranks train a classifier."""

from __future__ import annotations

from typing import Any

from benchmarks import measure

LIMIT = 15.0  # seconds


def run(quick: bool) -> dict[str, Any]:
    with measure.own_state():
        found = measure.in_turn(
            {"hora demo": lambda: measure.timed(measure.hora("demo")).seconds}, measure.rounds(3, quick)
        )
    rows = [measure.row(who, values) for who, values in found.items()]
    value = rows[0]["value"]
    return {
        "name": "demo",
        "what": "hora demo, from exec to exit",
        "rows": rows,
        "goal": f"at most {LIMIT:g} s",
        "met": value is not None and value <= LIMIT,
    }
