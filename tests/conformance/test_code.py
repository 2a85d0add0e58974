"""The code folder: where everything of a run starts, and what it can import."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.places import User


@pytest.fixture
def project(user: User) -> Path:
    """A folder with a module at its top and a script below."""
    folder = user.hora.cwd / "project"
    (folder / "scripts").mkdir(parents=True)
    (folder / "mine.py").write_text("WORD = 'mine'\n")
    (folder / "scripts" / "train.py").write_text(
        "import mine, os\nprint(mine.WORD, os.path.exists('mine.py'))\n"
    )
    return folder


def test_ranks_start_in_the_code_and_import_what_lies_at_its_top(user: User, project: Path) -> None:
    done = user("run", "--code", project, "-n", "2", user.place.python, "scripts/train.py").check()
    assert done.ranks() == {"worker-0/0": ["mine True"], "worker-1/0": ["mine True"]}


def test_what_the_job_puts_on_the_path_comes_after_its_code(user: User, project: Path) -> None:
    (project / "other").mkdir()
    (project / "other" / "mine.py").write_text("WORD = 'not mine'\n")
    words = ("--env", "PYTHONPATH=other:/more", user.place.python, "scripts/train.py")
    assert user("run", "--code", project, *words).check().ranks() == {"worker-0/0": ["mine True"]}
    script = "import os; print(os.environ['PYTHONPATH'].endswith(':other:/more'))"
    words = ("--env", "PYTHONPATH=other:/more", user.place.python, "-c", script)
    assert user("run", "--code", project, *words).check().ranks() == {"worker-0/0": ["True"]}


def test_the_set_up_runs_in_the_code_and_imports_from_it(user: User, project: Path) -> None:
    setup = f"{user.place.python} scripts/train.py > made.txt"
    done = user("run", "--code", project, "--setup", setup, "cat", "made.txt").check()
    assert done.ranks()["worker-0/0"] == ["mine True"]


def test_exec_runs_in_the_code_and_imports_from_it(user: User, project: Path) -> None:
    run = user.detached("--code", project, "sh", "-c", "echo ready; exec sleep 600")
    user.written(run, "ready")
    done = user("exec", run, "--", user.place.python, "scripts/train.py").check()
    assert done.stdout == "mine True\n"
    user("stop", "--kill", run).check()


def test_the_status_tells_which_code_where_code_is_shipped(user: User, project: Path) -> None:
    run = user.detached("--code", project, "true")
    code = user.ended(run)["code"]
    assert (code == "") is user.place.same_disk
    assert user.place.same_disk or f"code {code}" in user("status", run).check().stdout


def test_without_code_the_python_path_is_the_callers(user: User) -> None:
    if not user.place.same_disk:
        pytest.skip(f"{user.place.name}: ranks have a path of their own there")
    script = "import os; print(os.environ['PYTHONPATH'].split(':')[1:])"
    done = user("run", *user.python(script)).check()
    assert done.ranks()["worker-0/0"] == [str(os.environ["PYTHONPATH"].split(":"))]


# --- sync ---

ROUNDS = """
    import os, signal, sys, time
    import mine
    signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(0)))
    with open("rounds", "a") as file:
        file.write("x")
    print(mine.WORD, os.environ["HORA_ATTEMPT"], len(open("rounds").read()), flush=True)
    time.sleep(600)
"""


@pytest.fixture
def training(user: User, project: Path) -> Iterator[str]:
    """A run of one rank that counts its starts in a file beside the code."""
    run = user.detached("--code", project, *user.python(ROUNDS))
    user.written(run, "mine 1 1")
    yield run
    user("stop", "--kill", run)


def test_sync_gives_a_run_new_code_and_starts_its_ranks_again(
    user: User, project: Path, training: str
) -> None:
    (project / "mine.py").write_text("WORD = 'better'\n")
    done = user("sync", training).check()
    assert "as attempt 2" in done.stderr
    user.written(training, "better 2 2")  # what the first attempt had written is still there
    lines = user("logs", training).check().ranks()["worker-0/0"]
    assert lines == ["mine 1 1", "saved", "better 2 2"]
    status = user.status(training)
    assert (status["phase"], status["attempt"], status["firstFailure"]) == ("running", 2, None)


def test_sync_takes_the_code_from_another_folder(user: User, project: Path, training: str) -> None:
    other = user.hora.cwd / "other"
    other.mkdir()
    (other / "mine.py").write_text("WORD = 'other'\n")
    user("update", training, "--code", other, "--quiet").check()
    user.written(training, "other 2")


def test_sync_of_code_that_has_not_changed_changes_nothing_where_code_is_shipped(
    user: User, training: str
) -> None:
    """Where the folder is used in place nobody looks whether it has changed."""
    said = user("sync", training).check().stderr
    assert ("--restart" in said) is not user.place.same_disk
    assert user.status(training)["attempt"] == (2 if user.place.same_disk else 1)


def test_sync_starts_the_ranks_again_when_asked_to(user: User, training: str) -> None:
    user("sync", training, "--restart").check()
    user.written(training, "mine 2 2")


def test_sync_costs_no_restart_and_a_failure_afterwards_is_a_failure(user: User, project: Path) -> None:
    code = "import mine, time; print('begun', flush=True); mine.work()"
    (project / "mine.py").write_text("import time\ndef work(): time.sleep(600)\n")
    run = user.detached("--code", project, *user.python(code))
    user.written(run, "begun")
    (project / "mine.py").write_text("import sys\ndef work(): sys.exit(7)\n")
    user("sync", run)
    status = user.ended(run)
    assert (status["phase"], status["exitCode"], status["attempt"]) == ("failed", 7, 2)


def test_sync_runs_the_set_up_again(user: User, project: Path) -> None:
    words = ("--setup", "echo x >> set-up.txt", "sh", "-c", "echo $(cat set-up.txt); exec sleep 600")
    run = user.detached("--code", project, *words)
    user.written(run, "x")
    (project / "new.py").write_text("")
    user("sync", run).check()
    user.written(run, "x x")
    user("stop", "--kill", run).check()


def test_sync_of_an_ended_run_is_refused_in_one_sentence(user: User, project: Path) -> None:
    run = user.detached("--code", project, "true")
    user.ended(run)
    done = user("sync", run).check(2)
    assert "has ended" in done.stderr
    assert done.stderr.count("\n") == 1


def test_sync_from_a_folder_that_is_not_there_is_refused(user: User, training: str) -> None:
    assert "is not there" in user("sync", training, "--code", "no/such").check(2).stderr
    assert user.status(training)["attempt"] == 1


def test_sync_of_a_repository_takes_what_is_in_it_now(user: User) -> None:
    source = user.hora.cwd / "repository"
    source.mkdir()
    git = ["git", "-C", str(source), "-c", "user.name=me", "-c", "user.email=me@example.org"]

    def commit(text: str) -> None:
        (source / "text").write_text(text)
        for words in (["add", "."], ["commit", "-qm", text]):
            subprocess.run([*git, *words], check=True)

    subprocess.run([*git, "init", "-q"], check=True)
    commit("first")
    job = user.hora.cwd / "job.yaml"
    job.write_text(
        f"name: git\ncode: {{git: {source}}}\ncommand: [sh, -c, 'echo it is $(cat text); exec sleep 600']\n"
    )
    run = user.detached(job)
    user.written(run, "it is first")
    commit("second")
    user("sync", run).check()
    user.written(run, "it is second")
    user("stop", "--kill", run).check()
