"""Reading a journal beside the one who writes it: its segments come and go meanwhile."""

from __future__ import annotations

import os
from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Tuple

SUFFIX = ".journal"


def segments(folder: str) -> List[int]:
    """Where the segments of a journal begin: their names say so."""
    return sorted(int(name[: -len(SUFFIX)]) for name in os.listdir(folder) if name.endswith(SUFFIX))


def segment_path(folder: str, start: int) -> str:
    return os.path.join(folder, f"{start:020d}{SUFFIX}")


class Reading:
    """What all that `read` can do."""

    def read(self, offset: int, length: int) -> bytes:
        raise NotImplementedError

    def read_exactly(self, offset: int, length: int) -> Optional[bytes]:
        """All of it, also across segments; None when a part is gone."""
        parts = []
        while length:
            part = self.read(offset, length)
            if not part:
                return None
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class Beside(Reading):
    """Makes nothing and changes nothing."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._starts: List[int] = []  # as they were when last looked at
        self._open: Tuple[int, int] = (-1, -1)  # start of a segment, its descriptor

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`; empty at the end, or when that part was dropped."""
        part = self._read(offset, length)
        if not part and not self._dropped(offset):
            self._look()
            part = self._read(offset, length)
        return part

    def _look(self) -> None:
        try:
            self._starts = segments(self.folder)
        except FileNotFoundError:
            self._starts = []

    def _dropped(self, offset: int) -> bool:
        """Segments go from the first on, and never come back."""
        return bool(self._starts) and offset < self._starts[0]

    def _read(self, offset: int, length: int) -> bytes:
        position = bisect_right(self._starts, offset)
        if not position:
            return b""
        start = self._starts[position - 1]
        fd = self._descriptor(start)
        return os.pread(fd, length, offset - start) if fd >= 0 else b""

    def _descriptor(self, start: int) -> int:
        if self._open[0] != start:
            self.close()
            try:
                fd = os.open(segment_path(self.folder, start), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return -1
            self._open = (start, fd)
        return self._open[1]

    def close(self) -> None:
        if self._open[1] >= 0:
            os.close(self._open[1])
            self._open = (-1, -1)
