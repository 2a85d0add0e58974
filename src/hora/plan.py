"""The launch plan: what frameworks write and agents read.

A plan is frozen data.  Where an address, a port, a rank or a count goes it holds a symbol (symbols.py).
The lead resolves symbols at each attempt (scene.py, starts.py), so one plan holds for any number of workers.
Travels inside the agent: standard library only, Python 3.8.
"""

from __future__ import annotations

import json

from hora.record import Record, fields
from hora.scene import LAUNCHER, Numbers, Scene, Seat, Spot, bracket, number, resolve, seats
from hora.starts import Start, environment, hora_env, served, starts
from hora.symbols import (
    MPIRUN,
    PER_HOST,
    SPAWN,
    STARTS,
    SYMBOLS,
    Attempt,
    FilePath,
    Host,
    HostCount,
    HostIndex,
    HostPort,
    HostPorts,
    Hosts,
    HostSlots,
    Index,
    Interface,
    Join,
    Json,
    LocalRank,
    LocalWorld,
    Map,
    PlanError,
    Port,
    Rank,
    RankInMember,
    Restarts,
    RunId,
    Size,
    Threads,
    World,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hora.symbols import Pairs as Pairs
    from hora.symbols import Symbol as Symbol
    from hora.symbols import Tree as Tree
    from hora.symbols import Value as Value

__all__ = [
    "LAUNCHER", "MPIRUN", "PER_HOST", "PLAN_VERSION", "SPAWN", "STARTS",
    "Attempt", "EndRule", "File", "FilePath", "Host", "HostCount", "HostIndex", "HostPort", "HostPorts",
    "HostSlots", "Hosts", "Index", "Interface", "Join", "Json", "LaunchPlan", "Limits", "LocalRank",
    "LocalWorld", "Map", "Numbers", "PlanError", "Port", "Rank", "RankInMember", "Restarts",
    "RolePlan", "RunId", "Scene", "Seat", "Size", "Spot", "Start", "Threads",
    "World", "bracket", "dumps", "environment", "from_data", "hora_env", "loads", "number", "resolve",
    "seats", "served", "starts", "to_data",
]  # fmt: skip

PLAN_VERSION = 1


class File(Record):
    """A file written on each host of the role before its ranks start."""

    name: str
    content: Value
    executable: bool = False


class RolePlan(Record):
    """One role.  Its ranks' environment, weakest first: `defaults`, what the host has, `env`, `user_env`."""

    name: str
    replicas: int
    command: tuple[Value, ...]  # with MPIRUN: what each rank runs; empty when the launcher brings its own
    ranks: int = 1  # per member
    start: str = SPAWN
    launcher: tuple[Value, ...] = ()  # with MPIRUN: what member 0 runs; empty when another role has it
    env: Pairs = ()  # what the framework can't do without (RANK, MASTER_ADDR)
    user_env: Pairs = ()  # set by the user
    files: tuple[File, ...] = ()
    ports: tuple[str, ...] = ()  # names; each member gets one port for each
    in_world: bool = True  # False: a helper (parameter server, evaluator, service) outside the numbering
    cpus: float | None = None  # per member, as asked
    gpus: int = 0  # per member, as asked
    defaults: Pairs = ()  # good advice (OMP_NUM_THREADS); one that resolves to nothing is not set
    rank_ports: tuple[str, ...] = ()  # names; each rank gets one port for each

    @property
    def port_names(self) -> tuple[str, ...]:
        """Every port that each member needs, under the names that `Spot.ports` carries."""
        return self.ports + tuple(f"{name}/{rank}" for rank in range(self.ranks) for name in self.rank_ports)


class EndRule(Record):
    """The run has succeeded when all ranks of these roles ended with 0; the other roles are stopped then."""

    decides: tuple[str, ...]


class Limits(Record):
    """Seconds; None is no limit."""

    schedule: float | None = 1800.0
    start: float | None = 600.0
    stall: float | None = 900.0
    total: float | None = None
    grace: float = 30.0


class LaunchPlan(Record):
    job: str
    framework: str
    roles: tuple[RolePlan, ...]
    end: EndRule
    checks: tuple[str, ...] = ()  # python, mpi, torch, ...: what must be equal on all hosts
    limits: Limits = Limits()
    restarts: int = 0
    setup: tuple[str, ...] = ()  # one command, once per host, before the ranks
    stall: str = "report"  # or "kill"
    output: int = 5 * 1024**3  # bytes kept per member
    ports: tuple[int, int] = (0, 0)  # range to choose ports from; (0, 0): any below the ephemeral range
    version: int = PLAN_VERSION
    interface: str = "auto"  # or the name of the one to use

    def role(self, name: str) -> RolePlan:
        for role in self.roles:
            if role.name == name:
                return role
        raise PlanError(f"the plan has no role {name!r}; it has {', '.join(r.name for r in self.roles)}")

    @property
    def world(self) -> int:
        return sum(role.replicas * role.ranks for role in self.roles if role.in_world)


# --- JSON, both ways ---------------------------------------------------------------------------------

_NODES: dict[str, type[Any]] = {
    cls.__name__: cls for cls in (*SYMBOLS, Map, File, RolePlan, EndRule, Limits, LaunchPlan)
}
_TAG = "$"


def to_data(node: Any) -> Any:
    """Plain data (dicts with the class name under `$`, lists, scalars) for json.dumps."""
    if _NODES.get(type(node).__name__) is type(node):
        data = {_TAG: type(node).__name__}
        for name in fields(node):
            data[name] = to_data(getattr(node, name))
        return data
    if isinstance(node, (tuple, list)):
        return [to_data(item) for item in node]
    if node is None or isinstance(node, (bool, int, float, str)):
        return node
    raise PlanError(f"{type(node).__name__} can't stand in a plan")


def from_data(data: Any) -> Any:
    """What `to_data` was given."""
    if isinstance(data, list):
        return tuple(from_data(item) for item in data)
    if not isinstance(data, dict):
        return data
    tag = data.get(_TAG)
    cls = _NODES.get(tag) if isinstance(tag, str) else None
    if cls is None:
        raise PlanError(f"this version doesn't know the plan node {tag!r}")
    values = {key: from_data(value) for key, value in data.items() if key != _TAG}
    unknown = sorted(set(values) - set(fields(cls)))
    if unknown:
        raise PlanError(f"this version doesn't know {cls.__name__}.{unknown[0]}")
    try:
        return cls(**values)
    except TypeError as error:
        raise PlanError(str(error)) from None


def dumps(plan: LaunchPlan) -> str:
    return json.dumps(to_data(plan), separators=(",", ":"))


def loads(text: str) -> LaunchPlan:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise PlanError(f"not a launch plan: {error}") from None
    version = data.get("version") if isinstance(data, dict) else None
    if version != PLAN_VERSION:  # asked first: another version may hold nodes that this one can't read
        raise PlanError(f"plan version {version} is not {PLAN_VERSION}: client and agent differ")
    plan = from_data(data)
    if not isinstance(plan, LaunchPlan):
        raise PlanError(f"not a launch plan but a {type(plan).__name__}")
    return plan
