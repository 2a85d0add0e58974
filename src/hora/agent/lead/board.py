"""The board: what is known of every member and rank, and the status document made from it."""

from __future__ import annotations

from hora import state
from hora.record import replace
from hora.scene import LAUNCHER, Seat, number, seats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Optional, Tuple

    from hora.plan import LaunchPlan
    from hora.scene import Scene


class Board:
    """Mutable on purpose, and the only thing in the lead that is asked for the state of a rank."""

    def __init__(self, plan: LaunchPlan) -> None:
        self.plan = plan
        self._seats: Dict[str, Seat] = {seat.label: seat for seat in seats(plan)}
        self._by_member: Dict[str, List[str]] = {}
        for label, seat in self._seats.items():
            self._by_member.setdefault(seat.member, []).append(label)
        self.ranks: Dict[str, state.RankState] = {}
        self._hosts: Dict[str, Optional[str]] = dict.fromkeys(self._by_member)
        self._phases: Dict[str, str] = dict.fromkeys(self._by_member, "waiting")
        self._notes: Dict[str, str] = {}
        for role in plan.roles:
            mine = [label for label, seat in self._seats.items() if seat.role == role.name]
            for position, label in enumerate(mine):
                self.ranks[label] = state.RankState(
                    rank=position, local_rank=0, number=self._seats[label].rank
                )

    @property
    def members(self) -> List[str]:
        return list(self._by_member)

    def seat(self, label: str) -> Seat:
        """Also of a launcher, which is no rank."""
        if label in self._seats:
            return self._seats[label]
        role, _, index = label.rpartition("/")[0].rpartition("-")
        return Seat(role, int(index), LAUNCHER)

    def knows(self, label: str) -> bool:
        return label in self._seats

    def rank_of(self, label: str) -> Optional[int]:
        """The global number; None for a launcher."""
        return self.ranks[label].rank if label in self.ranks else None

    def labels_of(self, member: str) -> List[str]:
        return self._by_member.get(member, [])

    def host_of(self, member: str) -> Optional[str]:
        return self._hosts.get(member)

    def by_number(self, rank: int) -> Optional[str]:
        """The label of a global rank."""
        for label, known in self.ranks.items():
            if known.rank == rank and self.plan.role(self._seats[label].role).in_world:
                return label
        return None

    def host(self, member: str, host: str) -> None:
        self._hosts[member] = host
        if self._phases[member] in ("waiting", "lost"):
            self.phase(member, "ready")

    def phase(self, member: str, phase: str, note: str = "") -> None:
        self._phases[member] = phase
        self._notes[member] = note

    def note(self, member: str, text: str) -> None:
        self._notes[member] = text

    def unhosted(self) -> List[str]:
        return [member for member, host in self._hosts.items() if host is None]

    def lost(self, host: str) -> List[str]:
        """Everything on a host that is gone: labels of the ranks nobody saw end."""
        labels = []
        for member, where in self._hosts.items():
            if where == host:
                if any(self.ranks[label].state != state.EXITED for label in self._by_member[member]):
                    self.phase(member, "lost")
                labels += [
                    label for label in self._by_member[member] if self.ranks[label].state == state.ALIVE
                ]
        for label in labels:
            self.change(label, state=state.LOST)
        return labels

    def take_seats(self, scene: Scene) -> None:
        """A new attempt: numbers anew, nothing has started."""
        for seat, numbers in number(scene).items():
            self.ranks[seat.label] = state.RankState(
                rank=numbers.rank, local_rank=numbers.local, number=seat.rank
            )
        for member in self._by_member:
            self.phase(member, "ready")

    def change(self, label: str, **changes: object) -> None:
        self.ranks[label] = replace(self.ranks[label], **changes)
        member = self._seats[label].member
        states = {self.ranks[other].state for other in self._by_member[member]}
        if self._phases[member] != "lost":
            if state.ALIVE in states:
                self.phase(member, "running")
            elif states <= {state.EXITED, state.LOST}:
                self.phase(member, "ended")

    def states(self, roles: Tuple[str, ...] = ()) -> Iterator[Tuple[str, state.RankState]]:
        for label, rank in self.ranks.items():
            if not roles or self._seats[label].role in roles:
                yield label, rank

    def document(self) -> Tuple[state.MemberState, ...]:
        return tuple(
            state.MemberState(
                member,
                self._hosts[member],
                self._phases[member],
                tuple(self.ranks[label] for label in labels),
                self._notes.get(member, ""),
            )
            for member, labels in self._by_member.items()
        )
