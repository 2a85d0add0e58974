"""The agent's side of the link, where the lead is not as it should be."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hora.agent import resolving, uplink
from hora.agent.journal import Journal
from hora.agent.loop import Loop
from hora.agent.uplink import Uplink


def test_a_lead_that_goes_between_the_connection_and_the_hello_is_dialled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uplink, "SILENCE", 0.15)
    ours, theirs = socket.socketpair()
    theirs.close()
    loop, journal = Loop(), Journal(str(tmp_path))
    link = Uplink(
        loop, journal, [str(tmp_path / "nobody")], lambda: {"t": "hello"}, lambda header, body: None
    )
    link._connected(ours)  # where a dial that has just succeeded goes on
    loop.after(0.5, loop.stop)
    loop.run()
    assert "nobody" in link.why, "it has dialled again"
    link.close()
    journal.close()
    loop.close()


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()
    try:
        os.waitpid(-1, 0)  # the child that asked; an agent waits for all of its children
    except ChildProcessError:
        pass


def resolved(loop: Loop, name: str) -> tuple[list[Any], str]:
    told: list[tuple[list[Any], str]] = []
    resolving.Resolving(loop, name, 7, lambda found, why: (told.append((found, why)), loop.stop()))  # type: ignore[func-returns-value]
    loop.run()
    return told[0]


def test_a_name_stands_for_all_its_addresses(loop: Loop) -> None:
    found, why = resolved(loop, "localhost")
    assert ["127.0.0.1", 7] in found and why == ""


def test_a_name_of_nobody_says_so(loop: Loop) -> None:
    found, why = resolved(loop, "nobody.invalid")
    assert found == [] and why


def test_a_name_service_that_does_not_answer_holds_up_nothing(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(1000))
    monkeypatch.setattr(resolving, "LIMIT", 0.5)
    turns: list[float] = []

    def tick() -> None:
        turns.append(loop.now())
        loop.after(0.05, tick)

    tick()
    found, why = resolved(loop, "lead.example.org")
    assert (found, why) == ([], "no answer to its name within 0 s")
    assert len(turns) > 3


@pytest.mark.parametrize(
    ("host", "number"),
    [("10.0.0.1", True), ("fe80::1%eth0", True), ("lead", False), ("10.0.0.1.nip.io", False)],
)
def test_what_is_an_address_already_needs_no_asking(host: str, number: bool) -> None:
    assert resolving.is_number(host) is number
