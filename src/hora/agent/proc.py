"""What the system says about processes: Linux through /proc, macOS as far as `ps` tells.

A process can vanish between any two lines here, so every function answers None, False or less instead of
raising.  Parsing and `prctl` only; nothing here signals anybody.
"""

from __future__ import annotations

import os
import signal
import sys

from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

LINUX = sys.platform.startswith("linux")
SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "mksh", "ksh93", "ash", "fish", "tcsh", "csh"))
# Members of a pipeline that only pass text on: ending them first would break the pipe of the main process.
FILTERS = frozenset((
    "tee", "cat", "ts", "grep", "sed", "awk", "gawk", "mawk", "tr", "head", "tail", "sort", "stdbuf", "xargs",
    "less", "pv", "logger",
))  # fmt: skip


class Stat(Record):
    """One line of /proc/PID/stat."""

    pid: int
    ppid: int
    group: int
    session: int
    state: str
    cpu: float  # seconds, with those of the children it has waited for
    started: float  # seconds since boot (Linux)
    name: str


def stat(pid: int) -> Stat | None:
    if not LINUX:
        return _by_ps(pid).get(pid)
    text = read(f"/proc/{pid}/stat")
    if text is None:
        return None
    # The name may hold spaces and brackets: the fields begin after the last one.
    head, _, tail = text.rpartition(b")")
    parts = tail.split()
    if len(parts) < 20:
        return None
    ticks = sum(int(part) for part in parts[11:15])
    return Stat(
        pid,
        int(parts[1]),
        int(parts[2]),
        int(parts[3]),
        parts[0].decode("ascii"),
        ticks / _tick(),
        int(parts[19]) / _tick(),
        head.partition(b"(")[2].decode("utf-8", "replace"),
    )


def table() -> dict[int, Stat]:
    """All processes in one pass; pass it on where several questions follow."""
    if not LINUX:
        return _by_ps()
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            line = stat(int(entry))
            if line is not None:
                found[line.pid] = line
    return found


def descendants(pid: int, known: dict[int, Stat] | None = None) -> list[int]:
    """The whole tree below a process, parents before children, without the process itself."""
    if known is None and _has_children_files():
        return _descendants_by_files(pid)
    by_parent: dict[int, list[int]] = {}
    for line in (table() if known is None else known).values():
        by_parent.setdefault(line.ppid, []).append(line.pid)
    found = sorted(by_parent.get(pid, ()))
    for one in found:  # grows while it is walked
        found.extend(sorted(by_parent.get(one, ())))
    return found


def children(pid: int) -> list[int]:
    if _has_children_files():
        return _children_by_files(pid)
    return sorted(line.pid for line in table().values() if line.ppid == pid)


def cpu_seconds(pids: Iterable[int], known: dict[int, Stat] | None = None) -> float:
    """CPU time that these processes used, with that of children they have waited for.

    Over a whole tree this never falls when a process of it ends: its time moves to its parent.
    """
    lines = (stat(pid) if known is None else known.get(pid) for pid in pids)
    return sum(line.cpu for line in lines if line is not None)


def tree_cpu(pid: int, known: dict[int, Stat] | None = None) -> float:
    known = table() if known is None and not _has_children_files() else known
    return cpu_seconds([pid, *descendants(pid, known)], known)


def state(pid: int) -> str | None:
    """R runs, S sleeps, D sleeps in the kernel and can't be signalled, T stopped, t traced, Z ended."""
    line = stat(pid)
    return line.state if line else None


def alive(pid: int) -> bool:
    """There, and not just waiting to be reaped."""
    return state(pid) not in (None, "Z", "X")


def start_time(pid: int) -> float | None:
    """Seconds since boot: with the pid this names a process for good."""
    line = stat(pid)
    return line.started if line else None


def wchan(pid: int) -> str | None:
    """The kernel function in which the process sleeps; None where it runs or the kernel doesn't tell."""
    text = read(f"/proc/{pid}/wchan")
    name = (text or b"").decode("ascii", "replace").strip()
    return name if name not in ("", "0") else None


def status(pid: int, tid: int | None = None) -> dict[str, str]:
    """/proc/PID/status, or that of one thread, as a dictionary; empty where there is none."""
    path = f"/proc/{pid}/status" if tid is None else f"/proc/{pid}/task/{tid}/status"
    lines = (read(path) or b"").decode("utf-8", "replace").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def has_signal(mask: str | None, signum: int) -> bool:
    """Whether a mask of /proc/PID/status (SigCgt, SigBlk, ...) holds the signal."""
    return bool(int(mask or "0", 16) >> (signum - 1) & 1)


def catches(pid: int, signum: int) -> bool:
    """Whether the process has a handler for the signal.  False where nobody can tell (macOS)."""
    return signum > 0 and has_signal(status(pid).get("SigCgt"), signum)


def cmdline(pid: int) -> list[str] | None:
    """The words of the command; None when the process is gone, [] for a zombie."""
    if not LINUX:
        line = _by_ps(pid).get(pid)
        return line.name.split() if line else None
    text = read(f"/proc/{pid}/cmdline")
    if text is None:
        return None
    return [os.fsdecode(word) for word in text.split(b"\0")[:-1]]


