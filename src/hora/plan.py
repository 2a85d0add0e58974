"""The launch plan: what frameworks write and agents read.

A plan is frozen data.  Where an address, a port, a rank or a count goes it holds a *symbol*; the lead
resolves symbols at each attempt from what the agents reported, so one plan holds for any placement.
This file travels inside the agent: standard library only, Python 3.8.
"""

from __future__ import annotations

import json

from hora.record import Record, fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type, Union

PLAN_VERSION = 1

# --- symbols -----------------------------------------------------------------------------------------


class Host(Record):
    """Address at which peers reach the host of one member."""

    role: str
    index: int = 0


class Hosts(Record):
    """Addresses of all members of a role, in order: a list (use inside Join or Json)."""

    role: str


class Port(Record):
    """A port that the member's role asked for by name in `ports`."""

    role: str
    index: int
    name: str


class HostPort(Record):
    """`host:port` of one member, IPv6 in brackets."""

    role: str
    index: int
    name: str


class HostPorts(Record):
    """`host:port` of all members of a role, in order: a list."""

    role: str
    name: str


class Rank(Record):
    """Global number of the rank, 0 ... world size - 1."""


class LocalRank(Record):
    """Number of the rank among those on its host, as torchrun and mpirun count."""


class RankInMember(Record):
    """Number of the rank in its member."""


class Index(Record):
    """Number of the member in its role."""


class World(Record):
    """Number of ranks in the world."""


class LocalWorld(Record):
    """Number of ranks on this rank's host."""


class HostCount(Record):
    """Number of hosts that hold ranks of the world."""


class HostIndex(Record):
    """Number of this rank's host among those hosts."""


class Size(Record):
    """Number of members of a role."""

    role: str


class Interface(Record):
    """Network interface of this host that reaches the peers (`lo` when all share one host)."""


class Threads(Record):
    """CPUs that each rank of this host really has, at least 1."""


class RunId(Record):
    """Id of the run."""


class Attempt(Record):
    """Number of the attempt, from 1."""


# --- shapes ------------------------------------------------------------------------------------------


class Join(Record):
    """Its parts as text, joined.  A part that is a list (Hosts, HostPorts) is joined by the same separator."""

    parts: Tuple[Value, ...]
    sep: str = ""


class Json(Record):
    """Its value as JSON text.  Maps are written as pairs, so that the plan stays frozen."""

    value: Tree


class Map(Record):
    """An object inside Json."""

    pairs: Tuple[Tuple[str, Tree], ...]


class FilePath(Record):
    """Absolute path, on the rank's host, of a file that the role declares in `files`."""

    name: str


if TYPE_CHECKING:
    Symbol = Union[
        Host, Hosts, Port, HostPort, HostPorts, Rank, LocalRank, RankInMember, Index, World, LocalWorld,
        HostCount, HostIndex, Size, Interface, Threads, RunId, Attempt, Join, Json, FilePath,
    ]  # fmt: skip
    Value = Union[str, Symbol]
    Tree = Union[None, bool, int, float, str, Tuple[Any, ...], Map, Symbol]
    Pairs = Tuple[Tuple[str, Value], ...]

# --- the plan ----------------------------------------------------------------------------------------

SPAWN = "spawn"  # agents start every rank
PER_HOST = "host"  # agents start one process per host; it starts the ranks of that host (torchrun)
MPIRUN = "mpirun"  # one member runs `launcher`, which starts the ranks
STARTS = (SPAWN, PER_HOST, MPIRUN)


class File(Record):
    """A file written on each host of the role before its ranks start."""

    name: str
    content: Value
    executable: bool = False


class RolePlan(Record):
    name: str
    replicas: int
    command: Tuple[Value, ...]
    ranks: int = 1  # per member
    start: str = SPAWN
    launcher: Tuple[Value, ...] = ()  # with MPIRUN: what member 0 runs
    env: Pairs = ()  # set by the framework; a variable that the user set is never overwritten
    user_env: Pairs = ()  # set by the user
    files: Tuple[File, ...] = ()
    ports: Tuple[str, ...] = ()  # names; each member gets one port for each
    in_world: bool = True  # False: a helper (parameter server, evaluator, service) outside the numbering
    cpus: Optional[float] = None  # per member, as asked
    gpus: int = 0  # per member, as asked


