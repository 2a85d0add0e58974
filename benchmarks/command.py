"""How long the command line takes to say its version and its help."""

from __future__ import annotations

from typing import Any

from benchmarks import measure

LIMIT = 0.15  # seconds


def run(quick: bool) -> dict[str, Any]:
    found = measure.in_turn(
        {
            f"hora {word}": lambda word=word: measure.timed(measure.hora(word)).seconds
            for word in ("--version", "--help")
        },
        measure.rounds(15, quick),
    )
    rows = [measure.row(who, values) for who, values in found.items()]
    return {
        "name": "command",
        "what": "a command that does nothing else",
        "rows": rows,
        "goal": f"at most {LIMIT} s each",
        "met": all(row["value"] <= LIMIT for row in rows),
    }
