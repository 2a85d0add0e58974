"""The machine in one line, without its name."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe() -> dict[str, str | int]:
    return {
        "cpu": cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
    }


def line() -> str:
    known = describe()
    return f"{known['cpu']}, {known['cores']} cores, {known['memory']}, Python {known['python']}, {known['system']}"


def cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    for found in text.splitlines():
        name, _, value = found.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
