"""`hora stop`, `rm` and `wait`."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.cli import Cli
from helpers.runs import is_running, wait_until

from .conftest import Rank, status_of

pytestmark = pytest.mark.leaks


def pids(hora: Cli, run: str) -> list[int]:
    return [rank["pid"] for member in status_of(hora, run)["members"] for rank in member["ranks"]]


def test_stop_returns_when_the_run_has_ended(hora: Cli, alive: Callable[..., str]) -> None:
    run = alive()
    ranks = pids(hora, run)
    done = hora("stop", run).check()
    assert done.stderr.endswith(f" {run} stopped by `hora stop`\n")
    assert not any(map(is_running, ranks))
    assert (status_of(hora, run)["phase"], status_of(hora, run)["exitCode"]) == ("stopped", 143)


def test_stop_lets_ranks_say_goodbye_and_kill_does_not(
    hora: Cli, rank: Rank, alive: Callable[..., str]
) -> None:
    code = (
        "signal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), os._exit(0)))\n"
        "print('here', flush=True)\ntime.sleep(600)"
    )
    for words, goodbye in (((), True), (("--kill",), False)):
        run = alive("-n", "1", *rank(code))
        wait_until(lambda run=run: hora("logs", run).stdout, "it is here")  # type: ignore[misc]
        hora("stop", run, *words).check()
        assert ("bye" in hora("logs", run).stdout) == goodbye


def test_without_a_name_stop_ends_the_only_run_and_refuses_to_choose(
    hora: Cli, alive: Callable[..., str]
) -> None:
    first = alive()
    second = alive()
    done = hora("stop").check(2)
    assert f"2 runs go on: {first} (rank1), {second} (rank2)" in done.stderr
    hora("stop", first).check()
    assert hora("stop").check().stderr.count("stopped by `hora stop`") == 1
    assert hora("stop").check().stderr == "hora: no run goes on\n"


def test_stop_all_ends_all(hora: Cli, alive: Callable[..., str]) -> None:
    runs = [alive(), alive()]
    hora("stop", "--all").check()
    assert {status_of(hora, run)["phase"] for run in runs} == {"stopped"}


def test_stopping_an_ended_run_tells_how_it_ended(hora: Cli, rank: Rank) -> None:
    hora("run", "-n", "1", *rank("")).check()
    assert "succeeded" in hora("stop", "rank1").check().stderr


def test_rm_forgets_ended_runs_and_refuses_living_ones_with_the_way_out(
    hora: Cli, rank: Rank, alive: Callable[..., str]
) -> None:
    run = alive("--name", "living", "-n", "1", *rank.sleeps)
    hora("run", "--name", "one", "-n", "1", *rank("")).check()
    hora("run", "--name", "two", "-n", "1", *rank("")).check()
    done = hora("rm", "living").check(2)
    assert f"run {run} is still going on: `hora stop {run}` first" in done.stderr
    hora("rm", "one").check()
    assert [found["name"] for found in hora("ps", "-o", "json").json] == ["living", "two"]
    hora("rm", "--ended").check()
    assert [found["name"] for found in hora("ps", "-o", "json").json] == ["living"]
    assert hora("rm").check(2).stderr.startswith("hora: rm: name runs, or say --ended")


def test_a_run_that_is_named_twice_is_removed_once_and_no_other(hora: Cli, rank: Rank) -> None:
    command = rank("")
    ids = []
    for _ in range(3):
        hora("run", "--name", "zug", "-n", "1", *command).check()
        ids.append(status_of(hora, "zug")["id"])
    assert hora("rm", "zug", "zug", ids[2]).check().stderr == f"hora: {ids[2]} is gone\n"
    assert [run["id"] for run in hora("ps", "-o", "json").json] == ids[:2]
    told = hora("rm", "nosuch", "zug").check(2).stderr
    assert f"hora: {ids[1]} is gone\n" in told
    assert "no run 'nosuch'" in told
    assert hora("stop", "zug", ids[0]).check().stderr.count("\n") == 1


def test_wait_ends_with_the_code_of_the_run(
    hora: Cli, rank: Rank, work: Path, alive: Callable[..., str]
) -> None:
    code = "while not os.path.exists(sys.argv[1]): time.sleep(0.02)\nsys.exit(5)"
    run = alive("-n", "1", *rank(code, str(work / "go")))
    done = hora("wait", run, "--timeout", "200ms").check(124)
    assert done.stderr == f"hora: run {run} was still running after 0.2 s; it goes on: hora status {run}\n"
    process = hora.start("wait", run, "-o", "json")
    (work / "go").touch()
    out, err = process.communicate(timeout=30)
    assert process.returncode == 5
    assert b'"exitCode": 5' in out
    assert b" failed: worker-0/0 exited with code 5" in err
    assert hora("wait", run, "--timeout", "soon").check(2).stderr.startswith("hora: wait: --timeout: must be")


def test_ctrl_c_ends_waiting_and_not_the_run(hora: Cli, alive: Callable[..., str]) -> None:
    run = alive()
    process = hora.start("wait", run)
    wait_until(lambda: b"hora" in Path(f"/proc/{process.pid}/cmdline").read_bytes(), "it has begun")
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(20) in (130, -signal.SIGINT)
    assert status_of(hora, run)["phase"] == "running"
