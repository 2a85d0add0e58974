"""Whom to ask for a stack, where the answer will be, and whether it holds still."""

from __future__ import annotations

import os
import re

from hora.agent import proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST_THREADS = 100  # as many as faulthandler shows


def target(pid: int, folder: str) -> int:
    """Whom to ask: the process itself if it has a stack file or is no starter of others."""
    if dump_file(pid, folder) or is_python(pid):
        return pid
    below = [one for one in proc.descendants(pid) if proc.alive(one)]
    for suits in (lambda one: bool(dump_file(one, folder)), is_python):  # type: Callable[[int], bool]
        for one in below:
            if suits(one):
                return one
    return proc.main_child(pid) or pid


def dump_file(pid: int, folder: str) -> str:
    """Path through which the stack file of a process can be read, '' if it has none (any more)."""
    wanted = os.path.realpath(folder) + os.sep
    try:
        numbers = sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return ""
    for number in numbers:
        path = f"/proc/{pid}/fd/{number}"
        try:
            link = os.readlink(path)
        except OSError:
            continue
        if link.startswith(wanted) and re.match(r"\d+\.txt( \(deleted\))?$", link[len(wanted) :]):
            return path
    return ""


def is_python(pid: int) -> bool:
    return proc.program(pid).startswith(("python", "pypy"))


def look(pid: int) -> Any:
    """Something that stays equal as long as no thread of the process runs; None when one does."""
    try:
        threads = sorted(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return None
    found: list[Any] = []
    for thread in threads[: _MOST_THREADS + 1]:
        status = proc.status(pid, int(thread))
        if len(found) == _MOST_THREADS or status.get("State", "R")[0] not in "SI":
            return None
        switches = status.get("voluntary_ctxt_switches"), status.get("nonvoluntary_ctxt_switches")
        found.append((thread, switches))
    return found