class EndRule(Record):
    """The run has succeeded when all ranks of these roles ended with 0; the other roles are stopped then."""

    decides: Tuple[str, ...]


class Limits(Record):
    """Seconds; None is no limit."""

    schedule: Optional[float] = 1800.0
    start: Optional[float] = 600.0
    stall: Optional[float] = 900.0
    total: Optional[float] = None
    grace: float = 30.0


class LaunchPlan(Record):
    job: str
    framework: str
    roles: Tuple[RolePlan, ...]
    end: EndRule
    checks: Tuple[str, ...] = ()  # python, mpi, torch, ...: what must be equal on all hosts
    limits: Limits = Limits()
    restarts: int = 0
    setup: Tuple[str, ...] = ()  # one command, once per host, before the ranks
    stall: str = "report"  # or "kill"
    output: int = 5 * 1024**3  # bytes kept per member
    ports: Tuple[int, int] = (0, 0)  # range to choose ports from; (0, 0): any below the ephemeral range
    version: int = PLAN_VERSION

    def role(self, name: str) -> RolePlan:
        for role in self.roles:
            if role.name == name:
                return role
        raise PlanError(f"the plan has no role {name!r}; it has {', '.join(r.name for r in self.roles)}")

    @property
    def world(self) -> int:
        return sum(role.replicas * role.ranks for role in self.roles if role.in_world)


class PlanError(ValueError):
    """A plan that contradicts itself, or can't be read by this version."""


# --- JSON, both ways ---------------------------------------------------------------------------------

_NODES: Dict[str, Type[Any]] = {
    cls.__name__: cls
    for cls in (
        Host, Hosts, Port, HostPort, HostPorts, Rank, LocalRank, RankInMember, Index, World, LocalWorld,
        HostCount, HostIndex, Size, Interface, Threads, RunId, Attempt, Join, Json, Map, FilePath,
        File, RolePlan, EndRule, Limits, LaunchPlan,
    )
}  # fmt: skip
_TAG = "$"


def to_data(node: Any) -> Any:
    """Plain data (dicts with the class name under `$`, lists, scalars) for json.dumps."""
    if type(node).__name__ in _NODES and type(node) is _NODES[type(node).__name__]:
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
    if isinstance(data, list):
        return tuple(from_data(item) for item in data)
    if isinstance(data, dict):
        cls = _NODES.get(data.get(_TAG, ""))
        if cls is None:
            raise PlanError(f"this version doesn't know the plan node {data.get(_TAG)!r}")
        known = set(fields(cls))
        values = {key: from_data(value) for key, value in data.items() if key != _TAG}
        unknown = sorted(set(values) - known)
        if unknown:
            raise PlanError(f"this version doesn't know {cls.__name__}.{unknown[0]}")
        return cls(**values)
    return data


def dumps(plan: LaunchPlan) -> str:
    return json.dumps(to_data(plan), separators=(",", ":"))


def loads(text: str) -> LaunchPlan:
    plan = from_data(json.loads(text))
    if not isinstance(plan, LaunchPlan):
        raise PlanError("not a launch plan")
    if plan.version != PLAN_VERSION:
        raise PlanError(f"plan version {plan.version} is not {PLAN_VERSION}: client and agent differ")
    return plan


# --- resolution: symbols to text, pure ---------------------------------------------------------------


class Spot(Record):
    """Where one member is: its host's name and what that host reported."""

    host: str
    address: str
    interface: str = "lo"
    threads: int = 1
    ports: Tuple[Tuple[str, int], ...] = ()
    folder: str = ""  # where the role's files are written


class Seat(Record):
    """One rank's place in the plan."""

    role: str
    index: int
    rank: int = 0  # in its member

    @property
    def member(self) -> str:
        return f"{self.role}-{self.index}"

    @property
    def label(self) -> str:
        return f"{self.member}/{self.rank}"


