"""Runs are listed, looked at, waited for, stopped and forgotten."""

from __future__ import annotations

import json
import re
import signal

import pytest

from helpers.places import User
from helpers.reader import Reader

STATUS = {"id", "name", "place", "phase", "reason", "exitCode", "origin", "attempt", "startedAt", "endedAt",
          "members", "firstFailure"}  # fmt: skip
MEMBER = {"name", "host", "phase", "ranks"}
RANK = {"rank", "localRank", "pid", "state", "exitCode"}
FAILURE = {"member", "rank", "cause", "exitCode", "signal", "lastLines"}
STUBBORN = """
    import signal, time
    signal.signal(signal.SIGTERM, lambda *_: print("no", flush=True))
    print("ready", flush=True)
    while True:
        signal.pause()
"""
POLITE = """
    import signal, sys
    signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(0)))
    print("ready", flush=True)
    signal.pause()
"""


# --- status, ps ---


def test_the_status_of_a_living_run_tells_every_rank(user: User) -> None:
    run = user.detached("-n", "2", *user.python(POLITE))
    user.written(run, "ready")
    status = user.until_phase(run, "running")
    assert set(status) >= STATUS
    assert [member["name"] for member in status["members"]] == ["worker-0", "worker-1"]
    assert all(set(member) >= MEMBER for member in status["members"])
    ranks = user.ranks(run)
    assert all(set(rank) >= RANK and rank["state"] == "running" and rank["pid"] > 0 for rank in ranks)
    assert [rank["rank"] for rank in ranks] == [0, 1]
    assert (status["exitCode"], status["endedAt"], status["firstFailure"]) == (None, None, None)
    assert status["startedAt"] > 0
    assert status["place"] == user.place.name
    user("stop", run).check()


def test_the_status_of_an_ended_run_tells_how_every_rank_ended(user: User) -> None:
    # The second one's failure ends the run: the first one shall have ended before.
    run = user.detached("-n", "2", "sh", "-c", "echo bye; sleep $((2 * HORA_RANK)); exit $HORA_RANK")
    status = user.ended(run)
    assert [(rank["state"], rank["exitCode"]) for rank in user.ranks(run)] == [("exited", 0), ("exited", 1)]
    assert set(status["firstFailure"]) >= FAILURE
    assert status["endedAt"] >= status["startedAt"]


def test_status_begins_with_one_sentence_and_why_is_its_other_name(user: User) -> None:
    run = user.detached("sh", "-c", "echo out of luck; exit 4")
    user.ended(run)
    first = user("status", run).check().lines[0]
    assert re.search(rf"{run} failed: worker-0/0 exited with code 4.*out of luck", first)
    assert user("why", run).check().lines[0] == first


def test_run_with_json_prints_one_status_and_keeps_the_lines_off_stdout(user: User) -> None:
    done = user("run", "-o", "json", "-n", "2", "echo", "hello").check()
    assert json.loads(done.stdout)["phase"] == "succeeded"
    assert "worker-0/0 | hello" in done.stderr


def test_ps_lists_runs_in_the_order_in_which_they_began(user: User) -> None:
    runs = [user.detached("--name", name, "true") for name in ("one", "two", "three")]
    found = user("ps", "-o", "json").check().json
    assert [status["id"] for status in found] == runs
    assert [status["name"] for status in found] == ["one", "two", "three"]
    shown = user("ps").check().lines
    assert len(shown) == 4
    assert all(run in line for run, line in zip(runs, shown[1:]))


def test_ps_of_what_runs_leaves_out_what_has_ended(user: User) -> None:
    ended = user.detached("true")
    user("wait", ended).check()
    alive = user.detached(*user.python(POLITE))
    assert [status["id"] for status in user("ps", "--running", "-o", "json").check().json] == [alive]
    user("stop", alive, "--kill").check()


# --- names ---


def test_two_runs_of_one_name_live_side_by_side_and_the_name_means_the_newest(user: User) -> None:
    first = user.detached("--name", "same", *user.python(POLITE))
    second = user.detached("--name", "same", *user.python(POLITE))
    assert first != second
    assert user.status("same")["id"] == second
    user("stop", "same").check()
    assert user.status(first)["phase"] != "stopped"
    user("stop", first).check()


def test_a_run_is_found_by_the_beginning_of_its_id(user: User) -> None:
    run = user.detached("true")
    assert user.status(run[:2])["id"] == run


@pytest.mark.parametrize("command", ["status", "logs", "stop", "wait", "rm", "stacks"])
def test_an_unknown_run_is_one_sentence_and_code_2(user: User, command: str) -> None:
    done = user(command, "nosuchrun").check(2)
    assert done.stdout == ""
    assert "nosuchrun" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


# --- wait ---


def test_wait_ends_with_the_runs_exit_code(user: User) -> None:
    run = user.detached("sh", "-c", "sleep 0.3; exit 6")
    user("wait", run).check(6)
    user("wait", run).check(6)


def test_wait_gives_up_with_124_and_the_run_goes_on(user: User) -> None:
    run = user.detached(*user.python(POLITE))
    done = user("wait", run, "--timeout", "1s").check(124)
    assert run in done.stderr
    assert user.until_phase(run, "running")["exitCode"] is None
    user("stop", run).check()


# --- stop ---


