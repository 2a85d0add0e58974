"""Runs over several hosts: what works when nothing breaks."""

from __future__ import annotations

import sys

import pytest

from helpers.runs import python, wait_until
from hora.agent.lead.hosts import Clock
from hora.plan import Limits
from link.mesh import Mesh, assert_whole, counting

pytestmark = pytest.mark.leaks
SIX = [f"worker-{member}/{rank}" for member in range(3) for rank in range(2)]


def test_three_hosts_with_two_ranks_each_run_to_their_end(mesh: Mesh) -> None:
    mesh.lead(counting(200), members=3, ranks=2)
    for index in range(3):
        mesh.host(index)
    status = mesh.ended()
    assert (status.phase, status.exit_code) == ("succeeded", 0), status
    assert_whole(mesh.output(), SIX)
    assert [member.host for member in status.members] == ["host-0", "host-1", "host-2"]
    assert sorted(rank.rank for member in status.members for rank in member.ranks) == [0, 1, 2, 3, 4, 5]
    assert [process.wait(20) for process in mesh.hosts.values()] == [0, 0, 0]
    assert wait_until(lambda: mesh.leads[0].poll() == 0, "the lead's end")


def test_the_first_failing_rank_of_any_host_gives_the_exit_code(mesh: Mesh) -> None:
    code = """
        import os, sys, time
        if os.environ["HORA_RANK"] == "2":
            print("out of luck", flush=True)
            sys.exit(7)
        time.sleep(600)
    """
    mesh.lead(python(code), members=3)
    for index in range(3):
        mesh.host(index)
    status = mesh.ended()
    assert (status.phase, status.exit_code, status.origin) == ("failed", 7, "job"), status
    assert status.first_failure is not None
    assert (status.first_failure.label, status.first_failure.host) == ("worker-2/0", "host-2")
    assert list(status.first_failure.last_lines) == ["out of luck"]
    assert sorted(status.first_failure.echoes) == ["worker-0/0", "worker-1/0"]


def test_a_host_that_is_asked_to_end_fails_the_run_with_its_name(mesh: Mesh) -> None:
    code = """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        print("up", flush=True)
        time.sleep(600)
    """
    mesh.lead(python(code), members=2)
    for index in range(2):
        mesh.host(index)
    mesh.until("running")
    wait_until(lambda: len(mesh.output()) == 2, "both ranks listen")
    mesh.hosts["host-1"].terminate()
    status = mesh.ended(20.0)
    assert (status.phase, status.exit_code, status.origin) == ("failed", 125, "hora"), status
    assert "host-1: the agent was asked to end (SIGTERM)" in status.reason


def test_a_lead_may_be_dialled_by_its_name(mesh: Mesh) -> None:
    mesh.lead(members=1)
    mesh.host(0, lead=[["nobody.invalid", mesh.port], ["localhost", mesh.port]])
    assert mesh.ended().phase == "succeeded"


def test_a_host_whose_peers_could_not_reach_it_is_refused(mesh: Mesh) -> None:
    mesh.lead(members=2)
    mesh.host(0)
    mesh.host(1, address="", lead=[["localhost", mesh.port]])
    status = mesh.ended()
    assert (status.phase, status.exit_code, status.origin) == ("failed", 125, "hora"), status
    assert "host-1: it reaches the lead at 127.0.0.1, where no other host reaches it" in status.reason


def test_a_client_follows_the_output_over_tls_until_its_end(mesh: Mesh) -> None:
    mesh.lead(counting(3000, pause=0.01, every=50), members=2)
    for index in range(2):
        mesh.host(index)
    mesh.until("running")
    client = mesh.connect()
    number = client.ask("output", start=0, follow=True)
    seen: dict[str, bytes] = {}
    ended = False
    while not ended:
        frames = client.frames(60.0)
        assert frames, "nothing came"
        for header, body in frames:
            assert header["id"] == number
            if header["t"] == "o":
                seen[header["label"]] = seen.get(header["label"], b"") + body
            ended = ended or header["t"] == "end"
    client.close()
    assert_whole(seen, ["worker-0/0", "worker-1/0"])


def test_a_stop_over_tls_ends_the_ranks_of_all_hosts(mesh: Mesh) -> None:
    mesh.lead(["sleep", "600"], members=2)
    for index in range(2):
        mesh.host(index)
    mesh.until("running")
    client = mesh.connect()
    client.answer("stop", why="stop")
    client.close()
    status = mesh.ended()
    assert (status.phase, status.exit_code) == ("stopped", 143)


