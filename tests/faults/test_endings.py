"""Ends that somebody asks for: by signals to the client, by `hora stop`, by a time limit; and what wins."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from faults.lab import Trial, wait_until
from helpers.terminal import CTRL_C
from hora.state import FAILED, STOPPED, STOPPING

SAVING = ("--env", "SAVE_SECONDS=1")  # rank 1 needs so long after SIGTERM
SAVING_LONG = ("--env", "SAVE_SECONDS=2")
NEVER_DONE = ("--env", "SAVE_SECONDS=50")


@pytest.fixture
def trial(work: Path, test_id: str) -> Trial:
    """Two ranks with time to save."""
    return Trial(work / "trial", test_id, ranks=2, grace=6.0)


@pytest.fixture
def impatient(work: Path, test_id: str) -> Trial:
    """Four ranks, two of them deaf, that would get a minute."""
    return Trial(work / "trial", test_id, ranks=4, grace=60.0)


def has_saved(trial: Trial) -> bool:
    return trial.pid("saved-1") is not None


def assert_ended(trial: Trial, phase: str, code: int, says: str) -> None:
    status = trial.ended()
    assert (status.phase, status.exit_code) == (phase, code), status.reason
    assert says in status.reason
    assert trial.problems(status) == []


@pytest.mark.parametrize(
    ("number", "code", "says"),
    [
        (signal.SIGINT, 130, "stopped by Ctrl-C"),
        (signal.SIGTERM, 143, "`hora run` was asked to end (SIGTERM)"),
        (signal.SIGHUP, 129, "went away"),
    ],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else "",
)
def test_a_signal_to_the_client_stops_the_run_and_ranks_have_time_to_save(
    trial: Trial, number: signal.Signals, code: int, says: str
) -> None:
    trial.start(*SAVING_LONG).reach_output()
    trial.kill("client", number=number)
    trial.killed.clear()
    assert_ended(trial, STOPPED, code, says)
    assert has_saved(trial)


def test_a_second_ctrl_c_kills_the_ranks_at_once(impatient: Trial) -> None:
    impatient.start(*NEVER_DONE).reach_output()
    impatient.kill("client", number=signal.SIGINT)
    wait_until(lambda: impatient.the_run().status().phase == STOPPING, "the ranks are asked to end")
    impatient.kill("client", number=signal.SIGINT)
    impatient.killed.clear()
    assert_ended(impatient, STOPPED, 130, "stopped by Ctrl-C")
    assert not has_saved(impatient)


def test_stop_from_another_process_gives_ranks_time_to_save(trial: Trial) -> None:
    trial.start(*SAVING).reach_output()
    trial.fault_at = time.monotonic()
    said = trial.hora("stop", trial.the_run().id)
    assert (said.returncode, "stopped by `hora stop`" in said.stderr) == (0, True), said
    assert_ended(trial, STOPPED, 143, "stopped by `hora stop`")
    assert has_saved(trial)


def test_stop_with_kill_gives_no_time(impatient: Trial) -> None:
    impatient.start(*NEVER_DONE).reach_output()
    impatient.stop(kill=True)
    assert_ended(impatient, STOPPED, 143, "stopped by `hora stop`")
    assert not has_saved(impatient)


def test_a_second_stop_takes_no_time_away(trial: Trial) -> None:
    trial.start(*SAVING).reach_output()
    trial.stop()
    trial.stop()
    assert_ended(trial, STOPPED, 143, "stopped by `hora stop`")
    assert has_saved(trial)


def test_stop_with_kill_after_a_stop_does(impatient: Trial) -> None:
    impatient.start(*NEVER_DONE).reach_output()
    impatient.stop()
    impatient.stop(kill=True)
    assert_ended(impatient, STOPPED, 143, "stopped by `hora stop`")
    assert not has_saved(impatient)


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.1])
def test_stop_while_a_run_is_about_to_start_ends_it(trial: Trial, delay: float) -> None:
    trial.start()
    wait_until(lambda: trial.run, "the run is known")
    time.sleep(delay)  # to meet it in each of its first phases
    trial.stop()
    assert_ended(trial, STOPPED, 143, "stopped by `hora stop`")


def test_a_run_that_takes_longer_than_its_total_time_ends_with_124(work: Path, test_id: str) -> None:
    trial = Trial(work / "trial", test_id).start("--set", "timeouts.total=1500ms")
    trial.reach_output()
    trial.fault_at = time.monotonic() + 1.5
    assert_ended(trial, FAILED, 124, "timeouts.total")


def test_a_client_that_is_killed_after_it_asked_for_the_end_leaves_ranks_their_time(trial: Trial) -> None:
    trial.start(*SAVING).reach_output()
    trial.stop()
    trial.kill("client")
    assert_ended(trial, STOPPED, 143, "stopped by `hora stop`")
    assert has_saved(trial)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "client killed"])
def test_who_asks_for_the_end_after_a_failure_still_hears_of_the_failure(
    trial: Trial, number: signal.Signals
) -> None:
    trial.start(*SAVING).reach_output()
    trial.kill("rank-0")
    wait_until(lambda: trial.the_run().status().phase == STOPPING, "the others are stopped")
    trial.kill("client", number=number)
    if number == signal.SIGINT:
        trial.killed.remove("client")
    status = trial.ended()
    assert status.first_failure is not None
    assert status.first_failure.label == "worker-0/0"
    assert_ended(trial, FAILED, 137, "worker-0/0 was killed by signal 9")


def test_ctrl_c_after_a_time_out_still_hears_of_the_time_out(trial: Trial) -> None:
    trial.start(*SAVING_LONG, "--set", "timeouts.total=2s").reach_output()
    wait_until(lambda: trial.the_run().status().phase == STOPPING, "the time is over")
    trial.kill("client", number=signal.SIGINT)
    trial.killed.clear()
    assert_ended(trial, FAILED, 124, "timeouts.total")
    assert has_saved(trial)


def test_a_failure_is_told_also_when_the_lead_is_killed_before_its_verdict(trial: Trial) -> None:
    trial.start(*NEVER_DONE).reach_output()
    trial.kill("rank-0")
    wait_until(lambda: trial.the_run().status().phase == STOPPING, "the others are stopped")
    trial.kill("lead")
    status = trial.ended()
    assert any("lead of this run was killed by signal 9 (SIGKILL)" in note for note in status.notes)
    assert_ended(trial, FAILED, 137, "worker-0/0 was killed by signal 9")


def test_no_restart_follows_when_the_end_was_asked_for(trial: Trial) -> None:
    trial.start(*SAVING, restarts=3).reach_output()
    trial.kill("rank-0")
    wait_until(lambda: trial.the_run().status().phase == STOPPING, "the others are stopped")
    trial.stop()
    assert_ended(trial, FAILED, 137, "worker-0/0 was killed by signal 9")


def test_an_agent_that_is_killed_costs_one_restart(work: Path, test_id: str) -> None:
    trial = Trial(work / "trial", test_id).start(restarts=1)
    trial.reach_output()
    trial.kill("agent")
    wait_until(lambda: trial.the_run().status().attempt == 2, "the second attempt")
    assert trial.goes_on()
    trial.stop()
    assert_ended(trial, STOPPED, 143, "stopped by `hora stop`")


def test_an_agent_that_is_killed_over_the_set_up_ends_the_run(work: Path, test_id: str) -> None:
    trial = Trial(work / "trial", test_id).start("--set", "setup=sleep 60")
    wait_until(
        lambda: trial.run is not None and trial.the_run().status().reason.startswith("setting up"), "set-up"
    )
    trial.kill("agent")
    assert_ended(trial, FAILED, 125, "its agent was killed by signal 9 (SIGKILL)")


def test_the_members_of_a_lost_agent_are_shown_as_lost(trial: Trial) -> None:
    trial.start().reach_output()
    trial.kill("agent")
    status = trial.ended()
    assert [rank.state for member in status.members for rank in member.ranks] == ["lost", "lost"]
    assert {member.phase for member in status.members} == {"lost"}
    assert_ended(trial, FAILED, 125, "was lost: its agent was killed by signal 9 (SIGKILL)")


def test_a_lead_that_is_killed_leaves_ranks_time_to_save(trial: Trial) -> None:
    trial.start("--env", "SAVE_SECONDS=1").reach_output()
    trial.kill("lead")
    assert_ended(trial, FAILED, 125, "the lead of this run was killed by signal 9 (SIGKILL)")
    assert has_saved(trial)


def test_ctrl_c_on_a_terminal_stops_the_run(pty_run, work: Path, test_id: str) -> None:  # type: ignore[no-untyped-def]
    trial = Trial(work / "trial", test_id, ranks=2, grace=6.0)
    terminal = pty_run(
        "run", "-n", "2", "--name", "fault", "--set", "timeouts.grace=6s", *SAVING, *trial.command
    )
    terminal.expect(r"worker-1/0 \| 1 1 0000")
    trial.fault_at = time.monotonic()
    terminal.send(CTRL_C)
    assert terminal.wait() == 130
    assert_ended(trial, STOPPED, 130, "stopped by Ctrl-C")
    assert has_saved(trial)


def test_closing_the_terminal_stops_the_run_and_ranks_have_time_to_save(
    pty_run,
    work: Path,
    test_id: str,  # type: ignore[no-untyped-def]
) -> None:
    trial = Trial(work / "trial", test_id, ranks=2, grace=6.0)
    terminal = pty_run(
        "run", "-n", "2", "--name", "fault", "--set", "timeouts.grace=6s", *SAVING, *trial.command
    )
    terminal.expect(r"worker-1/0 \| 1 1 0000")
    trial.fault_at = time.monotonic()
    terminal.hang_up()
    assert_ended(trial, STOPPED, 129, "went away")
    assert has_saved(trial)


def test_an_agent_that_hangs_does_not_keep_a_run_whose_lead_was_killed(work: Path, test_id: str) -> None:
    trial = Trial(work / "trial", test_id).start()
    trial.reach_output()
    trial.kill("agent", number=signal.SIGSTOP)
    trial.kill("lead")
    assert_ended(trial, FAILED, 125, "the lead of this run was killed by signal 9 (SIGKILL)")
