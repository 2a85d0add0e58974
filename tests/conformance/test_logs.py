"""`hora logs`: during a run, after it, by several people at once."""

from __future__ import annotations

import re
import signal

import pytest

from helpers.places import User
from helpers.reader import Reader

THREE_LINES = 'for number in 1 2 3; do echo "rank $HORA_RANK line $number"; done'
HOLDS = """
    import signal, sys
    print("ready")
    signal.signal(signal.SIGTERM, lambda *_: (print("done"), sys.exit(0)))
    signal.pause()
"""


@pytest.fixture
def run(user: User) -> str:
    """An ended run of two ranks with three lines each."""
    run = user.detached("-n", "2", "sh", "-c", THREE_LINES)
    user("wait", run).check()
    return run


def lines(rank: int, *numbers: int) -> list[str]:
    return [f"rank {rank} line {number}" for number in numbers]


def test_logs_of_an_ended_run_are_all_that_it_wrote(user: User, run: str) -> None:
    assert user("logs", run).check().ranks() == {
        "worker-0/0": lines(0, 1, 2, 3),
        "worker-1/0": lines(1, 1, 2, 3),
    }


def test_following_an_ended_run_ends_at_once(user: User, run: str) -> None:
    assert sorted(user("logs", "-f", run).check().lines) == sorted(user("logs", run).check().lines)


def test_tail_is_the_last_lines_of_each_rank(user: User, run: str) -> None:
    found = user("logs", run, "--tail", "1").check().ranks()
    assert found == {"worker-0/0": lines(0, 3), "worker-1/0": lines(1, 3)}


@pytest.mark.parametrize("name", ["1", "worker-1", "worker-1/0"])
def test_one_rank_is_chosen_by_number_or_label(user: User, run: str, name: str) -> None:
    assert user("logs", run, "--rank", name).check().ranks() == {"worker-1/0": lines(1, 1, 2, 3)}


def test_a_rank_that_is_not_there_is_said_with_those_that_are(user: User, run: str) -> None:
    done = user("logs", run, "--rank", "7").check(2)
    assert done.stdout == ""
    assert re.search(r"no rank 7; it has worker-0/0, worker-1/0", done.stderr)


def test_timestamps_are_utc_and_in_order(user: User, run: str) -> None:
    found = user("logs", run, "--timestamps", "--rank", "0").check().lines
    stamps = [line.partition(" ")[0] for line in found]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stamp) for stamp in stamps)
    assert stamps == sorted(stamps)
    assert [line.partition(" | ")[2] for line in found] == lines(0, 1, 2, 3)


def test_without_the_prefix_lines_are_as_they_were_written(user: User, run: str) -> None:
    assert user("logs", run, "--rank", "0", "--no-prefix").check().lines == lines(0, 1, 2, 3)


def test_since_leaves_out_what_is_older(user: User, run: str) -> None:
    assert user("logs", run, "--since", "1h").check().lines != []
    assert user("logs", run, "--since", "2099-01-01T00:00:00Z").check().lines == []


def test_logs_of_a_living_run_are_what_it_has_written_so_far(user: User) -> None:
    run = user.detached("-n", "2", *user.python(HOLDS))
    user.written(run, "worker-0/0 | ready")
    user.written(run, "worker-1/0 | ready")
    assert user("logs", run).check().ranks() == {"worker-0/0": ["ready"], "worker-1/0": ["ready"]}
    user("stop", run).check()


def test_followers_see_lines_as_they_come_and_end_with_the_run(user: User) -> None:
    run = user.detached(*user.python(HOLDS))
    follower = user.start("logs", "-f", run)
    reader = Reader(follower.stdout)
    assert reader.line() == "worker-0/0 | ready"
    user("stop", run).check()
    assert reader.rest() == "worker-0/0 | done\n"
    assert follower.wait(20) == 0


def test_two_followers_at_once_and_a_late_one_get_the_same(user: User) -> None:
    script = """
        import signal, sys
        for number in range(5000): print(number)
        signal.signal(signal.SIGTERM, lambda *_: (print("done"), sys.exit(0)))
        signal.pause()
    """
    run = user.detached("-n", "2", *user.python(script))
    first, second = (user.start("logs", "-f", run, stderr=None) for _ in range(2))
    readers = [Reader(first.stdout), Reader(second.stdout)]
    readers[0].until("| 4999")
    late = user.start("logs", "-f", run, stderr=None)
    readers.append(Reader(late.stdout))
    readers[2].until("| 0")
    user("stop", run).check()
    wanted = [str(number) for number in range(5000)] + ["done"]
    for reader in readers:
        reader.rest()
        found: dict[str, list[str]] = {}
        for line in reader.seen.decode().splitlines():
            label, _, text = line.partition(" | ")
            found.setdefault(label, []).append(text)
        assert found == {"worker-0/0": wanted, "worker-1/0": wanted}


def test_a_follower_that_leaves_does_not_hurt_the_run(user: User) -> None:
    run = user.detached(*user.python(HOLDS))
    follower = user.start("logs", "-f", run)
    Reader(follower.stdout).until("ready")
    follower.send_signal(signal.SIGKILL)
    follower.wait()
    interrupted = user.start("logs", "-f", run)
    Reader(interrupted.stdout).until("ready")
    interrupted.send_signal(signal.SIGINT)
    interrupted.wait(20)
    assert user.status(run)["phase"] == "running"
    user("stop", run).check()
    assert user("logs", run).check().ranks() == {"worker-0/0": ["ready", "done"]}


def test_lines_of_all_attempts_are_kept(user: User) -> None:
    script = 'import os, sys; print("try", os.environ["HORA_ATTEMPT"]); sys.exit(os.environ["HORA_ATTEMPT"] == "1")'
    run = user.detached("--restarts", "1", *user.python(script))
    user("wait", run).check()
    assert user("logs", run).check().ranks() == {"worker-0/0": ["try 1", "try 2"]}
