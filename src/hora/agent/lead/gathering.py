"""Before the start: do the hosts agree, and do they reach one another?"""

from __future__ import annotations

from hora import state
from hora.agent.lead.sentences import few
from hora.agent.lead.verdict import EXIT_HORA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

    from hora.agent.lead.hosts import HostLink
    from hora.plan import LaunchPlan

RING_LIMIT = 20.0  # for an answer; an agent dials for half as long


def differences(plan: LaunchPlan, links: List[HostLink], code: str = "") -> str:
    """One sentence if what must be equal on all hosts is not; empty when all is well."""
    others = [link for link in links if link.prepared.get("code", "") != code]
    if others:
        found = others[0].prepared.get("code") or "none"
        return (
            f"the hosts differ in code: {few([link.name for link in others])} came with {found}, not {code}"
        )
    for name in plan.checks:
        by_value: Dict[str, List[str]] = {}
        for link in links:
            value = link.prepared.get("facts", {}).get(name)
            by_value.setdefault("nothing" if value is None else str(value), []).append(link.name)
        if len(by_value) > 1:
            found = "; ".join(f"{value} on {few(hosts)}" for value, hosts in by_value.items())
            return f"the hosts differ in {name}: {found}. Make them equal, since the ranks talk to each other"
    return ""


def ring(lead: Any, done: Callable[[], None], stale: Callable[[], bool] = lambda: False) -> None:
    """Each host opens a port for a moment and the host before it dials: a real connection round the ring.

    A link to the lead that breaks meanwhile says nothing of the ring: that host is asked again.
    `stale`: another check has begun, and nothing counts any more that this one hears.
    """
    links: List[HostLink] = list(lead.hosts.values())
    waiting = {link.name for link in links}
    ports: Dict[str, List[Any]] = {}

    def ask(link: HostLink, what: Dict[str, Any], reply: Callable[[HostLink, Dict[str, Any]], None]) -> None:
        def current(link: HostLink, answer: Dict[str, Any]) -> None:
            if not stale():
                reply(link, answer)

        lead.requests.insist(link, {"t": "ring", **what}, current, silent, RING_LIMIT)

    def listening(link: HostLink, reply: Dict[str, Any]) -> None:
        ports[link.name] = [link.prepared["address"], reply["port"]]
        if len(ports) == len(links):
            for before in links:
                ask(before, {"dial": ports[after(before).name]}, dialled)

    def after(link: HostLink) -> HostLink:
        return links[(links.index(link) + 1) % len(links)]

    def dialled(link: HostLink, reply: Dict[str, Any]) -> None:
        if reply.get("problem"):
            failed(link, reply["problem"])
            return
        waiting.discard(link.name)
        if not waiting:
            for other in links:  # one that doesn't hear it closes its port with the next check
                other.ask({"t": "ring", "id": 0, "close": True})
            done()

    def failed(link: HostLink, problem: str) -> None:
        target = after(link).name
        lead.fail(
            f"{link.name} can't reach {target} at {ports[target][0]}: {problem}. Peers must reach one another on "
            "any port: look at firewalls and network policies, or name the interface with network.interface",
            state.ORIGIN_HORA,
            EXIT_HORA,
        )

    def silent(link: HostLink, why: str) -> None:
        if not stale():
            lead.fail(f"{why}, over the check of the way to its neighbour", state.ORIGIN_HORA, EXIT_HORA)

    for link in links:
        ask(link, {"listen": True}, listening)
