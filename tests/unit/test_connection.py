"""The client's end of the control channel, against a lead that the test plays on a socket pair."""

from __future__ import annotations

import os
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hora.agent import frames
from hora.errors import LeadGone, PlaceError
from hora.places.connection import Connection


class Peer:
    """The lead's end."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._decoder = frames.Decoder()

    def send(self, kind: str, body: bytes = b"", **values: object) -> None:
        self.sock.sendall(frames.encode({"t": kind, **values}, body))

    def next(self) -> tuple[dict[str, object], bytes]:
        while True:
            for header, body in self._decoder.feed(self.sock.recv(65536)):
                return header, body


@pytest.fixture
def pair() -> Iterator[tuple[Connection, Peer]]:
    ours, theirs = socket.socketpair()
    connection = Connection(ours)
    yield connection, Peer(theirs)
    connection.close()
    theirs.close()


def test_an_answer_is_told_from_what_comes_between_and_that_stays_in_order(
    pair: tuple[Connection, Peer],
) -> None:
    connection, lead = pair
    lead.send("say", id=77, text="before")
    lead.send("say", id=77, text="close before")
    lead.send("done", id=1, result=3)
    lead.send("say", id=77, text="after")
    header, _ = connection.answer("stop", timeout=5.0)
    assert header["result"] == 3
    assert [header["text"] for header, _ in connection.frames(1.0)] == ["before", "close before", "after"]


def test_a_refusal_is_raised_in_the_leads_own_words(pair: tuple[Connection, Peer]) -> None:
    connection, lead = pair
    lead.send("error", id=1, message="no rank 'worker-9/0'; there are worker-0/0")
    with pytest.raises(PlaceError, match="no rank 'worker-9/0'; there are worker-0/0"):
        connection.answer("stacks", timeout=5.0)


def test_no_answer_within_the_limit_is_said(pair: tuple[Connection, Peer]) -> None:
    connection, _ = pair
    with pytest.raises(LeadGone, match="no answer to 'stop' within"):
        connection.answer("stop", timeout=0.05)


def test_a_lead_that_goes_away_ends_the_wait_at_once(pair: tuple[Connection, Peer]) -> None:
    connection, lead = pair
    threading.Timer(0.05, lambda: lead.sock.shutdown(socket.SHUT_RDWR)).start()
    with pytest.raises(LeadGone, match="has gone away"):
        connection.answer("stop", timeout=30.0)
    assert connection.closed
    assert connection.frames(None) == []


def test_frames_come_whole_however_they_are_cut(pair: tuple[Connection, Peer]) -> None:
    connection, lead = pair
    data = frames.encode({"t": "o", "n": 1}, os.urandom(3000))
    for at in range(0, len(data), 700):
        lead.sock.sendall(data[at : at + 700])
    found = list(connection.frames(5.0))
    while not found:
        found = list(connection.frames(5.0))
    assert found[0][0]["n"] == 1 and len(found[0][1]) == 3000


def test_waiting_with_a_limit_works_above_descriptor_1024(pair: tuple[Connection, Peer]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("fewer than 2048 open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        ours, theirs = socket.socketpair()
        connection = Connection(ours)
        assert connection.fileno() > 1024
        assert connection.frames(0.01) == []
        connection.close()
        theirs.close()
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_socket_that_nobody_listens_at_is_a_lead_that_does_not_answer(work: Path) -> None:
    with pytest.raises(LeadGone, match="doesn't answer"):
        Connection.to_socket(str(work / "nobody.sock"))


def test_the_first_word_says_that_it_is_a_client(work: Path) -> None:
    path = str(work / "lead.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        connection = Connection.to_socket(path)
        accepted, _ = server.accept()
        with accepted:
            assert Peer(accepted).next()[0] == {"t": "client", "v": 1}
        connection.close()


def test_a_lead_that_hangs_up_before_the_first_word_leaves_no_socket_open(work: Path) -> None:
    path = str(work / "lead.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        threading.Thread(target=lambda: server.accept()[0].close()).start()
        try:
            connection = Connection.to_socket(path)
        except LeadGone:
            return  # a ResourceWarning would fail the test
        assert connection.frames(5.0) == []
        connection.close()
