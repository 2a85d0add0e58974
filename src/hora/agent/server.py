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
from hora.agent.lead.lead import Lead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

BACKLOG = 1024  # a thousand agents dial in the same second


def main() -> int:
    config: Dict[str, Any] = json.loads(sys.stdin.buffer.read())
    os.makedirs(config["folder"], mode=0o700, exist_ok=True)
    lead = Lead(config)
    server = listen(config["listen"][0], config["listen"][1])
    lead.links.listen(server, tls.lead_context(config["identity"]))
    print(json.dumps({"t": "listening", "port": server.getsockname()[1]}), flush=True)
    return lead.run()


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
