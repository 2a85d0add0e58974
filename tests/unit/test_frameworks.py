"""The registry, what every framework sets up, and plain."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.cli import Cli
from helpers.plans import a_job, on_one_host
from hora import frameworks
from hora.errors import HoraError, UsageError
from hora.frameworks import base
from hora.plan import (
    EndRule,
    File,
    FilePath,
    Host,
    HostPort,
    HostPorts,
    Hosts,
    LaunchPlan,
    Limits,
    Port,
    RolePlan,
    Seat,
    starts,
)
from hora.record import replace
from hora.spec import Network, Resources, RoleSpec, Timeouts

# --- the registry ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plain", "mpi", "torch"])
def test_a_built_in_framework_is_found_by_its_name(name: str) -> None:
    framework = frameworks.get(name)
    assert framework.name == name
    assert frameworks.plan(a_job(framework=name)).framework == name


def test_importing_the_registry_imports_no_framework_and_nothing_slow() -> None:
    code = f"import sys; sys.path[:0] = {sys.path!r}; import hora.frameworks; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    slow = {"importlib.metadata", "inspect", "dataclasses", "difflib", "pydantic", "yaml", "hora.plan"}
    assert not slow & loaded
    assert not [name for name in loaded if name.startswith("hora.frameworks.")]


def test_an_unknown_name_is_refused_with_the_nearest_and_all_that_are_allowed() -> None:
    with pytest.raises(UsageError) as caught:
        frameworks.get("torhc")
    assert (
        str(caught.value)
        == "framework: 'torhc' is unknown; did you mean 'torch'?; allowed: plain, mpi, torch"
    )
    with pytest.raises(UsageError, match="'qqq' is unknown; allowed: plain, mpi, torch"):
        frameworks.get("qqq")


@pytest.mark.parametrize("name", ["jax", "tensorflow", "dask"])
def test_a_framework_that_comes_later_says_so_in_one_sentence(name: str) -> None:
    assert name not in frameworks.names()
    with pytest.raises(
        UsageError, match=f"'{name}' comes with a later version of Hora; until then use 'plain'"
    ):
        frameworks.get(name)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a package with entry points on sys.path, as pip would."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(entry_points: str, code: str = "", version: str = "1.0") -> None:
        info = tmp_path / f"circus-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: circus\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[hora.frameworks]\n{entry_points}\n")
        (tmp_path / "circus_hora.py").write_text(code)

    yield install
    sys.modules.pop("circus_hora", None)


GOOD = """
from hora.frameworks.base import in_order, launch_plan, role_plan
name = "circus"
def plan(spec):
    return launch_plan(spec, tuple(role_plan(spec, role, env=(("RING", "1"),)) for role in in_order(spec)))
