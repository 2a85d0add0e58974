"""The check round the ring, with links that break: real requests over real sockets, the agents played by the test."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hora import state
from hora.agent import frames
from hora.agent.channel import Channel
from hora.agent.lead import gathering
from hora.agent.lead.hosts import HostLink
from hora.agent.lead.requests import Requests
from hora.agent.lead.store import Store
from hora.agent.loop import Loop

HOSTS = ("a", "b", "c")


class Lead:
    """As much of a lead as the check needs, and the far ends of its links."""

    def __init__(self, folder: Path) -> None:
        self.loop = Loop()
        self.phase = state.CHECKING
        self.control = SimpleNamespace(handlers={}, on_left=None)
        self.store = Store(str(folder))
        self.hosts: dict[str, HostLink] = {}
        self.requests = Requests(self)
        self.failed: list[str] = []
        self.done = 0
        self.stale = False
        self.agents: dict[str, socket.socket] = {}
        for name in HOSTS:
            link = self.hosts[name] = HostLink(name, self.store)
            link.prepared = {"address": f"10.0.0.{ord(name)}"}
            self.connect(name)

    def fail(self, text: str, *_: object) -> None:
        self.failed.append(text)

    def connect(self, name: str) -> None:
        link = self.hosts[name]
        ours, self.agents[name] = socket.socketpair()
        self.agents[name].setblocking(False)

        def reply(header: frames.Header, body: bytes) -> None:
            self.requests.reply(link, header, body)

        link.channel = Channel(self.loop, ours, reply, lambda why: self.requests.host_down(link))
        self.requests.host_up(link)

    def break_link(self, name: str) -> None:
        self.agents[name].close()
        self.turn()

    def turn(self) -> None:
        self.loop.after(0.02, self.loop.stop)
        self.loop.run()

    def begin(self) -> None:
        def done() -> None:
            self.done += 1

        gathering.ring(self, done, lambda: self.stale)

    def asked(self, name: str) -> list[frames.Header]:
        self.turn()
        try:
            data = self.agents[name].recv(1 << 16)
        except BlockingIOError:
            return []
        return [header for header, _body in frames.Decoder().feed(data)]

    def answer(self, name: str, **values: Any) -> frames.Header:
        """Answer the one question that the host has got."""
        (question,) = self.asked(name)
        self.agents[name].sendall(frames.encode({"t": "reply", "id": question["id"], **values}))
        self.turn()
        return question


@pytest.fixture
def lead(work: Path) -> Iterator[Lead]:
    made = Lead(work)
    yield made
    for name, link in made.hosts.items():
        if link.channel is not None:
            link.channel.close()
        made.agents[name].close()
    made.store.close()
    made.loop.close()


def listening(lead: Lead, *names: str) -> None:
    for name in names:
        assert lead.answer(name, port=7000 + ord(name)).get("listen")


def dialled(lead: Lead, *names: str) -> None:
    for name in names:
        assert "dial" in lead.answer(name, problem="")


def test_all_listen_each_dials_the_next_and_all_close(lead: Lead) -> None:
    lead.begin()
    listening(lead, *HOSTS)
    dialled(lead, *HOSTS)
    assert lead.done == 1 and lead.failed == []
    assert [lead.asked(name)[0].get("close") for name in HOSTS] == [True] * 3


@pytest.mark.parametrize("when", ["before the question", "before the answer", "while it dials", "at the end"])
def test_a_link_that_breaks_for_a_moment_costs_no_more_than_that(lead: Lead, when: str) -> None:
    if when == "before the question":
        lead.break_link("b")
    lead.begin()
    listening(lead, "a")
    if when == "before the answer":
        lead.asked("b")
        lead.break_link("b")
    if when.startswith("before"):
        lead.connect("b")
    listening(lead, "b", "c")
    if when == "while it dials":
        lead.asked("b")
        lead.break_link("b")
        dialled(lead, "a", "c")
        lead.connect("b")
        dialled(lead, "b")
    else:
        if when == "at the end":
            lead.agents["a"].shutdown(socket.SHUT_RD)  # broken, and not seen yet
        dialled(lead, *HOSTS)
    assert lead.done == 1 and lead.failed == []


def test_a_neighbour_that_cannot_be_reached_is_named(lead: Lead) -> None:
    lead.begin()
    listening(lead, *HOSTS)
    lead.answer("a", problem="No route to host")
    (why,) = lead.failed
    assert why.startswith("a can't reach b at 10.0.0.98: No route to host. Peers must reach one another")


def test_a_host_that_does_not_answer_is_named(lead: Lead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "RING_LIMIT", 0.15)
    lead.begin()
    listening(lead, "a", "c")
    for _ in range(10):
        lead.turn()
    (why,) = lead.failed
    assert why.startswith("b did not answer") and "firewalls" not in why


def test_of_a_link_that_is_down_no_answer_is_expected(lead: Lead, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links that stay away have a limit of their own."""
    monkeypatch.setattr(gathering, "RING_LIMIT", 0.5)
    lead.begin()
    listening(lead, "a", "c")
    lead.break_link("b")
    for _ in range(30):
        lead.turn()
    lead.connect("b")
    listening(lead, "b")
    dialled(lead, *HOSTS)
    assert lead.done == 1 and lead.failed == []


def test_a_check_that_another_one_has_replaced_decides_nothing(lead: Lead) -> None:
    lead.begin()
    listening(lead, *HOSTS)
    lead.stale = True
    dialled(lead, "a", "b")
    lead.answer("c", problem="Connection refused")
    assert lead.done == 0 and lead.failed == []
