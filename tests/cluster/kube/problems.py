"""What can go wrong, in words; and the one way to wait for something."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from cluster.kube import layout

T = TypeVar("T")


class ClusterError(Exception):
    """The cluster can't be built, started or used; the message is for people."""


def wait_until(look: Callable[[], T], what: str, timeout: float, hint: Callable[[], str] = str) -> T:
    """The first true answer of `look`; `hint` is asked what may explain that there was none."""
    end = time.monotonic() + timeout
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise ClusterError("\n".join(filter(None, [f"{what}: not within {timeout:g} s", hint()])))
        time.sleep(0.03)


def run(*command: str | Path, stdin: str | None = None, timeout: float = 60.0) -> str:
    """What the command printed; its own words when it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        env=layout.environment(),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise ClusterError(f"{' '.join(map(str, command))}: exit code {done.returncode}: {said}")
    return done.stdout


def tail(log: Path, lines: int = 15) -> str:
    """The end of a log, for the message of a failure."""
    try:
        kept: Sequence[str] = log.read_text(errors="replace").splitlines()[-lines:]
    except OSError:
        return ""
    return "\n".join([f"the end of {log}:", *(f"  {line[:300]}" for line in kept)])
