"""Questions to a host that need no order: where are the ranks, and can it reach its neighbour?"""

from __future__ import annotations

import errno
import os
import socket

from hora.agent import facts, hook
from hora.agent.loop import WRITE
from hora.agent.stacks import Collection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

    from hora.agent.errands import Errands
    from hora.agent.frames import Header
    from hora.agent.loop import Loop
    from hora.agent.ranks import Ranks

STEP = 0.02
DIAL_LIMIT = 10.0


class Checks:
    def __init__(
        self, loop: Loop, reply: Callable[..., Any], ranks: Ranks, errands: Errands, folder: str
    ) -> None:
        self._loop = loop
        self._reply = reply
        self._ranks = ranks
        self._errands = errands
        self._folder = folder
        self._server: Optional[socket.socket] = None

    def facts(self, names: List[str], done: Callable[[Dict[str, Any]], None]) -> None:
        """Asking programs for their versions takes seconds."""
        self._errands.run("hora-check", lambda: facts.check(names), lambda found: done(found or {}))

    # --- stacks ---

    def stacks(self, header: Header) -> None:
        wanted = header.get("labels")
        pids = {rank.label: rank.pid for rank in self._ranks.alive if wanted is None or rank.label in wanted}
        asked = Collection(pids, hook.stack_folder(self._folder), seconds=header["seconds"])
        self._step(header["id"], asked)

    def _step(self, number: int, asked: Collection) -> None:
        if asked.step():
            self._reply({"t": "reply", "id": number, "stacks": [stack.to_json() for stack in asked.stacks]})
        else:
            self._loop.after(STEP, lambda: self._step(number, asked))

    # --- the ring ---

    def ring(self, header: Header) -> None:
        """Listen for a moment, or dial the neighbour that listens."""
        number = header["id"]
        if header.get("listen"):
            self._listen(number)
        elif header.get("close"):
            self._close()
            self._reply({"t": "reply", "id": number})
        else:
            self._dial(number, header["dial"][0], header["dial"][1])

    def _listen(self, number: int) -> None:
        self._close()
        try:
            self._server = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        except (OSError, ValueError):  # a machine without IPv6
            self._server = socket.create_server(("", 0))
        self._reply({"t": "reply", "id": number, "port": self._server.getsockname()[1]})

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _dial(self, number: int, host: str, port: int) -> None:
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        sock.setblocking(False)
        result = sock.connect_ex((host, port))
        if result not in (0, errno.EINPROGRESS):  # no way there: the socket itself won't tell it again
            sock.close()
            self._reply({"t": "reply", "id": number, "problem": os.strerror(result)})
            return

        def done(problem: str) -> None:
            timer.cancel()
            self._loop.unwatch(sock)
            sock.close()
            self._reply({"t": "reply", "id": number, "problem": problem})

        def ready(_events: int) -> None:
            error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            done(os.strerror(error) if error else "")

        timer = self._loop.after(DIAL_LIMIT, lambda: done(f"no answer within {DIAL_LIMIT:.0f} s"))
        self._loop.watch(sock, WRITE, ready)
