"""Ranks of mpirun: their end is told once, whoever sees it first, and on every kernel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hora.agent import rank_door
from hora.agent.journal import Journal
from hora.agent.loop import Loop
from hora.agent.mpi_door import MpiDoor
from hora.agent.ranks import Ranks

CALLER = """
import json, socket, sys, time
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
link.sendall(json.dumps({"t": "rank", "rank": 0, "attempt": json.loads(sys.argv[2])}).encode() + b"\\n")
link.settimeout(20)
print(link.recv(1000), flush=True)
time.sleep(1000)
"""


class Host:
    def __init__(self, folder: Path) -> None:
        self.loop = Loop()
        self.journal = Journal(str(folder / "journal"))
        self.told: list[dict[str, Any]] = []
        self.ranks = Ranks(self.loop, self.journal, None, self._tell, lambda: None)
        self.door = MpiDoor(
            self.loop, self.ranks, str(folder), lambda order: dict(os.environ), lambda: str(folder)
        )
        order = {"label": "worker-0/0", "member": "worker-0", "number": 0, "attempt": 1, "argv": ["true"]}
        self.door.expect({"t": "start", "ranks": [], "served": {"0": order}})
        self.caller = self.call("1")

    def call(self, attempt: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-S", "-c", CALLER, self.door.path, attempt]
        return subprocess.Popen(command, stdout=subprocess.PIPE)

    def _tell(self, kind: str, **values: Any) -> None:
        self.told.append({"t": kind, **values})
        self.loop.stop()

    def until_told(self, seconds: float) -> None:
        timer = self.loop.after(seconds, self.loop.stop)
        self.loop.run()
        timer.cancel()

    @property
    def ends(self) -> list[dict[str, Any]]:
        return [event for event in self.told if event["t"] == "exit"]

    def close(self) -> None:
        end(self.caller)
        self.door.close()
        self.journal.close()
        self.loop.close()


def end(caller: subprocess.Popen[bytes]) -> None:
    caller.kill()
    caller.communicate()


@pytest.fixture
def host(work: Path) -> Iterator[Host]:
    made = Host(work)
    yield made
    made.close()


def test_an_orphan_of_mpirun_tells_its_end_once(host: Host) -> None:
    host.until_told(20.0)
    assert [event["t"] for event in host.told] == ["started"]
    host.caller.kill()
    _, status = os.waitpid(host.caller.pid, 0)  # as the agent does, who gets all orphans
    host.ranks.reaped(host.caller.pid, status)
    host.until_told(0.5)  # and its descriptor tells, too
    assert [(event["code"], event["signal"]) for event in host.ends] == [(None, signal.SIGKILL)]


def test_without_descriptors_of_processes_its_end_is_seen_all_the_same(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS, and Linux before 5.3."""
    monkeypatch.setattr(rank_door, "watch", lambda caller: None)
    host.until_told(20.0)
    host.caller.kill()
    host.until_told(10.0)
    assert [event["label"] for event in host.ends] == ["worker-0/0"]


def test_a_late_rank_of_an_earlier_attempt_does_not_take_the_place_of_this_one(host: Host) -> None:
    host.until_told(20.0)
    order = {"label": "worker-0/0", "member": "worker-0", "number": 0, "attempt": 2, "argv": ["true"]}
    host.door.expect({"t": "start", "ranks": [], "served": {"0": order}})
    late = host.call("1")
    host.until_told(1.5)
    assert late.stdout is not None
    assert b"belongs to an earlier attempt" in late.stdout.readline()
    end(late)
    right = host.call("2")
    host.until_told(20.0)
    assert [(event["t"], event["attempt"]) for event in host.told] == [("started", 1), ("started", 2)]
    end(right)
