"""Descriptors on this host, joined to a client: what they say goes there, what it says goes in.

Neither side may be flooded: only so much is on the way, and each tells what it has taken.
"""

from __future__ import annotations

import os

from hora.agent import pipes
from hora.agent.loop import READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Callable, Dict, Optional

    from hora.agent.loop import Loop

CHUNK = 64 << 10
WINDOW = 1 << 20  # bytes on the way to a client; one that reads no more must not fill our memory


class Stream:
    """`pid`: of the process at the other end of the descriptors; 0 where there is none of ours."""

    def __init__(
        self,
        loop: Loop,
        reply: Callable[..., bool],
        number: int,
        pid: int,
        stdin: int,
        outputs: Dict[int, bool],
    ) -> None:
        self.number = number
        self.pid = pid
        self.stdin = stdin  # -1 once closed
        self.outputs = outputs  # each with whether it is stderr; a terminal is its own only output
        self.tty = stdin in outputs
        self.status: Optional[int] = None  # of the process, once it has ended
        self._loop = loop
        self._reply = reply
        self._unwritten = bytearray()
        self._end_of_input = False
        self._unread = 0  # bytes that the client has not read yet
        for fd in {stdin, *outputs}:
            os.set_blocking(fd, False)

    def watch(self) -> None:
        """What can go on: reading while the client does, writing while there is something to write."""
        reads = READ if self._unread < WINDOW else 0
        for fd in {*self.outputs, self.stdin} - {-1}:
            writes = WRITE if fd == self.stdin and self._unwritten else 0
            events = (reads if fd in self.outputs else 0) | writes
            self._loop.watch(fd, events, lambda events, fd=fd: self._ready(fd, events))  # type: ignore[misc]

    def _ready(self, fd: int, events: int) -> None:
        if events & WRITE:
            self._write()
        if events & READ and fd in self.outputs:
            self.output(fd)

    # --- to the client ---

    def output(self, fd: int) -> int:
        """Pass on what is there; how many bytes that were, at most CHUNK."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return 0
        except OSError:  # the other end of a terminal, or of a connection, is gone
            data = b""
        if data:
            self._reply({"t": "data", "id": self.number, "error": self.outputs[fd]}, data)
            self._unread += len(data)
            if self._unread >= WINDOW:
                self.watch()
            return len(data)
        del self.outputs[fd]
        self._loop.unwatch(fd)
        self._output_ended(fd)
        return 0

    def _output_ended(self, fd: int) -> None:
        if fd != self.stdin:
            os.close(fd)

    def took(self, count: int) -> None:
        self._unread -= count
        self.watch()

    # --- from the client ---

    def input(self, data: bytes, end: bool) -> None:
        self._unwritten += data
        self._end_of_input = self._end_of_input or end
        self._write()

    def _write(self) -> None:
        if self.stdin < 0:
            return
        before = len(self._unwritten)
        try:
            while self._unwritten:
                del self._unwritten[: os.write(self.stdin, self._unwritten)]
        except BlockingIOError:
            pass
        except OSError:
            self._unwritten.clear()  # it reads no more
        if before != len(self._unwritten):
            self._reply({"t": "took", "id": self.number, "bytes": before - len(self._unwritten)})
        if self._end_of_input and not self._unwritten:
            self._input_ended()
        self.watch()

    def _input_ended(self) -> None:
        if not self.tty:
            self._loop.unwatch(self.stdin)
            os.close(self.stdin)
            self.stdin = -1

    # --- the end ---

    def close(self) -> None:
        """What was written is still in the pipes; a child that keeps one is not waited for."""
        for fd in list(self.outputs):
            left = pipes.waiting(fd)  # what that child goes on writing must not keep us here
            while left > 0 and fd in self.outputs:
                left -= self.output(fd)
        for fd in {*self.outputs, self.stdin} - {-1}:
            self._loop.unwatch(fd)
            os.close(fd)
        self.outputs.clear()
        self.stdin = -1


class Dialled(Stream):
    """A connection to a port of this host; `on_end` once neither side has more to say."""

    def __init__(
        self,
        loop: Loop,
        reply: Callable[..., bool],
        number: int,
        sock: socket.socket,
        on_end: Callable[[], None],
    ) -> None:
        self._sock = sock
        self._on_end = on_end
        super().__init__(loop, reply, number, 0, sock.fileno(), {sock.fileno(): False})

    def _output_ended(self, fd: int) -> None:
        self._reply({"t": "eof", "id": self.number})
        self._look()

    def _input_ended(self) -> None:
        import socket

        self._end_of_input = False  # told once
        self._unwritten_over = True
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has gone
        self._look()

    _unwritten_over = False

    def _look(self) -> None:
        if self._unwritten_over and not self.outputs:
            self._loop.soon(self._on_end)

    def close(self) -> None:
        self._loop.unwatch(self._sock)
        self._sock.close()
        self.outputs.clear()
        self.stdin = -1
