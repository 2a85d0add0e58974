"""torch: ranks as torchrun would start them, and torchrun, accelerate and deepspeed as written."""

from __future__ import annotations

import pytest

from helpers.plans import a_job, on_one_host
from hora import frameworks
from hora.plan import PER_HOST, SPAWN, LaunchPlan, Scene, Seat, Spot, starts
from hora.record import replace
from hora.spec import JobSpec, RoleSpec


def torch_job(*command: str, workers: int = 2, ranks: int = 1) -> JobSpec:
    return a_job(RoleSpec("worker", workers, ranks, command or ("python", "train.py")), framework="torch")


def on_hosts_of_two(plan: LaunchPlan) -> Scene:
    """Two members on each host."""
    scene = on_one_host(plan)
    spots = {
        member: replace(spot, host=f"h{at // 2}", address=f"10.0.0.{at // 2}")
        for at, (member, spot) in enumerate(scene.spots.items())
    }
    return replace(scene, spots=spots, attempt=2)


def test_each_rank_gets_what_torchrun_sets() -> None:
    plan = frameworks.plan(replace(torch_job(workers=4), restarts=3))
    env = dict(starts(on_hosts_of_two(plan))[Seat("worker", 3)].env)
    wanted = {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "ROLE_NAME": "default",
        "ROLE_RANK": "3",
        "ROLE_WORLD_SIZE": "4",
        "MASTER_ADDR": "10.0.0.0",
        "MASTER_PORT": "20000",
        "TORCHELASTIC_RUN_ID": "ab12c",
        "TORCHELASTIC_RESTART_COUNT": "1",
        "TORCHELASTIC_MAX_RESTARTS": "3",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }
    assert {name: env.get(name) for name in wanted} == wanted
    assert plan.checks == ("python", "torch")
    assert plan.roles[0].start == SPAWN


def test_only_the_first_role_of_the_world_has_the_master_s_port() -> None:
    worker, master = RoleSpec("worker", 2, command=("t",)), RoleSpec("master", 1, command=("t",))
    plan = frameworks.plan(a_job(worker, master, RoleSpec("evaluator", 1, command=("e",)), framework="torch"))
    assert [(role.name, role.ports) for role in plan.roles] == [
        ("master", ("master",)), ("worker", ()), ("evaluator", ()),
    ]  # fmt: skip
    ready = starts(on_one_host(plan))
    assert dict(ready[Seat("worker", 1)].env)["RANK"] == "2"
    assert "RANK" not in dict(ready[Seat("evaluator", 0)].env), "a helper is no rank of the process group"


TORCHRUN = [
    ("torchrun", "train.py"),
    ("/opt/conda/bin/torchrun", "--tee", "3", "train.py"),
    ("python", "-m", "torch.distributed.run", "train.py"),
    ("python3.12", "-u", "-X", "dev", "-m", "torch.distributed.launch", "train.py"),
    ("env", "A=1", "torchrun", "train.py"),
    ("sh", "-c", "cd /data && exec torchrun train.py"),
    ("bash", "-lc", "A=$B torchrun train.py # mpirun"),
]


@pytest.mark.parametrize("command", TORCHRUN)
def test_torchrun_runs_as_written_once_per_host_with_its_options_in_the_environment(
    command: tuple[str, ...],
) -> None:
    plan = frameworks.plan(torch_job(*command, workers=4, ranks=2))
    assert (plan.roles[0].start, plan.roles[0].command) == (PER_HOST, command)
    ready = starts(on_hosts_of_two(plan))
    assert [seat.label for seat in ready] == ["worker-0/0", "worker-2/0"]
    env = dict(ready[Seat("worker", 2)].env)
    assert {name: text for name, text in env.items() if name.startswith("PET_")} == {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "4",
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "10.0.0.0",
        "PET_MASTER_PORT": "20000",
        "PET_RDZV_ENDPOINT": "10.0.0.0:20000",
        "PET_RDZV_ID": "ab12c",
    }
    assert not {"RANK", "LOCAL_RANK", "HORA_RANK"} & set(env), "those are torchrun's to give"


