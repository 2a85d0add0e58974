"""Port-forward: a socket here that is a connection to a port in a pod, with no listening port between."""

from __future__ import annotations

import socket
import time

from hora.places.kubernetes.api import websocket
from hora.places.kubernetes.api.client import path
from hora.places.kubernetes.api.errors import ApiError, Unreachable
from hora.places.kubernetes.api.pump import Pump
from hora.places.kubernetes.api.websocket import BINARY, CLOSE, MORE, PING, PONG, TEXT, Frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.places.kubernetes.api.client import Api
    from hora.places.kubernetes.api.wire import Wire

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = 0, 1  # channels
CHUNK = 65536
NORMAL = b"\x03\xe8"  # 1000
PORT_BYTES = 2  # each channel begins with the port's number
PING_SECONDS = 15.0
# Without a word, for a server that has answered a ping before.  Not less: a kubelet reads no pings while the
# program in the pod doesn't read its data.
DEAD_SECONDS = 120.0
SETTLE = 0.05
FAILED = "PortForwardFailed"  # the reason of an ApiError that came over the error channel


class Forward(socket.socket):
    """The caller's end.  What wraps it (TLS) takes the connection over: keep this one to ask `problem`."""

    __slots__ = ("_channels",)
    _channels: Channels

    @property
    def problem(self) -> ApiError | None:
        """Why the connection has ended, if the cluster has said so; set before the end is seen."""
        return self._channels.problem


def open_forward(
    api: Api, namespace: str, pod: str, port: int, timeout: float = 10.0, settle: float = SETTLE
) -> Forward:
    """A connection to `port` in the pod.

    A server may accept and then say that nobody listens there: it has `settle` seconds to do so, in which a
    connection that is good costs the same.  With 0 only what has come already counts; the socket then ends at
    once and its `problem` says why.
    """
    until = time.monotonic() + timeout
    where = path("v1", "pods", namespace, pod, "portforward")
    taken, first = websocket.connect(api, where, {"ports": port}, PROTOCOL, timeout)
    channels = Channels(f"{namespace}/{pod}:{port}")
    try:
        data = _settled(taken, channels, first, min(until, time.monotonic() + settle))
    except OSError as problem:
        taken.close()
        message = f"{channels.where} can't be reached: the connection broke off ({problem})"
        raise Unreachable(message) from problem
    except BaseException:
        taken.close()
        raise
    if channels.ended and not data:
        taken.close()
        raise channels.problem or channels.failure("the connection was closed at once")
    ours, theirs = socket.socketpair()
    mine = Forward(ours.family, ours.type, ours.proto, ours.detach())
    mine._channels = channels
    Pump(taken.sock, theirs, channels, data).start(f"hora-forward-{pod}")
    return mine


def _settled(taken: Wire, channels: Channels, first: bytes, until: float) -> bytes:
    """The data that has come when either some has, or the other side has spoken up, or `until` is over."""
    data = channels.decode(first)
    while not data and not channels.ended:
        try:
            more = taken.some(CHUNK, until)
        except TimeoutError:
            break
        data = channels.decode(more)
        channels.ended = channels.ended or not more
    return data


class Channels:
    """What is in the frames: data, errors, pings.  The `Coder` of a port-forward."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.ended = False
        self.problem: ApiError | None = None
        self._frames = Frames()
        self._to_skip = {DATA: PORT_BYTES, ERROR: PORT_BYTES}
        self._channel: int | None = None  # of the message that is coming; None: its first byte will tell
        self._asides: list[bytes] = []
        self._heard = time.monotonic()
        self._answers_pings = False
        self._next_ping = self._heard + PING_SECONDS

    def encode(self, data: bytes) -> bytes:
        return websocket.frame(BINARY, b"\0" + data)

    def decode(self, data: bytes) -> bytes:
        self._heard = time.monotonic()
        parts = []
        for kind, last, content in self._frames.feed(data):
            if kind in (BINARY, TEXT, MORE):
                parts.append(self._message(last, content))
            elif kind == PING:
                self._asides.append(websocket.frame(PONG, content))
            elif kind == PONG:
                self._answers_pings = True
            elif kind == CLOSE:
                self.ended = True
                break
        return b"".join(parts)

    def asides(self) -> bytes:
        now = time.monotonic()
        if now >= self._next_ping:
            self._next_ping = now + PING_SECONDS
            self._asides.append(websocket.frame(PING, b""))
            if self._answers_pings and now - self._heard > DEAD_SECONDS:
                self.ended = True
        said, self._asides = self._asides, []
        return b"".join(said)

    def farewell(self) -> bytes:
        return websocket.frame(CLOSE, NORMAL)

    def pause(self) -> float:
        return max(0.0, self._next_ping - time.monotonic())

    def failure(self, words: str) -> ApiError:
        return ApiError(f"{self.where} can't be reached: {words}", 500, FAILED)

    def _message(self, last: bool, content: bytes) -> bytes:
        """The data in a message or a part of one."""
        if self._channel is None:
            self._channel = content[0] if content else None
            content = content[1:]
        channel = self._channel
        if last:
            self._channel = None
        if channel is None:
            return b""
        skipped = min(self._to_skip.get(channel, 0), len(content))
        if skipped:
            self._to_skip[channel] -= skipped
            content = content[skipped:]
        if channel == DATA:
            return content
        if channel == ERROR and content:
            self._fail(content)
        return b""

    def _fail(self, words: bytes) -> None:
        self.ended = True
        if self.problem is None:
            text = " ".join(words.decode("utf-8", "replace").split())
            self.problem = self.failure(text)