def test_stop_lets_ranks_end_by_themselves(user: User) -> None:
    run = user.detached("-n", "2", *user.python(POLITE))
    user.written(run, "worker-0/0 | ready")
    user.written(run, "worker-1/0 | ready")
    user("stop", run).check()
    status = user.status(run)
    assert (status["phase"], status["exitCode"], status["origin"]) == ("stopped", 143, "hora")
    assert user("logs", run).check().ranks() == {f"worker-{n}/0": ["ready", "saved"] for n in (0, 1)}
    user("wait", run).check(143)


@pytest.mark.parametrize(
    "script",
    [
        "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done",
        "trap 'echo saved; kill $!; exit 0' TERM; sleep 600 & echo ready; wait",
        "echo ready; sleep 600",
    ],
    ids=["in a loop", "waiting", "without"],
)
def test_stop_reaches_shells_with_and_without_a_trap(user: User, script: str) -> None:
    run = user.detached("--timeout", "grace=10m", "sh", "-c", script)
    user.written(run, "ready")
    user("stop", run, timeout=20).check()
    lines = user("logs", run).check().ranks()["worker-0/0"]
    assert ("saved" in lines) == ("trap" in script)


def test_stop_kills_what_has_not_ended_after_the_grace(user: User) -> None:
    run = user.detached("--timeout", "grace=1s", *user.python(STUBBORN))
    user.written(run, "ready")
    user("stop", run).check()
    assert user.status(run)["phase"] == "stopped"
    assert user("logs", run).check().ranks()["worker-0/0"][:2] == ["ready", "no"]


def test_stop_with_kill_asks_nobody(user: User) -> None:
    run = user.detached("--timeout", "grace=10m", *user.python(STUBBORN))
    user.written(run, "ready")
    user("stop", "--kill", run).check()
    assert user.status(run)["phase"] == "stopped"
    assert user("logs", run).check().ranks() == {"worker-0/0": ["ready"]}


def test_ctrl_c_stops_an_attached_run_with_130(user: User) -> None:
    process = user.start("run", "-n", "2", *user.python(POLITE))
    reader = Reader(process.stdout)
    reader.until("ready")
    reader.until("ready")
    process.send_signal(signal.SIGINT)
    assert sorted(reader.rest().splitlines()) == ["worker-0/0 | saved", "worker-1/0 | saved"]
    assert process.wait(20) == 130
    [status] = user("ps", "-o", "json").check().json
    assert (status["phase"], status["exitCode"]) == ("stopped", 130)


def test_an_attached_run_ends_with_its_client(user: User) -> None:
    if not user.place.owns_attached:
        pytest.skip(f"{user.place.name}: runs go on without their client")
    process = user.start("run", *user.python(POLITE))
    Reader(process.stdout).until("ready")
    process.kill()
    process.wait()
    [status] = user("ps", "-o", "json").check().json
    user("wait", status["id"]).check(129)


def test_a_detached_run_goes_on_without_its_client(user: User) -> None:
    run = user.detached("-n", "2", "sh", "-c", "sleep 0.5; echo done")
    assert re.fullmatch(r"[a-z0-9]{5}", run)
    user("wait", run).check(0)
    assert user("logs", run).check().ranks() == {"worker-0/0": ["done"], "worker-1/0": ["done"]}


def test_a_run_that_has_ended_is_stopped_without_a_complaint(user: User) -> None:
    run = user.detached("sh", "-c", "exit 3")
    user("wait", run).check(3)
    user("stop", run).check()
    assert user.status(run)["phase"] == "failed"


# --- rm ---


def test_a_run_that_was_removed_is_unknown(user: User) -> None:
    run = user.detached("echo", "hello")
    user("wait", run).check()
    user("rm", run).check()
    assert user("ps", "-o", "json").check().json == []
    user("logs", run).check(2)


def test_a_living_run_is_not_removed(user: User) -> None:
    run = user.detached(*user.python(POLITE))
    done = user("rm", run).check(2)
    assert f"hora stop {run}" in done.stderr
    user("stop", run).check()
    user("rm", run).check()


# --- nothing is started ---


@pytest.mark.parametrize("command", [("render",), ("run", "--dry-run")])
def test_what_would_run_is_shown_and_nothing_is_started(user: User, command: tuple[str, ...]) -> None:
    marker = user.hora.cwd / "started"
    done = user(*command, "-n", "2", "touch", marker).check()
    assert "touch" in done.stdout
    assert user("ps", "-o", "json").check().json == []
    assert not marker.exists()


def test_what_would_run_is_the_same_each_time(user: User) -> None:
    assert (
        user("render", "-n", "2", "true").check().stdout == user("render", "-n", "2", "true").check().stdout
    )


def test_a_job_file_runs_and_the_command_line_changes_it(user: User) -> None:
    path = user.hora.cwd / "job.yaml"
    path.write_text(
        'name: digits\nworkers: 2\ncommand: [sh, -c, "echo $HORA_WORLD_SIZE $LR"]\nenv: {LR: "1"}\n'
    )
    run = user.detached(path, "-n", "3", "--env", "LR=2", "--name", "other", "--set", "restarts=1")
    status = user.ended(run)
    assert status["name"] == "other"
    assert user("logs", run, "--rank", "2").check().ranks() == {"worker-2/0": ["3 2"]}


def test_a_broken_job_file_is_told_with_all_its_mistakes_and_code_2(user: User) -> None:
    path = user.hora.cwd / "job.yaml"
    path.write_text("name: Bad Name\nworkers: 0\ncomand: [true]\n")
    done = user("run", path).check(2)
    for line, key in ((1, "name"), (2, "workers"), (3, "comand")):
        assert re.search(rf"job\.yaml:{line}: {key}: ", done.stderr)
    assert user("ps", "-o", "json").check().json == []
