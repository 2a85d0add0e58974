"""The merged stream on the lead's own stdout: what `kubectl logs` shows, with no client there.

It reads the store at its own pace, as clients do, so a log that doesn't take it holds up nobody.
"""

from __future__ import annotations

import os
import sys

from hora.agent.loop import WRITE
from hora.agent.merge import HOLD, Merger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.agent.lead.store import Store
    from hora.agent.loop import Loop

AT_ONCE = 64


class Stream:
    def __init__(self, loop: Loop, store: Store, fd: int = 1) -> None:
        self.done = False  # the run is over, and all of it was written
        self._loop = loop
        self._store = store
        self._fd = fd
        self._merger = Merger()
        self._at = 0
        self._left = b""
        self._over = False
        self._ticking = False
        self._broken = False
        os.set_blocking(fd, False)

    def pump(self) -> None:
        """There is more in the store, or the log takes more."""
        while not self._left and not self._broken:
            entries = self._store.entries(self._at, AT_ONCE)
            if not entries:
                break
            shown = []
            for entry in entries:
                self._at += 1
                body = self._store.body(entry)
                if body is not None:
                    label = self._store.label(entry)
                    shown.append(self._merger.feed(label, body, self._loop.now(), entry.time))
            self._write(b"".join(shown))
        if self._left:
            return
        if self._over:
            self._write(self._merger.end())  # nothing, the second time
            self.done = not self._left
        elif self._merger.waiting and not self._ticking:
            self._ticking = True
            self._loop.after(HOLD, self._tick)

    def end(self) -> None:
        """Nothing more will come."""
        self._over = True
        self.pump()

    def say(self, text: str) -> None:
        """Hora's own words stand beside the ranks' lines, on stderr."""
        try:
            print(f"hora: {text}", file=sys.stderr, flush=True)
        except OSError:
            pass  # a log that takes nothing just now; clients are told, too

    def _tick(self) -> None:
        self._ticking = False
        if not self._left:
            self._write(self._merger.tick(self._loop.now()))
            self.pump()

    def _write(self, data: bytes) -> None:
        self._left += data
        while self._left and not self._broken:
            try:
                self._left = self._left[os.write(self._fd, self._left) :]
            except BlockingIOError:
                self._loop.watch(self._fd, WRITE, self._writable)
                return
            except OSError:  # nobody reads: the store still has it all
                self._broken = True
                self._left = b""

    def _writable(self, _events: int) -> None:
        self._loop.unwatch(self._fd)
        self._write(b"")
        if not self._left:
            self.pump()
