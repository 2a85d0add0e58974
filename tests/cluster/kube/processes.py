"""Start the cluster's processes, and find and end them: each carries its name in its environment.

No pid files: a pid may belong to somebody else by the time it is read, and a start that was interrupted leaves none.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster.kube import layout
from cluster.kube.problems import ClusterError, tail

MARK = "HORA_CLUSTER_PART"  # STATE FOLDER:NAME


@dataclass(frozen=True)
class Process:
    part: str
    pid: int
    folder: str  # the state folder of the cluster that it belongs to

    @property
    def is_init(self) -> bool:
        """Whether it is the first process of a node: pid 1 there, something else here."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return False
        inside = [line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")]
        return bool(inside) and len(inside[0]) > 1 and inside[0][-1] == "1"


def environment(part: str) -> dict[str, str]:
    """Nothing from outside: who starts the cluster may be a test that ends whatever carries its own mark."""
    return {"PATH": layout.SYSTEM_PATH, "HOME": "/", MARK: f"{layout.STATE}:{part}"}


def start(part: str, command: Sequence[str | Path], pass_fds: Sequence[int] = ()) -> None:
    """In the background, nobody's child, with its output in the log of its name."""
    log = layout.LOGS / f"{part}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as out:
        subprocess.run(
            ["setsid", "--fork", *map(str, command)],
            env=environment(part),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            pass_fds=pass_fds,
            check=True,
        )


def all_parts() -> list[Process]:
    """Every process of any cluster of ours on this machine, also of other users' folders."""
    found = []
    for entry in os.listdir("/proc"):
        mark = _mark(entry) if entry.isdigit() else ""
        if mark:
            folder, _, part = mark.rpartition(":")
            found.append(Process(part, int(entry), folder))
    return found


def _mark(pid: str) -> str:
    """A zombie has none: it has ended."""
    try:
        while not (content := Path("/proc", pid, "environ").read_bytes()) and _starts(pid):
            time.sleep(0.001)
    except OSError:
        return ""
    needle = f"{MARK}=".encode()
    found = (each for each in content.split(b"\0") if each.startswith(needle))
    return next((each[len(needle) :].decode() for each in found), "")


def _starts(pid: str) -> bool:
    """Whether it is in the middle of an exec: for a moment a new program has memory, but no environment yet."""
    os.readlink(f"/proc/{pid}/exe")  # OSError: no memory, so no program: the kernel's own, or a zombie
    env_start = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[47]  # proc(5): field 50
    return env_start == "0"


def parts(*names: str) -> list[Process]:
    """Those of this cluster, or of these parts of it."""
    mine = [each for each in all_parts() if each.folder == str(layout.STATE)]
    return [each for each in mine if not names or each.part in names]


def strangers() -> list[Process]:
    """Those of a cluster that somebody else has up: two would share the addresses."""
    return [each for each in all_parts() if each.folder != str(layout.STATE)]


def alive(part: str) -> bool:
    return bool(parts(part))


def check_alive(part: str) -> None:
    """For waits: what has ended will never be ready."""
    if not alive(part):
        raise ClusterError(f"{part} has ended; {tail(layout.LOGS / f'{part}.log')}")


def end(*names: str, number: int = signal.SIGKILL, timeout: float = 20.0) -> None:
    """Send a signal and wait until they are gone; again for those that were started meanwhile."""
    until = time.monotonic() + timeout
    while found := parts(*names):
        for process in found:
            with _held(process) as handle:
                if handle is not None:
                    signal.pidfd_send_signal(handle, number)
                    _wait(handle, process, until)


@contextmanager
def _held(process: Process) -> Iterator[int | None]:
    """A handle of the very process that carries the mark, whatever becomes of its pid."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield handle if _mark(str(process.pid)) == f"{process.folder}:{process.part}" else None
    except ProcessLookupError:
        pass  # it ended by itself
    finally:
        os.close(handle)


def _wait(handle: int, process: Process, until: float) -> None:
    """A handle is readable once its process has ended."""
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    if not waiting.poll(max(0.0, until - time.monotonic()) * 1000):
        raise ClusterError(f"{process.part} (pid {process.pid}) does not end")
