"""Who sits where, and what each symbol is for one of them.  Pure.

Travels inside the agent: standard library only, Python 3.8.
"""

from __future__ import annotations

import json

from hora.record import Record
from hora.symbols import (
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
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from hora.plan import LaunchPlan
    from hora.symbols import Value

LAUNCHER = -1  # number, in its member, of the process that starts the ranks (mpirun)


class Spot(Record):
    """Where one member is: its host's name and what that host reported."""

    host: str
    address: str
    interface: str = "lo"
    threads: int = 1
    ports: tuple[tuple[str, int], ...] = ()  # one for each of the role's `port_names`
    folder: str = ""  # where the role's files are written


class Seat(Record):
    """One rank's place in the plan."""

    role: str
    index: int
    rank: int = 0  # in its member, or LAUNCHER

    @property
    def member(self) -> str:
        return f"{self.role}-{self.index}"

    @property
    def label(self) -> str:
        return f"{self.member}/{'launcher' if self.rank == LAUNCHER else self.rank}"


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


class Numbers(Record):
    """The numbering of one rank."""

    rank: int
    local: int
    local_world: int
    host_index: int
    host_count: int
    world: int


# --- numbering ---------------------------------------------------------------------------------------


def seats(plan: LaunchPlan) -> list[Seat]:
    """Every rank in global order: roles as the plan lists them, then members, then ranks."""
    return [
        Seat(role.name, index, rank)
        for role in plan.roles
        for index in range(role.replicas)
        for rank in range(role.ranks)
    ]


def number(scene: Scene) -> dict[Seat, Numbers]:
    """Number all ranks at once.  Ranks outside the world are numbered within their own role."""
    outside = {role.name for role in scene.plan.roles if not role.in_world}
    groups: dict[str, list[Seat]] = {}
    for seat in seats(scene.plan):
        groups.setdefault(seat.role if seat.role in outside else "", []).append(seat)
    numbered: dict[Seat, Numbers] = {}
    for group in groups.values():
        hosts = [scene.spot(seat.role, seat.index).host for seat in group]
        filled: dict[str, int] = {}
        local = []
        for host in hosts:
            local.append(filled.get(host, 0))
            filled[host] = local[-1] + 1
        order = {host: position for position, host in enumerate(filled)}
        for rank, (seat, host) in enumerate(zip(group, hosts)):
            numbered[seat] = Numbers(rank, local[rank], filled[host], order[host], len(order), len(group))
    return numbered


def _host_slots(scene: Scene) -> list[tuple[str, int]]:
    """Address and number of ranks of each host of the world, in the order of HostIndex."""
    slots: dict[str, tuple[str, int]] = {}
    for role in scene.plan.roles:
        for index in range(role.replicas if role.in_world else 0):
            spot = scene.spot(role.name, index)
            address, count = slots.get(spot.host, (spot.address, 0))
            slots[spot.host] = (address, count + role.ranks)
    return list(slots.values())


# --- symbols to text ---------------------------------------------------------------------------------


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


def _flat(parts: Sequence[Value], scene: Scene, seat: Seat, numbers: Numbers) -> list[str]:
    texts: list[str] = []
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
    raise PlanError(f"{role}-{index} has no port {name!r}; the role must list it in `ports` or `rank_ports`")


def _host_port(scene: Scene, role: str, index: int, name: str) -> str:
    return f"{bracket(scene.spot(role, index).address)}:{_port(scene, role, index, name)}"


def _host_ports(scene: Scene, role: str, name: str) -> list[str]:
    plan = scene.plan.role(role)
    names = [f"{name}/{rank}" for rank in range(plan.ranks)] if name in plan.rank_ports else [name]
    return [_host_port(scene, role, index, each) for index in range(plan.replicas) for each in names]


def _interface(symbol: Interface, spot: Spot) -> str:
    if not spot.interface or (not symbol.loopback and spot.interface in ("lo", "lo0")):
        return ""
    return symbol.prefix + spot.interface


_HANDLERS: dict[type[Any], Callable[[Any, Scene, Seat, Numbers], Any]] = {
    Host: lambda v, scene, seat, n: scene.spot(v.role, v.index).address,
    Hosts: lambda v, scene, seat, n: [
        scene.spot(v.role, index).address for index in range(scene.plan.role(v.role).replicas)
    ],
    Port: lambda v, scene, seat, n: _port(scene, v.role, v.index, v.name),
    HostPort: lambda v, scene, seat, n: _host_port(scene, v.role, v.index, v.name),
    HostPorts: lambda v, scene, seat, n: _host_ports(scene, v.role, v.name),
    Rank: lambda v, scene, seat, n: n.rank,
    LocalRank: lambda v, scene, seat, n: n.local,
    RankInMember: lambda v, scene, seat, n: seat.rank,
    Index: lambda v, scene, seat, n: seat.index,
    World: lambda v, scene, seat, n: n.world,
    LocalWorld: lambda v, scene, seat, n: n.local_world,
    HostCount: lambda v, scene, seat, n: n.host_count,
    HostIndex: lambda v, scene, seat, n: n.host_index,
    Size: lambda v, scene, seat, n: scene.plan.role(v.role).replicas,
    Interface: lambda v, scene, seat, n: _interface(v, scene.spot(seat.role, seat.index)),
    Threads: lambda v, scene, seat, n: scene.spot(seat.role, seat.index).threads,
    RunId: lambda v, scene, seat, n: scene.run,
    Attempt: lambda v, scene, seat, n: scene.attempt,
    Restarts: lambda v, scene, seat, n: scene.attempt - 1,
    HostSlots: lambda v, scene, seat, n: [
        f"{address}{v.sep}{count}" for address, count in _host_slots(scene)
    ],
    FilePath: lambda v, scene, seat, n: f"{scene.spot(seat.role, seat.index).folder}/{v.name}",
}
_SAME_FOR_ALL = (
    str, Host, Hosts, Port, HostPort, HostPorts, World, HostCount, Size, RunId, Attempt, Restarts, HostSlots,
)  # fmt: skip


def same_for_all(value: Any) -> bool:
    """Whether a value has one text for all ranks of a role: then resolving it once is enough."""
    if isinstance(value, Join):
        return all(same_for_all(part) for part in value.parts)
    return isinstance(value, _SAME_FOR_ALL)
