"""Port-forwards through a WebSocket server of a few lines that does what a kubelet does."""

from __future__ import annotations

import base64
import gc
import hashlib
import socket
import ssl
import struct
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hora.errors import PlaceError
from hora.identity import make_identity
from hora.places.kubernetes.api import Access, Api, ApiError, forward, websocket
from hora.places.kubernetes.api.access import Tls
from hora.places.kubernetes.api.credentials import Credential, Kept
from hora.places.kubernetes.api.forward import Forward, open_forward

PORTS = (b"\0" + struct.pack("<H", 7777), b"\1" + struct.pack("<H", 7777))  # what each channel begins with
NOT_RUNNING = b'{"kind":"Status","code":500,"message":"pod is not running. Current status=Pending"}'


class Peer:
    """The cluster's end of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._frames = websocket.Frames()
        self._read: list[tuple[int, bytes]] = []

    def send(self, content: bytes, kind: int = websocket.BINARY, last: bool = True) -> None:
        """A frame as servers send it: without a mask."""
        size = len(content)
        head = struct.pack("!B", (0x80 if last else 0) | kind)
        if size < 126:
            head += struct.pack("!B", size)
        elif size < 65536:
            head += struct.pack("!BH", 126, size)
        else:
            head += struct.pack("!BQ", 127, size)
        self.sock.sendall(head + content)

    def welcome(self) -> None:
        for content in PORTS:
            self.send(content)

    def frame(self) -> tuple[int, bytes] | None:
        """The next one; None when the client has hung up."""
        while not self._read:
            try:
                data = self.sock.recv(1 << 18)
            except OSError:
                data = b""
            if not data:
                return None
            self._read = [(kind, content) for kind, _, content in self._frames.feed(data)]
        return self._read.pop(0)

    def data(self) -> Iterator[bytes]:
        while (found := self.frame()) is not None and found[0] != websocket.CLOSE:
            if found[0] == websocket.BINARY:
                assert found[1][:1] == b"\0"
                yield found[1][1:]


class Cluster:
    """Takes connections; `play` is what it does on each after the handshake."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.play: Callable[[Peer], None] = echo
        self.refusal = b""  # instead of a handshake
        self.heads: list[str] = []
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        port = self._listener.getsockname()[1]
        nobody = Kept("nobody", Credential)
        scheme = "https" if context else "http"
        access = Access(scheme, "127.0.0.1", port, "", "me", "", "here", Tls(insecure=True), None, nobody)
        self.api = Api(access)

    def open(self, **options: Any) -> Forward:
        return open_forward(self.api, "me", "train-0", 7777, **{"timeout": 5.0, **options})

    def close(self) -> None:
        self.api.close()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._open:
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(sock,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_side=True)
            self._open.append(sock)
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += sock.recv(1)
            self.heads.append(head.decode())
            if self.refusal:
                sock.sendall(self.refusal)
                return
            sock.sendall(handshake(head.decode()))
            self.play(Peer(sock))
        except OSError:
            pass
        finally:
            sock.close()


def handshake(head: str) -> bytes:
    headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
    key = headers["Sec-WebSocket-Key"].encode() + websocket.MAGIC
    accept = base64.b64encode(hashlib.sha1(key).digest()).decode()
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {headers['Sec-WebSocket-Protocol']}\r\n\r\n"
    ).encode()


def echo(peer: Peer) -> None:
    peer.welcome()
    for data in peer.data():
        peer.send(b"\0" + data)


def swallow(peer: Peer) -> None:
    peer.welcome()
    for _ in peer.data():
        pass


@pytest.fixture(scope="module")
def secured() -> ssl.SSLContext:
    import datetime
    import tempfile

    identity = make_identity("test", datetime.datetime.now(datetime.timezone.utc)).part("lead")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write((identity["cert"] + identity["key"]).encode())
        file.flush()
        context.load_cert_chain(file.name)
    return context


@pytest.fixture(params=["plain", "TLS"])
def cluster(request: pytest.FixtureRequest, secured: ssl.SSLContext) -> Iterator[Cluster]:
    found = Cluster(secured if request.param == "TLS" else None)
    yield found
    found.close()
    wait_for_threads()


def pumps() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("hora-forward")]


def wait_for_threads() -> None:
    until = time.monotonic() + 5
    while pumps() and time.monotonic() < until:
        time.sleep(0.01)
    assert pumps() == []


def read_all(sock: socket.socket) -> bytes:
    parts = []
    while data := sock.recv(1 << 18):
        parts.append(data)
    return b"".join(parts)


