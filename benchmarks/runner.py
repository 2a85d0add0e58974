"""`scripts/bench local [NAME…] [--quick] [--rounds N]`: measure, print, and keep the figures as JSON."""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks import machine, measure, page

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "results"
GROUPS = {"local": ("start", "output", "agents", "command", "ranks", "memory", "demo")}


def main(words: list[str] | None = None) -> int:
    """0 also when a goal is missed: the table says so, and machines differ."""
    options = parse(words)
    if options.page:
        (FOLDER / "README.md").write_text(page.page(options.results, GROUPS[options.group]))
        return 0
    measure.rounds_wanted = options.rounds
    print(machine.line(), flush=True)
    failed = []
    for name in options.names or known(options.group):
        try:
            result = bench(name, options.quick)
        except (OSError, RuntimeError) as problem:
            failed.append(name)
            print(f"\n{name}: FAILED: {problem}", flush=True)
            continue
        save(result, options.results)
        print("\n" + "\n".join(table(result)), flush=True)
    return 1 if failed else 0


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("group", choices=sorted(GROUPS), help="where to measure")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(known('local'))}")
    parser.add_argument("--quick", action="store_true", help="one small round: to see that all works")
    parser.add_argument("--rounds", type=int, help="rounds of each (the median counts)")
    parser.add_argument("--page", action="store_true", help="write benchmarks/README.md, measure nothing")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON files")
    options = parser.parse_args(words)
    unknown = sorted(set(options.names) - set(known(options.group)))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(known(options.group))}")
    return options


def known(group: str) -> list[str]:
    return [name for name in GROUPS[group] if (FOLDER / f"{name}.py").exists()]


def bench(name: str, quick: bool) -> dict[str, Any]:
    result: dict[str, Any] = importlib.import_module(f"benchmarks.{name}").run(quick)
    from hora import __version__

    return {
        **result,
        "quick": quick,
        "version": __version__,
        "machine": machine.describe(),
        "at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def save(result: dict[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{result['name']}.json").write_text(json.dumps(result, indent=1) + "\n")


def table(result: dict[str, Any]) -> list[str]:
    lines = [f"{result['name']}: {result['what']}"]
    width = max(len(row["who"]) for row in result["rows"])
    for row in result["rows"]:
        value = f"{row['value']:9.3f} {row['unit']}" if row["value"] is not None else "        –"
        good = [each for each in row.get("rounds", ()) if each is not None]
        spread = f"  ({min(good):.3f} … {max(good):.3f} in {len(good)} rounds)" if len(good) > 1 else ""
        note = f"  {row['note']}" if row.get("note") else ""
        lines.append(f"  {row['who']:<{width}} {value}{spread}{note}")
    if result["goal"]:
        told = {True: "met", False: "MISSED", None: "not measured"}[result["met"]]
        lines.append(f"  goal: {result['goal']}: {told}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
