"""What all frameworks share: roles, limits and the environment that each rank gets whatever runs in it."""

from __future__ import annotations

from hora.errors import HoraError, UsageError
from hora.plan import (
    MPIRUN,
    PER_HOST,
    SPAWN,
    STARTS,
    EndRule,
    FilePath,
    Host,
    HostPort,
    HostPorts,
    Hosts,
    Interface,
    Join,
    LaunchPlan,
    Limits,
    PlanError,
    Port,
    RolePlan,
    Size,
    Threads,
)
from hora.record import Record, fields, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from hora.plan import Pairs
    from hora.spec import JobSpec, RoleSpec

LEADERS = ("launcher", "chief", "master")  # rank 0 belongs to one of them where there is one
WORLD = ("chief", "master", "worker")  # the ranks that work together; other roles only help them
PEER = "peer"  # a port for each rank, for programs that bring their own transport

DEFAULTS: Pairs = (
    ("PYTHONUNBUFFERED", "1"),
    ("OMP_NUM_THREADS", Threads()),
    # "=": NCCL would take eth1 for eth10, too.  UCX_NET_DEVICES is left alone: it would shut InfiniBand out.
    ("NCCL_SOCKET_IFNAME", Interface(prefix="=")),
    ("GLOO_SOCKET_IFNAME", Interface()),
)


def in_order(spec: JobSpec) -> tuple[RoleSpec, ...]:
    """The job's roles with members, the one that leads first, since it gets rank 0."""
    roles = [role for role in spec.roles if role.replicas > 0]
    return tuple(sorted(roles, key=lambda role: role.name not in LEADERS))


def world(spec: JobSpec) -> tuple[str, ...]:
    """Names of the roles whose ranks are numbered together: chief, master and worker, or all roles."""
    names = tuple(role.name for role in in_order(spec))
    return tuple(name for name in names if name in WORLD) or names


def role_plan(
    spec: JobSpec,
    role: RoleSpec,
    *,
    start: str = SPAWN,
    env: Pairs = (),
    defaults: Pairs = (),
    ports: tuple[str, ...] = (),
) -> RolePlan:
    """A role as most frameworks want it: each rank started by its agent, numbered, with a port of its own."""
    if not role.command and start != MPIRUN:
        raise UsageError(
            f"roles.{role.name}.command: missing; say what its {role.replicas} members shall run"
        )
    return RolePlan(
        name=role.name,
        replicas=role.replicas,
        command=role.command,
        ranks=role.ranks,
        start=start,
        env=env,
        user_env=role.env,
        defaults=DEFAULTS + defaults,
        ports=ports,
        rank_ports=() if start == PER_HOST else (PEER,),  # its launcher numbers the ranks, not Hora
        in_world=role.name in world(spec),
        cpus=role.resources.cpu,
        gpus=role.resources.gpu,
    )


def launch_plan(
    spec: JobSpec,
    roles: tuple[RolePlan, ...],
    *,
    checks: tuple[str, ...] = (),
    decides: tuple[str, ...] = (),
) -> LaunchPlan:
    """The plan around the roles.  Unless said otherwise the run ends when the world's ranks have ended."""
    if not roles:
        raise UsageError("workers: a job needs at least one member")
    return LaunchPlan(
        job=spec.name,
        framework=spec.framework,
        roles=_with_peers(roles),
        end=EndRule(decides or tuple(role.name for role in roles if role.in_world)),
        checks=("python", *checks),
        limits=Limits(**{name: getattr(spec.timeouts, name) for name in fields(Limits)}),
        restarts=spec.restarts,
        setup=("sh", "-c", spec.setup) if spec.setup.strip() else (),
        stall=spec.stall,
        output=spec.output,
        interface=spec.network.interface,
        ports=spec.network.ports or (0, 0),
    )


def _with_peers(roles: tuple[RolePlan, ...]) -> tuple[RolePlan, ...]:
    """Every rank finds all ranks' `host:port` in HORA_PEERS, and those of one role in HORA_PEERS_<ROLE>."""
    open_ = [role for role in roles if PEER in role.rank_ports]
    ranks = tuple(HostPorts(role.name, PEER) for role in open_ if role.in_world)
    peers: Pairs = (("HORA_PEERS", Join(ranks, ",")),)
    if len(open_) > 1:
        peers += tuple(
            (f"HORA_PEERS_{role.name.upper().replace('-', '_')}", Join((HostPorts(role.name, PEER),), ","))
            for role in open_
        )
    return tuple(replace(role, env=role.env + peers) if role in open_ else role for role in roles)


def checked(plan: Any, whose: str) -> LaunchPlan:
    """The plan, if it holds together: one that names what isn't there shall fail here, not on a cluster."""
    try:
        if not isinstance(plan, LaunchPlan):
            raise PlanError(f"it is no LaunchPlan but {type(plan).__name__}")
        for role in plan.roles:
            _check_role(plan, role)
        for name in plan.end.decides:
            plan.role(name)
        if not plan.end.decides:
            raise PlanError("no role decides when the run ends")
        return plan
    except PlanError as error:
        raise HoraError(f"{whose} made a plan that can't run: {error}") from error


def _check_role(plan: LaunchPlan, role: RolePlan) -> None:
    if role.start not in STARTS:
        raise PlanError(f"role {role.name}: start is one of {', '.join(STARTS)}, not {role.start!r}")
    if plan.role(role.name) is not role:
        raise PlanError(f"two roles are called {role.name!r}")
    for symbol in _symbols((role.command, role.launcher, role.env, role.defaults, role.files)):
        _check_symbol(plan, role, symbol)


def _check_symbol(plan: LaunchPlan, role: RolePlan, symbol: Any) -> None:
    if isinstance(symbol, FilePath) and symbol.name not in {file.name for file in role.files}:
        raise PlanError(f"role {role.name} names file {symbol.name!r}, which it doesn't declare")
    if not isinstance(symbol, (Host, Hosts, HostPort, HostPorts, Port, Size)):
        return
    other = plan.role(symbol.role)
    index = getattr(symbol, "index", 0)
    if index >= other.replicas:
        raise PlanError(f"role {role.name} names {other.name}-{index}, which isn't there")
    if isinstance(symbol, (HostPort, HostPorts, Port)):
        of_all = (*other.ports, *other.rank_ports) if isinstance(symbol, HostPorts) else other.port_names
        if symbol.name not in of_all:
            raise PlanError(f"role {role.name} names port {symbol.name!r}, which {other.name} has not")


def _symbols(node: Any) -> Iterator[Any]:
    if isinstance(node, tuple):
        for item in node:
            yield from _symbols(item)
    elif isinstance(node, Record):
        yield node
        for name in fields(node):
            yield from _symbols(getattr(node, name))
