"""What the container really gives: CPUs, memory, and how often the kernel killed for lack of it.

Version 1 and 2, with or without a cgroup namespace.  A limit may sit on any level above, so all levels that
can be seen are read.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

PROC = "/proc/self"
_UNLIMITED = 1 << 60  # version 1 says "no limit" with a number near 2**63


def cpus(proc: str = PROC) -> float:
    """CPUs that this process can use: the least of affinity and quotas; os.cpu_count() knows neither."""
    allowed = float(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else 0.0
    found = [allowed or float(os.cpu_count() or 1)]
    for version, folder in _folders("cpu", proc):
        words = _words(folder, "cpu.max") if version == 2 else _quota_v1(folder)
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]) > 0:
            found.append(int(words[0]) / int(words[1]))
    return min(found)


def _quota_v1(folder: str) -> list[str]:
    return _words(folder, "cpu.cfs_quota_us")[:1] + _words(folder, "cpu.cfs_period_us")[:1]


def memory_limit(proc: str = PROC) -> int | None:
    """Bytes; None where no limit is below what the machine has."""
    limits = []
    for version, folder in _folders("memory", proc):
        words = _words(folder, "memory.max" if version == 2 else "memory.limit_in_bytes")
        if words and words[0].isdigit() and int(words[0]) < _UNLIMITED:
            limits.append(int(words[0]))
    least = min(limits, default=None)
    return None if least is None or least >= _machine_memory() else least


def oom_kills(proc: str = PROC) -> int | None:
    """Processes of this cgroup (version 2: and below) that the OOM killer ended; None: nobody counts.

    memory.failcnt isn't asked: it counts every touch of the limit, and a full page cache touches it all day.
    """
    for version, folder in _folders("memory", proc):
        lines = _lines(folder, "memory.events" if version == 2 else "memory.oom_control")
        for line in lines:
            key, _, value = line.partition(" ")
            if key == "oom_kill" and value.strip().isdigit():
                return int(value)
        return None  # only the own level: above it, others are counted too
    return None


def _machine_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return _UNLIMITED


def _folders(controller: str, proc: str) -> Iterator[tuple[int, str]]:
    """The folders that hold a controller's files, with their version, from the own cgroup upwards."""
    for version, path in _memberships(controller, proc):
        for root, point in _mounts(version, controller, proc):
            inside = os.path.relpath(path, root) if path.startswith(root.rstrip("/") + "/") else "."
            folder = os.path.normpath(os.path.join(point, inside))
            if not _holds(folder, controller):
                # The path is the host's, seen from a container: the mount point itself is our cgroup.
                folder = point
            while _holds(folder, controller):
                yield version, folder
                if folder == point:
                    break
                folder = os.path.dirname(folder)


def _holds(folder: str, controller: str) -> bool:
    try:
        return any(name.startswith(controller + ".") for name in os.listdir(folder))
    except OSError:
        return False


def _memberships(controller: str, proc: str) -> list[tuple[int, str]]:
    """(version, path) of the controller in /proc/self/cgroup; version 1 first, as it owns what it lists."""
    first, second = [], []
    for line in _lines(proc, "cgroup"):
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if not names:
            second.append((2, path))
        elif controller in names.split(","):
            first.append((1, path))
    return first + second


def _mounts(version: int, controller: str, proc: str) -> list[tuple[str, str]]:
    """(root, mount point) of the file systems that may hold the controller."""
    found = []
    for line in _lines(proc, "mountinfo"):
        left, _, right = line.partition(" - ")
        fields, types = left.split(" "), right.split(" ")
        if len(fields) < 5 or len(types) < 3:
            continue
        if (version == 2 and types[0] == "cgroup2") or (
            version == 1 and types[0] == "cgroup" and controller in types[2].split(",")
        ):
            found.append((_plain(fields[3]), _plain(fields[4])))
    return found


def _plain(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def _lines(folder: str, name: str) -> list[str]:
    try:
        with open(os.path.join(folder, name), errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _words(folder: str, name: str) -> list[str]:
    return " ".join(_lines(folder, name)).split()