def exactly(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        data = sock.recv(size - len(found))
        assert data
        found += data
    return found


# --- frames ---


@settings(deadline=None)
@given(st.binary(max_size=300), st.binary(min_size=4, max_size=4))
def test_masking_is_that_of_the_rfc_and_undoes_itself(data: bytes, mask: bytes) -> None:
    masked = websocket.masked(data, mask)
    assert masked == bytes(byte ^ mask[position % 4] for position, byte in enumerate(data))
    assert websocket.masked(masked, mask) == data


@settings(deadline=None)
@given(st.lists(st.integers(0, 70000), max_size=4), st.integers(1, 9000))
def test_frames_come_whole_however_they_are_cut(sizes: list[int], cut: int) -> None:
    contents = [bytes([size % 256]) * size for size in sizes]
    stream = b"".join(websocket.frame(websocket.BINARY, content) for content in contents)
    frames = websocket.Frames()
    got = [found for at in range(0, len(stream), cut) for found in frames.feed(stream[at : at + cut])]
    assert got == [(websocket.BINARY, True, content) for content in contents]


# --- opening ---


def test_the_handshake_asks_for_the_port_of_the_pod(cluster: Cluster) -> None:
    with cluster.open():
        pass
    head = cluster.heads[0]
    assert head.startswith("GET /api/v1/namespaces/me/pods/train-0/portforward?ports=7777 HTTP/1.1\r\n")
    assert "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n" in head
    assert cluster.api.counted == {"GET pods/portforward": 1}


@pytest.mark.parametrize("status", [400, 403, 404, 500])
def test_a_refusal_is_raised_in_the_servers_words(cluster: Cluster, status: int) -> None:
    body = NOT_RUNNING
    cluster.refusal = b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)
    with pytest.raises(ApiError, match=r"pod is not running\. Current status=Pending") as caught:
        cluster.open()
    assert caught.value.status == status


def test_words_on_the_error_channel_are_raised_when_they_come_at_once(cluster: Cluster) -> None:
    def play(peer: Peer) -> None:
        peer.welcome()
        peer.send(b"\1error forwarding port 7777: connection refused")

    cluster.play = play
    with pytest.raises(
        ApiError, match=r"me/train-0:7777 can't be reached: error .* connection refused"
    ) as caught:
        cluster.open(settle=5.0)
    assert caught.value.reason == forward.FAILED


def test_a_connection_that_is_closed_at_once_is_an_error(cluster: Cluster) -> None:
    cluster.play = Peer.welcome
    with pytest.raises(ApiError, match="the connection was closed at once"):
        cluster.open(settle=5.0)


def test_what_does_not_speak_the_protocol_is_refused(cluster: Cluster) -> None:
    cluster.refusal = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    with pytest.raises(ApiError, match="doesn't change to WebSocket"):
        cluster.open()
    cluster.refusal = b"HTTP/1.1 101 Sure\r\nSec-WebSocket-Accept: no\r\n\r\n"
    with pytest.raises(ApiError, match=r"doesn't speak v4.channel.k8s.io"):
        cluster.open()


def test_opening_does_not_wait_for_a_server_that_speaks_first(cluster: Cluster) -> None:
    def play(peer: Peer) -> None:
        peer.welcome()
        peer.send(b"\0hello")
        for _ in peer.data():
            pass

    cluster.play = play
    begun = time.monotonic()
    with cluster.open(settle=5.0) as sock:
        assert sock.recv(100) == b"hello"
    assert time.monotonic() - begun < 2


# --- carrying ---


def test_bytes_go_both_ways(cluster: Cluster) -> None:
    with cluster.open() as sock:
        for size in (1, 124, 125, 126, 65535, 65536, 300_000):
            data = bytes(number % 251 for number in range(size))
            sender = threading.Thread(target=sock.sendall, args=(data,))
            sender.start()
            assert exactly(sock, size) == data
            sender.join()
        assert sock.problem is None


def test_fragments_pings_and_split_announcements_are_understood(cluster: Cluster) -> None:
    pongs = []

    def play(peer: Peer) -> None:
        peer.send(PORTS[0][:2], last=False)
        peer.send(PORTS[0][2:] + b"a", websocket.MORE, last=False)
        peer.send(b"are you there", websocket.PING)
        peer.send(b"", websocket.MORE, last=False)
        peer.send(b"b", websocket.MORE)
        peer.send(b"")
        peer.send(b"\0c", websocket.BINARY, last=True)
        while (found := peer.frame()) is not None and found[0] != websocket.PONG:
            pass
        pongs.append(found)
        peer.send(b"\x03\xe8", websocket.CLOSE)

    cluster.play = play
    with cluster.open() as sock:
        assert read_all(sock) == b"abc"
    assert pongs == [(websocket.PONG, b"are you there")]


def test_pings_keep_an_idle_connection_alive(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "PING_SECONDS", 0.05)
    pings = threading.Semaphore(0)

    def play(peer: Peer) -> None:
        peer.welcome()
        while (found := peer.frame()) is not None:
            if found[0] == websocket.PING:
                pings.release()
                peer.send(found[1], websocket.PONG)

    cluster.play = play
    with cluster.open(settle=0):
        for _ in range(3):
            assert pings.acquire(timeout=5)


