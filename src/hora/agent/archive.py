"""A file that may lie in parts, read from anywhere in it: what travels between lead and agents as code."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Sequence, Tuple

PIECE = 256 << 10  # bytes at once on a link


class Archive:
    def __init__(self, parts: Sequence[str]) -> None:
        """OSError when one isn't there."""
        self._parts: List[Tuple[int, int, str]] = []  # start, end, path
        self.size = 0
        for path in parts:
            end = self.size + os.stat(path).st_size
            self._parts.append((self.size, end, path))
            self.size = end

    def read(self, at: int, length: int = PIECE) -> bytes:
        """So many bytes, or fewer at the end."""
        found = []
        for start, end, path in self._parts:
            if start <= at < end and length > 0:
                with open(path, "rb") as file:
                    file.seek(at - start)
                    piece = file.read(min(length, end - at))
                found.append(piece)
                at += len(piece)
                length -= len(piece)
        return b"".join(found)
