"""One rank's output, from its pipe into the journal."""

from __future__ import annotations

import os
import time

from hora.agent import frames, pipes
from hora.agent.loop import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional

    from hora.agent.journal import Journal
    from hora.agent.loop import Loop, Timer

# A pipe holds 1 MiB, so looking at it a hundred times a second loses no speed, and a rank that writes line
# by line doesn't wake the agent for each.
PAUSE = 0.01
SMALL = 64 << 10
FRAME = 4 << 20


class Output:
    """Reads until every writer has closed the pipe.  What came is one frame each time."""

    def __init__(
        self,
        loop: Loop,
        journal: Journal,
        header: frames.Header,
        fd: int,
        on_data: Callable[[], None],
        on_end: Callable[[], None],
        on_problem: Callable[[OSError], None],
    ) -> None:
        self.header = header
        self.fd = fd
        self.total = 0
        self.last = time.time()
        self.ended = False
        self.deaf = (
            False  # the journal can't be written: what comes is read, so that the rank can end, and lost
        )
        self._loop = loop
        self._journal = journal
        self._on_data = on_data
        self._on_end = on_end
        self._on_problem = on_problem
        self._timer: Optional[Timer] = None
        self._splice = pipes.splicer()
        loop.watch(fd, READ, self._ready)

    def _ready(self, _events: int) -> None:
        self._loop.unwatch(self.fd)
        moved = self.take()
        if self.ended:
            return
        if moved >= SMALL:
            self._loop.watch(self.fd, READ, self._ready)
        else:
            self._timer = self._loop.after(PAUSE, self._again)

    def _again(self) -> None:
        self._timer = None
        if not self.ended:
            self._loop.watch(self.fd, READ, self._ready)

    def take(self) -> int:
        """Move what waits in the pipe into the journal; also called when the rank has exited."""
        if self.ended:
            return 0
        length = min(pipes.waiting(self.fd), FRAME)
        if not length:
            if not pipes.hung_up(self.fd):
                return 0
            length = min(pipes.waiting(self.fd), FRAME)  # last words that came between the two looks
            if not length:
                self.close()
                return 0
        if self.deaf:
            return len(os.read(self.fd, length))
        self.last = time.time()
        self.header["at"] = round(self.last, 6)
        try:
            self._journal.append_from(self.fd, frames.head(self.header, length), length, self._splice)
        except OSError as problem:
            self._fail(problem)
            return 0
        self._moved(length)
        return length

    def _fail(self, problem: OSError) -> None:
        self.deaf = True
        self._on_problem(problem)

    def _moved(self, length: int) -> None:
        self.total += length
        self._on_data()

    def drain(self) -> None:
        """Take what is in the pipe now.  A child that goes on writing must not keep us here for ever."""
        left = 0 if self.ended else pipes.waiting(self.fd)
        while left > 0 and not self.ended:
            left -= self.take()
        self.take()

    def close(self) -> None:
        if self.ended:
            return
        self.ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._loop.unwatch(self.fd)
        os.close(self.fd)
        self._on_end()
