"""The journal: everything that a host has to say, in order, in files.

An append-only stream of frames with absolute byte offsets, cut into segments.  The agent writes it and the
link sends it from wherever the lead's copy ends, so a slow or broken link costs disk, not ranks, and no
line comes twice.  The lead's copy of each host's journal is the same kind of file.
"""

from __future__ import annotations

import os

from hora.agent import frames
from hora.agent.reading import Reading, segment_path, segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator, List, Optional, Tuple

SEGMENT = 64 << 20
SMALLEST = 1 << 20  # of the segments that are dropped one by one to stay within a limit


class Journal(Reading):
    """Writes at the end, reads anywhere.  `start` is the oldest offset still on disk."""

    def __init__(self, folder: str, segment: int = SEGMENT, limit: Optional[int] = None) -> None:
        self.folder = folder
        self.limit = limit  # bytes kept; the oldest segment goes first
        self._segment = segment if limit is None else min(segment, max(limit // 8, SMALLEST))
        os.makedirs(folder, exist_ok=True)
        self._starts: List[int] = segments(folder)
        self._home = ""
        self._reader: Tuple[int, int] = (-1, -1)  # start of the segment, its descriptor
        self.on_drop: Callable[[int, int], None] = lambda start, end: None  # before that part goes
        if not self._starts:
            self._starts = [0]
        self._fd = self._open(self._starts[-1])
        self._size = os.fstat(self._fd).st_size

    @property
    def home(self) -> str:
        """Which journal this is.  A host that comes back with another one has lost all that it had."""
        if not self._home:
            self._home = self._read_home() or os.urandom(8).hex()
        return self._home

    def _read_home(self) -> str:
        """Made at first; where even that can't be written, the name lives as long as this process."""
        path = os.path.join(self.folder, "home")
        try:
            if not os.path.exists(path):
                with open(path + ".new", "w", encoding="ascii") as file:
                    file.write(os.urandom(8).hex())
                os.replace(path + ".new", path)
            with open(path, encoding="ascii") as file:
                return file.read()
        except OSError:
            return ""

    def _path(self, start: int) -> str:
        return segment_path(self.folder, start)

    def _open(self, start: int) -> int:
        return os.open(self._path(start), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @property
    def start(self) -> int:
        return self._starts[0]

    @property
    def end(self) -> int:
        return self._starts[-1] + self._size

    def append(self, data: bytes) -> int:
        """Write whole frames; returns the offset of the first byte."""
        offset = self.end
        try:
            self._write(data)
        except OSError:
            self.cut(offset)  # half a frame would make the rest unreadable
            raise
        self._turn()
        return offset

    def append_from(
        self, fd: int, header: bytes, length: int, splice: Callable[[int, int, int], int]
    ) -> None:
        """Write a frame whose body moves from a pipe straight into the file.

        Should this process die in the middle, the frame's lengths say how much is missing and the rest is
        still in the pipe: the keeper completes it.
        """
        offset = self.end
        try:
            self._write(header)
            os.lseek(self._fd, self._size, os.SEEK_SET)
            while length:
                moved = splice(fd, self._fd, length)
                self._size += moved
                length -= moved
        except OSError:
            self.cut(offset)
            raise
        self._turn()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, self._size)
            self._size += written
            view = view[written:]

    def _turn(self) -> None:
        if self._size < self._segment:
            return
        end = self.end
        try:
            following = self._open(end)
        except OSError:  # no room or no descriptor for another file: a longer segment does no harm
            return
        os.close(self._fd)
        self._fd, self._size = following, 0
        self._starts.append(end)
        while self.limit is not None and len(self._starts) > 2 and end - self._starts[1] >= self.limit:
            self._drop_first()

    def _drop_first(self) -> None:
        self.on_drop(self._starts[0], self._starts[1])
        os.unlink(self._path(self._starts.pop(0)))

    def forget(self, offset: int) -> None:
        """Drop segments that lie wholly before `offset`."""
        while len(self._starts) > 1 and self._starts[1] <= offset:
            os.unlink(self._path(self._starts.pop(0)))

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`; empty at the end, or when that part was dropped."""
        for start in reversed(self._starts):
            if start <= offset:
                break
        else:
            return b""
        return os.pread(self._descriptor(start), length, offset - start)

    def _descriptor(self, start: int) -> int:
        if start == self._starts[-1]:
            return self._fd
        if self._reader[0] != start:
            self._close_reader()
            self._reader = (start, os.open(self._path(start), os.O_RDONLY | os.O_CLOEXEC))
        return self._reader[1]

    def _close_reader(self) -> None:
        if self._reader[1] >= 0:
            os.close(self._reader[1])
            self._reader = (-1, -1)

    def stretches(self) -> List[Tuple[int, int]]:
        """(start, end) of each part that is here without a gap."""
        found: List[Tuple[int, int]] = []
        for start in self._starts:
            end = self.end if start == self._starts[-1] else start + os.stat(self._path(start)).st_size
            if found and found[-1][1] == start:
                start = found.pop()[0]
            found.append((start, end))
        return found

    def frames(
        self, offset: int, until: Optional[int] = None
    ) -> Iterator[Tuple[int, frames.Header, int, int]]:
        """Whole frames from `offset`: (offset, header, body's offset, body's length).

        A power cut leaves zeros or half a page behind: what can't be read as a frame ends what is whole.
        """
        end = self.end if until is None else until
        while offset < end:
            lengths = self.read_exactly(offset, frames.LENGTHS.size)
            if lengths is None:
                return
            header_length, body_length = frames.LENGTHS.unpack(lengths)
            if header_length > frames.MAX_HEADER or body_length > frames.MAX_BODY:
                return
            text = self.read_exactly(offset + frames.LENGTHS.size, header_length)
            body = offset + frames.LENGTHS.size + header_length
            if text is None or body + body_length > end:
                return
            try:
                header = frames.parse(text)
            except frames.FrameError:
                return
            yield offset, header, body, body_length
            offset = body + body_length

    def jump(self, offset: int) -> None:
        """Go on at `offset`: what lies between was dropped on its host before it could be sent."""
        if offset == self.end:
            return
        following = self._open(offset)
        os.close(self._fd)
        if not self._size:
            os.unlink(self._path(self._starts.pop()))
        self._starts.append(offset)
        self._fd, self._size = following, 0

    def cut(self, offset: int) -> None:
        """Forget everything from `offset` on: a frame that was never finished."""
        while len(self._starts) > 1 and self._starts[-1] > offset:
            before = self._open(self._starts[-2])
            os.close(self._fd)
            self._fd = before
            os.unlink(self._path(self._starts.pop()))
        self._size = offset - self._starts[-1]
        os.ftruncate(self._fd, self._size)

    def close(self) -> None:
        self._close_reader()
        os.close(self._fd)
