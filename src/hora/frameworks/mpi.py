"""mpi (and Horovod): a command that Hora composes, or mpirun, mpiexec and horovodrun as written."""

from __future__ import annotations

from hora.errors import UsageError
from hora.frameworks.base import in_order, launch_plan, role_plan, world
from hora.frameworks.commands import begins_with
from hora.plan import MPIRUN, File, FilePath, HostSlots, Interface, Join, World
from hora.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.plan import LaunchPlan, Pairs, RolePlan
    from hora.spec import JobSpec, RoleSpec

name = "mpi"

LAUNCHER = "launcher"  # a role of its own for mpirun, as MPIJob has it
HOSTS = "mpi-hosts"
LAUNCHERS = {
    program: program
    for program in (
        "mpirun", "mpiexec", "horovodrun", "mpiexec.hydra", "orterun", "prterun",
        "mpirun.openmpi", "mpiexec.openmpi", "mpirun.mpich", "mpiexec.mpich",
    )
}  # fmt: skip

_NETWORK = Interface(loopback=False)  # Open MPI 5 refuses to start on the loopback alone
DEFAULTS: Pairs = (
    # Bind to none: otherwise a rank with many threads sits on one core.
    ("OMPI_MCA_hwloc_base_binding_policy", "none"),  # Open MPI 4
    ("PRTE_MCA_hwloc_default_binding_policy", "none"),  # Open MPI 5
    ("I_MPI_PIN", "0"),
    # More ranks than cores is for the person to decide.
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    # These say nothing unless the container is root.
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    # Both families: with the old names alone Open MPI 5 runs all ranks on one host and reports success.
    ("OMPI_MCA_oob_tcp_if_include", _NETWORK),
    ("OMPI_MCA_btl_tcp_if_include", _NETWORK),
    ("PRTE_MCA_prte_if_include", _NETWORK),
    ("HYDRA_IFACE", _NETWORK),
    ("I_MPI_HYDRA_IFACE", _NETWORK),
)


def plan(spec: JobSpec) -> LaunchPlan:
    roles = in_order(spec)
    if any(role.name == LAUNCHER for role in roles):
        planned = tuple(_beside_launcher(spec, role) for role in roles)
        return launch_plan(spec, planned, checks=("mpi",), decides=(LAUNCHER,))
    return launch_plan(spec, _one_launcher(spec, roles), checks=("mpi",))


def _one_launcher(spec: JobSpec, roles: tuple[RoleSpec, ...]) -> tuple[RolePlan, ...]:
    """The first role of the world runs mpirun for all; what is outside runs as under any framework."""
    members = world(spec)
    as_written = False
    planned = []
    for role in roles:
        if role.name not in members:
            planned.append(role_plan(spec, role, defaults=DEFAULTS))
            continue
        mine = role_plan(spec, role, start=MPIRUN, defaults=DEFAULTS)
        if role.name == members[0]:
            as_written = begins_with(role.command, LAUNCHERS) is not None
            mine = replace(mine, launcher=role.command) if as_written else _composed(mine)
        if as_written:
            mine = replace(mine, command=(), rank_ports=())
        elif not role.command:
            raise UsageError(f"roles.{role.name}.command: missing; say what each rank shall run")
        planned.append(mine)
    return tuple(planned)


def _composed(planned: RolePlan) -> RolePlan:
    launcher = ("hora-mpirun", "-n", World(), "--hosts", FilePath(HOSTS), "hora-rank")
    return replace(planned, launcher=launcher, files=(File(HOSTS, Join((HostSlots(), ""), "\n")),))


def _beside_launcher(spec: JobSpec, role: RoleSpec) -> RolePlan:
    """With a role for mpirun the other members are hosts: they run what it sends them."""
    planned = replace(role_plan(spec, role, start=MPIRUN, defaults=DEFAULTS), rank_ports=(), command=())
    if role.name != LAUNCHER:
        return planned
    if role.replicas != 1:
        raise UsageError(f"roles.launcher.replicas: must be 1, got {role.replicas}")
    if not begins_with(role.command, LAUNCHERS):
        raise UsageError(
            "roles.launcher.command: must begin with mpirun, mpiexec or horovodrun; to have Hora write that "
            "line, leave the role out and give the command to the workers"
        )
    return replace(planned, in_world=False, ranks=0, launcher=role.command)