class Scene(Record):
    """All that symbols need: the plan, the run, the attempt, and the spot of every member."""

    plan: LaunchPlan
    run: str
    attempt: int
    spots: Mapping[str, Spot]  # by member name

    def spot(self, role: str, index: int) -> Spot:
        try:
            return self.spots[f"{role}-{index}"]
        except KeyError:
            raise PlanError(f"the plan names {role}-{index}, which has no host") from None


def seats(plan: LaunchPlan) -> List[Seat]:
    """Every rank in global order: roles as the plan lists them, then members, then ranks."""
    return [
        Seat(role.name, index, rank)
        for role in plan.roles
        for index in range(role.replicas)
        for rank in range(role.ranks)
    ]


class Numbers(Record):
    """The numbering of one rank."""

    rank: int
    local: int
    local_world: int
    host_index: int
    host_count: int
    world: int


def number(scene: Scene) -> Dict[Seat, Numbers]:
    """Number all ranks at once.  Ranks outside the world are numbered within their own role."""
    groups: Dict[str, List[Seat]] = {}
    for seat in seats(scene.plan):
        key = "" if scene.plan.role(seat.role).in_world else seat.role
        groups.setdefault(key, []).append(seat)
    numbered: Dict[Seat, Numbers] = {}
    for group in groups.values():
        by_host: Dict[str, List[Seat]] = {}
        for seat in group:
            by_host.setdefault(scene.spot(seat.role, seat.index).host, []).append(seat)
        host_index = {host: position for position, host in enumerate(by_host)}
        local = {seat: position for on_host in by_host.values() for position, seat in enumerate(on_host)}
        for rank, seat in enumerate(group):
            host = scene.spot(seat.role, seat.index).host
            numbered[seat] = Numbers(
                rank, local[seat], len(by_host[host]), host_index[host], len(by_host), len(group)
            )
    return numbered


def bracket(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def resolve(value: Value, scene: Scene, seat: Seat, numbers: Numbers) -> str:
    """The text of a value for one rank."""
    resolved = _resolve(value, scene, seat, numbers)
    if isinstance(resolved, list):
        raise PlanError(f"{type(value).__name__} is a list: put it inside Join or Json")
    return resolved if isinstance(resolved, str) else str(resolved)


def _resolve(value: Any, scene: Scene, seat: Seat, numbers: Numbers) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, Join):
        return value.sep.join(_flat(value.parts, scene, seat, numbers))
    if isinstance(value, Json):
        return json.dumps(_tree(value.value, scene, seat, numbers))
    handler = _HANDLERS.get(type(value))
    if handler is None:
        raise PlanError(f"{type(value).__name__} can't be resolved")
    return handler(value, scene, seat, numbers)


def _flat(parts: Sequence[Value], scene: Scene, seat: Seat, numbers: Numbers) -> List[str]:
    texts: List[str] = []
    for part in parts:
        resolved = _resolve(part, scene, seat, numbers)
        texts.extend(resolved if isinstance(resolved, list) else [str(resolved)])
    return texts


