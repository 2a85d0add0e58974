"""Real torch.distributed under Hora: plain scripts, torchrun as written, failures, restarts."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

import hora
from hora.state import FAILED, SUCCEEDED, RunStatus

_spec = importlib.util.spec_from_file_location("torch_needs", Path(__file__).with_name("needs.py"))
assert _spec is not None and _spec.loader is not None
_needs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_needs)
BIN = _needs.environment() / "bin"

pytestmark = pytest.mark.leaks

REDUCE = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(3) * (dist.get_rank() + 1)
dist.all_reduce(total)
print(dist.get_rank(), dist.get_world_size(), os.environ["LOCAL_RANK"], int(total[0]), flush=True)
"""

FAIL_ONCE = (
    REDUCE
    + """
if dist.get_rank() == 2 and os.environ["HORA_ATTEMPT"] == "1":
    print("rank 2 gives up", flush=True)
    os._exit(3)
for _ in range(200):
    dist.all_reduce(total)
    dist.barrier()
"""
)

DDP = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
print("%.6f" % sum(float(p.sum()) for p in model.parameters()), flush=True)
"""

STUCK = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
print("met", flush=True)
if dist.get_rank() == 1:
    def wait_for_a_file_that_never_comes():
        time.sleep(1000)
    wait_for_a_file_that_never_comes()
dist.barrier()
"""


@pytest.fixture(autouse=True)
def torch_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("PYTHONPATH", raising=False)  # this checkout's Python is another one


@pytest.fixture
def run(work: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(work)

    def start(script: str, command: list[str], **keys: Any) -> tuple[RunStatus, dict[str, list[str]]]:
        (work / "train.py").write_text(script)
        running = hora.submit(hora.Job(command=command, **keys), attached=True)
        lines: dict[str, list[str]] = {}
        for line in running.logs():
            lines.setdefault(line.label, []).append(line.text)
        return running.wait(timeout=120, check=False), lines

    return start


def test_a_plain_script_becomes_a_world_of_four(run: Any) -> None:
    status, lines = run(REDUCE, ["python", "train.py"], workers=4)
    assert (status.phase, status.framework) == (SUCCEEDED, "torch"), status.reason
    assert lines == {f"worker-{rank}/0": [f"{rank} 4 {rank} 10"] for rank in range(4)}


def test_two_ranks_in_each_of_two_workers_count_on_one_host(run: Any) -> None:
    status, lines = run(REDUCE, ["python", "train.py"], workers=2, ranks_per_worker=2)
    assert status.phase == SUCCEEDED, status.reason
    assert lines == {f"worker-{rank // 2}/{rank % 2}": [f"{rank} 4 {rank} 10"] for rank in range(4)}


@pytest.mark.parametrize(
    "command",
    [
        ["torchrun", "train.py"],
        ["torchrun", "--nproc_per_node", "2", "train.py"],
        ["torchrun", "--nnodes=1", "--nproc_per_node=2", "--rdzv_backend=c10d", "train.py"],
    ],
    ids=" ".join,
)
def test_torchrun_runs_as_written(run: Any, command: list[str]) -> None:
    status, lines = run(REDUCE, command, workers=2)
    assert status.phase == SUCCEEDED, status.reason
    said = sorted(text for texts in lines.values() for text in texts if text[:1].isdigit())
    assert said == ["0 2 0 3", "1 2 1 3"]


def test_gradients_are_shared_by_ddp(run: Any) -> None:
    status, lines = run(DDP, ["python", "train.py"], workers=3)
    assert status.phase == SUCCEEDED, status.reason
    assert len(lines) == 3
    assert len({texts[-1] for texts in lines.values()}) == 1


def test_the_rank_that_fails_is_named_not_those_whose_connection_breaks(run: Any) -> None:
    status, _ = run(FAIL_ONCE, ["python", "train.py"], workers=4)
    failure = status.first_failure
    assert (status.phase, status.exit_code) == (FAILED, 3)
    assert (failure.label, failure.exit_code, failure.last_lines[-1]) == ("worker-2/0", 3, "rank 2 gives up")


def test_a_second_attempt_meets_at_an_address_of_its_own(run: Any) -> None:
    status, lines = run(FAIL_ONCE, ["python", "train.py"], workers=4, restarts=1)
    assert (status.phase, status.attempt) == (SUCCEEDED, 2), status.reason
    assert lines["worker-0/0"].count("0 4 0 10") == 2


def test_a_rank_that_does_not_come_to_the_barrier_is_named_with_its_stack(run: Any) -> None:
    status, _ = run(
        STUCK, ["python", "train.py"], workers=3, stall="kill", timeouts={"stall": "3s", "grace": "1s"}
    )
    assert (status.phase, status.exit_code) == (FAILED, 124)
    told = "\n".join(status.notes)
    assert "wait_for_a_file_that_never_comes" in told
    assert "worker-1/0" in told
