"""The keeper: the process above an agent that outlives it and ends what it leaves.

As subreaper it inherits every orphan.  When the agent is killed it ends all descendants, completes the
journal from the pipes it holds copies of, and starts a new agent, which tells the lead.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from hora.agent import frames, guard, pipes, proc, process
from hora.agent.journal import Journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Set

SWEEP_PAUSE = 0.02
SWEEP_LIMIT = 5.0  # a process that sleeps in the kernel can't be killed: don't wait for it
MOST_INCARNATIONS = 5


class Kept:
    """One agent under this keeper."""

    def __init__(self, config: Dict[str, Any]) -> None:
        self.config = config
        self.pid = 0
        self.watcher: Optional[guard.Watcher] = None

    def start(
        self, run_agent: Callable[[Dict[str, Any], guard.Ward], int], close: Callable[[], None]
    ) -> None:
        """Fork an agent; `close` runs in it first, to let go of what is the keeper's alone."""
        ours, theirs = guard.pair()

        def child() -> int:
            ours.close()
            close()
            return run_agent(self.config, guard.Ward(theirs))

        self.pid = process.fork_child("hora-agent", child)
        theirs.close()
        self.watcher = guard.Watcher(ours)

    def mend(self, why: str) -> None:
        """After the agent's death: bring the journal to a good end."""
        if self.watcher is None:
            return
        self.watcher.read_all()
        try:
            self._write_end(self.watcher.pipes, why)
        except (OSError, ValueError) as problem:
            print(f"keeper: the journal can't be completed: {problem}", file=sys.stderr, flush=True)
        self.watcher.close()
        self.watcher = None

    def _write_end(self, open_pipes: Dict[str, Any], why: str) -> None:
        journal = Journal(os.path.join(self.config["folder"], "journal"))
        try:
            complete(journal, open_pipes)
            incarnation = self.config.get("incarnation", 1)
            event = {"t": "agentlost", "why": why, "at": time.time(), "incarnation": incarnation}
            journal.append(frames.encode(event))
        finally:
            journal.close()


def complete(journal: Journal, open_pipes: Dict[str, Any]) -> None:
    """Finish the frame that the agent was writing, then take what still waits in the pipes."""
    end = journal.start
    for offset, header, body, length in journal.frames(journal.start):
        del header, offset
        end = body + length
    half = journal.read(end, journal.end - end)
    if half:
        journal.cut(end)
        _write_again(journal, half, open_pipes)
    for header, fd in open_pipes.values():
        os.set_blocking(fd, False)
        _drain(journal, dict(header), fd)


def _write_again(journal: Journal, half: bytes, open_pipes: Dict[str, Any]) -> None:
    """The half frame's header names its pipe; the missing bytes of its body are the next in that pipe."""
    if len(half) < frames.LENGTHS.size:
        return
    header_length, body_length = frames.LENGTHS.unpack_from(half)
    start = frames.LENGTHS.size + header_length
    if len(half) < start or not 0 < body_length <= frames.MAX_BODY:
        return
    try:
        header = frames.parse(half[frames.LENGTHS.size : start])
    except frames.FrameError:  # a power cut's rubbish
        return
    body = half[start:]
    for known, fd in open_pipes.values():
        if all(known.get(key) == header.get(key) for key in ("m", "r", "a")):
            missing = body_length - len(body)
            os.set_blocking(fd, False)
            while missing and pipes.waiting(fd):
                part = os.read(fd, missing)
                body += part
                missing -= len(part)
    if body:
        journal.append(frames.encode(header, body))


def _drain(journal: Journal, header: frames.Header, fd: int) -> None:
    while pipes.waiting(fd):
        header["at"] = round(time.time(), 6)
        journal.append(frames.encode(header, os.read(fd, 1 << 20)))


def sweep(spare: Set[int], reaped: Callable[[int, int], None]) -> None:
    """Kill all descendants but `spare` and theirs, until there is none, or none that can be killed.

    Blocks: nothing else matters now.
    """
    end = time.monotonic() + SWEEP_LIMIT
    while True:
        reap(reaped)
        left = _descendants_without(spare)
        if not left:
            return
        if time.monotonic() > end:
            print(f"keeper: {process.unkillable(left)}", file=sys.stderr, flush=True)
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        time.sleep(SWEEP_PAUSE)  # nothing tells when an orphan's orphan has come; look again


def sweep_run(run: str) -> None:
    """Kill what the ranks of a run left behind when agent and keeper, which would know them, are gone.

    Ranks hand HORA_RUN down to their children; Hora's own processes don't carry that of their own run.
    """
    end = time.monotonic() + SWEEP_LIMIT
    left = proc.carrying("HORA_RUN", run)
    while left and time.monotonic() < end:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        time.sleep(SWEEP_PAUSE)
        left = proc.carrying("HORA_RUN", run)


def _descendants_without(spare: Set[int]) -> List[int]:
    spared = set(spare)
    for pid in spare:
        spared.update(proc.descendants(pid))
    return [pid for pid in proc.descendants(os.getpid()) if pid not in spared]


def reap(reaped: Callable[[int, int], None]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        reaped(pid, status)
