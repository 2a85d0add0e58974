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

RING_LIMIT = 20.0


def differences(plan: LaunchPlan, links: List[HostLink]) -> str:
    """One sentence if what must be equal on all hosts is not; empty when all is well."""
    for name in plan.checks:
        by_value: Dict[str, List[str]] = {}
        for link in links:
            value = link.prepared.get("facts", {}).get(name)
            by_value.setdefault("nothing" if value is None else str(value), []).append(link.name)
        if len(by_value) > 1:
            found = "; ".join(f"{value} on {few(hosts)}" for value, hosts in by_value.items())
            return f"the hosts differ in {name}: {found}. Make them equal, since the ranks talk to each other"
    return ""


def ring(lead: Any, done: Callable[[], None]) -> None:
    """Each host opens a port for a moment and the host before it dials: a real connection round the ring."""
    links: List[HostLink] = list(lead.hosts.values())
    waiting = {link.name for link in links}
    ports: Dict[str, List[Any]] = {}

    def listening(link: HostLink, reply: Dict[str, Any]) -> None:
        ports[link.name] = [link.prepared["address"], reply["port"]]
        if len(ports) == len(links):
            for position, before in enumerate(links):
                target = links[(position + 1) % len(links)]
                lead.requests.of_host(before, {"t": "ring", "dial": ports[target.name]}, dialled, failed)

    def dialled(link: HostLink, reply: Dict[str, Any]) -> None:
        if reply.get("problem"):
            target = links[(links.index(link) + 1) % len(links)]
            failed(
                link, f"{link.name} can't reach {target.name} at {ports[target.name][0]}: {reply['problem']}"
            )
            return
        waiting.discard(link.name)
        if not waiting:
            for other in links:
                lead.requests.of_host(other, {"t": "ring", "close": True}, lambda link, reply: None, failed)
            done()

    def failed(link: HostLink, why: str) -> None:
        lead.fail(
            f"{why}. Peers must reach one another on any port: look at firewalls and network policies, or name "
            "the interface with network.interface",
            state.ORIGIN_HORA,
            EXIT_HORA,
        )

    for link in links:
        lead.requests.of_host(link, {"t": "ring", "listen": True}, listening, failed)
