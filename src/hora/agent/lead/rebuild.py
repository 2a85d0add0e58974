"""A lead that was started anew, since the first one died, finds agents whose ranks go on.

Each such agent recalls what it has told in this attempt; once all hosts are here, the attempt is put
together from that and goes on.  Output needs none of this: the journals continue where the copies end.
"""

from __future__ import annotations

import os

from hora import state
from hora.agent.lead import documents, sentences, verdict
from hora.agent.lead.attempt import Attempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Set, Tuple

    from hora.agent.frames import Header
    from hora.agent.lead.hosts import HostLink


class Rebuild:
    def __init__(self, lead: Any) -> None:
        self.lead = lead
        self.going_on = False
        self.took_up = False  # an attempt that another lead had begun
        known = documents.read_json(os.path.join(lead.folder, documents.STATUS))
        self._before = None if known is None else state.RunStatus.from_json(known)
        self._found: Set[str] = set()
        self._told: Dict[str, Header] = {}
        self._later: List[Tuple[HostLink, Header, bytes]] = []

    def found(self, link: HostLink, attempt: int) -> None:
        """A host that this lead has never seen is at work."""
        lead = self.lead
        if lead.phase == state.GATHERING:
            self.going_on = True
            lead.found_at_work()
        if not self.going_on:
            return
        if attempt > lead.attempt.number:
            lead.attempt = Attempt(attempt, lead.plan, lead.run_info["id"], lead.board)
        self._found.add(link.name)
        link.gone = False

    def host_came(self, link: HostLink) -> None:
        if link.name in self._found and link.name not in self._told:
            # Should the link break before the answer, the host comes again and is asked again.
            self.lead.requests.of_host(link, {"t": "recall"}, self._recalled, lambda link, why: None)
        self._go_on()

    def keeps(self, link: HostLink, header: Header, body: bytes) -> bool:
        """Events that come before all is known wait until it is, or until somebody ends the run."""
        if self.going_on and self.lead.phase != state.STARTING:
            self.going_on = False
        if self.going_on:
            self._later.append((link, header, body))
        return self.going_on

    def _recalled(self, link: HostLink, reply: Header) -> None:
        self._told[link.name] = reply
        self._go_on()

    def _go_on(self) -> None:
        lead = self.lead
        if not self.going_on or lead.board.unhosted() or self._found - set(self._told):
            return
        self.going_on = False
        now = {name: told for name, told in self._told.items() if told["attempt"] == lead.attempt.number}
        if not any(told["started"] for told in now.values()):
            lead.next_attempt()
            return
        strangers = sorted(set(lead.hosts) - set(now))
        if strangers:
            lead.fail(sentences.lost_while_away(strangers), state.ORIGIN_HORA, verdict.EXIT_HORA)
            return
        self._take_up(now)

    def _take_up(self, now: Dict[str, Header]) -> None:
        lead = self.lead
        self.took_up = True
        for name, told in now.items():
            lead.hosts[name].prepared = next(e for e in told["events"] if e["t"] == "prepared")
        lead.take_up(
            {name for name, told in now.items() if told["started"]},
            None if self._before is None else self._before.started_at,
        )
        attempt = lead.attempt
        attempt.stopping = True  # as the first lead may have ordered
        for name, told in now.items():
            for event in told["events"]:
                if event["t"] != "prepared":
                    lead.event(lead.hosts[name], event, b"")
        for link, header, body in self._later:
            lead.event(link, header, body)
        if lead.phase in (state.STARTING, state.RUNNING):
            attempt.stopping = False  # this lead has not
        if lead.syncing.stale and not lead.attempt.failed:
            lead.syncing.begin()
            return
        stopped = [label for label, how in lead.attempt.exits.items() if how.stopped]
        if stopped and not lead.attempt.failed:
            lead.fail(sentences.STOPPED_BEFORE, state.ORIGIN_HORA, verdict.EXIT_HORA)