@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py"),
        ("python", "torchrun"),
        ("python", "-m", "torchrun_like"),
        ("python", "-m"),
        ("echo", "torchrun"),
        ("sh", "-c", "echo 'x; torchrun'"),
        ("sh", "torchrun"),
        ("sh",),
        ("env", "A=1"),
        ("accelerate", "config"),
        ("./my-torchrun",),
    ],
)
def test_other_commands_are_started_rank_by_rank(command: tuple[str, ...]) -> None:
    assert frameworks.plan(torch_job(*command)).roles[0].start == SPAWN


def shown(*command: str) -> list[tuple[str, ...]]:
    plan = frameworks.plan(torch_job(*command, workers=4))
    return [start.argv for start in starts(on_hosts_of_two(plan)).values()]


def test_accelerate_gets_the_options_that_are_missing() -> None:
    words = ("--mixed_precision", "bf16", "train.py", "--machine_rank", "x")
    assert shown("accelerate", "launch", *words)[1] == (
        "accelerate", "launch", "--num_processes", "4", "--num_machines", "2", "--machine_rank", "1",
        "--main_process_ip", "10.0.0.0", "--main_process_port", "20000",
        *words,
    )  # fmt: skip
    written = ("--num-processes=8", "--num_machines", "1", "--machine_rank", "0", "--main_process_port", "1")
    assert shown("python", "-m", "accelerate.commands.launch", *written, "t.py")[1] == (
        "python", "-m", "accelerate.commands.launch", "--main_process_ip", "10.0.0.0", *written, "t.py",
    )  # fmt: skip


def test_accelerate_with_a_file_of_its_own_keeps_the_sizes_in_it() -> None:
    words = shown("accelerate", "launch", "--config_file", "a.yaml", "train.py")[0]
    assert "--num_processes" not in words and "--num_machines" not in words
    assert "--machine_rank" in words and "--main_process_ip" in words


def test_deepspeed_runs_on_each_host_without_ssh() -> None:
    plan = frameworks.plan(torch_job("deepspeed", "train.py", "--deepspeed", "--master_port", workers=4))
    start = starts(on_hosts_of_two(plan))[Seat("worker", 2)]
    assert start.argv == (
        "deepspeed", "--hostfile", "/f/deepspeed-hosts", "--no_ssh", "--node_rank", "1",
        "--master_addr", "10.0.0.0", "--master_port", "20000",
        "train.py", "--deepspeed", "--master_port",
    )  # fmt: skip
    assert start.files == (("deepspeed-hosts", "10.0.0.0 slots=2\n10.0.0.1 slots=2\n", False),)


def test_deepspeed_with_hosts_of_its_own_only_learns_where_to_meet() -> None:
    assert shown("deepspeed", "--num_gpus=2", "--master_port", "7", "train.py")[0] == (
        "deepspeed", "--master_addr", "10.0.0.0", "--num_gpus=2", "--master_port", "7", "train.py",
    )  # fmt: skip


@pytest.mark.parametrize("script", ["accelerate launch train.py", "deepspeed train.py"])
def test_a_shell_script_is_never_changed(script: str) -> None:
    assert shown("sh", "-c", script) == [("sh", "-c", script)] * 2


def test_an_ipv6_master_has_brackets_only_beside_its_port() -> None:
    plan = frameworks.plan(torch_job("torchrun", "t.py", workers=1))
    scene = Scene(plan, "r", 1, {"worker-0": Spot("a", "fd00::1", ports=(("master", 5),))})
    env = dict(starts(scene)[Seat("worker", 0)].env)
    assert (env["PET_MASTER_ADDR"], env["PET_RDZV_ENDPOINT"]) == ("fd00::1", "[fd00::1]:5")
