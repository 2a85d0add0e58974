"""The lead's side of the link: one host, what was ordered of it, and how its clock differs from ours."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

    from hora.agent.channel import Channel
    from hora.agent.frames import Header
    from hora.agent.lead.store import Store


DRIFT = 1e-4  # seconds by which two clocks may come apart in a second


class Clock:
    """How far a host's clock is ahead of the lead's: the reply with the shortest way tells best, as long as it
    is not too old, and no later one shows that a clock was set meanwhile."""

    def __init__(self, same: bool = False) -> None:
        self.same = same  # it is the lead's own
        self.offset = 0.0
        self.error = 0.0 if same else float("inf")
        self._at = 0.0
        self._asked: Dict[int, float] = {}
        self._number = 0

    def ask(self, now: Optional[float] = None) -> Header:
        self._number += 1
        self._asked[self._number] = time.time() if now is None else now
        if len(self._asked) > 16:
            self._asked.pop(min(self._asked))
        return {"t": "ping", "n": self._number}

    def answered(self, number: int, theirs: float, now: Optional[float] = None) -> None:
        asked = self._asked.pop(number, None)
        now = time.time() if now is None else now
        if asked is None or self.same or now < asked:  # ours was set back since it was asked
            return
        error, offset = (now - asked) / 2, theirs - (asked + now) / 2
        before = self.error + DRIFT * abs(now - self._at)
        if error < before or abs(offset - self.offset) > error + before:
            self.error, self.offset, self._at = error, offset, now

    def ours(self, theirs: float) -> float:
        return theirs - self.offset


class HostLink:
    """A host stays the same host through breaks of the link and new incarnations of its agent."""

    def __init__(self, name: str, store: Store, same_clock: bool = False) -> None:
        self.name = name
        self.store = store
        self.members: List[str] = []
        self.channel: Optional[Channel] = None
        self.clock = Clock(same_clock)
        self.home = ""  # which journal it writes
        self.incarnation = 0
        self.serving = 0  # the incarnation that was given the current attempt
        self.agent_pid = 0
        self.keeper_pid = 0
        self.facts: Dict[str, Any] = {}
        self.prepared: Dict[str, Any] = {}
        self.code: Optional[List[Any]] = None  # what it has: number, hash, bytes of the archive
        self.gone = True  # nothing of the current attempt is left there
        self.lost = False
        self.silent_since: Optional[float] = None
        self.word_due: Optional[int] = (
            None  # where in the journal the end of the last agent must have been told
        )
        self._orders: List[Header] = []
        self._number = 0

    def greet(self, channel: Channel, hello: Header) -> None:
        """A new connection of this host's agent: go on where the last one broke."""
        if self.channel is not None and not self.channel.closed:
            self.channel.close("the agent dialled again")
        self.channel = channel
        self.silent_since = None
        self.members = list(hello["members"])
        self.agent_pid = hello["pid"]
        self.keeper_pid = hello["keeper"]
        self.facts = hello["facts"]
        self.code = hello.get("code")
        self._number = max(self._number, hello["got"])  # another lead may have given orders before
        if self.incarnation and hello["incarnation"] > self.incarnation:
            self.word_due = hello["journal"][1]
        if (hello.get("home", ""), hello["incarnation"]) != (self.home, self.incarnation):
            self.home, self.incarnation = hello.get("home", ""), hello["incarnation"]
            self._orders.clear()  # they were for processes that are no more
        channel.send({"t": "welcome", "from": self.store.end(self.name)})
        for order in self._orders:
            if order["order"] > hello["got"]:
                channel.send(order)

    def hope(self, now: float) -> None:
        """A new attempt: a host that was lost may come back for it, or another agent in its place."""
        self.lost = False
        if self.silent_since is not None:
            self.silent_since = now

    @property
    def up(self) -> bool:
        return self.channel is not None and not self.channel.closed

    def order(self, header: Header) -> None:
        """Something that must be done once, whatever happens to the link."""
        self._number += 1
        header = {**header, "order": self._number}
        self._orders.append(header)
        if self.channel is not None and self.up:
            self.channel.send(header)

    def got(self, number: int) -> None:
        self._orders = [order for order in self._orders if order["order"] > number]

    def ask(self, header: Header, body: bytes = b"") -> bool:
        """Something for now only; False when the link is down."""
        if self.channel is None or not self.up:
            return False
        self.channel.send(header, body)
        return True
