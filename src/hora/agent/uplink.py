"""The agent's side of the link: dial the lead, say hello, send the journal from where the lead's copy ends."""

from __future__ import annotations

import errno
import os
import socket

from hora.agent.channel import Channel
from hora.agent.resolving import Resolving, is_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Any, Callable, List, Optional, Sequence, Tuple

    from hora.agent.frames import Header
    from hora.agent.journal import Journal
    from hora.agent.loop import Loop, Timer

SLICE = 1 << 20
SILENCE = 15.0  # seconds without a word from the lead until the connection counts as broken
FIRST_DELAY = 0.05
LONGEST_DELAY = 2.0
SERVER_NAME = "hora-lead"  # every run's certificates carry this one name


class Uplink:
    """`on_frame(header, body)` gets what the lead says; `on_up` follows each welcome."""

    def __init__(
        self,
        loop: Loop,
        journal: Journal,
        addresses: Sequence[Any],  # a path (Unix socket) or [host, port]; tried in turn
        hello: Callable[[], Header],
        on_frame: Callable[[Header, bytes], None],
        tls: Optional[Callable[[], ssl.SSLContext]] = None,
    ) -> None:
        self.loop = loop
        self.journal = journal
        self.up = False
        self.down_since = loop.now()
        self.why = "not yet tried"
        self.acked = 0
        self.spared: List[Tuple[int, Header, bytes]] = []  # events of dropped parts: where each ended
        self.own_address: Optional[str] = (
            None  # as this host reaches the lead that answered; None on one machine
        )
        self.on_up: Callable[[], None] = lambda: None
        self.on_down: Callable[[str], None] = lambda why: None
        self.on_acked: Callable[[], None] = lambda: None
        journal.on_drop = self.spare
        self._addresses: List[Any] = list(addresses)
        self._hello = hello
        self._on_frame = on_frame
        self._tls_factory = tls
        self._tls: Optional[ssl.SSLContext] = None
        self._channel: Optional[Channel] = None
        self._sent = 0
        self._delay = FIRST_DELAY
        self._next = 0
        self._dialing: Optional[socket.socket] = None
        self._resolving: Optional[Resolving] = None
        self._found: List[Any] = []  # what a name stands for, and has not been tried yet
        self._closed = False
        self._timer: Optional[Timer] = None

    # --- dialling ---

    def dial(self) -> None:
        if self._closed:
            return
        self._timer = None
        if self._found:
            self._dial(self._found.pop(0))
            return
        address = self._addresses[self._next % len(self._addresses)]
        self._next += 1
        if isinstance(address, str) or is_number(address[0]):
            self._dial(address)
        else:
            self._resolve(address)

    def _resolve(self, address: Any) -> None:
        def done(found: List[Any], why: str) -> None:
            self._resolving = None
            self._found = found
            if found:
                self.dial()
            else:
                self._failed(f"{_text(address)}: {why}")

        try:
            self._resolving = Resolving(self.loop, address[0], address[1], done)
        except OSError as problem:
            self._failed(f"{_text(address)}: {problem}")

    def _dial(self, address: Any) -> None:
        try:
            sock = self._socket(address)
            result = sock.connect_ex(address if isinstance(address, str) else tuple(address[:2]))
        except OSError as error:  # a path that is too long
            self._failed(f"{_text(address)}: {error}")
            return
        if result in (0, errno.EISCONN):
            self._connected(sock)
        elif result in (errno.EINPROGRESS, errno.EAGAIN):
            self._dialing = sock
            self.loop.watch(sock, 2, lambda _events: self._dialled(sock, address))
            self._timer = self.loop.after(5.0, lambda: self._gave_up(sock, address))
        else:
            sock.close()
            self._failed(f"{_text(address)}: {errno.errorcode.get(result, str(result))}")

    def _socket(self, address: Any) -> socket.socket:
        if isinstance(address, str):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        else:
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setblocking(False)
        return sock

    def _dialled(self, sock: socket.socket, address: Any) -> None:
        self._forget_dialing()
        problem = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            sock.close()
            self._failed(f"{_text(address)}: {errno.errorcode.get(problem, str(problem))}")
        else:
            self._connected(sock)

    def _gave_up(self, sock: socket.socket, address: Any) -> None:
        self._forget_dialing()
        sock.close()
        self._failed(f"{_text(address)}: no answer within 5 s")

    def _forget_dialing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._dialing is not None:
            self.loop.unwatch(self._dialing)
            self._dialing = None

    def _failed(self, why: str) -> None:
        self.why = why
        delay = self._delay * (0.7 + 0.6 * os.urandom(1)[0] / 255)  # not all agents at the same moment
        self._delay = min(self._delay * 1.6, LONGEST_DELAY)
        self._timer = self.loop.after(delay, self.dial)

    def _connected(self, sock: socket.socket) -> None:
        if self._tls_factory is not None and self._tls is None:
            self._tls = self._tls_factory()
        try:
            channel = self._channel = Channel(
                self.loop, sock, self._frame, self._lost, tls=self._tls, server_name=SERVER_NAME
            )
        except OSError as problem:  # the other side went before TLS could begin
            sock.close()
            self._failed(str(problem))
            return
        channel.on_drain = self.kick
        channel.send(self._hello())  # it may find that the lead has gone
        if not channel.closed:
            self._watch_silence(channel)

    def _watch_silence(self, channel: Channel) -> None:
        def look() -> None:
            if channel.closed:
                return
            if self.loop.now() - channel.heard > SILENCE:
                channel.close(f"the lead said nothing for {SILENCE:.0f} s")
            else:
                self.loop.after(SILENCE / 3, look)

        self.loop.after(SILENCE / 3, look)

    def _lost(self, why: str) -> None:
        self._channel = None
        was_up, self.up = self.up, False
        if was_up:
            self.down_since = self.loop.now()
            self._delay = FIRST_DELAY
        if not self._closed:
            self._failed(why or "the lead closed the connection")
            self.on_down(self.why)

    # --- talking ---

    def _frame(self, header: Header, body: bytes) -> None:
        kind = header["t"]
        if kind == "welcome":
            self._welcome(header)
        elif kind == "ack":
            self.acked = max(self.acked, header["at"])
            self.spared = [event for event in self.spared if event[0] > self.acked]
            self.on_acked()
        elif kind == "refused":
            self.break_now(f"the lead refuses: {header['why']}")
        else:
            self._on_frame(header, body)

    def _welcome(self, header: Header) -> None:
        self.up = True
        self.acked = header["from"]
        self._sent = header["from"]
        self._found = []
        if self._channel is not None and self._channel.sock.family != socket.AF_UNIX:
            self.own_address = str(self._channel.sock.getsockname()[0])
        self.on_up()
        self.kick()

    def send(self, header: Header, body: bytes = b"") -> bool:
        """Something that needs no second try (a reply, a heartbeat); False when the link is down."""
        if self._channel is None or not self.up:
            return False
        self._channel.send(header, body)
        return True

    def kick(self) -> None:
        """Send as much of the journal as the socket takes."""
        channel = self._channel
        if channel is None or not self.up:
            return
        while not channel.full and not channel.closed and self._sent < self.journal.end:
            if self._sent < self.journal.start:
                self._skip(channel)
            part = self.journal.read(self._sent, SLICE)
            if not part:
                return
            offset, self._sent = self._sent, self._sent + len(part)
            channel.send({"t": "j", "at": offset}, part)

    def _skip(self, channel: Channel) -> None:
        """Output was dropped before it could be sent; what happened meanwhile must be heard all the same."""
        for end, header, body in self.spared:
            if end > self._sent:
                channel.send({"t": "spared", "event": header}, body)
        self._sent = self.journal.start
        channel.send({"t": "gap", "to": self._sent})

    def spare(self, start: int, end: int) -> None:
        """Keep the events of a part of the journal that goes to stay within its limit."""
        for _offset, header, body, length in self.journal.frames(start, end):
            if header["t"] != "o":
                data = self.journal.read_exactly(body, length) or b""
                self.spared.append((body + length, header, data))

    @property
    def all_acked(self) -> bool:
        return self.acked >= self.journal.end

    def break_now(self, why: str) -> None:
        if self._channel is not None:
            self._channel.close(why)

    def close(self) -> None:
        self._closed = True
        self._forget_dialing()
        if self._resolving is not None:
            self._resolving.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._channel is not None:
            self._channel.close()


def _text(address: Any) -> str:
    if isinstance(address, str):
        return address
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
