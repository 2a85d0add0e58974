"""How runs end: exit codes, the first failure, limits, restarts."""

from __future__ import annotations

import re
import signal

import pytest

from helpers.places import User

OTHERS_WAIT = """
    import os, signal, sys
    if os.environ["HORA_RANK"] == "1":
        {fails}
    signal.pause()
"""


def test_a_run_whose_ranks_all_end_well_succeeds(user: User) -> None:
    done = user("run", "-n", "3", "true").check(0)
    assert done.stdout == ""
    assert re.search(r"succeeded: all 3 ranks ended well", done.stderr)


@pytest.mark.parametrize("code", [1, 3, 255])
def test_the_exit_code_is_that_of_the_rank_that_failed(user: User, code: int) -> None:
    script = OTHERS_WAIT.format(fails=f"sys.exit({code})")
    user("run", "-n", "3", *user.python(script)).check(code)


def test_a_rank_that_a_signal_ended_gives_128_and_the_signal(user: User) -> None:
    script = OTHERS_WAIT.format(fails="os.kill(os.getpid(), signal.SIGABRT)")
    done = user("run", "-n", "2", *user.python(script)).check(128 + signal.SIGABRT)
    assert "worker-1/0 was killed by signal 6 (SIGABRT)" in done.stderr


def test_the_first_failure_is_named_with_its_last_lines(user: User) -> None:
    script = """
        import os, signal, sys, time
        if os.environ["HORA_RANK"] == "2":
            print("loading"); print("no such checkpoint"); sys.exit(7)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))  # the others fail, too, because of it
        signal.pause()
    """
    run = user.detached("-n", "4", *user.python(script))
    status = user.ended(run)
    failure = status["firstFailure"]
    assert (failure["rank"], failure["member"], failure["exitCode"]) == (2, "worker-2", 7)
    assert failure["lastLines"] == ["loading", "no such checkpoint"]
    assert (status["phase"], status["exitCode"], status["origin"]) == ("failed", 7, "job")
    assert "worker-2/0 exited with code 7" in status["reason"]
    assert "no such checkpoint" in status["reason"]
    assert "\n" not in status["reason"]


def test_the_other_ranks_are_stopped_when_one_fails(user: User) -> None:
    script = """
        import os, signal, sys, time
        if os.environ["HORA_RANK"] == "0":
            time.sleep(0.3); sys.exit(1)
        def asked(*_):
            print("asked to end")
            sys.exit(0)
        signal.signal(signal.SIGTERM, asked)
        signal.pause()
    """
    done = user("run", "-n", "3", *user.python(script)).check(1)
    assert done.ranks() == {"worker-1/0": ["asked to end"], "worker-2/0": ["asked to end"]}


def test_a_command_that_is_not_found_is_said_with_127(user: User) -> None:
    done = user("run", "-n", "2", "no-such-program-anywhere").check(127)
    assert "no-such-program-anywhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_can_not_be_run_is_said_with_126(user: User) -> None:
    script = user.hora.cwd / "train.sh"
    script.write_text("#!/bin/sh\n")
    done = user("run", *user.here, "./train.sh").check(126)
    assert "train.sh" in done.stderr


def test_a_run_that_takes_too_long_ends_with_124(user: User) -> None:
    words = ("--timeout", "total=1s", "--timeout", "grace=1s", "sleep", "600")
    done = user("run", "-n", "2", *words).check(124)
    assert "timeouts.total" in done.stderr


def test_a_failed_attempt_is_started_again_while_restarts_last(user: User) -> None:
    script = """
        import os, sys
        print("attempt", os.environ["HORA_ATTEMPT"])
        if os.environ["HORA_ATTEMPT"] == "1" and os.environ["HORA_RANK"] == "1":
            sys.exit(3)
    """
    run = user.detached("-n", "2", "--restarts", "2", *user.python(script))
    status = user.ended(run)
    assert (status["phase"], status["exitCode"], status["attempt"]) == ("succeeded", 0, 2)
    assert any("attempt 1 failed: worker-1/0 exited with code 3" in note for note in status["notes"])
    logs = user("logs", run).check().ranks()
    assert logs["worker-1/0"] == ["attempt 1", "attempt 2"]


def test_the_last_attempts_failure_counts_when_no_restart_is_left(user: User) -> None:
    script = 'import os, sys; print("begun"); sys.exit(10 + int(os.environ["HORA_ATTEMPT"]))'
    run = user.detached("--restarts", "2", *user.python(script))
    status = user.ended(run)
    assert (status["exitCode"], status["attempt"]) == (13, 3)
    assert status["firstFailure"]["attempt"] == 3


def test_a_mistake_in_the_arguments_is_not_tried_again(user: User) -> None:
    run = user.detached("--restarts", "3", *user.python("import sys; sys.exit(2)"))
    status = user.ended(run)
    assert (status["exitCode"], status["attempt"]) == (2, 1)
    assert any("not started again" in note for note in status["notes"])


def test_the_chiefs_end_ends_the_run_and_its_helpers(user: User) -> None:
    job = user.hora.cwd / "job.yaml"
    job.write_text(
        """
        name: roles
        framework: plain
        timeouts: {grace: 5s}
        roles:
          worker: {replicas: 2, command: "sh -c 'sleep 0.3; echo worked'"}
          ps: {replicas: 1, command: "sh -c 'echo serving; exec sleep 600'"}
        """
    )
    done = user("run", job).check(0)
    assert done.ranks() == {"worker-0/0": ["worked"], "worker-1/0": ["worked"], "ps-0/0": ["serving"]}


def test_a_helper_that_fails_fails_the_run(user: User) -> None:
    job = user.hora.cwd / "job.yaml"
    job.write_text(
        """
        name: roles
        framework: plain
        roles:
          worker: {replicas: 1, command: [sleep, "600"]}
          ps: {replicas: 1, command: "sh -c 'exit 4'"}
        """
    )
    done = user("run", job).check(4)
    assert "ps-0/0 exited with code 4" in done.stderr


def test_the_origin_tells_whose_exit_code_it_is(user: User) -> None:
    own = user("run", "-o", "json", "sh", "-c", "exit 5").check(5).json
    assert (own["origin"], own["exitCode"]) == ("job", 5)
    limit = user("run", "-o", "json", "--timeout", "total=1s", "--timeout", "grace=0s", "sleep", "600")
    assert (limit.check(124).json["origin"], limit.json["exitCode"]) == ("hora", 124)
