"""From hosts that are all here to ranks that start: do they agree, can they reach one another, the set-up."""

from __future__ import annotations

import time

from hora import plan as plans
from hora import state
from hora.agent.lead import sentences
from hora.agent.lead.gathering import differences, ring
from hora.agent.lead.verdict import EXIT_HORA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

    from hora.agent.frames import Header
    from hora.agent.lead.attempt import Attempt
    from hora.agent.lead.hosts import HostLink


class Preparing:
    def __init__(self, lead: Any) -> None:
        self.lead = lead
        self._asked = 0  # how often a host was asked to prepare
        self._codes: Dict[str, Optional[int]] = {}  # of the set-up, by host; None while it goes on

    # --- do they agree ---

    def begin(self) -> None:
        lead = self.lead
        lead.set_phase(state.CHECKING, "checking that the hosts agree")
        lead.limits.of_phase("start")
        self._codes = {}
        for link in lead.hosts.values():
            link.hope(lead.loop.now())
            self.prepare(link)

    def prepare(self, link: HostLink) -> None:
        lead = self.lead
        self._asked += 1
        if self.setting_up:
            self._codes[link.name] = None
        link.gone = False
        link.serving = link.incarnation
        order = {**lead.attempt.prepare(link), "alone": len(lead.hosts) == 1}
        if lead.code.order is not None:
            order["code"] = lead.code.order
        link.order(order)

    def prepared(self, link: HostLink, header: Header) -> None:
        lead = self.lead
        if header.get("problem"):
            lead.fail(f"{link.name}: {header['problem']}", state.ORIGIN_HORA, EXIT_HORA)
            return
        link.prepared = header
        lead.code.arrived_at(link, header.get("code", ""))
        self._show(link, "ready")
        if self.setting_up:  # it came in the place of one that was lost meanwhile
            self._set_up([link])
            return
        if lead.phase != state.CHECKING or not all(host.prepared for host in lead.hosts.values()):
            return
        problem = differences(lead.plan, list(lead.hosts.values()), lead.code.hash)
        attempt = lead.attempt
        if problem:
            lead.fail(problem, state.ORIGIN_HORA, EXIT_HORA)
        elif len(lead.hosts) > 1:
            asked = self._asked
            ring(lead, lambda: self._agreed(attempt), lambda: self._asked != asked)
        else:
            self._agreed(attempt)

    def _agreed(self, attempt: Attempt) -> None:
        lead = self.lead
        if lead.phase != state.CHECKING or lead.attempt is not attempt or lead.syncing.take_over():
            return
        if lead.plan.setup:
            self._set_up(list(lead.hosts.values()))
        else:
            self._start()

    # --- the set-up: once a host, and again after new code ---

    @property
    def setting_up(self) -> bool:
        return self.lead.phase == state.STARTING and bool(self._codes)

    def _set_up(self, links: List[HostLink]) -> None:
        lead = self.lead
        doing = f"setting up: {lead.plan.setup[-1]}"
        for link in links:
            self._codes[link.name] = 0 if link.prepared["setup"] else None
            if not link.prepared["setup"]:
                self._show(link, "setup", doing)
                link.order(self._set_up_order(link))
        if not self._all_set_up() and lead.phase != state.STARTING:
            lead.set_phase(state.STARTING, doing)

    def _all_set_up(self) -> bool:
        """Begins the ranks when it is so."""
        whole = all(self._codes.get(name) == 0 for name in self.lead.hosts)
        if whole:
            self._codes = {}
            self._start()
        return whole

    def _set_up_order(self, link: HostLink) -> Header:
        """With the variables and secrets that the user gave the first role on that host: an index, a proxy, a token."""
        lead = self.lead
        role = lead.plan.role(link.members[0].rpartition("-")[0])
        env = {name: value for name, value in role.user_env if isinstance(value, str)}
        env["HORA_RUN"] = lead.run_info["id"]
        order = {"t": "setup", "attempt": lead.attempt.number, "argv": list(lead.plan.setup)}
        return {**order, "role": role.name, "env": env}

    def no_set_up(self, link: HostLink, header: Header) -> None:
        """It couldn't be started."""
        self.lead.fail(f"setup on {link.name}: {header['why']}", state.ORIGIN_JOB, header["code"])

    def set_up_ended(self, link: HostLink, header: Header) -> None:
        if not self.setting_up or header["stopped"]:
            return  # on a host that is about to go
        code = header["code"] if header["code"] is not None else 128 + header["signal"]
        self._codes[link.name] = code
        if code:
            last = self.lead.store.last_lines("setup/0", 5)
            self.lead.fail(sentences.setup_failed(link.name, code, last), state.ORIGIN_JOB, code)
            return
        self._show(link, "ready")
        self._all_set_up()

    def _show(self, link: HostLink, phase: str, note: str = "") -> None:
        for member in link.members:
            self.lead.board.phase(member, phase, note)
        self.lead.telling.changed()

    # --- the start ---

    def _start(self) -> None:
        lead = self.lead
        lead.code.running = lead.code.hash
        lead.set_phase(state.STARTING, "starting the ranks")
        try:
            orders = lead.attempt.orders(lead.attempt.scene(list(lead.hosts.values())))
        except plans.PlanError as problem:
            lead.fail(str(problem), state.ORIGIN_HORA, EXIT_HORA)
            return
        for name, order in orders.items():
            lead.hosts[name].order(order)
        if lead.started_at is None:
            lead.started_at = time.time()
