"""The merged output on its way out."""

from __future__ import annotations

import os
import time

from hora.agent.merge import Merger
from hora.cli import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.places.base import Chunk

LOOKED_AT = 4096  # bytes
COLUMNS = 80


class Stream:
    """Collects what the ranks wrote, writes it in one go.

    `flush`, `tick` and `end` are false once, when nobody reads any more; after `close` there is nothing to tell.
    """

    def __init__(self, fd: int, prefix: bool, timestamps: bool) -> None:
        self.fd = fd
        self.closed = False
        self.pending: list[bytes] = []
        self.lines = 0  # written so far
        self.last: dict[str, int] = {}  # label: `lines` when it wrote last
        self._merger = Merger(prefix, timestamps)
        self._at_start = True  # of a line
        self.on_terminal = os.isatty(fd)
        self._one_terminal = self.on_terminal and os.isatty(out.STDERR)

    def add(self, chunk: Chunk) -> None:
        if not chunk.dropped:  # the lead has said so
            self.feed(chunk.label, chunk.data, chunk.time)

    def feed(self, label: str, data: bytes, at: float = 0.0) -> None:
        shown = self._merger.feed(label, data, time.monotonic(), at)
        if shown:
            self.pending.append(shown)
            # Rows on a screen, about: counting the lines of megabytes takes longer than writing them.
            self.lines += shown.count(b"\n", 0, LOOKED_AT) + max(0, len(shown) - LOOKED_AT) // COLUMNS
        self.last[label] = self.lines

    def flush(self) -> bool:
        data, self.pending = b"".join(self.pending), []
        if self.closed or not data:
            return True
        try:
            out.write(self.fd, data)
        except OSError:  # nobody reads, or the terminal is gone
            return False
        self._at_start = data.endswith(b"\n")
        return True

    @property
    def waiting(self) -> bool:
        return self._merger.waiting

    def tick(self) -> bool:
        """Lines that have waited for their end for too long."""
        self._put(self._merger.tick(time.monotonic()))
        return self.flush()

    def end(self) -> bool:
        """What was never ended by its rank."""
        self._put(self._merger.end())
        return self.flush()

    def _put(self, data: bytes) -> None:
        if data:
            self.pending.append(data)

    def close(self) -> None:
        self.closed = True

    def tell(self, text: str) -> None:
        """A sentence beside the output: on a line of its own where both go to one terminal."""
        if self._one_terminal and not self._at_start:
            text = "\n" + text
            self._at_start = True
        out.tell(text)
