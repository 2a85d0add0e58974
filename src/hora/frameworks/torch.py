"""torch: what torchrun would set, for ranks that agents start; or torchrun and its like as written."""

from __future__ import annotations

from hora.frameworks.base import in_order, launch_plan, role_plan, world
from hora.frameworks.commands import begins_with
from hora.frameworks.torch_launchers import ACCELERATE, DEEPSPEED, LAUNCHERS, accelerate, deepspeed
from hora.plan import (
    PER_HOST,
    Host,
    HostCount,
    HostIndex,
    HostPort,
    LocalRank,
    LocalWorld,
    Port,
    Rank,
    Restarts,
    RunId,
    World,
)
from hora.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.plan import LaunchPlan, Pairs, RolePlan
    from hora.spec import JobSpec, RoleSpec

name = "torch"

MASTER = "master"
DEFAULTS: Pairs = (("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),)


def plan(spec: JobSpec) -> LaunchPlan:
    members = world(spec)
    return launch_plan(
        spec,
        tuple(_role(spec, role, members) for role in in_order(spec)),
        checks=("torch",),
    )


def _role(spec: JobSpec, role: RoleSpec, members: tuple[str, ...]) -> RolePlan:
    ports = (MASTER,) if role.name == members[0] else ()
    if role.name not in members:
        return role_plan(spec, role, defaults=DEFAULTS)
    match = begins_with(role.command, LAUNCHERS)
    if match is None:
        env = _ranks(members[0], spec.restarts)
        return role_plan(spec, role, env=env, defaults=DEFAULTS, ports=ports)
    launcher, end = match
    env = _launcher(members[0])
    planned = role_plan(spec, role, start=PER_HOST, env=env, defaults=DEFAULTS, ports=ports)
    if launcher == ACCELERATE:
        return replace(planned, command=accelerate(role.command, end, members[0], MASTER))
    if launcher == DEEPSPEED:
        command, files = deepspeed(role.command, end, members[0], MASTER)
        return replace(planned, command=command, files=files)
    return planned


def _ranks(leader: str, restarts: int) -> Pairs:
    """The list of torchrun (LocalElasticAgent), with the names that it gives when none is asked for."""
    return (
        ("RANK", Rank()),
        ("LOCAL_RANK", LocalRank()),
        ("WORLD_SIZE", World()),
        ("LOCAL_WORLD_SIZE", LocalWorld()),
        ("GROUP_RANK", HostIndex()),
        ("GROUP_WORLD_SIZE", HostCount()),
        ("ROLE_NAME", "default"),
        ("ROLE_RANK", Rank()),
        ("ROLE_WORLD_SIZE", World()),
        ("MASTER_ADDR", Host(leader)),
        ("MASTER_PORT", Port(leader, 0, MASTER)),
        ("TORCHELASTIC_RUN_ID", RunId()),
        ("TORCHELASTIC_RESTART_COUNT", Restarts()),
        ("TORCHELASTIC_MAX_RESTARTS", str(restarts)),
        # "True" would make rank 0 a client of a store that torchrun's agent serves, and there is none.
        ("TORCHELASTIC_USE_AGENT_STORE", "False"),
    )


def _launcher(leader: str) -> Pairs:
    """torchrun reads each of its options from PET_<OPTION>; one on the command line wins."""
    return (
        ("PET_NNODES", HostCount()),
        ("PET_NPROC_PER_NODE", LocalWorld()),
        ("PET_NODE_RANK", HostIndex()),
        ("PET_MASTER_ADDR", Host(leader)),
        ("PET_MASTER_PORT", Port(leader, 0, MASTER)),
        ("PET_RDZV_ENDPOINT", HostPort(leader, 0, MASTER)),
        ("PET_RDZV_ID", RunId()),
    )
