"""Work that would hold up the loop, done by a child: versions that are asked of programs, archives to unpack."""

from __future__ import annotations

import json
import os

from hora.agent import process
from hora.agent.loop import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Set

    from hora.agent.loop import Loop


class Errands:
    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.pids: Set[int] = set()

    def run(self, name: str, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """`done` gets what `work` returned, as JSON carries it; None when the child was killed."""
        reader, writer = os.pipe()

        def child() -> int:
            left = memoryview(json.dumps(work()).encode())
            while left:
                left = left[os.write(writer, left) :]
            return 0

        self.pids.add(process.fork_child(name, child))
        os.close(writer)
        parts: List[bytes] = []

        def ready(_events: int) -> None:
            part = os.read(reader, 1 << 16)
            if part:
                parts.append(part)
                return
            self._loop.unwatch(reader)
            os.close(reader)
            done(json.loads(b"".join(parts)) if parts else None)

        self._loop.watch(reader, READ, ready)

    def reaped(self, pid: int, _status: int) -> bool:
        if pid not in self.pids:
            return False
        self.pids.discard(pid)
        return True
