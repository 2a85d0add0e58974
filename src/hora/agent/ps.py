"""Processes as `ps` of BSD, macOS and Linux alike tells them: for systems without /proc."""

from __future__ import annotations

import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

    Fields = Tuple[int, int, int, int, str, float, float, str]


def table(pid: int | None = None) -> dict[int, Fields]:
    """The fields of a `proc.Stat` for one or all processes.  Session and start stay 0: no ps tells both."""
    command = ["ps", "-A"] if pid is None else ["ps", "-p", str(pid)]
    command += ["-o", "pid=,ppid=,pgid=,stat=,time=,command="]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found = {}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        parts = line.split(None, 5)
        if len(parts) >= 5 and parts[0].isdigit():
            name = parts[5] if len(parts) == 6 else ""
            found[int(parts[0])] = (
                int(parts[0]),
                int(parts[1]),
                int(parts[2]),
                0,
                parts[3][0],
                _duration(parts[4]),
                0.0,
                name,
            )
    return found


def _duration(text: str) -> float:
    """`[days-]hours:minutes:seconds[.hundredths]`, or without hours."""
    days, _, clock = text.rpartition("-")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds + 86400 * int(days or 0)
