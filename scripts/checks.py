"""The checks behind `scripts/check`: each runs, whatever the others say, and all verdicts come at the end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent

# What travels to hosts, where Python may be as old as 3.8.
MODULES = ("__init__", "plan", "record", "scene", "starts", "state", "symbols")
PAGES = ("api", "cli", "faults", "job-file")  # reference pages that are made from the code
ON_HOSTS = [*(f"src/hora/{name}.py" for name in MODULES), "src/hora/agent"]


def commands(fix: bool) -> dict[str, list[str]]:
    """Name of the check, and its command."""
    return {
        "format": ["ruff", "format", *([] if fix else ["--check"]), "."],
        "lint": ["ruff", "check", *(["--fix"] if fix else []), "."],
        "types": ["mypy"],
        "layers": ["lint-imports", "--no-cache"],
        "python 3.8": ["vermin", "--quiet", "--violations", "--no-tips", "--target=3.8-", *ON_HOSTS],
        **{
            f"page of {name}": [sys.executable, f"scripts/docs-{name}", *([] if fix else ["--check"])]
            for name in PAGES
        },
    }


def run(name: str, command: list[str]) -> bool:
    print(f"── {name}: {' '.join(command)}", flush=True)
    began = time.monotonic()
    code = subprocess.call([str(BIN / command[0]), *command[1:]], cwd=ROOT, stdin=subprocess.DEVNULL)
    print(
        f"   {'ok' if code == 0 else f'FAILED (exit code {code})'}, {time.monotonic() - began:.1f} s\n",
        flush=True,
    )
    return code == 0


def main() -> int:
    arguments = sys.argv[1:]
    if set(arguments) - {"--fix"}:
        print("usage: scripts/check [--fix]", file=sys.stderr)
        return 2
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    verdicts = {name: run(name, command) for name, command in commands("--fix" in arguments).items()}
    failed = [name for name, good in verdicts.items() if not good]
    if failed:
        print(
            f"check: FAILED: {', '.join(failed)}"
            + (" (scripts/check --fix may mend it)" if "format" in failed else "")
        )
        return 1
    print(f"check: {', '.join(verdicts)}: all good")
    return 0


if __name__ == "__main__":
    sys.exit(main())
