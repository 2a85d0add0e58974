"""Listening sockets when there are no more descriptors: who is here goes on, who waits comes in later."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hora.agent import accepting
from hora.agent.lead.links import Links
from hora.agent.loop import Loop
from hora.agent.mpi_door import MpiDoor

ORDER = {"served": {"0": {}}, "ranks": []}
FREE = 5  # descriptors that are left


@contextmanager
def few_descriptors(free: int) -> Iterator[None]:
    """Every number below the limit is taken, except so many."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] < highest + free:
        taken.append(os.open(os.devnull, os.O_RDONLY))
    for number in taken[-free:]:
        os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for number in taken[:-free]:
            os.close(number)


def lead_of(loop: Loop, path: Path) -> Callable[[], None]:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    links = Links(SimpleNamespace(loop=loop, config={}))
    links.listen(server)
    return server.close


def agent_of(loop: Loop, path: Path) -> Callable[[], None]:
    door = MpiDoor(loop, SimpleNamespace(alive=[]), str(path.parent), lambda order: {}, lambda: "/")  # type: ignore[arg-type]
    door.expect(ORDER)
    return door.close


@pytest.fixture(params=["lead", "agent"])
def dial(request: pytest.FixtureRequest, work: Path) -> Iterator[tuple[Loop, Callable[[], socket.socket]]]:
    """A loop that listens as lead or agent do, and a way to connect."""
    loop = Loop()
    path = work / "door"
    close = {"lead": lead_of, "agent": agent_of}[request.param](loop, path)

    def connect() -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(path))
        return sock

    yield loop, connect
    close()
    loop.close()


def turns(loop: Loop, seconds: float) -> int:
    """How often the loop goes round in that time."""
    count = 0
    turn = loop.turn

    def counted() -> None:
        nonlocal count
        count += 1
        turn()

    loop.turn = counted  # type: ignore[method-assign]
    loop.after(seconds, loop.stop)
    loop.run()
    loop.turn = turn  # type: ignore[method-assign]
    return count


def test_without_descriptors_the_loop_rests_and_goes_on_when_there_are_some(
    dial: tuple[Loop, Callable[[], socket.socket]], monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(accepting, "PAUSE", 0.2)
    loop, connect = dial
    callers = [connect() for _ in range(20)]
    with few_descriptors(FREE):
        assert turns(loop, 0.9) < 20
    said = capfd.readouterr().err
    assert said.count("nobody new can be let in just now") == 1 and "Too many open files" in said
    before = len(os.listdir("/proc/self/fd"))
    turns(loop, 0.5)
    assert len(os.listdir("/proc/self/fd")) == before + len(callers) - FREE
    for caller in callers:
        caller.close()
    turns(loop, 0.2)
    assert len(os.listdir("/proc/self/fd")) == before - len(callers) - FREE, "those of the callers, and ours"
