"""Restarts: all ranks end, all start again, as often as allowed and where it may help."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.runs import Runs, is_running, lines_of, python
from hora.api import Run

pytestmark = pytest.mark.leaks


def attempts(run: Run) -> list[int]:
    return sorted({chunk.attempt for chunk in run.chunks(follow=False)})


# Fails where and when the arguments say: rank, and the last attempt that fails.  Its first word is progress.
FAILS = """
    import os, sys, time
    rank, attempt = int(os.environ["HORA_RANK"]), int(os.environ["HORA_ATTEMPT"])
    print("attempt", attempt, flush=True)
    open("pid-%d-%d" % (attempt, rank), "w").write(str(os.getpid()))
    if rank == int(sys.argv[1]) and attempt <= int(sys.argv[2]):
        while len([name for name in os.listdir() if name.startswith("pid-%d-" % attempt)]) < 4:
            time.sleep(0.01)
        sys.exit(5)
    if attempt <= int(sys.argv[2]):
        time.sleep(1000)
"""


def test_rank_2_fails_in_attempt_1_and_succeeds_in_attempt_2(runs: Runs) -> None:
    run, status = runs.ended(python(FAILS, "2", "1"), workers=4, restarts=2, timeouts={"grace": "2s"})
    assert (status.phase, status.exit_code, status.attempt) == ("succeeded", 0, 2)
    assert status.first_failure is None
    assert any("attempt 1 failed: worker-2/0 exited with code 5" in note for note in status.notes)
    assert lines_of(run) == {f"worker-{i}/0": ["attempt 1", "attempt 2"] for i in range(4)}
    assert attempts(run) == [1, 2]


def test_used_up_restarts_end_the_run_with_the_last_failure(runs: Runs) -> None:
    _run, status = runs.ended(python(FAILS, "2", "9"), workers=4, restarts=2, timeouts={"grace": "2s"})
    assert (status.phase, status.exit_code, status.attempt) == ("failed", 5, 3)
    assert status.first_failure is not None
    assert (status.first_failure.label, status.first_failure.attempt) == ("worker-2/0", 3)
    assert status.first_failure.last_lines == ("attempt 3",)
    said = [note for note in status.notes if "start again" in note]
    assert len(said) == 2 and "no restart left" in said[1], status.notes


def test_nothing_of_attempt_1_is_left_when_attempt_2_starts(runs: Runs, work: Path) -> None:
    code = """
        import os, signal, subprocess, sys, time
        attempt = os.environ["HORA_ATTEMPT"]
        print("attempt", attempt, flush=True)
        if attempt == "2":
            old = [int(open(name).read()) for name in os.listdir() if name.startswith("old-")]
            assert len(old) == 4, old
            for pid in old:
                try:
                    state = open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[0]
                except OSError:
                    continue
                assert state in "ZX", (pid, state)
            sys.exit(0)
        rank = os.environ["HORA_RANK"]
        child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('child', flush=True); time.sleep(1000)"
        process = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, start_new_session=True)
        process.stdout.readline()
        for name, pid in (("rank", os.getpid()), ("child", process.pid)):
            with open("old-%s-%s" % (name, rank), "w") as file:
                file.write(str(pid))
        if rank == "1":
            while len([name for name in os.listdir() if name.startswith("old-")]) < 4:
                time.sleep(0.01)
            os._exit(5)
        time.sleep(1000)
    """
    run, status = runs.ended(python(code), workers=2, restarts=1, timeouts={"grace": "1s"})
    assert (status.phase, status.attempt) == ("succeeded", 2), (status.reason, lines_of(run))
    assert not any(is_running(int(path.read_text())) for path in work.glob("old-*"))


def test_ports_are_chosen_anew_in_each_attempt(runs: Runs) -> None:
    code = """
        import os, sys
        os.write(1, os.environ["MASTER_PORT"].encode())
        sys.exit(int(os.environ["HORA_ATTEMPT"]) < 3)
    """
    run, status = runs.ended(python(code), framework="torch", workers=2, restarts=2)
    assert status.phase == "succeeded", status.reason
    ports = {(chunk.attempt, chunk.data) for chunk in run.chunks(follow=False)}
    assert len({port for _, port in ports}) == 3, ports


@pytest.mark.parametrize(
    "code",
    [
        "import no_such_module_anywhere",
        "raise ValueError('learning rate')",
        "def broken(:",
        "import sys; sys.exit(2)",
    ],
)
def test_a_mistake_of_the_user_is_not_tried_again(runs: Runs, code: str) -> None:
    _run, status = runs.ended(python(code), workers=2, restarts=5)
    assert (status.phase, status.attempt) == ("failed", 1), status
    assert any("not started again" in note and "mistake" in note for note in status.notes), status.notes


def test_a_command_that_is_not_there_is_not_tried_again(runs: Runs) -> None:
    _, status = runs.ended(["no-such-program-here"], restarts=5)
    assert (status.exit_code, status.attempt) == (127, 1)


# Takes a port that is in use in attempt 1.
TAKEN = """
    import os, socket, sys
    port = int(sys.argv[1])
    print("binding", flush=True)
    if int(os.environ["HORA_ATTEMPT"]) <= int(sys.argv[2]):
        first = socket.socket()
        first.bind(("127.0.0.1", 0))
        socket.socket().bind(first.getsockname())
"""


def test_an_address_in_use_earns_one_restart_that_costs_nothing(runs: Runs) -> None:
    _run, status = runs.ended(python(TAKEN, "0", "1"), restarts=0)
    assert (status.phase, status.attempt) == ("succeeded", 2), status.reason
    assert any("a port was taken" in note for note in status.notes)


def test_an_address_that_stays_in_use_ends_the_run(runs: Runs) -> None:
    _run, status = runs.ended(python(TAKEN, "0", "9"), restarts=0)
    assert (status.phase, status.exit_code, status.attempt) == ("failed", 1, 2)
    assert "Address already in use" in status.reason


def test_a_stop_between_attempts_ends_the_run(runs: Runs) -> None:
    run = runs.start(python(FAILS, "2", "9"), workers=4, restarts=1000, timeouts={"grace": "1s"})
    for event in run.follow(output=False):
        if event.status is not None and event.status.attempt >= 2:
            break
    run.stop()
    status = run.wait(20, check=False)
    # An attempt that has failed when the stop comes stands, though it would have been followed by another.
    assert (status.phase, status.exit_code) in (("stopped", 143), ("failed", 5))


def test_a_set_up_runs_once_for_all_attempts(runs: Runs, work: Path) -> None:
    _run, status = runs.ended(
        python(FAILS, "1", "1"), workers=4, restarts=1, setup="echo up >> setups", timeouts={"grace": "2s"}
    )
    assert (status.phase, status.attempt) == ("succeeded", 2), status.reason
    assert (work / "setups").read_text() == "up\n"


def test_results_are_those_of_the_last_attempt(runs: Runs) -> None:
    code = """
        import os, sys
        open(os.environ["HORA_RESULT"], "w").write(os.environ["HORA_ATTEMPT"])
        print("written", flush=True)
        sys.exit(os.environ["HORA_ATTEMPT"] == "1")
    """
    run, status = runs.ended(python(code), restarts=1)
    assert (status.phase, run.results()) == ("succeeded", {"worker-0/0": b"2"})
