"""One attempt: all ranks started together, and how each of them ended."""

from __future__ import annotations

import time

from hora import scene as scenes
from hora import starts, state
from hora.agent.lead import verdict
from hora.symbols import PER_HOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Set

    from hora.agent.frames import Header
    from hora.agent.lead.board import Board
    from hora.agent.lead.hosts import HostLink
    from hora.plan import LaunchPlan
    from hora.scene import Scene
    from hora.starts import Start


class Attempt:
    def __init__(self, number: int, plan: LaunchPlan, run: str, board: Board) -> None:
        self.number = number
        self.plan = plan
        self.run = run
        self.board = board
        self.exits: Dict[str, verdict.Exit] = {}
        self.began: Dict[str, float] = {}
        self.expected: Set[str] = set()  # labels of the processes that agents start
        self.failed = False
        self.succeeded = False
        self.stopping = False  # its hosts were ordered to stop what is left of it
        self.followers: Dict[str, List[str]] = {}
        self.began_at: Optional[float] = None

    # --- starting ---

    def prepare(self, link: HostLink) -> Header:
        ports = {}
        for member in link.members:
            role = self.plan.role(member.rpartition("-")[0])
            if role.port_names:
                ports[member] = list(role.port_names)
        link.prepared = {}
        return {"t": "prepare", "attempt": self.number, "ports": ports, "checks": list(self.plan.checks)}

    def scene(self, hosts: List[HostLink]) -> Scene:
        spots: Dict[str, scenes.Spot] = {}
        for link in hosts:
            told = link.prepared
            seated = sum(self._ranks_of(member) for member in link.members)
            threads = max(1, int(told["threads"] // max(1, seated)))
            for member in link.members:
                spots[member] = scenes.Spot(
                    host=link.name,
                    address=told["address"],
                    interface=told["interface"] or "lo",
                    threads=threads,
                    ports=tuple(told["ports"].get(member, {}).items()),
                    folder=told["folder"],
                )
        return scenes.Scene(self.plan, self.run, self.number, spots)

    def _ranks_of(self, member: str) -> int:
        return self.plan.role(member.rpartition("-")[0]).ranks

    def orders(self, scene: Scene) -> Dict[str, Header]:
        """The start order of each host: what it spawns, and what ranks from mpirun are to become."""
        self.board.take_seats(scene)
        hosts: Dict[str, Header] = {}

        def order(host: str) -> Header:
            return hosts.setdefault(host, {"t": "start", "attempt": self.number, "ranks": [], "served": {}})

        served = starts.served(scene)
        for seat, start in starts.starts(scene).items():
            self.expected.add(seat.label)
            host = scene.spots[seat.member].host
            order(host)["ranks"].append(self._order(start))
            self._follow(start, host, scene)
        for seat, start in served.items():
            self.expected.add(seat.label)
            rank = str(self.board.ranks[seat.label].rank)
            order(scene.spots[seat.member].host)["served"][rank] = self._order(start)
        self.began_at = time.time()
        return hosts

    def _follow(self, start: Start, host: str, scene: Scene) -> None:
        """Ranks that only their starter knows (torchrun's, a written mpirun's) begin and end with it."""
        role = self.plan.role(start.seat.role)
        if role.start == PER_HOST:
            mine = [seat for seat in scenes.seats(self.plan) if scene.spots[seat.member].host == host]
        elif start.seat.rank == scenes.LAUNCHER and not role.command:
            mine = scenes.seats(self.plan)
        else:
            return
        self.followers[start.seat.label] = [
            seat.label for seat in mine if seat.role == role.name and seat != start.seat
        ]

    def _order(self, start: Start) -> Dict[str, Any]:
        return {
            "label": start.seat.label,
            "member": start.seat.member,
            "number": start.seat.rank,
            "attempt": self.number,
            "argv": list(start.argv),
            "env": dict(start.env),
            "defaults": dict(start.defaults),
            "files": [list(file) for file in start.files],
        }

    # --- ending ---

    def started(self, label: str, pid: int, at: float) -> None:
        """`at`: not when this was heard, since another lead may have been there then."""
        self.began.setdefault(label, at)
        if self.board.knows(label):
            self.board.change(label, state=state.ALIVE, pid=pid)
        for follower in self.followers.get(label, ()):
            self.board.change(follower, state=state.ALIVE)

    @property
    def all_started(self) -> bool:
        return all(label in self.began or label in self.exits for label in self.expected)

    def ended(self, label: str, how: verdict.Exit) -> None:
        self.exits[label] = how
        for one in [label, *self.followers.get(label, ())]:
            if self.board.knows(one):
                self.board.change(
                    one,
                    state=state.LOST if how.lost else state.EXITED,
                    exit_code=how.exit_code,
                    signal=how.signal,
                    stopped=how.stopped,
                )
        if how.failed and not how.stopped:
            self.failed = not self.succeeded  # what helpers do after the end counts for nothing
        elif not self.failed and self._decided():
            self.succeeded = True

    def _decided(self) -> bool:
        """All processes of the deciding roles have ended well, and by themselves."""
        return all(
            label in self.exits and not (self.exits[label].failed or self.exits[label].stopped)
            for label in self.expected
            if self.board.seat(label).role in self.plan.end.decides
        )

    @property
    def over(self) -> bool:
        return all(label in self.exits for label in self.expected)