def _tree(value: Any, scene: Scene, seat: Seat, numbers: Numbers) -> Any:
    if isinstance(value, Map):
        return {key: _tree(item, scene, seat, numbers) for key, item in value.pairs}
    if isinstance(value, tuple):
        return [_tree(item, scene, seat, numbers) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return _resolve(value, scene, seat, numbers)


def _port(scene: Scene, role: str, index: int, name: str) -> int:
    for port_name, port in scene.spot(role, index).ports:
        if port_name == name:
            return port
    raise PlanError(f"{role}-{index} has no port {name!r}; the role must list it in `ports`")


def _host_port(scene: Scene, role: str, index: int, name: str) -> str:
    return f"{bracket(scene.spot(role, index).address)}:{_port(scene, role, index, name)}"


_HANDLERS: Dict[Type[Any], Callable[[Any, Scene, Seat, Numbers], Any]] = {
    Host: lambda v, scene, seat, n: scene.spot(v.role, v.index).address,
    Hosts: lambda v, scene, seat, n: [
        scene.spot(v.role, index).address for index in range(scene.plan.role(v.role).replicas)
    ],
    Port: lambda v, scene, seat, n: _port(scene, v.role, v.index, v.name),
    HostPort: lambda v, scene, seat, n: _host_port(scene, v.role, v.index, v.name),
    HostPorts: lambda v, scene, seat, n: [
        _host_port(scene, v.role, index, v.name) for index in range(scene.plan.role(v.role).replicas)
    ],
    Rank: lambda v, scene, seat, n: n.rank,
    LocalRank: lambda v, scene, seat, n: n.local,
    RankInMember: lambda v, scene, seat, n: seat.rank,
    Index: lambda v, scene, seat, n: seat.index,
    World: lambda v, scene, seat, n: n.world,
    LocalWorld: lambda v, scene, seat, n: n.local_world,
    HostCount: lambda v, scene, seat, n: n.host_count,
    HostIndex: lambda v, scene, seat, n: n.host_index,
    Size: lambda v, scene, seat, n: scene.plan.role(v.role).replicas,
    Interface: lambda v, scene, seat, n: scene.spot(seat.role, seat.index).interface,
    Threads: lambda v, scene, seat, n: scene.spot(seat.role, seat.index).threads,
    RunId: lambda v, scene, seat, n: scene.run,
    Attempt: lambda v, scene, seat, n: scene.attempt,
    FilePath: lambda v, scene, seat, n: f"{scene.spot(seat.role, seat.index).folder}/{v.name}",
}


# --- a rank, ready to start --------------------------------------------------------------------------


class Start(Record):
    """One process that an agent is to start: everything resolved."""

    seat: Seat
    argv: Tuple[str, ...]
    env: Tuple[Tuple[str, str], ...]
    files: Tuple[Tuple[str, str, bool], ...] = ()  # name, content, executable


def hora_env(scene: Scene, seat: Seat, numbers: Numbers) -> Dict[str, str]:
    """What every rank gets from Hora, whatever its framework."""
    role = scene.plan.role(seat.role)
    return {
        "HORA_RUN": scene.run,
        "HORA_ATTEMPT": str(scene.attempt),
        "HORA_ROLE": seat.role,
        "HORA_MEMBER": seat.member,
        "HORA_MEMBER_INDEX": str(seat.index),
        "HORA_RANK": str(numbers.rank),
        "HORA_WORLD_SIZE": str(numbers.world),
        "HORA_LOCAL_RANK": str(numbers.local),
        "HORA_LOCAL_WORLD_SIZE": str(numbers.local_world),
        "HORA_HOST_INDEX": str(numbers.host_index),
        "HORA_HOST_COUNT": str(numbers.host_count),
        "HORA_HOST": scene.spot(seat.role, seat.index).address,
        "HORA_INTERFACE": scene.spot(seat.role, seat.index).interface,
        **{
            f"HORA_PORT_{name.upper().replace('-', '_')}": str(port)
            for name, port in scene.spot(seat.role, seat.index).ports
            if name in role.ports
        },
    }


def starts(scene: Scene) -> Dict[Seat, Start]:
    """Every process of the attempt, resolved: one per rank, per host or per launcher, as the roles say."""
    numbered = number(scene)
    first_on_host = set()
    ready: Dict[Seat, Start] = {}
    for seat, numbers in numbered.items():
        role = scene.plan.role(seat.role)
        host = scene.spot(seat.role, seat.index).host
        command = role.command
        if role.start == PER_HOST:
            if (role.name, host) in first_on_host:
                continue
            first_on_host.add((role.name, host))
        elif role.start == MPIRUN:
            if seat.index != 0 or seat.rank != 0:
                continue
            command = role.launcher
        ready[seat] = _start(role, command, scene, seat, numbers)
    return ready


def _start(role: RolePlan, command: Tuple[Value, ...], scene: Scene, seat: Seat, numbers: Numbers) -> Start:
    env = hora_env(scene, seat, numbers)
    for name, value in role.env + role.user_env:  # the user's own come last and win
        env[name] = resolve(value, scene, seat, numbers)
    return Start(
        seat=seat,
        argv=tuple(resolve(part, scene, seat, numbers) for part in command),
        env=tuple(env.items()),
        files=tuple(
            (file.name, resolve(file.content, scene, seat, numbers), file.executable) for file in role.files
        ),
    )
