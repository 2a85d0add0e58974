"""The long run behind `scripts/fuzz`: every property test of the repository, round after round."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def round_with(seed: int, words: list[str]) -> int:
    """Every property test once, each with as many examples as the profile `fuzz` says."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "hypothesis", "--timeout=3600"]
    command += ["--hypothesis-profile=fuzz", f"--hypothesis-seed={seed}", *words, str(ROOT / "tests")]
    return subprocess.call(command, cwd=ROOT, stdin=subprocess.DEVNULL)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", add_help=True)
    parser.add_argument("--minutes", type=float, default=10.0, help="begin rounds for so long (default 10)")
    parser.add_argument("--seed", type=int, help="one round with this seed")
    options, words = parser.parse_known_args()
    until = time.monotonic() + 60 * options.minutes
    rounds = 0
    while not rounds or (options.seed is None and time.monotonic() < until):
        seed = random.randrange(2**32) if options.seed is None else options.seed
        rounds += 1
        print(f"── round {rounds}, seed {seed}", flush=True)
        code = round_with(seed, words)
        if code:
            again = " ".join(["scripts/fuzz", "--seed", str(seed), *words])
            print(f"fuzz: FAILED in round {rounds}; the same again: {again}", flush=True)
            return code
    print(f"fuzz: ok: {rounds} rounds", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
