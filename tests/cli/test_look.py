"""`hora ps`, `status` and `stacks`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from helpers.cli import Cli
from helpers.terminal import Terminal

from .conftest import Rank, status_of

KEYS = {
    "id", "name", "place", "phase", "reason", "exitCode", "origin", "attempt", "startedAt", "endedAt", "members",
    "firstFailure",
}  # fmt: skip


def test_ps_lists_all_runs_the_newest_last(hora: Cli, rank: Rank, alive: Callable[..., str]) -> None:
    hora("run", "--name", "first", "-n", "1", *rank("")).check()
    hora("run", "--name", "second", "-n", "2", *rank("sys.exit(9)")).check(9)
    run = alive("--name", "third", "-n", "3", *rank.sleeps)
    head, *rows = hora("ps").check().lines
    assert head.split() == ["ID", "NAME", "PHASE", "RANKS", "AGE", "TOOK", "REASON"]
    assert [row.split()[1:4] for row in rows] == [
        ["first", "succeeded", "1"],
        ["second", "failed", "2"],
        ["third", "running", "3"],
    ]
    assert rows[2].startswith(run)
    (only,) = hora("ps", "--running").check().lines[1:]
    assert only.startswith(run)


def test_ps_as_json_is_a_list_with_what_scripts_need(hora: Cli, rank: Rank) -> None:
    assert hora("ps", "-o", "json").check().json == []
    hora("run", "-n", "1", *rank("")).check()
    (found,) = hora("ps", "-o", "json").check().json
    assert set(found) >= KEYS
    wide = hora("ps", "-o", "wide").check().lines
    assert "ORIGIN" in wide[0]
    assert str(rank.folder / "rank1.py") in wide[1]


def test_without_runs_ps_and_status_say_so(hora: Cli) -> None:
    done = hora("ps").check()
    assert (done.stdout, done.stderr) == ("", "hora: there are no runs\n")
    assert hora("status").check(2).stderr.startswith("hora: there are no runs: `hora run ")


def test_status_begins_with_the_sentence_and_shows_the_first_failure(hora: Cli, rank: Rank) -> None:
    code = "print('one'); print('two', flush=True)\nif rank == 1: raise ValueError('wrong')\ntime.sleep(600)"
    hora("run", "-n", "3", *rank(code)).check(1)
    run = status_of(hora)["id"]
    done = hora("status").check()
    assert re.match(rf"rank1 {run} failed: worker-1/0 exited with code 1, .*ValueError: wrong", done.lines[0])
    assert re.search(r"^worker-1/0 +\S+ +1 +1 +\d+ +exited with code 1$", done.stdout, re.MULTILINE)
    assert re.search(r"^worker-2/0 .* ended by signal 15, stopped by Hora$", done.stdout, re.MULTILINE)
    assert "\nfirst failure: worker-1/0 exited with code 1 on " in done.stdout
    assert "\n  worker-1/0 | one\n  worker-1/0 | two\n" in done.stdout
    assert f"hora logs {run} --rank 1" in done.lines[-1]
    assert hora("why").stdout.splitlines()[0] == done.lines[0]


def test_many_ranks_are_shown_by_example(hora: Cli, rank: Rank) -> None:
    hora("run", "-n", "50", *rank("sys.exit(rank == 49)")).check(1)
    told = hora("status").check().stdout
    assert "\nworker-4/0 " in told
    assert "\nworker-5/0 " not in told
    assert "\nworker-49/0 " in told
    assert re.search(r"^and \d\d more: (exited with code 0|ended by signal 15)", told, re.MULTILINE)
    assert "\nall of them: -o wide\n" in told
    wide = hora("status", "-o", "wide").check().stdout
    assert all(f"\nworker-{number}/0 " in wide for number in range(50))


def test_status_as_json_has_what_scripts_need(hora: Cli, rank: Rank) -> None:
    hora("run", "-n", "1", *rank("sys.exit(2)")).check(2)
    found = status_of(hora)
    assert set(found) >= KEYS
    assert found["firstFailure"]["exitCode"] == 2


def test_a_run_goes_by_its_id_the_beginning_of_it_and_its_name(hora: Cli, rank: Rank) -> None:
    hora("run", "--name", "digits", "-n", "1", *rank("")).check()
    run = status_of(hora)["id"]
    for name in (run, run[:4], "digits"):
        assert status_of(hora, name)["id"] == run
    done = hora("status", "nonesuch").check(2)
    assert done.stderr == f"hora: no run 'nonesuch' on this machine; the newest are {run}\n"


def test_on_a_terminal_lines_fit_its_width_and_colours_can_be_refused(
    pty_run: Callable[..., Terminal], hora: Cli, rank: Rank
) -> None:
    hora("run", "--name", "digits", "-n", "1", *rank(f"print('{'long ' * 60}'); sys.exit(1)")).check(1)
    for columns in (80, 120):
        for command in ("ps", "status"):
            term = pty_run(command, columns=columns)
            term.wait()
            table = term.text.splitlines() if command == "ps" else term.text.splitlines()[1:8]
            assert max(map(len, table)) <= columns
            assert b"\x1b[31mfailed\x1b[0m" in term.seen
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        term = pty_run("ps", env=env)
        term.wait()
        assert b"\x1b" not in term.seen


def test_stacks_put_equal_ones_together_and_the_odd_one_first(
    hora: Cli, rank: Rank, alive: Callable[..., str], work: Path
) -> None:
    code = """
def wait_for_others():
    print('here', flush=True); time.sleep(600)
def compute():
    print('here', flush=True)
    while True: pass
compute() if rank == 2 else wait_for_others()
"""
    run = alive("-n", "4", *rank(code))
    term = hora("logs", run)
    while term.stdout.count("here") < 4:
        term = hora("logs", run)
    done = hora("stacks", run).check()
    first, *rest = done.stdout.split("\n\n")
    assert first.startswith("worker-2/0 is in compute (rank1.py:")
    assert rest[0].startswith("worker-2/0   <- the odd one out")
    assert rest[1].startswith("worker-0/0, worker-1/0, worker-3/0\n")
    (only,) = hora("stacks", run, "--rank", "2", "-o", "json").check().json
    assert only["label"] == "worker-2/0"
    assert status_of(hora, run)["phase"] == "running"


def test_asking_an_ended_run_for_stacks_says_that_it_has_ended(hora: Cli, rank: Rank) -> None:
    hora("run", "-n", "1", *rank("")).check()
    run = status_of(hora)["id"]
    assert (
        hora("stacks").check(2).stderr == f"hora: run {run} has ended: hora status {run}; hora logs {run}\n"
    )
