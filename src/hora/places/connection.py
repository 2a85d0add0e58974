"""The client's end of the control channel: blocking, one thread."""

from __future__ import annotations

import select
import socket
import time
from collections import deque

from hora.agent import frames
from hora.errors import LeadGone, PlaceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from hora.agent.frames import Header

CHUNK = 1 << 20


class Connection:
    """`ask` sends a request and returns its number; `frames` gives what has come, waiting if need be."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.setblocking(True)
        self.closed = False
        self._decoder = frames.Decoder()
        frames.keep_memory()
        self._number = 0
        self._ready: deque[tuple[Header, bytes]] = deque()

    @classmethod
    def to_socket(cls, path: str) -> Connection:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(path)
        except OSError as problem:
            sock.close()
            raise LeadGone(f"the lead of this run doesn't answer ({problem.strerror})") from problem
        connection = cls(sock)
        try:
            connection.send({"t": "client", "v": 1})
        except LeadGone:
            connection.close()
            raise
        return connection

    @classmethod
    def to_address(
        cls, host: str, port: int, identity: Mapping[str, str], timeout: float = 10.0
    ) -> Connection:
        """Over TCP with TLS; `identity` is the client's part of the run's."""
        try:
            plain = socket.create_connection((host, port), timeout)
        except OSError as problem:
            raise LeadGone(f"the lead of this run doesn't answer at {host}:{port} ({problem})") from problem
        return cls.over(plain, identity)

    @classmethod
    def over(cls, plain: socket.socket, identity: Mapping[str, str], timeout: float = 10.0) -> Connection:
        """With TLS over a way to the lead that somebody else has opened."""
        from hora.agent import tls
        from hora.agent.uplink import SERVER_NAME

        plain.settimeout(timeout)
        try:
            with_tls = tls.agent_context(identity).wrap_socket(plain, server_hostname=SERVER_NAME)
        except OSError as problem:  # SSLError is one
            plain.close()
            raise LeadGone(f"the lead of this run doesn't answer ({problem})") from problem
        connection = cls(with_tls)
        connection.send({"t": "client", "v": 1})
        return connection

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, header: Header, body: bytes = b"") -> None:
        try:
            self.sock.sendall(frames.encode(header, body))
        except OSError as problem:
            self.close()
            raise LeadGone("the lead of this run has gone away") from problem

    def ask(self, kind: str, body: bytes = b"", **values: Any) -> int:
        self._number += 1
        self.send({"t": kind, "id": self._number, **values}, body)
        return self._number

    def frames(self, timeout: float | None = None) -> Sequence[tuple[Header, bytes]]:
        """What has come; empty when nothing did within `timeout` or the lead has gone (`closed`)."""
        if self._ready:
            ready, self._ready = list(self._ready), deque()
            return ready
        if self.closed:
            return []
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            if left is not None and not self._comes_within(left):
                return []
            found = self._receive()
            if found or self.closed:
                return found

    def _comes_within(self, seconds: float) -> bool:
        poll = select.poll()  # select() knows descriptors below 1024 only
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _receive(self) -> list[tuple[Header, bytes]]:
        try:
            data = self.sock.recv(CHUNK)
        except OSError:
            data = b""
        if not data:
            self.closed = True
            return []
        return list(self._decoder.feed(data))

    def answer(self, kind: str, timeout: float = 30.0, **values: Any) -> tuple[Header, bytes]:
        """One request, its one reply; PlaceError when the lead refuses, LeadGone when it has gone."""
        number = self.ask(kind, **values)
        until = time.monotonic() + timeout
        kept: deque[tuple[Header, bytes]] = deque()
        try:
            while not self.closed and time.monotonic() < until:
                found = list(self.frames(until - time.monotonic()))
                for position, (header, body) in enumerate(found):
                    if header.get("id") == number:
                        kept.extend(found[position + 1 :])
                        if header["t"] == "error":
                            raise PlaceError(header["message"])
                        return header, body
                    kept.append((header, body))
        finally:
            self._ready.extendleft(reversed(kept))
        if self.closed:
            raise LeadGone("the lead of this run has gone away")
        raise LeadGone(f"the lead of this run gave no answer to {kind!r} within {timeout:.0f} s")

    def close(self) -> None:
        self.closed = True
        self.sock.close()
