"""Who may come in, and that those who may not don't hold up the others."""

from __future__ import annotations

import socket
import ssl
import struct
import tempfile
import time
from types import SimpleNamespace

import pytest

from hora.agent import frames, tls
from hora.agent.channel import Channel
from hora.agent.lead import entrance
from hora.agent.lead.board import Board
from hora.agent.lead.hosts import HostLink
from hora.agent.lead.links import Links
from hora.agent.lead.store import Store
from hora.agent.loop import Loop
from hora.agent.uplink import SERVER_NAME
from hora.errors import LeadGone
from hora.plan import Limits
from link.mesh import Mesh, a_plan, assert_whole, counting, identity

pytestmark = pytest.mark.leaks
CLIENT = frames.encode({"t": "client", "v": 1})
HELLO = {
    "t": "hello", "v": 1, "run": "ab12c", "host": "stranger", "members": ["worker-0"], "incarnation": 1,
    "attempt": 0, "got": 0, "pid": 1, "keeper": 1, "facts": {}, "home": "x",
}  # fmt: skip


@pytest.fixture
def busy(mesh: Mesh) -> Mesh:
    """Two hosts whose ranks print until they are stopped by the digest."""
    mesh.lead(counting(1000, pause=0.02, every=20), members=2)
    mesh.host(0)
    mesh.host(1)
    mesh.until("running")
    return mesh


def assert_unharmed(mesh: Mesh) -> None:
    assert mesh.ended().phase == "succeeded"
    assert_whole(mesh.output(), ["worker-0/0", "worker-1/0"])


def dial(mesh: Mesh) -> socket.socket:
    return socket.create_connection(("127.0.0.1", mesh.port), 10)


def wrapped(mesh: Mesh, context: ssl.SSLContext) -> ssl.SSLSocket:
    return context.wrap_socket(dial(mesh), server_hostname=SERVER_NAME)


def heard(sock: socket.socket, word: bytes) -> list[frames.Header]:
    """What the other side answers before it closes; an error of TLS counts as closed."""
    decoder, found = frames.Decoder(), []
    sock.settimeout(20)
    try:
        if word:
            sock.sendall(word)
        while data := sock.recv(65536):
            found += [header for header, _body in decoder.feed(data)]
    except (ssl.SSLError, ConnectionError):
        pass
    return found


def test_without_a_certificate_nobody_comes_in(busy: Mesh) -> None:
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.load_verify_locations(cadata=identity().ca)
    with wrapped(busy, bare) as sock:  # with TLS 1.3 the client learns of the refusal after its handshake
        assert heard(sock, CLIENT) == []
    assert_unharmed(busy)


def test_a_certificate_of_another_run_is_refused_by_both_sides(busy: Mesh) -> None:
    other = identity("zz99z")
    with pytest.raises(LeadGone, match="certificate verify failed"):
        busy.connect(other)
    mixed = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    mixed.load_verify_locations(cadata=identity().ca)
    tls._load_chain(mixed, (other.client.cert + other.client.key).encode())
    with wrapped(busy, mixed) as sock:
        assert heard(sock, CLIENT) == []
    assert_unharmed(busy)


def test_only_tls_1_3_is_spoken(busy: Mesh) -> None:
    old = tls.agent_context(identity().part("client"))
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        wrapped(busy, old)
    with wrapped(busy, tls.agent_context(identity().part("client"))) as sock:
        assert sock.version() == "TLSv1.3"
    assert_unharmed(busy)


def test_garbage_over_plain_tcp_is_hung_up_on(busy: Mesh) -> None:
    for text in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00" * 4096,
        struct.pack("!II", 9, 0) + b'{"t":"x"}',
        b"\x16\x03\x01",
    ):
        with dial(busy) as sock:
            assert heard(sock, text) == []
    assert_unharmed(busy)


def test_who_goes_before_a_word_was_said_harms_nobody(busy: Mesh) -> None:
    reset = struct.pack("ii", 1, 0)
    for word in [b"", b"\x16", b"\x16\x03\x01" + bytes(500)] * 30:
        with dial(busy) as sock:
            sock.sendall(word)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
    assert_unharmed(busy)


def test_half_open_and_slow_connections_hold_up_nobody(busy: Mesh) -> None:
    silent = [dial(busy) for _ in range(50)]
    slow = dial(busy)
    slow.sendall(b"\x16\x03\x01\x02\x00\x01\x00")  # the beginning of a handshake
    began = time.monotonic()
    client = busy.connect()
    client.answer("status")
    assert time.monotonic() - began < 3.0
    client.close()
    assert_unharmed(busy)
    for sock in [*silent, slow]:
        sock.close()


