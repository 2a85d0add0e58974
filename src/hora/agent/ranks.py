"""The ranks of one host: start, watch, stop.  Every end is told by an event in the journal."""

from __future__ import annotations

import os
import signal
import time

from hora.agent import cgroup, frames, pipes, proc, process
from hora.agent.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Set, Tuple

    from hora.agent.guard import Ward
    from hora.agent.journal import Journal
    from hora.agent.loop import Loop, Timer

LEFTOVER_GRACE = 2.0  # for what ended ranks leave behind
GROUP_PAUSE = 2.0  # between SIGTERM to the group and SIGKILL
SWEEP_PAUSE = 0.02
KILL_LIMIT = 5.0  # for a process to go after SIGKILL: one of another user, or asleep in the kernel, does not
RESULT_PIECE = 4 << 20  # bytes of a result in one frame


class Rank:
    """One process started by this agent, with the output pipe it began with."""

    def __init__(self, label: str, member: str, number: int, attempt: int) -> None:
        self.label = label
        self.member = member
        self.number = number
        self.attempt = attempt
        self.pid = 0
        self.output: Optional[Output] = None
        self.alive = False
        self.stopped = False
        self.ended_at = 0.0  # set before the rest is known where somebody else reaps it
        self.env: Dict[str, str] = {}  # what it was given: exec and shell get the same
        self.cwd = ""

    @property
    def key(self) -> str:
        return f"{self.attempt}/{self.label}"


