"""HTTP/1.1, as much of it as the API needs, on a connected socket.

Not `http.client`: it reads headers with the e-mail package, whose import takes longer than that of all else
here together, and after "101 Switching Protocols" what it has read ahead is hard to get back.

Every `until` is a point of `time.monotonic()`; None waits forever.
"""

from __future__ import annotations

import select
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

CHUNK = 65536
LONGEST_LINE = 65536
MOST_HEADERS = 200


class Broken(ConnectionError):
    """The other side hung up in the middle, or speaks something else than HTTP."""


class Wire:
    """A connection.  What has come and nobody has asked for yet is kept."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.used = time.monotonic()  # when it last came to rest
        self.heard = False  # something has come since the last `send`
        self._data = b""
        self._at = 0

    def send(self, data: bytes, until: float | None) -> None:
        self.heard = False
        self._limit(until)
        self.sock.sendall(data)

    def line(self, until: float | None) -> bytes:
        while True:
            end = self._data.find(b"\n", self._at)
            if end >= 0:
                line = self._data[self._at : end]
                self._at = end + 1
                return line.removesuffix(b"\r")
            if len(self._data) - self._at > LONGEST_LINE:
                raise Broken("a header without end")
            more = self._receive(until)
            if not more:
                raise Broken("the connection was closed before the answer was whole")
            self._data = self._data[self._at :] + more
            self._at = 0

    def some(self, most: int, until: float | None) -> bytes:
        """At least one byte and no more than `most`; nothing when the other side has closed."""
        if self._at == len(self._data):
            self._data, self._at = self._receive(until), 0
        data = self._data[self._at : self._at + most]
        self._at += len(data)
        return data

    def rest(self) -> bytes:
        """What has been read ahead: the first bytes of the protocol that comes after a 101."""
        data = self._data[self._at :]
        self._data, self._at = b"", 0
        return data

    def quiet(self) -> bool:
        """Whether it lies as it was left: a connection at rest that has something to say is being closed."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0) and self._at == len(self._data)

    def wake(self) -> None:
        """From any thread: whoever waits here sees the end."""
        try:
            # Past SSLSocket.shutdown, which turns TLS off: the reader would see encrypted bytes.
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)
        except OSError:
            pass  # closed already

    def close(self) -> None:
        self.sock.close()

    def _receive(self, until: float | None) -> bytes:
        self._limit(until)
        data = self.sock.recv(CHUNK)
        self.heard = self.heard or bool(data)
        return data

    def _limit(self, until: float | None) -> None:
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError("timed out")
        self.sock.settimeout(left)


class Answer:
    """An answer whose head has been read; `piece` gives the body part by part."""

    def __init__(self, wire: Wire, until: float | None) -> None:
        self._wire = wire
        self.status, self.phrase = 100, ""
        while 100 <= self.status < 200 and self.status != 101:  # 1xx announce only
            persistent, self.status, self.phrase = _status_line(wire.line(until))
            self.headers = _headers(wire, until)
        self._chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length", "")
        empty = self.status in (101, 204, 304)
        self._chunks = 0
        self._left: int | None = None  # None: until the other side closes
        if empty or self._chunked:
            self._left = 0
        elif length.isdecimal():
            self._left = int(length)
        self._over = empty or (self._left == 0 and not self._chunked)
        self._keep = (
            persistent
            and "close" not in self.headers.get("connection", "").lower()
            and self._left is not None
        )

    @property
    def reusable(self) -> bool:
        """The body has been read to its end and the connection can take another request."""
        return self._over and self._keep

    def piece(self, until: float | None) -> bytes:
        """The next part of the body, as it comes; nothing at its end."""
        if not self._over and self._chunked and self._left == 0:
            self._left = self._next_chunk(until)
        if self._over:
            return b""
        data = self._wire.some(CHUNK if self._left is None else min(CHUNK, self._left), until)
        if not data:
            if self._left is not None:
                raise Broken("the connection was closed before the answer was whole")
            self._over = True
        elif self._left is not None:
            self._left -= len(data)
            self._over = self._left == 0 and not self._chunked
        return data

    def _next_chunk(self, until: float | None) -> int:
        if self._chunks and self._wire.line(until):  # the end of the one before: its bytes didn't wait for it
            raise Broken("a chunk longer than it said")
        self._chunks += 1
        line = self._wire.line(until)
        try:
            size = int(line.partition(b";")[0].strip(), 16)
        except ValueError:
            raise Broken("a chunk without a length") from None
        if size == 0:
            _headers(self._wire, until)  # trailers
            self._over = True
        return size


def request(method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes | None = None) -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    elif method not in ("GET", "CONNECT"):
        lines.append("Content-Length: 0")
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a line break in a header")  # the text stays untold: it may be a token
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def _status_line(line: bytes) -> tuple[bool, int, str]:
    version, _, rest = line.decode("latin-1").partition(" ")
    status, _, phrase = rest.partition(" ")
    if not version.startswith("HTTP/1.") or not status.isdecimal():
        raise Broken("what answers there doesn't speak HTTP")
    return version != "HTTP/1.0", int(status), phrase.strip()


def _headers(wire: Wire, until: float | None) -> dict[str, str]:
    """By lower-case name; several of one name are joined."""
    found: dict[str, str] = {}
    for _ in range(MOST_HEADERS):
        line = wire.line(until).decode("latin-1")
        if not line:
            return found
        name, _, value = line.partition(":")
        name, value = name.strip().lower(), value.strip()
        found[name] = f"{found[name]}, {value}" if name in found else value
    raise Broken("headers without end")
