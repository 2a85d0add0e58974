"""`hora logs`, during the run and after it."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.cli import Cli
from helpers.runs import wait_until

from .conftest import Rank, status_of

LINES = "for number in range(5): print('line', number)\n"


@pytest.fixture
def ended(hora: Cli, rank: Rank) -> str:
    """A run of 3 ranks with 5 lines each."""
    hora("run", "-n", "3", *rank(LINES)).check()
    return str(status_of(hora)["id"])


def test_the_output_of_an_ended_run_is_there_whole(hora: Cli, ended: str) -> None:
    for words in ((), (ended,), ("rank1", "-f")):
        done = hora("logs", *words).check()
        assert done.ranks() == {f"worker-{rank}/0": [f"line {n}" for n in range(5)] for rank in range(3)}
        assert done.stderr == ""


def test_ranks_are_chosen_by_number_and_by_label(hora: Cli, ended: str) -> None:
    assert set(hora("logs", "--rank", "2").check().ranks()) == {"worker-2/0"}
    assert set(hora("logs", "--rank", "0", "--rank", "worker-1/0").check().ranks()) == {
        "worker-0/0",
        "worker-1/0",
    }
    done = hora("logs", "--rank", "7").check(2)
    assert "has no rank 7; it has worker-0/0, worker-1/0, worker-2/0" in done.stderr


@pytest.mark.parametrize("count", [0, 1, 3, 5, 50])
def test_tail_counts_lines_of_each_rank(hora: Cli, ended: str, count: int) -> None:
    done = hora("logs", "--tail", str(count)).check()
    expected = [f"line {number}" for number in range(5)][5 - min(count, 5) :]
    assert done.ranks() == ({f"worker-{rank}/0": expected for rank in range(3)} if count else {})


def test_tail_counts_a_last_line_without_end(hora: Cli, rank: Rank) -> None:
    hora("run", "-n", "1", *rank("print('one'); print('two'); sys.stdout.write('three')")).check()
    assert hora("logs", "--tail", "2").check().stdout == "worker-0/0 | two\nworker-0/0 | three\n"


def test_timestamps_and_no_prefix(hora: Cli, ended: str) -> None:
    line = hora("logs", "--timestamps", "--rank", "0", "--tail", "1").check().stdout
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z worker-0/0 \| line 4\n", line)
    assert hora("logs", "--no-prefix", "--rank", "0", "--tail", "1").check().stdout == "line 4\n"


def test_since_takes_a_time_span_and_a_moment(hora: Cli, rank: Rank) -> None:
    hora("run", "-n", "1", *rank("print('early', flush=True); time.sleep(1.2); print('late')")).check()
    end = status_of(hora)["endedAt"]
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(end - 0.5)) + f"{(end - 0.5) % 1:.3f}Z"[1:]
    assert hora("logs", "--since", moment).check().stdout == "worker-0/0 | late\n"
    assert hora("logs", "--since", "10m").check().stdout.count("\n") == 2
    assert hora("logs", "--since", "0s").check().stdout == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tail", "x"), "logs: --tail: must be a number of lines, got 'x'"),
        (("--since", "noon"), "logs: --since: must be a time span (90s, 10m, 1h30m) or a moment"),
    ],
)
def test_what_is_not_a_number_or_a_time_is_refused(
    hora: Cli, ended: str, words: tuple[str, ...], said: str
) -> None:
    assert hora("logs", *words).check(2).stderr.startswith("hora: " + said)


def test_follow_shows_what_was_what_comes_and_ends_with_the_run(
    hora: Cli, rank: Rank, work: Path, alive: Callable[..., str]
) -> None:
    code = (
        "print('first', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)\nprint('last')"
    )
    run = alive("-n", "1", *rank(code, str(work / "go")))
    process = hora.start("logs", run, "-f")
    assert process.stdout is not None
    assert process.stdout.readline() == b"worker-0/0 | first\n"
    (work / "go").touch()
    assert process.stdout.read() == b"worker-0/0 | last\n"
    assert process.wait(20) == 0


def test_follow_after_tail_shows_no_line_twice_and_leaves_none_out(
    hora: Cli, rank: Rank, work: Path, alive: Callable[..., str]
) -> None:
    code = (
        "number = 0\n"
        "while not os.path.exists(sys.argv[1]): print(number, flush=True); number += 1; time.sleep(0.001)\n"
    )
    run = alive("-n", "1", *rank(code, str(work / "enough")))
    wait_until(lambda: len(hora("logs", run).lines) > 50, "some lines are there")
    process = hora.start("logs", run, "-f", "--tail", "10", "--no-prefix")
    assert process.stdout is not None
    first = int(process.stdout.readline())
    (work / "enough").touch()
    rest = [int(line) for line in process.stdout.read().split()]
    assert rest == list(range(first + 1, first + 1 + len(rest)))
    assert hora("logs", run, "--no-prefix").lines[-1] == str(rest[-1])


def test_ctrl_c_ends_looking_on_and_not_the_run(hora: Cli, alive: Callable[..., str]) -> None:
    run = alive()
    process = hora.start("logs", run, "-f")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert status_of(hora, run)["phase"] == "running"


def test_logs_of_a_run_end_when_their_reader_has_gone(hora: Cli, alive: Callable[..., str]) -> None:
    run = alive()
    process = hora.start("logs", run, "-f")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(20) == 141
    assert status_of(hora, run)["phase"] == "running"


def test_what_is_not_kept_any_more_is_told_once(hora: Cli, rank: Rank) -> None:
    code = "for number in range(400): print(str(number) * 10_000)"
    hora("run", "-n", "1", "--output-limit", "1Mi", *rank(code)).check()
    done = hora("logs").check()
    (said,) = done.stderr.splitlines()
    assert re.fullmatch(r"hora: \d{6,8} bytes of worker-0/0 are not kept any more", said)
    assert done.lines[-1] == "worker-0/0 | " + "399" * 10_000
