"""exec beside a rank: its end, and what it leaves in the agent."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hora.agent import inside, process
from hora.agent.inside import Inside
from hora.agent.loop import Loop
from hora.agent.stream import CHUNK, WINDOW


class Host:
    """An agent's `Inside`, and a client that reads nothing."""

    def __init__(self, folder: Path) -> None:
        self.loop = Loop()
        self.told: list[dict[str, Any]] = []
        self.bytes = 0
        self.busy = 0.0  # seconds that a frame costs: encryption, a slow machine
        rank = SimpleNamespace(env=dict(os.environ), cwd=str(folder))
        ranks: Any = SimpleNamespace(by_label={"worker-0/0": rank})
        self.inside = Inside(self.loop, self._reply, ranks, "")

    def _reply(self, header: dict[str, Any], body: bytes = b"") -> bool:
        self.told.append(header)
        self.bytes += len(body)
        time.sleep(self.busy)
        return True

    def exec(self, *argv: str, **more: Any) -> None:
        self.inside.frame({"t": "exec", "id": 1, "label": "worker-0/0", "argv": list(argv), **more}, b"")

    def until_it_ends(self) -> None:
        (pid,) = self.inside.pids()
        while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            self.turn(0.05)
        assert self.inside.reaped(*os.waitpid(pid, 0))
        self.turn(0.05)

    def turn(self, seconds: float) -> None:
        self.loop.after(seconds, self.loop.stop)
        self.loop.run()


@pytest.fixture
def host(work: Path) -> Iterator[Host]:
    made = Host(work)
    yield made
    made.loop.close()


def test_a_child_that_goes_on_writing_does_not_hold_up_the_end(host: Host) -> None:
    host.busy = 0.005
    host.exec("sh", "-c", "yes & sleep 0.5")
    host.until_it_ends()
    assert host.told[-1] == {"t": "exited", "id": 1, "code": 0, "signal": None}
    assert host.bytes <= WINDOW + 3 * CHUNK, "the window, and what a pipe holds"


@pytest.mark.parametrize("tty", [False, True])
def test_all_that_was_written_before_the_end_comes(host: Host, tty: bool) -> None:
    host.exec("sh", "-c", "head -c 50000 /dev/zero", tty=tty)
    host.until_it_ends()
    assert host.bytes == 50_000


@pytest.mark.parametrize("tty", [False, True])
def test_what_cannot_be_forked_leaves_no_descriptor_open(
    host: Host, monkeypatch: pytest.MonkeyPatch, tty: bool
) -> None:
    def no_fork(*_: Any, **__: Any) -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(process, "spawn", no_fork)
    before = os.listdir("/dev/fd")
    host.exec("true", tty=tty)
    assert host.told[-1]["t"] == "error"
    assert os.listdir("/dev/fd") == before


def test_who_has_ended_meanwhile_is_not_killed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be that of another process by then."""
    monkeypatch.setattr(inside, "HANGUP_PAUSE", 0.2)
    killed: list[int] = []
    monkeypatch.setattr(process, "signal_one", lambda pid, number: killed.append(pid))
    host.exec("sh", "-c", "echo up; exec sleep 1000")
    (pid,) = host.inside.pids()
    while not host.bytes:  # it has a group of its own by then
        host.turn(0.05)
    host.inside.close_all()
    host.until_it_ends()
    host.turn(0.4)
    assert pid not in killed