def test_a_server_that_no_longer_answers_pings_is_given_up(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "PING_SECONDS", 0.05)
    monkeypatch.setattr(forward, "DEAD_SECONDS", 0.2)
    done = threading.Event()

    def play(peer: Peer) -> None:
        peer.welcome()
        peer.send(b"", websocket.PONG)
        done.wait(10)

    cluster.play = play
    with cluster.open(settle=0) as sock:
        sock.settimeout(5)
        assert sock.recv(10) == b""
    done.set()


# --- ending ---


def test_an_error_later_ends_the_socket_and_is_kept(cluster: Cluster) -> None:
    def play(peer: Peer) -> None:
        peer.welcome()
        next(peer.data())
        peer.send(b"\0last words")
        peer.send(b"\1lost connection to pod")

    cluster.play = play
    with cluster.open() as sock:
        sock.sendall(b"x")
        assert read_all(sock) == b"last words"
        assert "lost connection to pod" in str(sock.problem)


@pytest.mark.parametrize("settle", [0.0, 0.05])
def test_with_or_without_settling_a_pod_that_refuses_is_seen(cluster: Cluster, settle: float) -> None:
    def play(peer: Peer) -> None:
        peer.welcome()
        peer.send(b"\1refused")

    cluster.play = play
    problem: PlaceError | None = None
    try:
        with cluster.open(settle=settle) as sock:
            assert read_all(sock) == b""
            problem = sock.problem
    except ApiError as raised:
        problem = raised
    assert "refused" in str(problem)


def test_the_end_of_the_other_side_is_seen_after_all_its_data(cluster: Cluster) -> None:
    size = 3_000_000

    def play(peer: Peer) -> None:
        peer.welcome()
        for _ in range(size // 30_000):
            peer.send(b"\0" + b"x" * 30_000)

    cluster.play = play
    with cluster.open() as sock:
        time.sleep(0.1)
        assert len(read_all(sock)) == size
        assert sock.problem is None


def test_what_was_written_before_closing_still_arrives(cluster: Cluster) -> None:
    got: list[bytes] = []
    over = threading.Event()

    def play(peer: Peer) -> None:
        peer.welcome()
        time.sleep(0.2)  # it is slow to read
        got.extend(peer.data())
        over.set()

    cluster.play = play
    sock = cluster.open()
    sender = threading.Thread(target=sock.sendall, args=(b"y" * 2_000_000,))
    sender.start()
    sender.join()
    sock.close()
    assert over.wait(10)
    assert sum(map(len, got)) == 2_000_000


def test_half_closing_still_lets_answers_come(cluster: Cluster) -> None:
    go = threading.Event()

    def play(peer: Peer) -> None:
        peer.welcome()
        next(peer.data())
        go.wait(5)
        peer.send(b"\0answer")

    cluster.play = play
    with cluster.open() as sock:
        sock.sendall(b"question")
        sock.shutdown(socket.SHUT_WR)
        time.sleep(0.1)
        go.set()
        assert read_all(sock) == b"answer"


def test_a_socket_that_nobody_holds_any_more_ends_its_thread(cluster: Cluster) -> None:
    cluster.play = swallow
    sock = cluster.open()
    assert len(pumps()) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del sock
        gc.collect()
    wait_for_threads()


def test_a_slow_reader_holds_back_the_other_side_and_no_memory_fills(cluster: Cluster) -> None:
    sent = 0

    def play(peer: Peer) -> None:
        nonlocal sent
        peer.welcome()
        while sent < 60_000_000:
            peer.send(b"\0" + b"z" * 100_000)
            sent += 100_000

    cluster.play = play
    with cluster.open():
        time.sleep(0.5)
        assert sent < 30_000_000


def test_tls_runs_over_a_forward_both_ways_at_once(cluster: Cluster, secured: ssl.SSLContext) -> None:
    """What Hora does with it: the lead's own TLS, end to end."""

    def play(peer: Peer) -> None:
        peer.welcome()
        near, far = socket.socketpair()
        writer = threading.Thread(target=carry_up, args=(peer, far))
        reader = threading.Thread(target=carry_down, args=(peer, far))
        writer.start()
        reader.start()
        try:
            with secured.wrap_socket(near, server_side=True) as lead:
                while data := lead.recv(65536):
                    lead.sendall(data)
        except OSError:
            pass
        near.close()
        reader.join()
        writer.join()
        far.close()

    cluster.play = play
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    opened = cluster.open()
    with context.wrap_socket(opened) as sock:
        data = bytes(range(256)) * 4000
        sender = threading.Thread(target=sock.sendall, args=(data,))
        sender.start()
        assert exactly(sock, len(data)) == data
        sender.join()
    assert opened.problem is None


def carry_up(peer: Peer, sock: socket.socket) -> None:
    for data in peer.data():
        sock.sendall(data)
    sock.shutdown(socket.SHUT_RDWR)


def carry_down(peer: Peer, sock: socket.socket) -> None:
    try:
        while data := sock.recv(65536):
            peer.send(b"\0" + data)
    except OSError:
        pass
