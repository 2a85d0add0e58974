"""The plans that frameworks make, and the processes that come of them on two hosts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.plans import a_job, on_one_host
from hora import frameworks
from hora.plan import Start, served, starts, to_data
from hora.record import replace
from hora.spec import JobSpec, Resources, RoleSpec

Golden = Callable[[str, str], None]


def workers(*command: str, framework: str) -> JobSpec:
    role = RoleSpec("worker", 2, 2, command, env=(("LR", "0.1"),), resources=Resources(cpu=2, gpu=1))
    return a_job(role, framework=framework, setup="pip install -r requirements.txt", restarts=1)


JOBS = {
    "plain": workers("python", "train.py", "a b", "$HOME", framework="plain"),
    "plain-roles": a_job(
        RoleSpec("ps", 1, command=("ps",)),
        RoleSpec("worker", 2, command=("w",)),
        RoleSpec("chief", 1, command=("c",)),
    ),
    "torch": workers("python", "train.py", framework="torch"),
    "torchrun": workers("torchrun", "train.py", framework="torch"),
    "accelerate": workers("accelerate", "launch", "train.py", framework="torch"),
    "deepspeed": workers("deepspeed", "train.py", framework="torch"),
    "mpi": workers("python", "train.py", framework="mpi"),
    "mpirun": workers("mpirun", "-np", "4", "python", "train.py", framework="mpi"),
    "mpi-launcher": a_job(
        RoleSpec("launcher", 1, command=("mpirun", "python", "train.py")),
        RoleSpec("worker", 2, 2),
        framework="mpi",
    ),
}  # fmt: skip


def pretty(data: object) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def process(start: Start) -> dict[str, object]:
    return {
        "argv": start.argv,
        "env": dict(start.env),
        "defaults": dict(start.defaults),
        "files": {name: content for name, content, _ in start.files},
    }


@pytest.mark.parametrize("name", JOBS)
def test_a_job_s_plan_is_as_it_was(name: str, golden: Golden) -> None:
    golden(f"plans/{name}.json", pretty(to_data(frameworks.plan(JOBS[name]))))


@pytest.mark.parametrize("name", JOBS)
def test_the_processes_of_a_plan_on_two_hosts_are_as_they_were(name: str, golden: Golden) -> None:
    scene = on_one_host(frameworks.plan(JOBS[name]), interface="eth0")
    spots = {
        member: replace(spot, host=f"h{at}", address=f"fd00::{at + 1}")
        for at, (member, spot) in enumerate(scene.spots.items())
    }
    scene = replace(scene, spots=spots, attempt=2)
    made = {
        "starts": {seat.label: process(start) for seat, start in starts(scene).items()},
        "served": {seat.label: process(start) for seat, start in served(scene).items()},
    }
    golden(f"processes/{name}.json", pretty(made))


def test_no_golden_file_is_left_over() -> None:
    for folder in ("plans", "processes"):
        kept = {path.stem for path in (Path(__file__).parent / folder).glob("*.json")}
        assert kept == set(JOBS)
