"""What ranks find around them: numbers, variables, folder, set-up."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from helpers.places import User

SHOW = "import json, os; print(json.dumps(dict(os.environ)))"
TORCH = {
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE",
}  # fmt: skip


def environments(user: User, *words: str | Path, **options: object) -> list[dict[str, str]]:
    """Of all ranks, by their numbers."""
    done = user("run", *words, *user.python(SHOW), **options).check()
    found = [json.loads(line) for lines in done.ranks().values() for line in lines]
    return sorted(found, key=lambda env: int(env["HORA_RANK"]))


def job_file(user: User, text: str) -> Path:
    path = user.hora.cwd / "job.yaml"
    path.write_text(text)
    return path


def test_every_rank_knows_its_number_its_member_and_its_peers(user: User) -> None:
    found = environments(user, "-n", "3")
    assert [env["HORA_RANK"] for env in found] == ["0", "1", "2"]
    assert [env["HORA_MEMBER"] for env in found] == ["worker-0", "worker-1", "worker-2"]
    assert [env["HORA_MEMBER_INDEX"] for env in found] == ["0", "1", "2"]
    assert {env["HORA_WORLD_SIZE"] for env in found} == {"3"}
    assert {env["HORA_ATTEMPT"] for env in found} == {"1"}
    assert {env["HORA_ROLE"] for env in found} == {"worker"}
    assert len({env["HORA_RUN"] for env in found}) == 1
    peers = {env["HORA_PEERS"] for env in found}
    assert len(peers) == 1
    assert len(set(peers.pop().split(","))) == 3


def test_local_ranks_count_the_ranks_of_one_host(user: User) -> None:
    by_host: dict[str, list[dict[str, str]]] = {}
    for env in environments(user, "-n", "4"):
        by_host.setdefault(env["HORA_HOST_INDEX"], []).append(env)
    for ranks in by_host.values():
        assert sorted(int(env["HORA_LOCAL_RANK"]) for env in ranks) == list(range(len(ranks)))
        assert {env["HORA_LOCAL_WORLD_SIZE"] for env in ranks} == {str(len(ranks))}


def test_ranks_per_worker_are_counted_through_the_workers(user: User) -> None:
    words = ("--workers", "2", "--ranks-per-worker", "2", "sh", "-c", "echo $HORA_RANK of $HORA_WORLD_SIZE")
    done = user("run", *words).check()
    assert done.ranks() == {
        "worker-0/0": ["0 of 4"], "worker-0/1": ["1 of 4"], "worker-1/0": ["2 of 4"], "worker-1/1": ["3 of 4"],
    }  # fmt: skip


def test_a_number_of_ranks_that_does_not_fit_the_workers_is_refused(user: User) -> None:
    done = user("run", "-n", "3", "--workers", "2", "true").check(2)
    assert done.stdout == ""
    assert "3" in done.stderr and "2" in done.stderr


def test_each_roles_ranks_know_their_role(user: User) -> None:
    path = job_file(
        user,
        """
        name: roles
        framework: plain
        command: [sh, -c, "echo $HORA_ROLE $HORA_MEMBER"]
        roles: {chief: {replicas: 1}, worker: {replicas: 2}}
        """,
    )
    done = user("run", path).check()
    assert done.ranks() == {
        "chief-0/0": ["chief chief-0"], "worker-0/0": ["worker worker-0"], "worker-1/0": ["worker worker-1"],
    }  # fmt: skip


def test_variables_come_from_the_job_file_and_the_command_line_wins(user: User) -> None:
    path = job_file(user, 'name: env\ncommand: [sh, -c, "echo $LR $DEPTH"]\nenv: {LR: "0.1", DEPTH: "3"}\n')
    assert user("run", path).check().ranks() == {"worker-0/0": ["0.1 3"]}
    assert user("run", path, "--env", "LR=0.2").check().ranks() == {"worker-0/0": ["0.2 3"]}


def test_a_variable_without_a_value_is_the_callers(user: User) -> None:
    words = ("run", "--env", "MINE", "sh", "-c", "echo $MINE")
    assert user(*words, env={"MINE": "from here"}).check().ranks() == {"worker-0/0": ["from here"]}


def test_what_the_user_sets_is_not_overwritten_by_a_framework(user: User) -> None:
    [env] = environments(
        user, "--framework", "torch", "--env", "OMP_NUM_THREADS=17", "--env", "MASTER_PORT=2222"
    )
    assert (env["OMP_NUM_THREADS"], env["MASTER_PORT"]) == ("17", "2222")


def test_arguments_and_variables_arrive_unchanged_whatever_is_in_them(
    user: User, hostile_names: dict[str, str]
) -> None:
    texts = [text for text in hostile_names.values() if "\0" not in text]
    script = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['TEXT']]))"
    done = user("run", "--env", f"TEXT={texts[0]}", *user.python(script, *texts)).check()
    [line] = done.ranks()["worker-0/0"]
    assert json.loads(line) == [texts, texts[0]]


def test_secrets_reach_the_ranks_and_no_status(user: User) -> None:
    words = (
        "--secret",
        "TOKEN=env:MY_TOKEN",
        "sh",
        "-c",
        'test "$TOKEN" = "$(echo b-c-r-a | tr a-z n-za-m)"',
    )
    run = user.detached(*words, env={"MY_TOKEN": "o-p-e-n"})
    user("wait", run).check()
    for words in (("status", run), ("status", run, "-o", "json"), ("logs", run), ("ps", "-o", "json")):
        assert "o-p-e-n" not in user(*words).check().stdout


def test_a_secret_that_is_absent_is_said_before_anything_starts(user: User) -> None:
    done = user("run", "--secret", "TOKEN=env:NOT_SET_ANYWHERE", "true").check(2)
    assert "NOT_SET_ANYWHERE" in done.stderr
    assert user("ps", "-o", "json").check().json == []


def test_the_code_folder_is_the_ranks_folder(user: User) -> None:
    (user.hora.cwd / "data.txt").write_text("here\n")
    assert user("run", *user.here, "cat", "data.txt").check().ranks() == {"worker-0/0": ["here"]}


def test_the_code_folder_of_a_job_file_is_seen_from_its_own_folder(user: User) -> None:
    folder = user.hora.cwd / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "data.txt").write_text("there\n")
    (folder / "job.yaml").write_text("name: code\ncode: src\ncommand: [cat, data.txt]\n")
    assert user("run", folder / "job.yaml").check().ranks() == {"worker-0/0": ["there"]}


def test_set_up_runs_once_before_the_ranks(user: User) -> None:
    words = (*user.here, "--setup", "echo made >> made.txt", "-n", "2", "cat", "made.txt")
    found = user("run", *words).check().ranks()
    assert {label: lines for label, lines in found.items() if label.startswith("worker")} == {
        "worker-0/0": ["made"], "worker-1/0": ["made"],
    }  # fmt: skip


def test_a_set_up_that_fails_ends_the_run_before_the_ranks(user: User) -> None:
    words = ("--setup", "echo no such package >&2; exit 9", "-n", "2", "echo", "never")
    done = user("run", *words).check(9)
    assert "never" not in done.stdout
    assert "set-up" in done.stderr
    assert "no such package" in done.stderr


def test_torch_ranks_get_what_torchrun_gives(user: User) -> None:
    found = environments(user, "--framework", "torch", "-n", "2")
    assert all(set(env) >= TORCH for env in found)
    assert [env["RANK"] for env in found] == ["0", "1"]
    assert {env["WORLD_SIZE"] for env in found} == {"2"}
    assert len({(env["MASTER_ADDR"], env["MASTER_PORT"]) for env in found}) == 1


def test_the_framework_is_found_from_the_scripts_imports_and_said(user: User) -> None:
    (user.hora.cwd / "train.py").write_text("if False:\n    import torch.distributed\nprint('trained')\n")
    done = user("run", *user.here, user.place.python, "train.py").check()
    assert done.ranks() == {"worker-0/0": ["trained"]}
    assert "torch" in done.stderr


FAKE_TORCHRUN = """#!{python}
import os, subprocess, sys
number = int(os.environ["PET_NPROC_PER_NODE"])
first = int(os.environ["PET_NODE_RANK"]) * number
for local in range(number):
    subprocess.check_call(sys.argv[1:], env={{**os.environ, "RANK": str(first + local), "PET_DONE": "yes"}})
"""


def test_torchrun_as_written_gets_its_options_from_the_environment(user: User) -> None:
    """With a stand-in: what the real one does with PET_* is its own matter."""
    if not user.place.same_disk:
        pytest.skip(f"{user.place.name}: needs a torchrun in its image")
    fake = user.hora.cwd / "torchrun"
    fake.write_text(FAKE_TORCHRUN.format(python=user.place.python))
    fake.chmod(0o755)
    path = {"PATH": f"{user.hora.cwd}{os.pathsep}{os.environ['PATH']}"}
    done = user("run", "-n", "2", "torchrun", "sh", "-c", "echo rank $RANK $PET_DONE", env=path).check()
    lines = [line for lines in done.ranks().values() for line in lines]
    assert sorted(lines) == ["rank 0 yes", "rank 1 yes"]
