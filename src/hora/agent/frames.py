"""Frames: two lengths, a small JSON header, raw bytes; for the link, the control channel and the journal."""

from __future__ import annotations

import json
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Tuple

    Header = Dict[str, Any]

LENGTHS = struct.Struct("!II")
MAX_HEADER = 64 << 20  # a start order for a thousand ranks of one host is a few MB
MAX_BODY = 64 << 20
_KEPT = 4 << 20
_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


class FrameError(ValueError):
    """The other side doesn't speak this protocol."""


def keep_memory() -> None:
    """The C library gives large blocks back to the kernel at once, which then clears every page anew for the
    next frame: a third of the time that output takes.  Once it has freed a block of this size, it keeps them."""
    bytes(_KEPT)


def head(header: Header, body_length: int) -> bytes:
    """The frame without its body."""
    text = _dumps(header).encode("ascii")
    return LENGTHS.pack(len(text), body_length) + text


def encode(header: Header, body: bytes = b"") -> bytes:
    return head(header, len(body)) + body


class Decoder:
    """Bytes in, whole frames out.  `at` is the offset of the first byte that will come.

    Of frames of the type `passed` only the headers are wanted: their bodies go by uncopied.
    """

    def __init__(self, at: int = 0, passed: Optional[str] = None) -> None:
        self.at = at  # of the first byte that belongs to no finished frame
        self._passed = passed
        self._passing: Optional[Tuple[Header, int, int]] = None  # header, body's offset, body's length
        self._waiting: List[bytes] = []
        self._size = 0
        self._needed = 0  # bytes from `at` without which nothing more can be told

    def __len__(self) -> int:
        """Bytes that wait for the rest of their frame."""
        return self._size

    def feed(self, data: bytes) -> Iterator[Tuple[Header, bytes]]:
        for header, body, _start, _length in self.feed_at(data):
            yield header, body

    def feed_at(self, data: bytes) -> Iterator[Tuple[Header, bytes, int, int]]:
        """Also the body's offset and length."""
        self._waiting.append(data)
        self._size += len(data)
        if self._size < self._needed:
            return
        view = memoryview(data if len(self._waiting) == 1 else b"".join(self._waiting))
        at = 0
        try:
            while True:
                if self._passing is None:
                    found = self._frame(view, at)
                    if found is None:
                        return
                    header, start, end = found
                    if header["t"] != self._passed:
                        if end > len(view):
                            self._needed = end - at
                            return
                        at = end
                        yield header, bytes(view[start:end]), self.at + start, end - start
                        continue
                    self._passing = header, self.at + start, end - start
                header, begin, length = self._passing
                at = min(begin + length - self.at, len(view))
                if self.at + at < begin + length:
                    self._needed = 0
                    return
                self._passing = None
                yield header, b"", begin, length
        finally:
            self._keep(view, at)

    def _frame(self, view: memoryview, at: int) -> Optional[Tuple[Header, int, int]]:
        """(header, start and end of the body); None when the header is not all here."""
        self._needed = LENGTHS.size
        if len(view) - at < self._needed:
            return None
        header_length, body_length = LENGTHS.unpack_from(view, at)
        if header_length > MAX_HEADER or body_length > MAX_BODY:
            raise FrameError(f"a frame of {header_length} + {body_length} bytes is too long")
        self._needed += header_length
        if len(view) - at < self._needed:
            return None
        start = at + self._needed
        return parse(bytes(view[at + LENGTHS.size : start])), start, start + body_length

    def _keep(self, view: memoryview, at: int) -> None:
        rest = bytes(view[at:])
        self._waiting = [rest] if rest else []
        self._size = len(rest)
        self.at += at


def parse(text: bytes) -> Header:
    try:
        header = json.loads(text)
    except ValueError as error:
        raise FrameError(f"a frame's header is not JSON: {bytes(text[:80])!r}") from error
    if not isinstance(header, dict) or not isinstance(header.get("t"), str):
        raise FrameError(f"a frame's header has no type: {bytes(text[:80])!r}")
    return header