def environ_has(pid: int, name: str, value: str | None = None) -> bool:
    """Whether the process was started with this variable (and value).  False where it can't be read."""
    text = read(f"/proc/{pid}/environ") or b""
    wanted = os.fsencode(name) + b"="
    for entry in text.split(b"\0"):
        if entry.startswith(wanted) and value in (None, os.fsdecode(entry[len(wanted) :])):
            return True
    return False


def carrying(name: str, value: str) -> list[int]:
    """All other processes that were started with this variable; empty where nobody can tell (macOS)."""
    if not LINUX:
        return []
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    return [pid for pid in pids if pid != os.getpid() and environ_has(pid, name, value)]


def program(pid: int) -> str:
    """Base name of what the process runs: `bash`, `python3.11`; for busybox that of the applet; else ''."""
    words = cmdline(pid) or []
    first = os.path.basename(words[0]).lstrip("-") if words else ""
    try:
        name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return first
    if name.endswith(" (deleted)"):
        name = name[: -len(" (deleted)")]
    return first if name.startswith("busybox") else name


def is_shell(pid: int) -> bool:
    return program(pid) in SHELLS


def main_child(pid: int) -> int | None:
    """The process that a shell waits for: the one to tell first that it should end.

    Through shells in shells.  None when `pid` is no shell, or a shell without children: then tell `pid`.
    """
    chosen = None
    while is_shell(chosen or pid):
        candidates = [child for child in children(chosen or pid) if alive(child)]
        if not candidates:
            break
        background = {child for child in candidates if _is_background(child, chosen or pid)}
        # Sorts the foreground first, then real work before filters, then in the order of start.
        chosen = min(candidates, key=lambda child: (child in background, program(child) in FILTERS, child))
    return chosen


def to_be_told(pid: int) -> list[int]:
    """Who gets the first SIGTERM when a rank is to end: its main process, if that is a shell its child.

    A shell that has set a trap for it gets it as well: it acts on it once its foreground child has ended.  Where
    it only waits for a child in the background, it alone: its trap tells the child.
    """
    child = main_child(pid)
    if child is None:
        return [pid]
    if not catches(pid, signal.SIGTERM):
        return [child]
    return [pid] if _is_background(child, pid) else [child, pid]


def _is_background(pid: int, shell: int) -> bool:
    """A shell without job control starts `command &` with SIGINT (2) and SIGQUIT (3) ignored (POSIX)."""
    ignored, by_shell = status(pid).get("SigIgn"), status(shell).get("SigIgn")
    return all(has_signal(ignored, signum) and not has_signal(by_shell, signum) for signum in (2, 3))


# --- this process ------------------------------------------------------------------------------------

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_loaded: list[Any] = []


def load() -> Any:
    """Load libc.  Call it before a fork, so that the child need not import ctypes."""
    if not _loaded:
        import ctypes

        _loaded.append(ctypes.CDLL(None, use_errno=True))
    return _loaded[0]


def _prctl(option: int, argument: Any) -> bool:
    return LINUX and load().prctl(option, argument, 0, 0, 0) == 0


def set_name(text: str) -> bool:
    """The name that `ps` and `top` show; the kernel keeps 15 bytes."""
    return _prctl(_PR_SET_NAME, os.fsencode(text)[:15])


def become_subreaper() -> bool:
    """Orphans among the descendants become children of this process, instead of those of init."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signum: int) -> None:
    """Ask for a signal when the parent dies, where there is such a thing; look afterwards whether it lives.

    The signal follows the *thread* that forked: call it in children of a main thread only.
    """
    _prctl(_PR_SET_PDEATHSIG, int(signum))


# --- inside ------------------------------------------------------------------------------------------

_memo: dict[str, Any] = {}


def read(path: str) -> bytes | None:
    """A small file, or None.  /proc answers ESRCH in the middle of a read when the process ends."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _tick() -> float:
    if "tick" not in _memo:
        _memo["tick"] = float(os.sysconf("SC_CLK_TCK"))
    return float(_memo["tick"])


def _has_children_files() -> bool:
    """/proc/PID/task/TID/children needs CONFIG_PROC_CHILDREN."""
    if "children" not in _memo:
        _memo["children"] = os.path.exists("/proc/thread-self/children")
    return bool(_memo["children"])


def _children_by_files(pid: int) -> list[int]:
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    texts = [read(f"/proc/{pid}/task/{task}/children") or b"" for task in tasks]
    return sorted(int(word) for text in texts for word in text.split())


def _descendants_by_files(pid: int) -> list[int]:
    found = _children_by_files(pid)
    for one in found:  # grows while it is walked
        found.extend(_children_by_files(one))
    return found


def _by_ps(pid: int | None = None) -> dict[int, Stat]:
    from hora.agent import ps

    return {one: Stat(*fields) for one, fields in ps.table(pid).items()}