class Ranks:
    """All ranks of the current attempt.  `on_over` is called once nothing of it is left."""

    def __init__(
        self,
        loop: Loop,
        journal: Journal,
        ward: Optional[Ward],
        tell: Callable[..., None],
        kick: Callable[[], None],
    ) -> None:
        self.by_label: Dict[str, Rank] = {}
        self.on_over: Callable[[], None] = lambda: None
        self.on_problem: Callable[[OSError], None] = lambda problem: None  # with the journal
        self._by_pid: Dict[int, Rank] = {}
        self._loop = loop
        self._journal = journal
        self._ward = ward
        self._tell = tell
        self._kick = kick
        self._oom = cgroup.oom_kills() or 0
        self._ladder: List[Timer] = []
        self._sweeping: Optional[Timer] = None
        self._sweep_until = 0.0
        self._given_up: Set[int] = set()  # processes that SIGKILL doesn't end
        self._over = True
        self.spared: Callable[[], List[int]] = list  # pids of shells and execs that outlive an attempt

    # --- starting ---

    def start(self, order: Dict[str, Any], env: Dict[str, str], cwd: str) -> None:
        rank = Rank(order["label"], order["member"], order["number"], order["attempt"])
        rank.env, rank.cwd = env, cwd
        self.by_label[rank.label] = rank
        self._over = False
        try:
            path = process.find(order["argv"][0], env, cwd)
        except process.CannotStart as problem:
            self.refuse(rank, str(problem), problem.code)
            return
        writer = self.open_output(rank)
        try:
            rank.pid = process.spawn(path, order["argv"], env, cwd, writer)
        except OSError as problem:
            self._close_output(rank)
            why = f"no process could be made: {problem.strerror} (limits: ulimit -u, pids of the container)"
            self.refuse(rank, why, process.NOT_EXECUTABLE)
            return
        finally:
            os.close(writer)
        rank.alive = True
        self._by_pid[rank.pid] = rank
        self._tell("started", label=rank.label, attempt=rank.attempt, pid=rank.pid, at=time.time())

    def open_output(self, rank: Rank) -> int:
        """A pipe whose read end is watched by us and known to the keeper; returns the write end."""
        reader, writer = pipes.make_pipe()
        header: frames.Header = {"t": "o", "m": rank.member, "r": rank.number, "a": rank.attempt, "at": 0}
        if self._ward is not None:
            self._ward.opened(rank.key, header, reader)
        rank.output = Output(
            self._loop,
            self._journal,
            header,
            reader,
            self._kick,
            lambda: self._output_ended(rank),
            lambda problem: self.on_problem(problem),
        )
        return writer

    def deafen(self) -> None:
        """Keep nothing more of what the ranks print."""
        for rank in self.by_label.values():
            if rank.output is not None:
                rank.output.deaf = True

    def _close_output(self, rank: Rank) -> None:
        if rank.output is not None:
            rank.output.close()

    def _output_ended(self, rank: Rank) -> None:
        if self._ward is not None:
            self._ward.closed(rank.key)

    def adopt(self, rank: Rank, pid: int) -> None:
        """A rank that mpirun started and that came to our door."""
        rank.pid = pid
        rank.alive = True
        self.by_label[rank.label] = rank
        self._by_pid[pid] = rank
        self._over = False
        self._tell("started", label=rank.label, attempt=rank.attempt, pid=pid, at=time.time())

    def refuse(self, rank: Rank, why: str, code: int) -> None:
        self.by_label[rank.label] = rank
        self._over = False
        self._tell("nostart", label=rank.label, attempt=rank.attempt, why=why, code=code)

    # --- ending ---

    def reaped(self, pid: int, status: int) -> bool:
        """The reaper saw `pid` end.  False: not one of ours (an orphan of one of ours)."""
        rank = self._by_pid.pop(pid, None)
        if rank is None:
            return False
        self.ended(rank, *process.exit_of(status))
        return True

    def ended(self, rank: Rank, code: Optional[int], number: Optional[int]) -> None:
        """Told once: an orphan of mpirun is seen by its descriptor and by the reaper."""
        self._by_pid.pop(rank.pid, None)
        if not rank.alive:
            return
        rank.alive = False
        total = 0
        if rank.output is not None:
            rank.output.drain()
            total = rank.output.total
        self._send_result(rank)
        oom = (number == signal.SIGKILL or code == 128 + signal.SIGKILL) and self._oom_since()
        self._tell(
            "exit",
            label=rank.label,
            attempt=rank.attempt,
            code=code,
            signal=number,
            at=rank.ended_at or time.time(),
            stopped=rank.stopped,
            oom=oom,
            memory=cgroup.memory_limit() if oom else None,
            bytes=total,
        )
        if self._ladder and not self.alive:
            self.finish(LEFTOVER_GRACE)

    def _send_result(self, rank: Rank) -> None:
        """What the rank left in $HORA_RESULT goes to the lead, before the word that it ended."""
        path = rank.env.get("HORA_RESULT", "")
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # most ranks leave none
        with os.fdopen(fd, "rb") as file:
            os.unlink(path)
            size = os.fstat(file.fileno()).st_size
            for at in range(0, max(size, 1), RESULT_PIECE):
                header = {"t": "result", "label": rank.label, "attempt": rank.attempt, "at": at}
                header["last"] = at + RESULT_PIECE >= size
                try:
                    self._journal.append(frames.encode(header, file.read(RESULT_PIECE)))
                except OSError as problem:
                    self.on_problem(problem)
                    return

    def _oom_since(self) -> bool:
        """Whether the kernel has killed for lack of memory: the rank itself, or a child whose end ended it."""
        now = cgroup.oom_kills() or 0
        risen, self._oom = now > self._oom, now
        return risen

    @property
    def alive(self) -> List[Rank]:
        return [rank for rank in self.by_label.values() if rank.alive]

    def stop(self, grace: float) -> None:
        """The ladder: the main process, then its group, then everything, then the leftovers.

        Asked again, it can become shorter, never longer.
        """
        for rank in self.alive:
            rank.stopped = rank.stopped or not rank.ended_at
            for pid in proc.to_be_told(rank.pid):
                process.signal_one(pid or rank.pid, signal.SIGTERM)
        if not self.alive:
            self.finish(0)
            return
        kill_after = grace + min(GROUP_PAUSE, grace)
        if self._ladder and self._ladder[-1].when <= self._loop.now() + kill_after:
            return
        self._cancel_ladder()
        self._ladder = [
            self._loop.after(grace, self._terminate_groups),
            self._loop.after(kill_after, self.kill),
        ]

    def _cancel_ladder(self) -> None:
        for timer in self._ladder:
            timer.cancel()
        self._ladder = []

    def _terminate_groups(self) -> None:
        for rank in self.alive:
            process.signal_group(rank.pid, signal.SIGTERM)

    def kill(self) -> None:
        for rank in self.alive:
            rank.stopped = rank.stopped or not rank.ended_at
            process.signal_group(rank.pid, signal.SIGKILL)
        self.finish(0)

    def finish(self, grace: float) -> None:
        """All ranks have ended or must: end what they left behind, then say that nothing is left."""
        self._cancel_ladder()
        if self._over:
            self.on_over()
            return
        if self._sweeping is not None:
            self._sweep_until = min(self._sweep_until, self._loop.now() + grace)
            return
        self._sweep_until = self._loop.now() + grace
        for pid in self._leftovers():
            process.signal_one(pid, signal.SIGTERM if grace else signal.SIGKILL)
        self._sweep()

    def _leftovers(self) -> List[int]:
        spared = set(self.spared())
        for pid in list(spared):
            spared.update(proc.descendants(pid))
        found = proc.descendants(os.getpid())
        self._given_up.intersection_update(found)
        return [pid for pid in found if pid not in spared and pid not in self._given_up]

    def _sweep(self) -> None:
        """A descendant can fork while we look, so look until there is none, or none that can be ended."""
        self._sweeping = None
        left = self._leftovers()
        if left and self._loop.now() < self._sweep_until + KILL_LIMIT:
            if self._loop.now() >= self._sweep_until:
                for pid in left:
                    process.signal_one(pid, signal.SIGKILL)
            self._sweeping = self._loop.after(SWEEP_PAUSE, self._sweep)
            return
        if left:
            self._give_up(left)
        for rank in self.by_label.values():
            if rank.output is not None and not rank.output.ended:
                rank.output.drain()
                rank.output.close()
        self._over = True
        self.on_over()

    def _give_up(self, left: List[int]) -> None:
        self._given_up.update(left)
        self._tell("note", why=process.unkillable(left))
        for rank in self.alive:
            if rank.pid in left:
                rank.stopped = True
                self.ended(rank, None, signal.SIGKILL)

    def clear(self) -> None:
        self.by_label.clear()
        self._by_pid.clear()

    # --- looking ---

    def samples(self) -> List[Tuple[str, float, float]]:
        """(label, CPU seconds of its tree, when it last wrote) of every living rank."""
        return [
            (rank.label, round(proc.tree_cpu(rank.pid), 2), rank.output.last if rank.output else 0.0)
            for rank in self.alive
        ]
