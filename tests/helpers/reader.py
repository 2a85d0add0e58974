"""What a running process writes, line by line, with a limit on every wait."""

from __future__ import annotations

import os
import select
import time
from typing import IO, Any

ANY_TIME = 30.0


class Reader:
    """`Reader(process.stdout).until("ready")`; the stream must not be read otherwise."""

    def __init__(self, stream: IO[Any] | None) -> None:
        assert stream is not None
        self.fd = stream.fileno()
        self.seen = b""
        self._read = 0  # bytes of it that `line` has given
        self._ended = False

    def line(self, timeout: float = ANY_TIME) -> str:
        """The next line without its end; what is left when the stream ends."""
        limit = time.monotonic() + timeout
        while b"\n" not in self.seen[self._read :] and not self._ended:
            self._more(limit)
        line = self.seen[self._read :].partition(b"\n")[0]
        self._read += len(line) + 1
        return line.decode("utf-8", "backslashreplace")

    def until(self, text: str, timeout: float = ANY_TIME) -> str:
        """Lines up to the first that contains `text`; gives that one."""
        limit = time.monotonic() + timeout
        while True:
            line = self.line(limit - time.monotonic())
            if text in line:
                return line
            ended = self._ended and self._read >= len(self.seen)
            assert not ended, f"{text!r} never came; what came:\n{self.seen.decode('utf-8', 'replace')}"

    def rest(self, timeout: float = ANY_TIME) -> str:
        """All lines that were not given yet, once the stream has ended."""
        limit = time.monotonic() + timeout
        while not self._ended:
            self._more(limit)
        rest, self._read = self.seen[self._read :], len(self.seen)
        return rest.decode("utf-8", "backslashreplace")

    def _more(self, limit: float) -> None:
        ready, _, _ = select.select([self.fd], [], [], max(0.0, limit - time.monotonic()))
        assert ready, f"nothing more came in time; what came:\n{self.seen.decode('utf-8', 'replace')}"
        data = os.read(self.fd, 1 << 16)
        self.seen += data
        self._ended = not data
