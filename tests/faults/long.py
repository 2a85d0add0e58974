"""The long run behind `scripts/faults`: random faults, a table per kind, exit code 1 if one was survived wrongly."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from faults.cases import Case, carry_out, scattered  # noqa: E402
from helpers import leftovers  # noqa: E402


def one(case: Case) -> list[str]:
    """Carry it out in a home of its own; the home stays when something was wrong."""
    home = Path(tempfile.mkdtemp(prefix="hora-fault-", dir="/tmp"))
    test_id = uuid.uuid4().hex
    (home / "run").mkdir(mode=0o700)
    os.environ.update(
        {
            leftovers.VARIABLE: test_id,
            "HORA_STATE": str(home / "state"),
            "XDG_RUNTIME_DIR": str(home / "run"),
            "PYTHONPATH": str(ROOT / "src"),
        }
    )
    try:
        wrong = carry_out(case, home / "work", test_id)
    except KeyboardInterrupt:
        leftovers.kill(test_id)
        shutil.rmtree(home, ignore_errors=True)
        raise
    finally:
        leftovers.kill(test_id)
    if wrong:
        return [*wrong, f"see {home}"]
    shutil.rmtree(home)
    return []


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/faults")
    parser.add_argument("--seed", type=int, default=0, help="of the first fault (default 0)")
    parser.add_argument("--count", type=int, default=250, help="how many (default 250)")
    parser.add_argument("--hours", type=float, help="begin new ones for so long, instead of --count")
    options = parser.parse_args()
    until = None if options.hours is None else time.monotonic() + 3600 * options.hours
    tally: dict[str, list[int]] = {}
    failed: list[int] = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    seed = options.seed
    try:
        while time.monotonic() < until if until is not None else seed < options.seed + options.count:
            go(seed, tally, failed)
            seed += 1
    except KeyboardInterrupt:
        print("faults: interrupted; so far:", flush=True)
    return report(tally, failed)


def go(seed: int, tally: dict[str, list[int]], failed: list[int]) -> None:
    case = scattered(random.Random(seed))
    began = time.monotonic()
    wrong = one(case)
    took = time.monotonic() - began
    print(f"{seed:6d}  {took:5.1f} s  {case.name}{'  WRONG' if wrong else ''}", flush=True)
    for line in wrong:
        print(f"        {line}", flush=True)
    counts = tally.setdefault(" + ".join(case.kinds), [0, 0])
    counts[0] += 1
    counts[1] += bool(wrong)
    if wrong:
        failed.append(seed)


def report(tally: dict[str, list[int]], failed: list[int]) -> int:
    width = max(map(len, tally), default=0)
    print(f"\n{'killed':{width}}  faults  wrong")
    for kinds, (count, wrong) in sorted(tally.items()):
        print(f"{kinds:{width}}  {count:6d}  {wrong:5d}")
    total = sum(count for count, _ in tally.values())
    if failed:
        seeds = ", ".join(map(str, failed))
        print(
            f"faults: FAILED: {len(failed)} of {total}; again: scripts/faults --count 1 --seed … with {seeds}"
        )
        return 1
    print(f"faults: ok: {total} faults survived" if total else "faults: FAILED: none was carried out")
    return 0 if total else 1


if __name__ == "__main__":
    sys.exit(main())
