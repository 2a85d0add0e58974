"""Frames: two lengths, a small JSON header, raw bytes; for the link, the control channel and the journal."""

from __future__ import annotations

import json
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, Tuple

    Header = Dict[str, Any]

LENGTHS = struct.Struct("!II")
MAX_HEADER = 64 << 20  # a start order for a thousand ranks of one host is a few MB
MAX_BODY = 64 << 20
_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


class FrameError(ValueError):
    """The other side doesn't speak this protocol."""


def head(header: Header, body_length: int) -> bytes:
    """The frame without its body."""
    text = _dumps(header).encode("ascii")
    return LENGTHS.pack(len(text), body_length) + text


def encode(header: Header, body: bytes = b"") -> bytes:
    return head(header, len(body)) + body


class Decoder:
    """Bytes in, whole frames out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def __len__(self) -> int:
        """Bytes that wait for the rest of their frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Tuple[Header, bytes]]:
        for header, body, _start in self.feed_at(data):
            yield header, body

    def feed_at(self, data: bytes) -> Iterator[Tuple[Header, bytes, int]]:
        """Also where the body starts, counted from the first byte that was buffered before this call."""
        buffer = self._buffer
        buffer += data
        at = 0
        try:
            while len(buffer) - at >= LENGTHS.size:
                header_length, body_length = LENGTHS.unpack_from(buffer, at)
                if header_length > MAX_HEADER or body_length > MAX_BODY:
                    raise FrameError(f"a frame of {header_length} + {body_length} bytes is too long")
                start = at + LENGTHS.size + header_length
                end = start + body_length
                if end > len(buffer):
                    break
                header = parse(bytes(memoryview(buffer)[at + LENGTHS.size : start]))
                body = bytes(memoryview(buffer)[start:end])
                at = end
                yield header, body, start
        finally:
            del buffer[:at]


def parse(text: bytes) -> Header:
    try:
        header = json.loads(text)
    except ValueError as error:
        raise FrameError(f"a frame's header is not JSON: {bytes(text[:80])!r}") from error
    if not isinstance(header, dict) or not isinstance(header.get("t"), str):
        raise FrameError(f"a frame's header has no type: {bytes(text[:80])!r}")
    return header
