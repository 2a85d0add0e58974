"""A connection to a port on this host: programs listen on all addresses, on loopback, or on the host's own."""

from __future__ import annotations

import errno
import os
import socket

from hora.agent.loop import WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Optional

    from hora.agent.loop import Loop

    Done = Callable[[Optional[socket.socket], str], None]

LIMIT = 10.0


class Dial:
    """`done(socket, "")` for the first address that answers, or `done(None, why)`."""

    def __init__(self, loop: Loop, port: int, address: str, done: Done) -> None:
        self._loop = loop
        self._port = port
        self._left: List[str] = ["127.0.0.1", "::1", *([address] if address else [])]
        self._why = ""  # of the first: it is the one that most programs listen on
        self._done = done
        self._next()

    def _next(self) -> None:
        if not self._left:
            self._done(None, self._why)
            return
        address = self._left.pop(0)
        try:
            sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        except OSError as problem:  # a host without IPv6
            self._failed(None, str(problem.strerror))
            return
        sock.setblocking(False)
        try:
            error = sock.connect_ex((address, self._port))
        except (OSError, OverflowError) as problem:
            self._failed(sock, str(problem))
            return
        if error and error != errno.EINPROGRESS:
            self._failed(sock, os.strerror(error))
            return
        late = self._loop.after(LIMIT, lambda: self._failed(sock, f"no answer within {LIMIT:.0f} s"))

        def ready(_events: int) -> None:
            late.cancel()
            self._loop.unwatch(sock)
            error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                self._failed(sock, os.strerror(error))
            else:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._done(sock, "")

        self._loop.watch(sock, WRITE, ready)

    def _failed(self, sock: Optional[socket.socket], why: str) -> None:
        if sock is not None:
            self._loop.unwatch(sock)
            sock.close()
        self._why = self._why or why
        self._next()
