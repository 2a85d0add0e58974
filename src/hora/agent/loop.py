"""A small event loop: sockets, pipes, timers, child processes.

asyncio costs 50 ms of import at every start and a quarter of a megabyte per TLS connection; the lead holds
a thousand.  One thread, no locks: everything in lead, agent and keeper runs from here.
"""

from __future__ import annotations

import heapq
import os
import selectors
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

    Callback = Callable[[], None]

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE


class Timer:
    """A callback at a time; `cancel` forgets it."""

    __slots__ = ("callback", "when")

    def __init__(self, when: float, callback: Callback) -> None:
        self.when = when
        self.callback: Optional[Callback] = callback

    def __lt__(self, other: Timer) -> bool:
        return self.when < other.when

    def cancel(self) -> None:
        self.callback = None


class Loop:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: List[Timer] = []
        self._soon: List[Callback] = []
        self._running = False
        self._signals: Dict[int, Callback] = {}
        self._wakeup: Optional[Tuple[int, int]] = None

    # --- file descriptors ---

    def watch(self, fd: Any, events: int, callback: Callable[[int], None]) -> None:
        """Call `callback(ready events)` whenever `fd` is ready; replaces what was watched before."""
        if not events:
            self.unwatch(fd)
            return
        try:
            self._selector.modify(fd, events, callback)
        except KeyError:
            self._selector.register(fd, events, callback)

    def unwatch(self, fd: Any) -> None:
        try:
            self._selector.unregister(fd)
        except (KeyError, ValueError):
            pass  # never watched, or closed already

    # --- time ---

    @staticmethod
    def now() -> float:
        return time.monotonic()

    def after(self, seconds: float, callback: Callback) -> Timer:
        timer = Timer(self.now() + seconds, callback)
        heapq.heappush(self._timers, timer)
        return timer

    def soon(self, callback: Callback) -> None:
        self._soon.append(callback)

    # --- signals ---

    def on_signal(self, number: int, callback: Callback) -> None:
        """Run `callback` in the loop, not in the handler.  Main thread only."""
        if self._wakeup is None:
            reader, writer = os.pipe()
            for end in (reader, writer):
                os.set_blocking(end, False)
            self._wakeup = (reader, writer)
            signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
            self.watch(reader, READ, lambda _events: self._signalled(reader))
        self._signals[number] = callback
        signal.signal(number, lambda _number, _frame: None)
        signal.siginterrupt(number, False)

    def _signalled(self, reader: int) -> None:
        try:
            numbers = os.read(reader, 4096)
        except BlockingIOError:
            return
        for number in sorted(set(numbers)):
            callback = self._signals.get(number)
            if callback is not None:
                callback()

    # --- running ---

    def run(self) -> None:
        self._running = True
        while self._running:
            self.turn()

    def stop(self) -> None:
        self._running = False

    def turn(self) -> None:
        """One round: what is due, then wait for what comes next."""
        timeout = self._due()
        watched = self._selector.get_map()
        for key, events in self._selector.select(timeout):
            now = watched.get(key.fd)  # an earlier callback may have closed it: then fileno() is -1
            if now is not None and now.fileobj == key.fileobj:
                now.data(events)

    def _due(self) -> Optional[float]:
        while self._soon:
            ready, self._soon = self._soon, []
            for callback in ready:
                callback()
        now = self.now()
        while self._timers and (self._timers[0].callback is None or self._timers[0].when <= now):
            due = heapq.heappop(self._timers).callback
            if due is not None:
                due()
        if self._soon or not self._running:
            return 0
        return max(0.0, self._timers[0].when - self.now()) if self._timers else None

    def close(self) -> None:
        if self._wakeup is not None:
            signal.set_wakeup_fd(-1)
            for end in self._wakeup:
                os.close(end)
            self._wakeup = None
        self._selector.close()
