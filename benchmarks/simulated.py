"""Many agents in one process: the real link, journal and TLS, but ranks that only pretend.

`python -m benchmarks.simulated` reads its configuration from standard input, says when it is ready, begins at
the next line that it reads, and tells at the end when its first start order came.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from hora.agent import frames, tls
from hora.agent.journal import Journal
from hora.agent.loop import READ, Loop
from hora.agent.uplink import Uplink

BATCH = 10  # lines that a rank writes at once


class Simulated:
    """One host with one rank."""

    def __init__(self, swarm: Swarm, number: int) -> None:
        self.swarm = swarm
        self.name = f"host-{number}"
        self.member = f"worker-{number}"
        self.label = f"{self.member}/0"
        self.got = 0
        self.leaving = False
        self.journal = Journal(os.path.join(swarm.config["folder"], self.name))
        self.home = (
            self.journal.home
        )  # a file of its own: not to be measured, since hosts have their own disks
        self.uplink = Uplink(
            swarm.loop, self.journal, [swarm.config["lead"]], self.hello, self.frame, tls=lambda: swarm.tls
        )
        self.uplink.on_acked = self.acked
        self.uplink.on_down = lambda why: self.leave()

    def hello(self) -> frames.Header:
        return {
            "t": "hello", "v": 1, "run": self.swarm.config["run"], "host": self.name, "home": self.home,
            "incarnation": 1, "members": [self.member], "attempt": 0, "got": self.got, "pid": os.getpid(),
            "keeper": os.getpid(), "time": time.time(), "facts": {"hostname": self.name, "cpus": 2},
            "journal": [self.journal.start, self.journal.end],
        }  # fmt: skip

    def tell(self, kind: str, **values: Any) -> None:
        self.journal.append(frames.encode({"t": kind, "attempt": 1, **values}))
        self.uplink.kick()

    def frame(self, header: frames.Header, body: bytes) -> None:
        if "order" in header:
            self.got = header["order"]
            self.uplink.send({"t": "got", "order": self.got})
        kind = header["t"]
        if kind == "ping":
            self.uplink.send({"t": "pong", "n": header["n"], "time": time.time()})
        elif kind == "prepare":
            self.prepared(header)
        elif kind == "ring":
            self.uplink.send({"t": "reply", "id": header["id"], "port": 1, "problem": ""})
        elif kind == "start":
            self.start()
        elif kind == "stop":
            self.tell("gone")
        elif kind == "over":
            self.leaving = True
            self.acked()

    def prepared(self, header: frames.Header) -> None:
        ports = {
            member: {name: 20000 + at for at, name in enumerate(names)}
            for member, names in header["ports"].items()
        }
        found = {"ports": ports, "threads": 2, "address": "127.0.0.1", "folder": "/f", "interface": "lo"}
        self.tell("prepared", facts={"python": "3.11"}, **found)

    def start(self) -> None:
        self.swarm.started = self.swarm.started or time.monotonic()
        self.tell("started", label=self.label, pid=1, at=time.time())
        for first in range(0, self.swarm.config["lines"], BATCH):
            lines = range(first, min(first + BATCH, self.swarm.config["lines"]))
            text = "".join(f"line {n} of {self.label} {'.' * 70}\n" for n in lines)
            header = {"t": "o", "m": self.member, "r": 0, "a": 1, "at": round(time.time(), 6)}
            self.journal.append(frames.encode(header, text.encode()))
        self.tell(
            "exit", label=self.label, code=0, signal=None, at=time.time(), stopped=False, oom=False, bytes=0
        )

    def acked(self) -> None:
        if self.leaving and self.uplink.all_acked:
            self.uplink.close()
            self.leave()

    def leave(self) -> None:
        self.swarm.left(self)


class Swarm:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.loop = Loop()
        self.started = 0.0
        self.tls = tls.agent_context(config["identity"])
        self._here = {Simulated(self, number) for number in range(*config["numbers"])}

    def run(self) -> None:
        print("ready", flush=True)
        self.loop.watch(0, READ, lambda _events: self._go())
        self.loop.run()
        print(json.dumps({"started": self.started}), flush=True)

    def _go(self) -> None:
        self.loop.unwatch(0)
        os.read(0, 16)
        for agent in self._here:
            agent.uplink.dial()

    def left(self, agent: Simulated) -> None:
        self._here.discard(agent)
        if not self._here:
            self.loop.stop()


def _raise_limit() -> None:
    import resource

    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def first_line() -> Iterator[str]:
    """The configuration alone: what follows on standard input is the word to begin."""
    text = b""
    while not text.endswith(b"\n"):
        text += os.read(0, 1)
    yield text.decode()


def _leave_a_core() -> None:
    """The lead has the first one for itself, where there are more."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[1:] or cores)


if __name__ == "__main__":
    _raise_limit()
    _leave_a_core()
    Swarm(json.loads(next(first_line()))).run()
    sys.exit(0)
