"""A framed connection over a non-blocking socket, plain or TLS: the one way in which Hora's processes talk."""

from __future__ import annotations

import socket
from collections import deque

from hora.agent import frames
from hora.agent.loop import READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Callable, Deque, Optional

    from hora.agent.loop import Loop

    OnFrame = Callable[[frames.Header, bytes], None]
    OnClose = Callable[[str], None]

CHUNK = 256 << 10
HIGH_WATER = 1 << 20
RECORD = 16 << 10  # bytes of one TLS record


class Channel:
    """`send` never blocks; `full` tells when to wait for `on_drain`.  `on_close(why)` is called once."""

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        on_frame: OnFrame,
        on_close: OnClose,
        tls: Optional[ssl.SSLContext] = None,
        server_side: bool = False,
        server_name: str = "",
    ) -> None:
        self.loop = loop
        self.on_frame = on_frame
        self.on_close = on_close
        self.on_drain: Optional[Callable[[], None]] = None
        self.closed = False
        self.heard = loop.now()  # when the other side last said something
        self._out: Deque[memoryview] = deque()
        self._out_bytes = 0
        self._decoder = frames.Decoder()
        self._closing = False
        self._flushing = False
        self._events = READ
        sock.setblocking(False)
        self._tls = tls is not None
        self._handshake = tls is not None
        if tls is not None:
            sock = tls.wrap_socket(
                sock,
                server_side=server_side,
                do_handshake_on_connect=False,
                server_hostname=None if server_side else server_name,
            )
        self.sock = sock
        loop.watch(sock, READ, self._ready)
        if self._handshake and not server_side:
            loop.soon(lambda: self._ready(WRITE))

    @property
    def full(self) -> bool:
        return self._out_bytes > HIGH_WATER

    @property
    def bearer(self) -> Optional[str]:
        """Whose certificate the other side has shown; None without TLS."""
        if not self._tls:
            return None
        from hora.agent import tls

        return tls.bearer(self.sock)

    @property
    def pending(self) -> int:
        """Bytes not yet taken by the socket."""
        return self._out_bytes

    def send(self, header: frames.Header, body: bytes = b"") -> None:
        if self.closed or self._closing:
            return
        self._queue(frames.head(header, len(body)))
        if body:
            self._queue(body)
        if self._handshake:
            return
        if not self._tls:
            self._write()
        elif not self._flushing:
            self._flushing = True
            self.loop.after(0.0, self._flush)

    def _flush(self) -> None:
        """With TLS each write costs a record: what is said in one turn goes out together."""
        self._flushing = False
        if self.closed or self._handshake:
            return
        was_full = self.full
        self._write()
        if was_full and self.on_drain is not None and not self.closed and not self.full:
            self.on_drain()

    def _queue(self, data: bytes) -> None:
        self._out.append(memoryview(data))
        self._out_bytes += len(data)

    def close_when_sent(self) -> None:
        """Say what is queued, then hang up."""
        self._closing = True
        if not self._out:
            self.close("")

    def close(self, why: str = "") -> None:
        if self.closed:
            return
        self.closed = True
        self.loop.unwatch(self.sock)
        self.sock.close()
        self._out.clear()
        self._out_bytes = 0
        self.on_close(why)

    # --- inside ---

    def _ready(self, events: int) -> None:
        if self._handshake:
            self._shake()
            return
        if events & WRITE or (self._tls and self._out):
            self._write()
            if self.on_drain is not None and not self.closed and not self.full:
                self.on_drain()
        if events & READ and not self.closed:
            self._read()

    def _shake(self) -> None:
        """One step of the handshake; at its end, what waited for it."""
        import ssl

        try:
            self.sock.do_handshake()  # type: ignore[attr-defined]
        except ssl.SSLWantReadError:
            self._want(READ)
            return
        except ssl.SSLWantWriteError:
            self._want(READ | WRITE)
            return
        except (OSError, ValueError) as error:  # SSLError is an OSError
            self.close(f"TLS handshake failed: {error}")
            return
        self._handshake = False
        self._want(READ | WRITE if self._out else READ)
        self._read()
        if not self.closed:
            self._write()
        if self.on_drain is not None and not self.closed:
            self.on_drain()

    def _want(self, events: int) -> None:
        if events != self._events and not self.closed:
            self._events = events
            self.loop.watch(self.sock, events, self._ready)

    def _read(self) -> None:
        """As much as fits one turn of the loop: others have theirs.  What is left makes the socket readable
        again; only what OpenSSL has taken out of it already does not."""
        read = 0
        while read < CHUNK and not self.closed:
            data = self._receive()
            if data is None:
                return
            read += len(data)
            self.heard = self.loop.now()
            if not self._deliver(data) or not self._tls:
                return
        if not self.closed and self.sock.pending():  # type: ignore[attr-defined]
            self.loop.after(0.0, lambda: self._ready(READ))

    def _receive(self) -> Optional[bytes]:
        """What is there; None when there is nothing just now, or nothing more."""
        try:
            data = self.sock.recv(CHUNK)
        except BlockingIOError:
            return None
        except OSError as error:
            if not (self._tls and type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")):
                self.close(str(error))
            return None
        if not data:
            self.close("")
            return None
        return data

    def _deliver(self, data: bytes) -> bool:
        try:
            for header, body in self._decoder.feed(data):
                self.on_frame(header, body)
                if self.closed:
                    return False
        except frames.FrameError as error:
            self.close(str(error))
            return False
        return True

    def _write(self) -> None:
        while self._out and not self.closed:
            try:
                sent = self._send_some()
            except BlockingIOError:
                break
            except OSError as error:
                if self._tls and type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError"):
                    break
                self.close(str(error))
                return
            self._out_bytes -= sent
            self._drop(sent)
        if self.closed:
            return
        if not self._out and self._closing:
            self.close("")
            return
        self._want(READ | WRITE if self._out else READ)

    def _send_some(self) -> int:
        if self._tls:
            return self.sock.send(self._record())
        return self.sock.sendmsg([self._out[index] for index in range(min(len(self._out), 64))])

    def _record(self) -> memoryview:
        """As much as fills one record of TLS.  After a write that the socket did not take, OpenSSL wants the
        same bytes again, or more: the queue only grows at its end."""
        first = self._out[0]
        if len(first) >= RECORD or len(self._out) == 1:
            return first
        parts, size = [], 0
        for part in self._out:
            parts.append(part[: RECORD - size])
            size += len(parts[-1])
            if size == RECORD:
                break
        return memoryview(b"".join(parts))

    def _drop(self, sent: int) -> None:
        while sent:
            first = self._out[0]
            if sent < len(first):
                self._out[0] = first[sent:]
                return
            sent -= len(first)
            self._out.popleft()
