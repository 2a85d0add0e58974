"""The control channel: what clients of a run hear, whatever other clients do."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator

import pytest

from hora.agent import frames
from hora.agent.channel import Channel
from hora.agent.lead.control import Control
from hora.agent.lead.store import Store
from hora.agent.loop import Loop


class Clients:
    """A control with clients on real sockets; those of the numbers in `dead` were killed just now."""

    def __init__(self, count: int, dead: int) -> None:
        self.loop = Loop()
        self.store = Store(tempfile.mkdtemp(), ["worker-0"])
        self.control = Control(self.store, lambda: {"phase": "succeeded"})
        pairs = [socket.socketpair() for _ in range(count)]
        for number, (ours, _theirs) in enumerate(pairs, 1):
            client = self.control.add(Channel(self.loop, ours, print, lambda why: None), False)
            client.watching = number
            client.frame({"t": "output", "id": 100 + number}, b"")
        self.theirs = [theirs for _ours, theirs in pairs]
        self.theirs[dead].close()

    def heard(self, index: int) -> list[str]:
        self.theirs[index].setblocking(False)
        try:
            data = self.theirs[index].recv(1 << 16)
        except BlockingIOError:
            return []
        return [header["t"] for header, _body in frames.Decoder().feed(data)]

    def close(self) -> None:
        for client in list(self.control.clients):
            client.channel.close()
        for sock in self.theirs:
            sock.close()
        self.store.close()
        self.loop.close()


@pytest.fixture
def clients() -> Iterator[Clients]:
    made = Clients(3, dead=0)
    yield made
    made.close()


def test_a_client_killed_at_the_end_takes_the_end_from_nobody_else(clients: Clients) -> None:
    clients.control.end()
    assert [clients.heard(index) for index in (1, 2)] == [["status", "end"]] * 2
    assert len(clients.control.clients) == 2


@pytest.mark.parametrize("news", ["status", "say", "o"])
def test_a_client_that_was_killed_takes_no_news_from_others(clients: Clients, news: str) -> None:
    if news == "status":
        clients.control.new_status()
    elif news == "say":
        clients.control.say("a sentence")
    else:
        header: frames.Header = {"t": "o", "m": "worker-0", "r": 0, "a": 1, "at": 1.0}
        clients.store.receive("here", 0, frames.encode(header, b"text\n"))
        clients.control.new_output()
    assert [clients.heard(index) for index in (1, 2)] == [[news]] * 2
