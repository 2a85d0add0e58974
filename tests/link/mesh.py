"""A lead on TCP with TLS and several hosts that dial it: real processes, on loopback, each with a folder of its own."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

from helpers.runs import wait_until
from hora import frameworks, plan
from hora.agent.lead import documents
from hora.agent.lead.kept import Kept
from hora.identity import Identity, make_identity
from hora.places.code import Packed
from hora.places.connection import Connection
from hora.record import replace
from hora.spec import JobSpec, RoleSpec
from hora.state import RunStatus

RUN = "ab12c"
LIMIT = 90.0


@cache
def identity(run: str = RUN) -> Identity:
    return make_identity(run, datetime.now(timezone.utc))


def a_plan(
    command: Sequence[str], members: int, ranks: int, limits: plan.Limits, **rest: Any
) -> plan.LaunchPlan:
    role = RoleSpec("worker", members, ranks=ranks, command=tuple(command))
    spec = JobSpec("link", "plain", (role,))
    return replace(frameworks.get("plain").plan(spec), limits=limits, **rest)


class Mesh:
    """`mesh.lead(...)`, `mesh.host(0)`, …; `mesh.ended()` is the verdict."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.folder = work / "run"
        self.port = 0
        self.code: Packed | None = None
        self.code_sent_later = False
        self.leads: list[subprocess.Popen[bytes]] = []
        self.hosts: dict[str, subprocess.Popen[bytes]] = {}
        self._started: list[subprocess.Popen[bytes]] = []
        self.plan: plan.LaunchPlan

    # --- starting ---

    def lead(
        self,
        command: Sequence[str] = ("true",),
        members: int = 3,
        ranks: int = 1,
        limits: plan.Limits | None = None,
        code: Packed | None = None,
        **rest: Any,
    ) -> None:
        self.code = code
        limits = limits or plan.Limits(schedule=60.0, start=60.0, grace=3.0)
        self.plan = a_plan(command, members, ranks, limits, **rest)
        self.start_lead()

    def start_lead(self) -> None:
        """Also the second one of a run, on the same folder and port."""
        info = {"id": RUN, "name": "link", "place": "test", "createdAt": time.time(), "command": ["link"]}
        process = self._start(
            "lead",
            {
                "run": info,
                "plan": plan.to_data(self.plan),
                "folder": str(self.folder),
                "listen": ["127.0.0.1", self.port],
                "identity": identity().part("lead"),
                **self._given_code(),
            },
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the lead does not listen:\n" + self.log("lead")
        self.port = json.loads(line)["port"]
        self.leads.append(process)

    def _given_code(self) -> dict[str, Any]:
        """As a cluster has it: shards, mounted beside the lead."""
        if self.code is None:
            return {}
        parts = []
        for number, data in enumerate(self.code.parts(1_000_000)):
            parts.append(self.work / f"code-{number}")
            parts[-1].write_bytes(data)
        return {"code": self.code.config([] if self.code_sent_later else [str(part) for part in parts])}

    def host(
        self, index: int, port: int = 0, name: str = "", members: Sequence[str] = (), **config: Any
    ) -> subprocess.Popen[bytes]:
        """A keeper and its agent; `port`: of something between it and the lead."""
        name = name or f"host-{index}"
        told = {
            "run": RUN,
            "host": name,
            "members": list(members or [f"worker-{index}"]),
            "folder": str(self.work / f"at-{index}"),
            "lead": [["127.0.0.1", port or self.port]],
            "patience": self.plan.limits.start,
            "grace": self.plan.limits.grace,
            "identity": identity().part("agent"),
            "address": "127.0.0.1",
            **config,
        }
        process = self._start("host", told, name)
        self.hosts[name] = process
        return process

    def _start(self, mode: str, config: dict[str, Any], name: str = "lead") -> subprocess.Popen[bytes]:
        with (self.work / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "hora.agent", mode],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if mode == "lead" else log,
                stderr=log,
                start_new_session=True,
                cwd=self.work,
            )
        assert process.stdin is not None
        process.stdin.write(json.dumps(config).encode())
        process.stdin.close()
        self._started.append(process)
        return process

    # --- looking ---

    def log(self, name: str) -> str:
        return (self.work / f"{name}.log").read_text(errors="replace")

    def status(self) -> RunStatus | None:
        known = documents.read_json(str(self.folder / documents.STATUS))
        return None if known is None else RunStatus.from_json(known)

    def until(self, phase: str, timeout: float = LIMIT) -> RunStatus:
        def reached() -> RunStatus | None:
            status = self.status()
            assert status is None or status.phase == phase or not status.ended, status
            return status if status is not None and status.phase == phase else None

        found = wait_until(reached, f"the phase {phase}", timeout)
        assert found is not None
        return found

    def ended(self, timeout: float = LIMIT) -> RunStatus:
        """The verdict, once lead and hosts have gone by themselves."""

        def over() -> RunStatus | None:
            status = self.status()
            assert self.leads[-1].poll() in (None, 0), self.log("lead")
            return status if status is not None and status.ended else None

        found = wait_until(over, "the end of the run", timeout)
        assert found is not None
        return found

    def agent_pid(self, name: str, after: int = 0) -> int:
        """The agent's process, as the lead knows it; `after`: not this one, which was killed."""

        def known() -> int:
            status = self.status()
            pid = 0 if status is None else dict(status.pids).get(f"agent {name}", 0)
            return pid if pid != after else 0

        return wait_until(known, f"the agent of {name}")

    def output(self) -> dict[str, bytes]:
        """All that the lead has kept, by rank."""
        store = Kept(str(self.folder / "output"))
        try:
            found: dict[str, bytearray] = {}
            for entry in store.entries(0, store.count):
                body = store.body(entry)
                assert body is not None
                found.setdefault(store.label(entry), bytearray()).extend(body)
            return {label: bytes(data) for label, data in found.items()}
        finally:
            store.close()

    def connect(self, of: Identity | None = None, role: str = "client") -> Connection:
        return Connection.to_address("127.0.0.1", self.port, (of or identity()).part(role))

    # --- ending ---

    def kill(self, *pids: int) -> None:
        """All at once: none lives to tell of another's end."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                os.kill(pid, number)

    def close(self) -> None:
        if getattr(self.status(), "ended", False):  # then they go by themselves
            self._wait(2.0)
        for process in self._started:
            if process.poll() is None:
                process.terminate()
        self._wait(15.0)
        for process in self._started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for process in self._started:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass  # it is killed in the end


def counting(lines: int, pause: float = 0.0, every: int = 1) -> list[str]:
    """A rank that prints numbered lines, some at a time, and at last the digest of what it printed."""
    code = f"""
import hashlib, sys, time, os
seen = hashlib.sha256()
for start in range(0, {lines}, {every}):
    text = "".join("line %d of rank %s %s\\n" % (n, os.environ["HORA_RANK"], "x" * (n % 70))
                   for n in range(start, min(start + {every}, {lines}))).encode()
    seen.update(text)
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()
    if {pause}: time.sleep({pause})
sys.stdout.buffer.write(b"digest " + seen.hexdigest().encode() + b"\\n")
"""
    return [sys.executable, "-c", code]


def assert_whole(output: dict[str, bytes], labels: Sequence[str]) -> None:
    """Every rank's digest is that of its lines: none lost, none twice, in order."""
    assert sorted(output) == sorted(labels)
    for label, data in output.items():
        text, _, digest = data.rpartition(b"digest ")
        assert hashlib.sha256(text).hexdigest() == digest.decode().strip(), f"{label}: {len(text)} bytes"