"""


def test_a_third_party_framework_comes_by_entry_point(installed: Any) -> None:
    installed("circus = circus_hora", GOOD)
    assert frameworks.names() == ["plain", "mpi", "torch", "circus"]
    plan = frameworks.plan(a_job(framework="circus"))
    assert ("RING", "1") in plan.roles[0].env
    assert frameworks.notes() == []


def test_a_third_party_framework_never_replaces_a_built_in_and_that_is_said(installed: Any) -> None:
    installed("mpi = circus_hora\njax = circus_hora", GOOD)
    assert frameworks.get("mpi").__name__ == "hora.frameworks.mpi"  # type: ignore[attr-defined]
    assert frameworks.names() == ["plain", "mpi", "torch", "jax"]
    assert frameworks.notes() == [
        "the package circus 1.0 offers a framework 'mpi': not used, since Hora has its own"
    ]
    assert frameworks.get("jax").name == "circus", "a name that Hora only plans is free"


@pytest.mark.parametrize(
    ("entry", "code", "what"),
    [
        ("circus = circus_hora", "import not_there_at_all", "the package circus 1.0, can't be loaded: Mod"),
        ("circus = circus_hora", "1/0", "can't be loaded: ZeroDivisionError: division by zero"),
        ("circus = circus_hora:nothing", "", "can't be loaded: AttributeError"),
        ("circus = circus_hora", "plan = 3", "has no function plan"),
    ],
)  # fmt: skip
def test_a_broken_third_party_framework_is_named_with_its_package(
    installed: Any, entry: str, code: str, what: str
) -> None:
    installed(entry, code)
    with pytest.raises(UsageError, match=what):
        frameworks.get("circus")


BAD_PLANS = [
    (
        GOOD.replace("return launch_plan", "from hora.plan import Host; return launch_plan").replace(
            '"1"', 'Host("ps")'
        ),
        "made a plan that can't run: the plan has no role 'ps'; it has worker",
        125,
    ),
    ("def plan(spec): raise ValueError('boom')", "can't plan this job: ValueError: boom", 2),
    ("def plan(spec): return 3", "made a plan that can't run: it is no LaunchPlan but int", 125),
]


@pytest.mark.parametrize(("code", "what", "exit_code"), BAD_PLANS)
@pytest.mark.parametrize("command", ["run", "render"])
def test_a_bad_plan_of_a_third_party_is_refused_with_its_package_before_a_run_is_made(
    installed: Any, tmp_path: Path, hora: Cli, command: str, code: str, what: str, exit_code: int
) -> None:
    installed("circus = circus_hora", code)
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])}
    done = hora(command, "-n", "2", "--framework", "circus", "true", env=env).check(exit_code)
    assert done.stderr == f"hora: framework: 'circus', from the package circus 1.0, {what}\n"
    assert done.stdout == ""
    assert "there are no runs" in hora("ps").check().stderr


def test_the_command_line_runs_third_party_frameworks_offers_them_and_says_which_are_not_used(
    installed: Any, tmp_path: Path, hora: Cli
) -> None:
    installed("circus = circus_hora\ntorch = circus_hora\njax = circus_hora", GOOD)
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])}
    done = hora("run", "-n", "2", "--framework", "circus", "printenv", "RING", env=env).check()
    assert sorted(done.lines) == ["worker-0/0 | 1", "worker-1/0 | 1"]
    passed_over = "hora: the package circus 1.0 offers a framework 'torch': not used, since Hora has its own"
    assert passed_over in done.stderr.splitlines()
    assert "circus" in hora("__complete", "run", "--framework", "", env=env).lines
    wrong = hora("run", "--framework", "circu", "true", env=env).check(2).stderr
    allowed = "plain, mpi, torch, jax, tensorflow, dask or circus"
    assert wrong == f"hora: --framework: must be {allowed}, got 'circu'; did you mean circus?\n"


# --- a plan that does not hold together -------------------------------------------------------

WORKER = RolePlan("worker", 2, ("true",), ports=("tf",), rank_ports=("peer",))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"env": (("A", Host("ps")),)}, "the plan has no role 'ps'"),
        ({"command": (Hosts("ps"),)}, "the plan has no role 'ps'"),
        ({"env": (("A", Host("worker", 2)),)}, "names worker-2, which isn't there"),
        ({"env": (("A", Port("worker", 0, "http")),)}, "names port 'http', which worker has not"),
        ({"env": (("A", HostPort("worker", 0, "http")),)}, "names port 'http', which worker has not"),
        ({"env": (("A", HostPorts("worker", "http")),)}, "names port 'http', which worker has not"),
        ({"env": (("A", Port("worker", 0, "peer")),)}, "names port 'peer', which worker has not"),
        ({"launcher": (FilePath("hosts"),)}, "names file 'hosts', which it doesn't declare"),
        ({"start": "magic"}, "start is one of spawn, host, mpirun, not 'magic'"),
    ],
)
def test_a_plan_that_names_what_is_not_there_is_refused(change: dict[str, Any], what: str) -> None:
    plan = LaunchPlan("j", "circus", (replace(WORKER, **change),), EndRule(("worker",)))
    with pytest.raises(HoraError, match=f"the framework 'circus' made a plan that can't run: .*{what}"):
        base.checked(plan, "the framework 'circus'")


def test_a_plan_needs_an_end_and_one_role_per_name() -> None:
    with pytest.raises(HoraError, match="no role decides"):
        base.checked(LaunchPlan("j", "x", (WORKER,), EndRule(())), "x")
    with pytest.raises(HoraError, match="has no role 'chief'"):
        base.checked(LaunchPlan("j", "x", (WORKER,), EndRule(("chief",))), "x")
    with pytest.raises(HoraError, match="two roles are called 'worker'"):
        base.checked(LaunchPlan("j", "x", (WORKER, replace(WORKER, ranks=2)), EndRule(("worker",))), "x")


def test_a_plan_that_names_what_it_has_passes() -> None:
    env = (
        ("A", Port("worker", 1, "tf")), ("B", Port("worker", 0, "peer/0")),
        ("C", HostPorts("worker", "peer")), ("D", FilePath("f")),
    )  # fmt: skip
    plan = LaunchPlan("j", "x", (replace(WORKER, env=env, files=(File("f", ""),)),), EndRule(("worker",)))
    assert base.checked(plan, "x") is plan


# --- what every framework sets up ---------------------------------------------------------------------------


def test_the_job_s_limits_and_settings_reach_the_plan() -> None:
    job = a_job(
        RoleSpec("worker", 3, 2, ("t",), env=(("LR", "0.1"),), resources=Resources(cpu=2.5, gpu=1)),
        setup="pip install x",
        timeouts=Timeouts(1, None, 3, 4, 5),
        restarts=2,
        stall="kill",
        output=99,
        network=Network(interface="eth7", ports=(30000, 30063)),
    )
    plan = frameworks.plan(job)
    assert plan.limits == Limits(1, None, 3, 4, 5)
    assert plan.setup == ("sh", "-c", "pip install x")
    assert (plan.job, plan.restarts, plan.stall, plan.output) == ("digits", 2, "kill", 99)
    assert (plan.interface, plan.ports) == ("eth7", (30000, 30063))
    assert (plan.checks, plan.end) == (("python",), EndRule(("worker",)))
    (role,) = plan.roles
    assert (role.replicas, role.ranks, role.command, role.user_env) == (3, 2, ("t",), (("LR", "0.1"),))
    assert (role.cpus, role.gpus, plan.world) == (2.5, 1, 6)
    assert frameworks.plan(a_job()).setup == frameworks.plan(a_job(setup=" \n")).setup == ()


@pytest.mark.parametrize("framework", ["plain", "torch", "mpi"])
def test_every_framework_advises_threads_interface_and_unbuffered_output(framework: str) -> None:
    plan = frameworks.plan(a_job(framework=framework))
    scene = on_one_host(plan, threads=3, interface="eth0")
    advice = dict(next(iter(starts(scene).values())).defaults)
    assert advice["OMP_NUM_THREADS"] == "3"
    assert advice["PYTHONUNBUFFERED"] == "1"
    assert advice["NCCL_SOCKET_IFNAME"] == "=eth0"
    assert advice["GLOO_SOCKET_IFNAME"] == "eth0"
    assert "UCX_NET_DEVICES" not in advice
    unknown = dict(next(iter(starts(on_one_host(plan, interface="")).values())).defaults)
    assert not {name for name in unknown if name.endswith("_IFNAME")}


@pytest.mark.parametrize(
    ("names", "ends", "inside", "first"),
    [
        (["worker"], ["worker"], ["worker"], "worker"),
        (["trainer"], ["trainer"], ["trainer"], "trainer"),
        (["actor", "learner"], ["actor", "learner"], ["actor", "learner"], "actor"),
        (["worker", "master"], ["master", "worker"], ["master", "worker"], "master"),
        (["ps", "worker", "chief", "evaluator"], ["chief", "worker"], ["chief", "worker"], "chief"),
    ],
)
def test_the_world_decides_the_end_and_its_leader_has_rank_0(
    names: list[str], ends: list[str], inside: list[str], first: str
) -> None:
    plan = frameworks.plan(a_job(*(RoleSpec(name, 1, command=("t",)) for name in names)))
    assert plan.end.decides == tuple(ends)
    assert [role.name for role in plan.roles if role.in_world] == inside
    env = dict(starts(on_one_host(plan))[Seat(first, 0)].env)
    assert env["HORA_RANK"] == "0"


def test_a_role_without_members_is_left_out_and_a_job_without_any_is_refused() -> None:
    plan = frameworks.plan(a_job(RoleSpec("chief", 0), RoleSpec("worker", 1, command=("t",))))
    assert [role.name for role in plan.roles] == ["worker"]
    with pytest.raises(UsageError, match="workers: a job needs at least one member"):
        frameworks.plan(a_job(RoleSpec("worker", 0, command=("t",))))


@pytest.mark.parametrize("framework", ["plain", "torch", "mpi"])
def test_a_role_without_a_command_is_refused_with_its_key(framework: str) -> None:
    with pytest.raises(UsageError, match=r"roles\.worker\.command: missing"):
        frameworks.plan(a_job(RoleSpec("worker", 1), framework=framework))


# --- plain ----------------------------------------------------------------------------------------------


def test_every_rank_has_a_port_of_its_own_and_all_know_them() -> None:
    plan = frameworks.plan(a_job(RoleSpec("worker", 2, 2, ("t",))))
    ready = starts(on_one_host(plan))
    envs = [dict(start.env) for start in ready.values()]
    assert [env["HORA_PORT_PEER"] for env in envs] == ["20000", "20001", "20002", "20003"]
    assert {env["HORA_PEERS"] for env in envs} == {
        "127.0.0.1:20000,127.0.0.1:20001,127.0.0.1:20002,127.0.0.1:20003"
    }
    for env in envs:
        mine = env["HORA_PEERS"].split(",")[int(env["HORA_RANK"])]
        assert mine == f"{env['HORA_HOST']}:{env['HORA_PORT_PEER']}"


def test_with_several_roles_each_has_its_list_of_peers() -> None:
    plan = frameworks.plan(a_job(RoleSpec("ps", 1, command=("p",)), RoleSpec("worker", 2, command=("t",))))
    env = dict(starts(on_one_host(plan))[Seat("ps", 0)].env)
    assert env["HORA_PEERS"] == env["HORA_PEERS_WORKER"] == "127.0.0.1:20001,127.0.0.1:20002"
    assert env["HORA_PEERS_PS"] == "127.0.0.1:20000"
