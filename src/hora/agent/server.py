"""The lead by itself: it listens on TCP with TLS, and all agents and clients dial it.

The configuration comes as JSON on standard input: that of the lead, with `listen` [address, port] and its
`identity`.  Once it listens it says so in one line of JSON on standard output, with the port it really has.
"""

from __future__ import annotations

import json
import os
import socket
import sys

from hora.agent import tls
from hora.agent.lead import documents
from hora.agent.lead.lead import Lead
from hora.state import RunStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

BACKLOG = 1024  # a thousand agents dial in the same second


def main() -> int:
    config: Dict[str, Any] = json.loads(sys.stdin.buffer.read())
    return serve(config, _say)


def serve(config: Dict[str, Any], listening: Callable[[socket.socket], None] = lambda server: None) -> int:
    """Until the run has ended and everybody has left; `listening` is called once agents can dial."""
    os.makedirs(config["folder"], mode=0o700, exist_ok=True)
    server = listen(config["listen"][0], config["listen"][1])
    if _ended(config["folder"]):
        listening(server)
        return 0
    lead = Lead(config)
    lead.links.listen(server, tls.lead_context(config["identity"]))
    if "handout" in config:
        from hora.agent.lead.handout import Handout

        Handout(lead.loop, listen("", config["handout"]["port"]), config["handout"]["path"])
    listening(server)
    return lead.run()


def _ended(folder: str) -> bool:
    """It was started again, but its first life had brought the run to its end."""
    known = documents.read_json(os.path.join(folder, documents.STATUS))
    return known is not None and RunStatus.from_json(known).ended


def _say(server: socket.socket) -> None:
    print(json.dumps({"t": "listening", "port": server.getsockname()[1]}), flush=True)


def listen(address: str, port: int) -> socket.socket:
    """An empty address is all of this host's, of both families where it has both."""
    if not address:
        try:
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
            )
        except (OSError, ValueError):  # a host without IPv6
            return socket.create_server(("", port), backlog=BACKLOG)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=BACKLOG)
