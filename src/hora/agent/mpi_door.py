"""The door of this host: ranks that mpirun started come in, get their output pipe and become what they are.

Their parent is mpirun (or its daemon), so nobody reaps them for us: a descriptor of the process tells of
their end, and on newer kernels how they ended.
"""

from __future__ import annotations

import os
import time

from hora.agent import proc, process, rank_door, tools
from hora.agent.accepting import Accepting
from hora.agent.loop import READ, WRITE
from hora.agent.ranks import Rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional

    from hora.agent.frames import Header
    from hora.agent.loop import Loop
    from hora.agent.ranks import Ranks

REAP_PAUSE = 0.02
LOOK_PAUSE = 0.2


class MpiDoor:
    """Open only while an attempt has ranks that a launcher starts."""

    def __init__(
        self,
        loop: Loop,
        ranks: Ranks,
        folder: str,
        environment: Callable[[Dict[str, Any]], Dict[str, str]],
        cwd: Callable[[], str],
    ) -> None:
        self.path = os.path.join(folder, "door")
        self._folder = folder
        self._loop = loop
        self._ranks = ranks
        self._environment = environment
        self._cwd = cwd
        self._door: Optional[rank_door.RankDoor] = None
        self._served: Dict[str, Dict[str, Any]] = {}
        self._tools = ""

    def environment(self, env: Dict[str, str]) -> Dict[str, str]:
        """What every process needs so that mpirun and its ranks find us."""
        if self._door is None:
            return {}
        return {
            "HORA_AGENT_SOCKET": self.path,
            "PATH": self._tools + os.pathsep + env.get("PATH", os.defpath),
        }

    def expect(self, order: Header) -> None:
        """A new attempt: whom to let in, if anybody."""
        self._served = order.get("served", {})
        needed = bool(self._served) or any(rank["number"] < 0 for rank in order["ranks"])
        if needed and self._door is None:
            self._tools = tools.write(os.path.join(self._folder, "tools"))
            self._door = rank_door.RankDoor(self.path)
            Accepting(self._loop, self._door, self._accept, "agent")

    def close(self) -> None:
        if self._door is not None:
            self._loop.unwatch(self._door)
            self._door.close()
            self._door = None

    # --- one caller ---

    def _accept(self) -> None:
        door = self._door
        while door is not None:
            caller = door.accept()
            if caller is None:
                return
            self._loop.watch(caller, READ, lambda _events, caller=caller: self._read(caller))  # type: ignore[misc]

    def _read(self, caller: rank_door.Caller) -> None:
        if self._door is None:
            return
        number = caller.fileno()
        try:
            hello = self._door.read(caller)
        except rank_door.DoorError:
            self._loop.unwatch(number)  # closed already: only the number is left
            return
        if hello is None:
            return
        self._loop.unwatch(caller)
        order = self._served.get(str(hello["rank"]))
        if order is None or hello.get("attempt") not in (None, order["attempt"]):
            why = f"rank {hello['rank']} is not expected on this host, came twice, or belongs to an earlier attempt"
            self._answer(caller, {"error": why}, -1)
            return
        del self._served[str(hello["rank"])]
        self._let_in(caller, order, hello["pid"])

    def _let_in(self, caller: rank_door.Caller, order: Dict[str, Any], pid: int) -> None:
        rank = Rank(order["label"], order["member"], order["number"], order["attempt"])
        rank.env, rank.cwd = self._environment(order), self._cwd()
        try:
            process.find(order["argv"][0], rank.env, rank.cwd)
        except process.CannotStart as problem:
            self._ranks.refuse(rank, str(problem), problem.code)
            self._answer(caller, {"error": str(problem), "code": problem.code}, -1)
            return
        pidfd = rank_door.watch(caller)
        writer = self._ranks.open_output(rank)
        self._ranks.adopt(rank, pid)
        if pidfd is not None:
            self._loop.watch(pidfd, READ, lambda _events: self._ended(rank, pidfd))
        else:
            self._look(rank, proc.start_time(pid))
        self._answer(caller, {"argv": order["argv"], "env": rank.env, "cwd": rank.cwd}, writer)
        os.close(writer)

    def _answer(self, caller: rank_door.Caller, message: Dict[str, Any], fd: int) -> None:
        if self._door is None:
            return
        try:
            if not self._door.answer(caller, message, fd):
                self._loop.watch(caller, WRITE, lambda _events: self._flush(caller))
        except rank_door.DoorError:
            pass  # it died meanwhile; its end is told by its descriptor, or by mpirun's

    def _flush(self, caller: rank_door.Caller) -> None:
        number = caller.fileno()
        try:
            if self._door is None or self._door.flush(caller):
                self._loop.unwatch(number)
        except rank_door.DoorError:
            self._loop.unwatch(number)

    # --- its end ---

    def _look(self, rank: Rank, started: Optional[float]) -> None:
        """Where the kernel has no descriptor of a process, nothing tells of its end but looking."""
        if rank.alive and proc.alive(rank.pid) and proc.start_time(rank.pid) == started:
            self._loop.after(LOOK_PAUSE, lambda: self._look(rank, started))
            return
        rank.ended_at = rank.ended_at or time.time()
        status = rank_door.ended_as_zombie(rank.pid)
        self._ranks.ended(rank, *(process.exit_of(status) if status is not None else (None, None)))

    def _ended(self, rank: Rank, pidfd: int) -> None:
        rank.ended_at = rank.ended_at or time.time()
        status = rank_door.ended(pidfd)
        if status is None:
            status = rank_door.ended_as_zombie(rank.pid)
        if status is None and not rank_door.reaped(pidfd):
            self._loop.unwatch(pidfd)  # a zombie until mpirun looks; readable all the while
            self._loop.after(REAP_PAUSE, lambda: self._ended(rank, pidfd))
            return
        self._loop.unwatch(pidfd)
        os.close(pidfd)
        code, number = process.exit_of(status) if status is not None else (None, None)
        self._ranks.ended(rank, code, number)
