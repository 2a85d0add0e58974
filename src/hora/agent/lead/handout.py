"""The agent for members that come: whoever connects gets the file, and no more.

Nothing in it is secret, and members know its hash: so there is no TLS, and nothing is read.
"""

from __future__ import annotations

import os
import socket
import sys

from hora.agent.loop import READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.agent.loop import Loop

MOST_AT_ONCE = 64
LIMIT = 60.0  # seconds for one member to take it


class Handout:
    def __init__(self, loop: Loop, server: socket.socket, path: str) -> None:
        self._loop = loop
        self._server = server
        with open(path, "rb") as file:
            self._data = memoryview(file.read())
        server.setblocking(False)
        loop.watch(server, READ, lambda _events: self._accept())

    def _accept(self) -> None:
        for _ in range(MOST_AT_ONCE):
            try:
                sock, _address = self._server.accept()
            except OSError as problem:
                if not isinstance(problem, (BlockingIOError, InterruptedError)):
                    print(f"lead: handout: {problem}", file=sys.stderr, flush=True)
                return
            sock.setblocking(False)
            self._give(sock)

    def _give(self, sock: socket.socket) -> None:
        at = 0

        def done() -> None:
            late.cancel()
            self._loop.unwatch(sock)
            sock.close()

        def more(_events: int) -> None:
            nonlocal at
            try:
                while at < len(self._data):
                    at += os.write(sock.fileno(), self._data[at : at + (1 << 18)])
            except BlockingIOError:
                return
            except OSError:  # it went: it comes again, or doesn't need it any more
                pass
            done()

        late = self._loop.after(LIMIT, done)
        self._loop.watch(sock, WRITE, more)
