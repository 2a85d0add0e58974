"""Where ranks are: their Python stacks, or what the kernel says, and asking never ends a process.

A real-time signal ends whoever has no handler for it, also a process that had one and is in the act of
exec: handlers go away in the middle of it, pending signals stay.  So the signal is sent only while the main
thread is *stopped* (a thread can't be stopped inside execve), after looking at SigCgt, and to that thread
alone (what is pending for a thread dies with it, when another thread execs).  The stop lasts for as long as
it takes to look; whoever can't be stopped, because the kernel holds it, could not answer either.

faulthandler itself crashes when it walks over a thread that is just being made (found under a hammer, once
in some thousand questions; Python 3.11).  So all threads are asked for only of a process in which, from one
look to the next, no thread has run; a busy one tells its main thread.

`Collection.step()` never blocks: call it from the event loop, every 20 ms or so, until it says True.
"""

from __future__ import annotations

import os
import signal
import time

from hora.agent import dumps, proc, pyspy, targets
from hora.agent.hook import SIGNAL
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

FAULTHANDLER, PYSPY, KERNEL = "faulthandler", "py-spy", "kernel"
_LOOK = 0.015  # seconds between two looks at who runs
_MOST_LOOKS = 8
_MOST_TRIES = 20
_QUICK = 0.002  # seconds that one step may wait for a process to stop
_STOP_LIMIT = 0.5  # seconds that a process may stay half stopped
_MOST = 256 * 1024  # bytes of one dump
PAUSED = "waits in pause(), which the question would end"


class Stack(Record):
    """Where one rank is."""

    label: str
    pid: int
    how: str = KERNEL
    frames: tuple[str, ...] = ()  # of the main thread, innermost first: "file:line function"
    threads: tuple[tuple[str, tuple[str, ...]], ...] = ()  # the others, by name
    state: str = ""
    wchan: str = ""
    command: str = ""
    note: str = ""  # why there are no frames

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__, frames=list(self.frames), threads=[[n, list(f)] for n, f in self.threads])

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Stack:
        threads = tuple((name, tuple(frames)) for name, frames in data.get("threads", ()))
        known = {name: data[name] for name in cls._fields if name in data}
        return cls(**dict(known, frames=tuple(data.get("frames", ())), threads=threads))


# --- asking one process ------------------------------------------------------------------------------


class Asked:
    """One question on its way: `read` moves it on."""

    def __init__(self, label: str, pid: int) -> None:
        self.label = label
        self.pid = pid
        self.path = ""  # the file of the dump, through the process's own descriptor
        self.file = -1  # the same, open: it stays readable when the process ends or execs
        self.signum = 0
        self.offset = 0
        self.size = -1  # of the file at the last look
        self.looked: Any = None  # at the threads: which of them run
        self.looks = 1
        self.tries = 0
        self.phase = "done"  # looking, stopping, blocked, dumping, spying, done
        self.since = 0.0
        self.note = ""
        self.spy: pyspy.Spy | None = None


