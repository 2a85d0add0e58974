"""Who may come in.  A connection that doesn't say a good first word in time is closed, with a reason.

With TLS nobody without a certificate of this run gets as far as a word; what is checked here is that agents
don't speak as clients or clients as agents, and that no two agents take each other's place.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Optional

    from hora.agent.frames import Header
    from hora.agent.lead.hosts import HostLink

FIRST_WORD = 20.0  # seconds for handshake and first word, when a thousand come at once
REFUSED_LIMIT = 30.0  # for two agents that take each other's place; one may only be slow to go
VERSION = 1
BEARERS = {"hello": "agent", "client": "client"}
_HELLO = {
    "run": str, "host": str, "members": list, "incarnation": int, "attempt": int, "got": int,
    "pid": int, "keeper": int, "facts": dict,
}  # fmt: skip


def wrong_word(header: Header, bearer: Optional[str]) -> str:
    """Why this can't be a first word; empty when it can.  `bearer`: whose certificate it is; None without TLS."""
    kind = header["t"]
    if kind not in BEARERS:
        return f"the first word was {kind!r}; it must be hello (of an agent) or client"
    if bearer is not None and bearer != BEARERS[kind]:
        return f"a certificate of {bearer!r} can't say {kind!r}"
    if header.get("v") != VERSION:
        return f"this lead speaks version {VERSION} of the protocol, not {header.get('v')!r}"
    if kind == "hello":
        for key, type_ in _HELLO.items():
            if not isinstance(header.get(key), type_):
                return f"a hello without a good {key!r}"
    return ""


def conflict(hello: Header, hosts: Dict[str, HostLink], host_of: Callable[[str], Optional[str]]) -> str:
    """Two agents that would take each other's place again and again; empty when there are none."""
    name = hello["host"]
    link = hosts.get(name)
    if link is not None and link.up and link.home != hello.get("home", ""):
        return f"two agents call themselves host {name}: give each host a name of its own"
    for member in hello["members"]:
        other = hosts.get(host_of(member) or "")
        if other is not None and other.name != name and other.up:
            return f"both {other.name} and {name} say that they have {member}: give each member to one host"
    return ""
