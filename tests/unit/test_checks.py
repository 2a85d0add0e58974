"""The ring check: one host dials another."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from hora.agent.checks import Checks
from hora.agent.loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


def dialled(loop: Loop, host: str, port: int) -> dict[str, Any]:
    told: list[dict[str, Any]] = []

    def reply(header: dict[str, Any], body: bytes = b"") -> None:
        told.append(header)
        loop.stop()

    Checks(loop, reply, None, None, "").ring({"id": 1, "dial": [host, port]})  # type: ignore[arg-type]
    if not told:
        loop.after(5.0, loop.stop)
        loop.run()
    return told[0]


@pytest.mark.parametrize("address", ["255.255.255.255", "fe80::1"])
def test_a_neighbour_to_whom_there_is_no_way_is_not_reached(loop: Loop, address: str) -> None:
    """A broadcast address and a link-local one without its link: the kernel says no to the call itself."""
    assert dialled(loop, address, 9)["problem"]


def test_a_neighbour_that_listens_is_reached_and_one_that_does_not_is_not(loop: Loop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert dialled(loop, "127.0.0.1", port) == {"t": "reply", "id": 1, "problem": ""}
    assert dialled(loop, "127.0.0.1", port)["problem"] == "Connection refused"
