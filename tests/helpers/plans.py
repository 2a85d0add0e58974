"""Jobs and scenes for tests of plans."""

from __future__ import annotations

from typing import Any

from hora.plan import LaunchPlan, Scene, Spot
from hora.spec import JobSpec, RoleSpec


def a_job(*roles: RoleSpec, framework: str = "plain", **rest: Any) -> JobSpec:
    return JobSpec("digits", framework, roles or (RoleSpec("worker", 2, command=("python", "t.py")),), **rest)


def on_one_host(plan: LaunchPlan, threads: int = 2, interface: str = "lo") -> Scene:
    """All members on this machine; ports 20000, 20001, ... in the order of members and their names."""
    spots, port = {}, 20000
    for role in plan.roles:
        for index in range(role.replicas):
            ports = tuple((name, port + at) for at, name in enumerate(role.port_names))
            port += len(ports)
            spots[f"{role.name}-{index}"] = Spot("here", "127.0.0.1", interface, threads, ports, "/f")
    return Scene(plan, "ab12c", 1, spots)
