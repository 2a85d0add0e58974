"""mpi: what Hora composes, and what its author wrote."""

from __future__ import annotations

import pytest

from helpers.plans import a_job, on_one_host
from hora import frameworks
from hora.errors import UsageError
from hora.plan import LAUNCHER, MPIRUN, SPAWN, Seat, served, starts
from hora.spec import JobSpec, RoleSpec


def mpi_job(*roles: RoleSpec) -> JobSpec:
    return a_job(*roles, framework="mpi")


def test_a_plain_command_gets_a_launcher_and_is_served_to_its_ranks() -> None:
    plan = frameworks.plan(mpi_job(RoleSpec("worker", 2, 2, ("python", "train.py"))))
    scene = on_one_host(plan)
    (start,) = starts(scene).values()
    assert start.seat == Seat("worker", 0, LAUNCHER)
    assert start.argv == ("hora-mpirun", "-n", "4", "--hosts", "/f/mpi-hosts", "hora-rank")
    assert start.files == (("mpi-hosts", "127.0.0.1 4\n", False),)
    ranks = served(scene)
    assert [dict(rank.env)["HORA_RANK"] for rank in ranks.values()] == ["0", "1", "2", "3"]
    assert {rank.argv for rank in ranks.values()} == {("python", "train.py")}
    assert len({dict(rank.env)["HORA_PORT_PEER"] for rank in ranks.values()}) == 4
    assert plan.checks == ("python", "mpi")


@pytest.mark.parametrize(
    "command",
    [
        ("mpirun", "-np", "2", "python", "train.py"),
        ("/usr/local/bin/mpiexec", "-n", "2", "x"),
        ("horovodrun", "-np", "2", "python", "train.py"),
        ("mpiexec.hydra", "x"),
        ("sh", "-c", "mpirun -np 2 python train.py"),
        ("bash", "-e", "-c", "cd /d\nOMPI_MCA_x=1 mpirun -np 2 python train.py"),
        ("sh", "-c", "sleep 1; (exec mpirun -np 2 true) | tee log"),
        ("sh", "-c", "mpirun -np 2 sh -c 'echo $X"),
        ("env", "X=1", "mpirun", "true"),
    ],
)
def test_a_launcher_that_its_author_wrote_runs_as_it_is(command: tuple[str, ...]) -> None:
    plan = frameworks.plan(mpi_job(RoleSpec("worker", 2, command=command)))
    scene = on_one_host(plan)
    (start,) = starts(scene).values()
    assert start.argv == command and start.seat.label == "worker-0/launcher"
    assert served(scene) == {}
    assert plan.roles[0].port_names == ()


@pytest.mark.parametrize("command", [("python", "mpirun"), ("sh", "-c", "echo mpirun"), ("mpirun-like",)])
def test_the_word_alone_makes_no_launcher(command: tuple[str, ...]) -> None:
    plan = frameworks.plan(mpi_job(RoleSpec("worker", 1, command=command)))
    assert plan.roles[0].launcher[0] == "hora-mpirun"


def test_a_launcher_is_told_to_bind_nothing_and_allow_root_and_more_ranks_than_cores() -> None:
    plan = frameworks.plan(mpi_job(RoleSpec("worker", 2, command=("mpirun", "x"))))
    (start,) = starts(on_one_host(plan, interface="eth0")).values()
    advice = dict(start.defaults)
    assert advice["PRTE_MCA_hwloc_default_binding_policy"] == "none"
    assert advice["OMPI_MCA_hwloc_base_binding_policy"] == "none"
    assert advice["PRTE_MCA_rmaps_default_mapping_policy"] == ":oversubscribe"
    assert advice["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == advice["OMPI_ALLOW_RUN_AS_ROOT"] == "1"
    interfaces = {name for name, text in advice.items() if text == "eth0"} - {"GLOO_SOCKET_IFNAME"}
    assert interfaces == {
        "PRTE_MCA_prte_if_include", "OMPI_MCA_oob_tcp_if_include", "OMPI_MCA_btl_tcp_if_include",
        "HYDRA_IFACE", "I_MPI_HYDRA_IFACE",
    }  # fmt: skip


def test_the_loopback_is_never_given_to_mpi() -> None:
    plan = frameworks.plan(mpi_job(RoleSpec("worker", 2, command=("mpirun", "x"))))
    (start,) = starts(on_one_host(plan, interface="lo")).values()
    assert [name for name, text in start.defaults if "lo" in text.split()] == ["GLOO_SOCKET_IFNAME"]


def test_several_roles_share_one_launcher() -> None:
    chief = RoleSpec("chief", 1, command=("python", "chief.py"))
    worker = RoleSpec("worker", 2, command=("python", "worker.py"))
    board = RoleSpec("board", 1, command=("board",))
    plan = frameworks.plan(mpi_job(worker, board, chief))
    scene = on_one_host(plan)
    assert [(seat.label, start.argv[:3]) for seat, start in starts(scene).items()] == [
        ("chief-0/launcher", ("hora-mpirun", "-n", "3")),
        ("board-0/0", ("board",)),
    ]
    assert [start.argv[1] for start in served(scene).values()] == ["chief.py", "worker.py", "worker.py"]
    assert plan.end.decides == ("chief", "worker")


def test_every_role_of_a_shared_launcher_needs_a_command() -> None:
    with pytest.raises(UsageError, match=r"roles\.worker\.command: missing"):
        frameworks.plan(mpi_job(RoleSpec("chief", 1, command=("c",)), RoleSpec("worker", 2)))
    plan = frameworks.plan(mpi_job(RoleSpec("chief", 1, command=("mpirun", "c")), RoleSpec("worker", 2)))
    assert [role.launcher for role in plan.roles] == [("mpirun", "c"), ()]


def test_a_role_for_the_launcher_alone_stands_outside_the_world_and_decides() -> None:
    launcher = RoleSpec("launcher", 1, command=("mpirun", "-np", "4", "x"))
    plan = frameworks.plan(mpi_job(RoleSpec("worker", 2, 2), launcher))
    assert (plan.world, plan.end.decides) == (4, ("launcher",))
    assert [(role.name, role.start, role.in_world) for role in plan.roles] == [
        ("launcher", MPIRUN, False), ("worker", MPIRUN, True),
    ]  # fmt: skip
    (start,) = starts(on_one_host(plan)).values()
    assert start.argv == launcher.command and dict(start.env)["HORA_WORLD_SIZE"] == "4"


def test_a_launcher_role_must_be_one_that_launches() -> None:
    worker = RoleSpec("worker", 2)
    with pytest.raises(UsageError, match=r"roles\.launcher\.replicas: must be 1, got 2"):
        frameworks.plan(mpi_job(RoleSpec("launcher", 2, command=("mpirun",)), worker))
    with pytest.raises(UsageError, match=r"roles\.launcher\.command: must begin with mpirun, mpiexec or"):
        frameworks.plan(mpi_job(RoleSpec("launcher", 1, command=("python",)), worker))


def test_helpers_outside_the_world_are_spawned() -> None:
    plan = frameworks.plan(
        mpi_job(RoleSpec("worker", 1, command=("t",)), RoleSpec("board", 1, command=("board",)))
    )
    assert [(role.name, role.start, role.in_world) for role in plan.roles] == [
        ("worker", MPIRUN, True), ("board", SPAWN, False),
    ]  # fmt: skip
