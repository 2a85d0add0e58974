"""A thread that carries bytes between a local socket and a remote one, through a coder that knows what they mean."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Coder(Protocol):
        """One side's bytes in the other's terms."""

        ended: bool  # nothing more comes from the remote side

        def encode(self, data: bytes) -> bytes:
            """From the local side, for the remote one."""

        def decode(self, data: bytes) -> bytes:
            """From the remote side, for the local one."""

        def asides(self) -> bytes:
            """What the protocol itself has to say to the remote side now."""

        def farewell(self) -> bytes:
            """Last words to the remote side."""

        def pause(self) -> float:
            """Seconds until `asides` is to be asked again."""


CHUNK = 65536
BURST = 4 * CHUNK  # read at once from the remote side: TLS gives 16 KiB at a time
LAST = 5.0  # seconds that the remote side has to take what was written before the local one closed
WOULD_WAIT = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
READ, WRITE, HANG_UP = select.POLLIN, select.POLLOUT, select.POLLHUP | select.POLLERR | select.POLLNVAL


class Pump:
    """One block at most waits in each direction: who is slow slows down the other side, and no memory fills.

    The thread ends when the remote side does, or when the local socket's other end is closed altogether.  One
    that only says it writes nothing more (`shutdown(SHUT_WR)`) still gets what comes.
    """

    def __init__(self, remote: socket.socket, local: socket.socket, coder: Coder, first: bytes = b"") -> None:
        self._remote = remote
        self._local = local
        self._coder = coder
        self._up = b""  # for the remote side
        self._down = memoryview(first)  # for the local side
        self._deaf = False  # the remote side takes nothing more; it may still have something to say
        self._silent = False  # the local side writes nothing more
        self._gone = False  # nobody reads there either
        self._until = 0.0  # when it is gone: for what it has written
        remote.setblocking(False)
        local.setblocking(False)

    def start(self, name: str) -> None:
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        try:
            while not self._finished():
                self._turn()
        except OSError:  # a protocol that was broken
            pass
        finally:
            self._leave()

    def _finished(self) -> bool:
        if not self._gone:
            return self._coder.ended and not self._down
        written = self._silent and not self._up
        return written or self._coder.ended or self._deaf or time.monotonic() >= self._until

    def _turn(self) -> None:
        if not self._deaf:
            self._up += self._coder.asides()
        near, far = self._wait()
        if near & READ:
            self._read_local()
        if self._up:
            self._send_up()
        if far & READ:
            self._read_remote()
        if self._down:
            self._send_down()
        if near & HANG_UP:
            self._lose_local()

    def _wait(self) -> tuple[int, int]:
        """What can be done now at the local and at the remote socket."""
        ended = self._coder.ended
        reads = not (self._silent or self._up or self._deaf or ended)
        hungry = not self._down and not ended
        poll = select.poll()
        # A socket that has been hung up says so again and again: it is asked only when something is wanted of it.
        if reads or not self._gone:
            poll.register(self._local, (READ if reads else 0) | (WRITE if self._down else 0))
        if hungry or self._up:
            poll.register(self._remote, (READ if hungry else 0) | (WRITE if self._up else 0))
        ahead = hungry and isinstance(self._remote, ssl.SSLSocket) and self._remote.pending() > 0
        seconds = 0.0 if ahead else min(self._coder.pause(), LAST) if self._gone else self._coder.pause()
        found = dict(poll.poll(seconds * 1000))
        near, far = found.get(self._local.fileno(), 0), found.get(self._remote.fileno(), 0)
        if reads and near & HANG_UP:
            near |= READ  # what was written before
        if ahead or (hungry and far & HANG_UP):
            far |= READ
        return near, far

    def _read_local(self) -> None:
        try:
            data = self._local.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:  # closed with something unread
            data = b""
        if data:
            self._up = self._coder.encode(data)
        else:
            self._silent = True

    def _read_remote(self) -> None:
        data = self._burst()
        if data:
            found = self._coder.decode(data)
            self._down = memoryview(b"" if self._gone else found)

    def _burst(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while size < BURST:
            try:
                data = self._remote.recv(CHUNK)
            except WOULD_WAIT:
                break
            except OSError:
                data = b""
            if not data:
                self._coder.ended = True
                break
            parts.append(data)
            size += len(data)
        return b"".join(parts)

    def _send_up(self) -> None:
        while self._up:
            try:
                sent = self._remote.send(self._up)
            except WOULD_WAIT:
                return
            except OSError:
                self._up, self._deaf = b"", True
                return
            self._up = self._up[sent:]

    def _send_down(self) -> None:
        try:
            sent = self._local.send(self._down)
        except BlockingIOError:
            return
        except OSError:
            self._lose_local()
            return
        self._down = self._down[sent:]

    def _lose_local(self) -> None:
        if not self._gone:
            self._gone, self._until = True, time.monotonic() + LAST
            self._down = memoryview(b"")

    def _leave(self) -> None:
        try:
            if not self._deaf:
                self._remote.send(self._up + self._coder.farewell())
        except OSError:  # the errors of WOULD_WAIT are, too
            pass
        try:
            # A Unix socket that is closed with something unread gives the other end an error instead of the end.
            self._local.shutdown(socket.SHUT_RDWR)
            while self._local.recv(CHUNK):
                pass
        except OSError:
            pass
        self._local.close()
        self._remote.close()


class Plain:
    """Bytes as they are."""

    def __init__(self) -> None:
        self.ended = False

    def encode(self, data: bytes) -> bytes:
        return data

    decode = encode

    def asides(self) -> bytes:
        return b""

    farewell = asides

    def pause(self) -> float:
        return 3600.0


def relay(remote: socket.socket) -> socket.socket:
    """A plain socket that stands for another one."""
    ours, theirs = socket.socketpair()
    Pump(remote, theirs, Plain()).start("hora-relay")
    return ours
