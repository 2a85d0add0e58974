"""RFC 6455, the client's side: the handshake, frames out, frames in."""

from __future__ import annotations

import base64
import hashlib
import os
import struct

from hora.places.kubernetes.api.errors import ApiError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hora.places.kubernetes.api.client import Api
    from hora.places.kubernetes.api.wire import Wire

MORE, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
LONGEST = 64 << 20


class Nonsense(ConnectionError):
    """The other side breaks the protocol."""


def connect(
    api: Api, path: str, query: Mapping[str, str | int], protocol: str, timeout: float
) -> tuple[Wire, bytes]:
    """The connection, and what has come on it already."""
    key = base64.b64encode(os.urandom(16))
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key.decode("ascii"),
        "Sec-WebSocket-Protocol": protocol,
    }
    exchange = api.upgrade(path, query, headers, timeout)
    found = exchange.answer.headers
    proof = base64.b64encode(hashlib.sha1(key + MAGIC, usedforsecurity=False).digest()).decode("ascii")
    if found.get("sec-websocket-accept") != proof or found.get("sec-websocket-protocol") != protocol:
        exchange.wire.close()
        raise ApiError(f"{api.access.url} doesn't speak {protocol} over WebSocket", 101)
    return exchange.wire, exchange.wire.rest()


def frame(kind: int, data: bytes) -> bytes:
    """One whole message, masked as the RFC wants it from clients."""
    size = len(data)
    if size < 126:
        head = struct.pack("!BB", 0x80 | kind, 0x80 | size)
    elif size < 65536:
        head = struct.pack("!BBH", 0x80 | kind, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | kind, 0x80 | 127, size)
    mask = os.urandom(4)
    return b"".join((head, mask, masked(data, mask)))


def masked(data: bytes, mask: bytes) -> bytes:
    """XOR with the mask over and over, as one long number: Python has nothing faster for bytes."""
    size = len(data)
    over = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(over, "little")).to_bytes(size, "little")


class Frames:
    """Cuts what comes into frames."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bool, bytes]]:
        """(kind, whether it ends a message, content)."""
        self._data += data
        at = 0
        try:
            while (found := self._head(at)) is not None:
                kind, last, mask, start, end = found
                if end > len(self._data):
                    break
                at = end
                with memoryview(self._data) as view:
                    content = bytes(view[start:end])
                yield kind, last, masked(content, mask) if mask else content
        finally:
            del self._data[:at]

    def _head(self, at: int) -> tuple[int, bool, bytes, int, int] | None:
        """Kind, last, mask, and where the content lies; None while the head isn't whole."""
        data, left = self._data, len(self._data) - at
        if left < 2:
            return None
        first, size = data[at], data[at + 1] & 127
        long = {126: 2, 127: 8}.get(size, 0)
        masks = 4 if data[at + 1] & 128 else 0
        start = at + 2 + long + masks
        if left < 2 + long + masks:
            return None
        if long:
            size = int.from_bytes(data[at + 2 : at + 2 + long], "big")
        if first & 0x70 or size > LONGEST:
            raise Nonsense("a frame that nobody has agreed on")
        return first & 15, bool(first & 128), bytes(data[start - masks : start]), start, start + size
