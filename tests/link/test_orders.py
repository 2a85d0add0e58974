"""What an agent answers to orders: a real one, whose lead is played by the test."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hora.agent import frames

pytestmark = pytest.mark.leaks
PREPARE: frames.Header = {"t": "prepare", "ports": {}, "checks": [], "alone": True}
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


class Agent:
    """`order` gives an order, `hear` waits for an event."""

    def __init__(self, work: Path) -> None:
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(work / "lead"))
        self._server.listen()
        config = {"run": "ab12c", "host": "here", "members": ["worker-0"], "folder": str(work / "agent")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hora.agent", "host"], stdin=subprocess.PIPE, cwd=work
        )
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({**config, "lead": [str(work / "lead")]}).encode())
        self.process.stdin.close()
        self._server.settimeout(20)
        self._sock, _ = self._server.accept()
        self._sock.settimeout(20)
        self._number = 0
        self._frames, self._journal = frames.Decoder(), frames.Decoder()
        self._events: list[frames.Header] = []
        self._sock.sendall(frames.encode({"t": "welcome", "from": 0}))

    def order(self, header: frames.Header, **values: Any) -> None:
        self._number += 1
        self._sock.sendall(frames.encode({**header, **values, "order": self._number}))

    def hear(self, **wanted: Any) -> frames.Header:
        """The next event that looks like that."""
        while True:
            while self._events:
                event = self._events.pop(0)
                if all(event.get(key) == value for key, value in wanted.items()):
                    return event
            data = self._sock.recv(1 << 16)
            assert data, "the agent has gone"
            for header, body in self._frames.feed(data):
                if header["t"] == "j":
                    self._events += [event for event, _body in self._journal.feed(body)]

    def close(self) -> None:
        self._sock.close()
        self._server.close()
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture
def agent(leaks: None, work: Path) -> Iterator[Agent]:
    made = Agent(work)
    yield made
    made.close()


def test_a_stop_of_an_attempt_that_never_began_here_is_answered_for_that_attempt(agent: Agent) -> None:
    agent.order({"t": "stop"}, attempt=3, kill=True, grace=1.0, leftovers=False)
    agent.hear(t="gone", attempt=3)


def test_a_stop_while_an_attempt_waits_for_the_ranks_of_the_last_one_is_answered_for_it(agent: Agent) -> None:
    agent.order(PREPARE, attempt=1)
    agent.hear(t="prepared", attempt=1)
    rank = {"label": "worker-0/0", "member": "worker-0", "number": 0, "attempt": 1}
    agent.order({"t": "start", "ranks": [{**rank, "argv": [sys.executable, "-c", DEAF]}]}, attempt=1)
    agent.hear(t="o", m="worker-0")
    agent.order(PREPARE, attempt=2)
    agent.order({"t": "stop"}, attempt=2, kill=False, grace=1.0, leftovers=False)
    agent.hear(t="exit", label="worker-0/0", attempt=1)
    agent.hear(t="gone", attempt=2)
