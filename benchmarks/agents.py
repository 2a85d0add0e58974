"""A thousand agents, one lead on one core: gather them, start their ranks, carry 100 lines of each to a client."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime, timezone
from typing import Any

from benchmarks import measure
from hora import frameworks, plan
from hora.identity import Identity, make_identity
from hora.places.connection import Connection
from hora.record import replace
from hora.spec import JobSpec, RoleSpec

SECONDS, MEGABYTES = 5.0, 250
LINES = 100
PROCESSES = 4  # that hold the agents
RUN = "ab12c"
_LEAD = """
import os, sys
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from hora.agent.server import main
sys.exit(main())
"""


def run(quick: bool) -> dict[str, Any]:
    agents = 100 if quick else 1000
    tries = [once(agents) for _ in range(measure.rounds(5, quick))]

    def row(who: str, key: str, unit: str) -> dict[str, Any]:
        return measure.row(who, [one[key] for one in tries], unit)

    rows = [
        row("gathered and checked", "gathered", "s"),
        row("and all lines at the client", "seconds", "s"),
        row("CPU time of the lead", "cpu", "s"),
        row("memory of the lead", "memory", "MB"),
        row("lines lost", "lost", "lines"),
    ]
    return {
        "name": "agents",
        "what": f"{agents} agents over TLS, one lead on one core, {LINES} lines of each",
        "rows": rows,
        "goal": f"at most {SECONDS:g} s and {MEGABYTES} MB, no line lost",
        "met": rows[1]["value"] <= SECONDS
        and rows[3]["value"] <= MEGABYTES
        and not any(one["lost"] for one in tries),
    }


def once(agents: int) -> dict[str, float]:
    folder = tempfile.mkdtemp(prefix="hora-bench-")
    made = make_identity(RUN, datetime.now(timezone.utc))
    started: list[subprocess.Popen[str]] = []
    try:
        lead = _start([sys.executable, "-c", _LEAD], _lead_config(folder, made, agents), started)
        assert lead.stdin is not None
        assert lead.stdout is not None
        lead.stdin.close()
        port = json.loads(lead.stdout.readline())["port"]
        swarms = []
        for part in range(PROCESSES):
            numbers = [agents * part // PROCESSES, agents * (part + 1) // PROCESSES]
            config = {"run": RUN, "folder": folder, "lead": ["127.0.0.1", port], "numbers": numbers}
            config.update(identity=made.part("agent"), lines=LINES)
            swarms.append(_start([sys.executable, "-m", "benchmarks.simulated"], config, started))
        for swarm in swarms:
            assert swarm.stdout is not None
            assert swarm.stdout.readline() == "ready\n"
        return _measure(port, made, lead, swarms, agents)
    finally:
        for process in started:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None and not pipe.closed:
                    pipe.close()
        shutil.rmtree(folder)


def _measure(
    port: int, made: Identity, lead: subprocess.Popen[str], swarms: list[subprocess.Popen[str]], agents: int
) -> dict[str, float]:
    client = Connection.to_address("127.0.0.1", port, made.part("client"))
    client.ask("output", start=0, follow=True)
    cpu = _cpu(lead.pid)
    began = time.monotonic()
    for swarm in swarms:
        assert swarm.stdin is not None
        swarm.stdin.write("go\n")
        swarm.stdin.flush()
    counted = _count(client, agents)
    seconds = time.monotonic() - began
    cpu, memory = _cpu(lead.pid) - cpu, _memory(lead.pid)
    client.close()
    told = [json.loads(swarm.stdout.readline()) for swarm in swarms if swarm.stdout is not None]
    gathered = min(one["started"] for one in told) - began
    lost = agents * LINES - sum(counted.values())
    if not counted:
        raise RuntimeError("no line came at all: did the lead live?")
    return {"gathered": gathered, "seconds": seconds, "cpu": cpu, "memory": memory, "lost": lost}


def _count(client: Connection, agents: int) -> Counter[str]:
    """Lines by label, until all are there."""
    counted: Counter[str] = Counter()
    while sum(counted.values()) < agents * LINES:
        found = client.frames(30.0)
        if not found:
            return counted
        for header, body in found:
            if header["t"] == "o":
                counted[header["label"]] += body.count(b"\n")
            elif header["t"] == "end":
                return counted
    return counted


def _lead_config(folder: str, made: Identity, agents: int) -> dict[str, Any]:
    role = RoleSpec("worker", agents, command=("true",))
    made_plan = frameworks.get("plain").plan(JobSpec("agents", "plain", (role,)))
    made_plan = replace(made_plan, limits=plan.Limits(schedule=120.0, start=120.0))
    info = {"id": RUN, "name": "agents", "place": "bench", "createdAt": time.time(), "command": ["true"]}
    return {
        "run": info,
        "plan": plan.to_data(made_plan),
        "folder": os.path.join(folder, "run"),
        "listen": ["127.0.0.1", 0],
        "identity": made.part("lead"),
    }


def _start(
    command: list[str], config: dict[str, Any], started: list[subprocess.Popen[str]]
) -> subprocess.Popen[str]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    started.append(process)
    assert process.stdin is not None
    process.stdin.write(json.dumps(config) + "\n")
    process.stdin.flush()
    return process


def _cpu(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> float:
    """The most it ever had in memory, in MB."""
    with open(f"/proc/{pid}/status") as file:
        line = next(line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e6