def ask(pid: int, folder: str, signum: int = SIGNAL, label: str = "", seconds: float = 10.0) -> Asked:
    """Begin to find out where a rank is: its own process, or below a shell or mpirun the first Python.

    A forked process and its parent share their file: don't ask both at once (`Collection` doesn't).
    """
    asked = Asked(label, targets.target(pid, folder))
    asked.path = targets.dump_file(asked.pid, folder)
    asked.signum = int(signum)
    asked.note = _refusal(asked)
    if asked.note:
        _spy_if_possible(asked, seconds)
        return asked
    try:
        asked.file = os.open(asked.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        asked.note = f"can't be asked: {error.strerror}"
        return asked
    asked.phase, asked.since, asked.looked = "looking", time.monotonic(), targets.look(asked.pid)
    return asked


def read(asked: Asked) -> Stack | None:
    """The answer, or None while it is on its way."""
    answer = None
    phase = ""
    while answer is None and phase != asked.phase:
        phase = asked.phase
        answer = _PHASES[phase](asked)
    return answer


def _looking(asked: Asked) -> Stack | None:
    if _sleeps_or_is_busy(asked):
        _stop(asked)
    return None


def _stopping(asked: Asked) -> Stack | None:
    if not _signal_while_stopped(asked) and time.monotonic() - asked.since > _STOP_LIMIT:
        give_up(asked, "the kernel holds it: it takes no signal")
    return None


def _dumping(asked: Asked) -> Stack | None:
    if not _dump_is_complete(asked):
        return None
    frames, threads = dumps.parse(_tail(asked))
    give_up(asked, "gave no Python stack")
    return _describe(asked, FAULTHANDLER, frames, threads) if frames or threads else None


def _spying(asked: Asked) -> Stack | None:
    if asked.spy is None or not asked.spy.ended():
        return None
    asked.phase = "done"
    frames, threads = asked.spy.stacks()
    return _describe(asked, PYSPY, frames, threads) if frames else None


def _blocked(asked: Asked) -> Stack | None:
    """Once more, a step later."""
    if time.monotonic() - asked.since >= _QUICK:
        _stop(asked)
    return None


def _done(asked: Asked) -> Stack:
    return _describe(asked, KERNEL, (), ())


def _sleeps_or_is_busy(asked: Asked) -> bool:
    """True once it is known; and who sleeps from one look to the next is asked for all threads."""
    if time.monotonic() - asked.since < _LOOK * asked.looks:
        return False
    before, asked.looked = asked.looked, targets.look(asked.pid)
    asked.looks += 1
    if before is not None and before == asked.looked:
        asked.signum += 1
        return True
    return asked.looks > _MOST_LOOKS


def _stop(asked: Asked) -> None:
    """SIGSTOP; most processes stop at once.  Whom somebody else has stopped meanwhile stays so."""
    if proc.state(asked.pid) in ("T", "t") or _pause(asked):
        give_up(asked, _pause(asked) or "is stopped")
        return
    try:
        asked.offset = _size(asked)
        os.kill(asked.pid, signal.SIGSTOP)
    except OSError as error:
        give_up(asked, f"can't be asked: {error.strerror}")
        return
    asked.phase, asked.since = "stopping", time.monotonic()
    while not _signal_while_stopped(asked) and time.monotonic() - asked.since < _QUICK:
        os.sched_yield()


def give_up(asked: Asked, note: str) -> None:
    """Stop waiting; `read` then answers with what the kernel says."""
    if asked.phase == "stopping":
        _continue(asked)
    if asked.spy is not None:
        asked.spy.end()
    if asked.phase != "done":
        asked.phase, asked.note = "done", note
    _close(asked)


_PHASES = {
    "looking": _looking,
    "stopping": _stopping,
    "blocked": _blocked,
    "dumping": _dumping,
    "spying": _spying,
    "done": _done,
}


def _refusal(asked: Asked) -> str:
    """Why a process must not or can't be asked by signal; '' if it can."""
    status = proc.status(asked.pid)
    if not status:
        return "has ended" if proc.LINUX else "only Linux can tell more"
    if status.get("State", "?")[0] in "TtZX":
        return "is {}".format(status["State"])
    if status.get("TracerPid", "0") != "0":
        return "is held by a debugger, process {}".format(status["TracerPid"])
    if not asked.path or not proc.has_signal(status.get("SigCgt"), asked.signum):
        return "has no handler for stacks"
    return _pause(asked)


def _pause(asked: Asked) -> str:
    """pause() returns after every signal that has a handler, and the program goes on, most often to its end."""
    return PAUSED if (proc.wchan(asked.pid) or "").endswith("sys_pause") else ""


def _signal_while_stopped(asked: Asked) -> bool:
    """True once the process runs again, whether or not the signal went out."""
    status = proc.status(asked.pid, asked.pid)
    if status and status.get("State", "?")[0] not in "TtZX":
        return False
    caught = proc.has_signal(status.get("SigCgt"), asked.signum)
    blocked = proc.has_signal(status.get("SigBlk"), asked.signum)
    # Nothing more is sent while an earlier question still waits: the old one will be answered.
    waiting = proc.has_signal(status.get("SigPnd"), asked.signum)
    sent = caught and not blocked and (waiting or _to_main_thread(asked.pid, asked.signum))
    _continue(asked)
    if sent:
        asked.phase = "dumping"
    elif caught and blocked and asked.tries < _MOST_TRIES:
        asked.phase, asked.since, asked.tries = (
            "blocked",
            time.monotonic(),
            asked.tries + 1,
        )  # glibc blocks all while it makes a thread
    else:
        asked.phase = "done"
        asked.note = "blocks the signal for stacks" if blocked else "has no handler for stacks (any more)"
        _close(asked)
    return True


def _to_main_thread(pid: int, signum: int) -> bool:
    libc = proc.load()
    if hasattr(libc, "tgkill"):  # glibc 2.30, musl
        return bool(libc.tgkill(pid, pid, signum) == 0)
    try:
        os.kill(pid, signum)  # prefers the main thread
    except OSError:
        return False
    return True


def _continue(asked: Asked) -> None:
    try:
        os.kill(asked.pid, signal.SIGCONT)
    except OSError:
        pass  # it has ended


def _dump_is_complete(asked: Asked) -> bool:
    """A dump has no last line.  But while its handler waits or runs, the thread's signal masks say so."""
    status = proc.status(asked.pid, asked.pid)
    masks = [status.get(name) for name in ("SigPnd", "ShdPnd", "SigBlk")]
    if any(proc.has_signal(mask, asked.signum) for mask in masks):
        return False
    # A chained handler isn't blocked while it runs, so wait for two equal looks too.
    before, asked.size = asked.size, _size(asked)
    return not status or asked.size == before


def _size(asked: Asked) -> int:
    return os.fstat(asked.file).st_size


def _tail(asked: Asked) -> str:
    return os.pread(asked.file, _MOST, asked.offset).decode("utf-8", "replace")


def _close(asked: Asked) -> None:
    if asked.file >= 0:
        os.close(asked.file)
        asked.file = -1


def _describe(asked: Asked, how: str, frames: Any, threads: Any) -> Stack:
    line = proc.stat(asked.pid)
    return Stack(
        label=asked.label,
        pid=asked.pid,
        how=how,
        frames=tuple(frames),
        threads=tuple(threads),
        state=line.state if line else "",
        wchan=proc.wchan(asked.pid) or "",
        command=" ".join(proc.cmdline(asked.pid) or [line.name if line else ""]),
        note=asked.note if how == KERNEL else "",
    )


def _spy_if_possible(asked: Asked, seconds: float) -> None:
    if targets.is_python(asked.pid) and proc.state(asked.pid) not in (None, "T", "t", "Z"):
        asked.spy = pyspy.start(asked.pid, seconds)
        asked.phase = "spying" if asked.spy else "done"


# --- asking many -------------------------------------------------------------------------------------


class Collection:
    """The stacks of several ranks at once: nothing happens before the first `step`."""

    def __init__(
        self, pids: Mapping[str, int], folder: str, signum: int = SIGNAL, seconds: float = 10.0
    ) -> None:
        self._until = time.monotonic() + seconds
        self._folder = folder
        self._signum = signum
        self._pids = dict(pids)
        self._later = dict(pids)
        self._open: list[Asked] = []
        self._found: dict[str, Stack] = {}

    def step(self) -> bool:
        """True when every answer is there."""
        left = self._until - time.monotonic()
        self._begin(left)
        for asked in list(self._open):
            if left < 0:
                give_up(asked, "gave no answer in time")
            stack = read(asked)
            if stack is not None:
                self._open.remove(asked)
                self._found[asked.label] = stack
        return len(self._found) == len(self._pids)

    def _begin(self, left: float) -> None:
        """Ask whoever doesn't share a file with somebody who is being asked."""
        busy = {_identity(asked.file) for asked in self._open if asked.file >= 0}
        for label, pid in list(self._later.items()):
            shared = _identity(targets.dump_file(targets.target(pid, self._folder), self._folder))
            if shared is not None and shared in busy and left > 0:
                continue
            del self._later[label]
            self._open.append(ask(pid, self._folder, self._signum, label, max(left, 0.0)))
            busy.add(shared)

    @property
    def stacks(self) -> list[Stack]:
        """What is there so far, in the order of the question."""
        return [self._found[label] for label in self._pids if label in self._found]


def _identity(file: int | str) -> tuple[int, int] | None:
    try:
        found = os.stat(file) if file != "" else None
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found else None