class NoLead:
    """As much of a lead as its connections need before anybody has come in."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.config: dict[str, str] = {}
        self.run_info = {"id": "ab12c"}
        self.phase = "gathering"
        self.board = Board(a_plan(["true"], 1, 1, Limits()))
        self.said: list[str] = []
        self.failed: list[str] = []
        self.telling = SimpleNamespace(say=self.said.append)

    def fail(self, text: str, *_: object) -> None:
        self.failed.append(text)


def test_who_says_nothing_is_hung_up_on_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrance, "FIRST_WORD", 0.05)
    lead = NoLead()
    ours, theirs = socket.socketpair()
    channel = Links(lead).connect(ours, tls.lead_context(identity().part("lead")))
    while not channel.closed:
        lead.loop.turn()
    with theirs:
        assert theirs.recv(1) == b""
    lead.loop.close()


def test_a_frame_that_is_too_long_ends_its_connection_only(busy: Mesh) -> None:
    for lengths in ((1 << 31, 0), (20, 1 << 31)):
        with wrapped(busy, tls.agent_context(identity().part("client"))) as sock:
            assert heard(sock, struct.pack("!II", *lengths) + b"{" * 100) == []
    assert_unharmed(busy)


def test_a_client_that_asks_nonsense_gets_an_answer_and_harms_nobody(busy: Mesh) -> None:
    with wrapped(busy, tls.agent_context(identity().part("client"))) as sock:
        sock.sendall(frames.encode({"t": "client", "v": 1}))
        for number, wrong in enumerate(
            (
                {"t": "exec", "label": ["x"]},
                {"t": "output", "start": "x"},
                {"t": "nonsense"},
                {"t": "output", "ranks": 5},
            ),
            1,
        ):
            sock.sendall(frames.encode({**wrong, "id": number}))
        sock.settimeout(20)
        decoder, answers = frames.Decoder(), []
        while len(answers) < 4:
            data = sock.recv(65536)
            assert data, answers
            answers += [header for header, _body in decoder.feed(data)]
        assert [(answer["t"], answer["id"]) for answer in answers] == [("error", n) for n in (1, 2, 3, 4)]
    assert_unharmed(busy)


@pytest.mark.parametrize(
    ("role", "word"), [("agent", {"t": "client", "v": 1}), ("client", HELLO)], ids=["agent", "client"]
)
def test_a_certificate_serves_one_purpose_only(busy: Mesh, role: str, word: frames.Header) -> None:
    assert [header["t"] for header in answer(busy, role, word)] == ["refused"]
    assert_unharmed(busy)


def test_the_certificate_of_a_lead_is_none_for_agents(busy: Mesh) -> None:
    assert answer(busy, "lead", HELLO) == []
    assert_unharmed(busy)


def answer(mesh: Mesh, role: str, word: frames.Header) -> list[frames.Header]:
    """What one first word, said with the certificate of `role`, is answered."""
    with wrapped(mesh, tls.agent_context(identity().part(role))) as sock:
        return heard(sock, frames.encode(word))


@pytest.mark.parametrize("wrong", [{"v": 2}, {"members": "worker-0"}, {"facts": None}, {"run": 5}], ids=str)
def test_a_hello_that_is_not_understood_is_refused_with_the_reason(busy: Mesh, wrong: frames.Header) -> None:
    told = answer(busy, "agent", {**HELLO, **wrong})
    assert [header["t"] for header in told] == ["refused"]
    assert next(iter(wrong)) in told[0]["why"] or "version" in told[0]["why"]
    assert_unharmed(busy)


def test_an_agent_of_another_run_hears_that_all_is_over(busy: Mesh) -> None:
    stray = busy.host(8, name="host-8", run="zz99z")
    assert stray.wait(20) == 0
    assert_unharmed(busy)


def test_a_second_agent_with_the_same_name_is_refused_and_the_first_goes_on(busy: Mesh) -> None:
    double = busy.host(0, name="host-0", members=["worker-0"], folder=str(busy.work / "double"), patience=1.0)
    assert double.wait(30) == 3
    assert "two agents call themselves host host-0" in busy.log("host-0")
    assert_unharmed(busy)
    status = busy.status()
    assert status is not None
    assert any("two agents call themselves host host-0" in note for note in status.notes)


def test_two_hosts_with_one_name_end_a_run_that_gathers_when_neither_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lead = NoLead()
    links = Links(lead)
    link = links.hosts["twin"] = HostLink("twin", Store(tempfile.mkdtemp()))
    ours, far_end = socket.socketpair()
    link.home, link.channel = "the first", Channel(lead.loop, ours, print, lambda why: None)

    def second_comes() -> list[frames.Header]:
        ours, theirs = socket.socketpair()
        channel = links.connect(ours)
        theirs.sendall(frames.encode({**HELLO, "host": "twin", "home": "the second"}))
        while not channel.closed:
            lead.loop.turn()
        with theirs:
            return heard(theirs, b"")

    told = second_comes()
    assert "two agents call themselves host twin" in told[0]["why"]
    assert lead.said == [told[0]["why"]]
    assert lead.failed == []
    monkeypatch.setattr(entrance, "REFUSED_LIMIT", -1.0)
    second_comes()
    assert lead.failed == lead.said  # said once
    link.channel.close()
    link.store.close()
    far_end.close()
    lead.loop.close()