def test_a_host_that_never_comes_is_named_when_the_limit_is_over(mesh: Mesh) -> None:
    mesh.lead(members=2, limits=Limits(schedule=1.5, start=20.0, grace=1.0))
    mesh.host(0)
    status = mesh.ended()
    assert (status.phase, status.exit_code) == ("failed", 124)
    assert "worker-1 did not come in time" in status.reason
    assert mesh.hosts["host-0"].wait(20) == 0


def test_hosts_whose_python_differs_are_told_apart_before_the_start(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = mesh.work / "other" / "python3"
    other.parent.mkdir()
    other.write_text(f"#!/bin/sh\n{sys.executable} \"$@\" | sed 's/python 3[.0-9]*/python 3.1.4/'\n")
    other.chmod(0o755)
    mesh.lead(members=3, checks=("python",))
    mesh.host(0)
    mesh.host(1)
    monkeypatch.setenv("PATH", f"{other.parent}:/usr/bin:/bin")
    mesh.host(2)
    status = mesh.ended()
    assert (status.phase, status.exit_code, status.origin) == ("failed", 125, "hora")
    assert "the hosts differ in python" in status.reason
    assert "3.1.4 on host-2" in status.reason


def test_a_host_that_its_neighbour_cannot_reach_is_named_before_the_start(mesh: Mesh) -> None:
    mesh.lead(members=3)
    mesh.host(0)
    mesh.host(1, address="240.0.0.1")  # nothing routes there
    mesh.host(2)
    status = mesh.ended()
    assert (status.phase, status.exit_code) == ("failed", 125)
    assert "can't reach host-1 at 240.0.0.1" in status.reason


def test_an_agent_that_comes_after_the_end_hears_that_all_is_over(mesh: Mesh) -> None:
    mesh.lead(
        python("print('x' * 99 + '\\n', end='', flush=True); print(('y' * 99 + '\\n') * 300000)"), members=2
    )
    mesh.host(0)
    mesh.host(1)
    slow = mesh.connect()
    slow.ask("output", start=0, follow=True)  # and never reads it: the lead stays until all have everything
    mesh.ended()
    late = mesh.host(7, name="host-1", members=["worker-1"])
    assert late.wait(20) == 0
    slow.close()


def test_clocks_that_differ_are_put_right_by_the_answer_with_the_shortest_way() -> None:
    clock, now = Clock(), [1000.0]

    def exchange(there: float, back: float, ahead: float) -> None:
        number = clock.ask(now[0])["n"]
        now[0] += there
        theirs = now[0] + ahead
        now[0] += back
        clock.answered(number, theirs, now[0])

    exchange(0.5, 0.1, ahead=3600.0)
    assert clock.error == pytest.approx(0.3)
    assert abs(clock.ours(now[0] + 3600.0) - now[0]) <= clock.error
    exchange(0.001, 0.001, ahead=3600.0)
    assert clock.error == pytest.approx(0.001)
    assert clock.ours(now[0] + 3600.0) == pytest.approx(now[0], abs=0.001)
    exchange(0.9, 0.9, ahead=3600.0)  # a slow one changes nothing
    assert clock.error == pytest.approx(0.001)


def ask(clock: Clock, at: float, ahead: float, way: float) -> None:
    number = clock.ask(at)["n"]
    clock.answered(number, at + way / 2 + ahead, at + way)


def test_a_clock_that_is_set_meanwhile_is_noticed() -> None:
    clock = Clock()
    ask(clock, 0.0, ahead=0.0, way=0.0002)
    ask(clock, 86400.0, ahead=30.0, way=0.0004)
    assert clock.ours(130.0) == pytest.approx(100.0, abs=0.001)


def test_a_clock_that_drifts_is_measured_anew_and_its_error_is_not_the_best_ever() -> None:
    clock = Clock()
    ask(clock, 0.0, ahead=0.0, way=0.0002)
    ask(clock, 5.0, ahead=0.0, way=2.0)
    assert clock.error == 0.0001, "a slow answer tells less than one of a moment ago"
    for tick in range(2, 20_000):
        ask(clock, tick * 5.0, ahead=tick * 0.0001, way=0.001)
    assert clock.error <= 0.0015
    assert abs(clock.offset - 2.0) <= clock.error + 0.001


def test_the_leads_own_clock_needs_no_measure() -> None:
    clock = Clock(same=True)
    ask(clock, 5.0, ahead=1.0, way=0.5)
    assert (clock.offset, clock.error) == (0.0, 0.0)


def test_an_answer_over_which_the_leads_clock_was_set_back_tells_nothing() -> None:
    clock = Clock()
    ask(clock, 1000.0, ahead=0.0, way=0.001)
    number = clock.ask(2000.0)["n"]
    clock.answered(number, 2000.0, 1900.0)
    assert abs(clock.offset) < 0.001
