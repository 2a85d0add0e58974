"""The lead is killed: ranks go on, and a new lead takes up the run."""

from __future__ import annotations

import time

import pytest

from helpers.runs import python, wait_until
from hora.agent.lead.verdict import EARLY
from hora.plan import Limits
from link.mesh import Mesh, assert_whole, counting

pytestmark = pytest.mark.leaks
LIMITS = Limits(schedule=60.0, start=40.0, grace=2.0)


def kill_lead(mesh: Mesh) -> None:
    mesh.leads[-1].kill()
    mesh.leads[-1].wait()


def test_a_new_lead_takes_up_a_running_attempt_and_no_line_is_lost(mesh: Mesh) -> None:
    mesh.lead(counting(4000, pause=0.05, every=40), members=2, ranks=2, limits=LIMITS)
    mesh.host(0)
    mesh.host(1)
    mesh.until("running")
    started = mesh.status()
    wait_until(lambda: len(mesh.output()) == 4, "output of all ranks")
    for _ in range(2):
        kill_lead(mesh)
        mesh.start_lead()
        mesh.until("running")
    status = mesh.ended()
    assert (status.phase, status.exit_code, status.attempt) == ("succeeded", 0, 1), status
    assert started is not None
    assert status.started_at == started.started_at
    assert_whole(mesh.output(), ["worker-0/0", "worker-0/1", "worker-1/0", "worker-1/1"])
    assert [process.wait(20) for process in mesh.hosts.values()] == [0, 0]


def test_what_ended_while_there_was_no_lead_is_told_to_the_next(mesh: Mesh) -> None:
    code = """
        import os, sys, time
        print("here", flush=True)
        while not os.path.exists("go"): time.sleep(0.02)
        print("there", flush=True)
        sys.exit(5 if os.environ["HORA_RANK"] == "1" else 0)
    """
    mesh.lead(python(code), members=2, limits=LIMITS)
    mesh.host(0)
    mesh.host(1)
    mesh.until("running")
    kill_lead(mesh)
    (mesh.work / "go").touch()
    mesh.start_lead()
    status = mesh.ended()
    assert (status.phase, status.exit_code) == ("failed", 5), status
    assert status.first_failure is not None
    assert status.first_failure.label == "worker-1/0"
    assert mesh.output() == {"worker-0/0": b"here\nthere\n", "worker-1/0": b"here\nthere\n"}


def test_a_rank_that_ran_for_long_under_the_first_lead_made_no_mistake_at_its_start(mesh: Mesh) -> None:
    """It printed nothing: had it begun just now, it would not be tried again."""
    code = """
        import os, sys, time
        while os.environ["HORA_ATTEMPT"] == "1" and not os.path.exists("go"): time.sleep(0.02)
        sys.exit(os.environ["HORA_ATTEMPT"] == "1")
    """
    mesh.lead(python(code), members=2, limits=LIMITS, restarts=1)
    mesh.host(0)
    mesh.host(1)
    mesh.until("running")
    until = time.monotonic() + EARLY + 1.0
    wait_until(lambda: time.monotonic() > until, "the first seconds are over")
    kill_lead(mesh)
    mesh.start_lead()
    mesh.until("running")
    (mesh.work / "go").touch()
    status = mesh.ended()
    assert (status.phase, status.attempt) == ("succeeded", 2), status


def test_a_lead_killed_before_the_start_begins_another_attempt(mesh: Mesh) -> None:
    mesh.lead(["echo", "hello"], members=2, limits=LIMITS, setup=("sleep", "3"))
    mesh.host(0)
    mesh.host(1)
    wait_until(lambda: "setting up" in getattr(mesh.status(), "reason", ""), "the set-up")
    kill_lead(mesh)
    mesh.start_lead()
    status = mesh.ended()
    assert (status.phase, status.attempt) == ("succeeded", 2), status
    assert mesh.output() == {"worker-0/0": b"hello\n", "worker-1/0": b"hello\n"}


def test_without_a_new_lead_the_agents_end_their_ranks_when_their_patience_is_over(mesh: Mesh) -> None:
    mesh.lead(["sleep", "600"], members=2, limits=Limits(schedule=60.0, start=3.0, grace=1.0))
    mesh.host(0)
    mesh.host(1)
    mesh.until("running")
    kill_lead(mesh)
    assert [process.wait(30) for process in mesh.hosts.values()] == [3, 3]
    assert "no lead answered for 3 s" in mesh.log("host-0")


def test_a_new_lead_waits_for_every_host_and_names_the_one_that_stays_away(mesh: Mesh) -> None:
    mesh.lead(["sleep", "600"], members=2, limits=Limits(schedule=60.0, start=6.0, grace=1.0))
    mesh.host(0)
    gone = mesh.host(1)
    mesh.until("running")
    agent = mesh.agent_pid("host-1")
    kill_lead(mesh)
    mesh.kill(gone.pid, agent)
    mesh.start_lead()
    status = mesh.ended()
    assert (status.phase, status.exit_code) == ("failed", 124), status
    assert "worker-1 did not come in time" in status.reason
    assert mesh.hosts["host-0"].wait(30) == 0


def test_an_agent_killed_while_there_was_no_lead_fails_the_run_with_its_name(mesh: Mesh) -> None:
    mesh.lead(["sleep", "600"], members=2, limits=LIMITS)
    mesh.host(0)
    mesh.host(1)
    mesh.until("running")
    agent = mesh.agent_pid("host-1")
    kill_lead(mesh)
    mesh.kill(agent)
    mesh.start_lead()
    status = mesh.ended()
    assert (status.phase, status.exit_code, status.origin) == ("failed", 125, "hora"), status
    assert "host-1" in status.reason


def test_a_lead_started_again_after_the_end_goes_at_once(mesh: Mesh) -> None:
    mesh.lead(members=1)
    mesh.host(0)
    before = mesh.ended()
    assert mesh.leads[0].wait(20) == 0
    mesh.start_lead()
    assert mesh.leads[1].wait(20) == 0
    assert mesh.status() == before


def test_a_lead_killed_while_the_ranks_have_their_grace_leaves_no_run_without_an_end(mesh: Mesh) -> None:
    code = """
        import os, signal, sys, time
        def save(*_):
            print("saving", flush=True)
            while not os.path.exists("go"): time.sleep(0.02)
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        print("up", flush=True)
        time.sleep(600)
    """
    mesh.lead(python(code), members=2, limits=Limits(schedule=60.0, start=40.0, grace=30.0))
    mesh.host(0)
    mesh.host(1)
    mesh.until("running")
    wait_until(lambda: len(mesh.output()) == 2, "both ranks listen")
    client = mesh.connect()
    client.answer("stop")
    client.close()
    wait_until(lambda: all(b"saving" in text for text in mesh.output().values()), "both ranks save")
    kill_lead(mesh)
    mesh.start_lead()
    wait_until(
        lambda: dict(mesh.until("running").pids)["lead"] == mesh.leads[-1].pid, "the new lead has taken up"
    )
    (mesh.work / "go").touch()
    status = mesh.ended(30.0)
    assert (status.phase, status.exit_code, status.origin) == ("failed", 125, "hora"), status
    # Whether the second lead heard of the ends before it had put the attempt together, or after.
    told = (
        "as a lead may have asked that was killed since",
        "the first lead of this run was killed while it stopped",
    )
    assert any(text in status.reason for text in told), status.reason
