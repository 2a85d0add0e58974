"""Links that break, agents that are killed, hosts that vanish: nothing lost, nothing twice."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator

import pytest

from helpers.runs import python, wait_until
from hora.plan import Limits
from link.mesh import Mesh, assert_whole, counting
from link.proxy import PASS, REFUSE, SWALLOW, Proxy

pytestmark = pytest.mark.leaks
LIMITS = Limits(schedule=60.0, start=60.0, grace=2.0)


@pytest.fixture
def proxies(mesh: Mesh) -> Iterator[list[Proxy]]:
    made: list[Proxy] = []
    yield made
    for proxy in made:
        proxy.close()


def behind_proxies(mesh: Mesh, proxies: list[Proxy], hosts: int) -> None:
    for index in range(hosts):
        proxies.append(Proxy(mesh.port))
        mesh.host(index, port=proxies[-1].port)


def test_links_that_are_cut_for_20_s_lose_no_line(mesh: Mesh, proxies: list[Proxy]) -> None:
    mesh.lead(counting(3000, pause=0.1, every=12), members=2, ranks=2)  # 25 s
    behind_proxies(mesh, proxies, 2)
    mesh.until("running")
    for proxy in proxies:
        wait_until(lambda p=proxy: p.passed > 20_000, "some output")  # type: ignore[misc]
    proxies[0].set(REFUSE, cut=True)
    proxies[1].set(SWALLOW)
    until = time.monotonic() + 20.0
    wait_until(lambda: time.monotonic() > until, "20 s", 30.0)
    status = mesh.status()
    assert status is not None
    assert status.phase == "running", status.reason  # silent hosts alone end nothing
    for proxy in proxies:
        proxy.set(PASS, cut=True)
    assert mesh.ended().phase == "succeeded"
    assert_whole(mesh.output(), ["worker-0/0", "worker-0/1", "worker-1/0", "worker-1/1"])


def test_a_link_that_breaks_again_and_again_loses_no_line(mesh: Mesh, proxies: list[Proxy]) -> None:
    mesh.lead(counting(200_000, pause=0.02, every=1000), members=3, ranks=2)
    behind_proxies(mesh, proxies, 3)
    dice = random.Random(7)
    cuts = 0
    while not getattr(mesh.status(), "ended", False) and cuts < 400:
        proxy = dice.choice(proxies)
        goal = proxy.passed + dice.randrange(200_000)
        try:
            wait_until(lambda p=proxy, g=goal: p.passed >= g or mesh.status().ended, "bytes", 1.0)  # type: ignore[misc,union-attr]
        except AssertionError:
            pass  # this one has nothing more to say
        proxy.cut()
        cuts += 1
    assert mesh.ended().phase == "succeeded"
    assert cuts > 30
    assert_whole(mesh.output(), [f"worker-{member}/{rank}" for member in range(3) for rank in range(2)])


def test_200_mb_pass_while_the_lead_reads_slowly_and_the_agent_stays_small(mesh: Mesh) -> None:
    code = """
        import hashlib, os, sys, time
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.01)
        block = (b"z" * 127 + b"\\n") * 8192
        seen = hashlib.sha256()
        for _ in range(200):
            seen.update(block)
            sys.stdout.buffer.write(block)
        sys.stdout.buffer.write(b"digest " + seen.hexdigest().encode() + b"\\n")
    """
    looked_at = mesh.work / "looked at"
    mesh.lead(python(code, str(looked_at)), members=1)
    mesh.host(0)
    agent = mesh.agent_pid("host-0")
    lead = mesh.leads[0].pid
    largest = resident(agent)
    looked_at.touch()
    while not getattr(mesh.status(), "ended", False):
        for number in (signal.SIGSTOP, signal.SIGCONT):  # it reads half of the time
            mesh.leads[0].send_signal(number)
            pause = time.monotonic() + 0.1
            wait_until(lambda end=pause: time.monotonic() > end, "a pause")  # type: ignore[misc]
        largest = max(largest, resident(agent), resident(lead))
    assert mesh.ended().phase == "succeeded"
    assert_whole(mesh.output(), ["worker-0/0"])
    assert 0 < largest < 100 << 20, f"{largest >> 20} MiB"


def resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def test_an_agent_that_is_killed_ends_the_attempt_and_every_line_is_there_once(mesh: Mesh) -> None:
    mesh.lead(counting(5000, pause=0.02, every=10), members=2)
    mesh.host(0)
    mesh.host(1)
    mesh.until("running")
    wait_until(lambda: len(mesh.output().get("worker-1/0", b"")) > 10_000, "some output")
    mesh.kill(mesh.agent_pid("host-1"))
    status = mesh.ended()
    assert (status.phase, status.exit_code, status.origin) == ("failed", 125, "hora"), status
    assert "worker-1/0 was lost" in status.reason
    assert "its agent was killed by signal 9" in status.reason
    lines = mesh.output()["worker-1/0"].decode().splitlines()
    assert [int(line.split()[1]) for line in lines] == list(range(len(lines)))
    assert [process.wait(20) for process in mesh.hosts.values()] == [0, 0]


def test_after_a_killed_agent_a_restart_goes_on_with_the_next_incarnation(mesh: Mesh) -> None:
    code = """
        import os, sys, time
        print("attempt", os.environ["HORA_ATTEMPT"], flush=True)
        time.sleep(600 if os.environ["HORA_ATTEMPT"] == "1" else 0)
    """
    mesh.lead(python(code), members=2, limits=LIMITS, restarts=1)
    mesh.host(0)
    mesh.host(1)
    mesh.until("running")
    wait_until(lambda: len(mesh.output()) == 2, "both ranks")
    mesh.kill(mesh.agent_pid("host-1"))
    status = mesh.ended()
    assert (status.phase, status.attempt) == ("succeeded", 2), status
    assert mesh.output()["worker-1/0"] == b"attempt 1\nattempt 2\n"


def test_a_host_whose_machine_vanishes_is_named_within_the_limit(mesh: Mesh) -> None:
    mesh.lead(["sleep", "600"], members=2, limits=Limits(schedule=60.0, start=4.0, grace=1.0))
    mesh.host(0)
    vanished = mesh.host(1)
    mesh.until("running")
    mesh.kill(vanished.pid, mesh.agent_pid("host-1"))
    began = time.monotonic()
    status = mesh.ended()
    assert time.monotonic() - began < 20.0
    assert (status.phase, status.exit_code, status.origin) == ("failed", 125, "hora")
    assert "worker-1/0 was lost: its host host-1 was not heard of for" in status.reason
    assert mesh.hosts["host-0"].wait(20) == 0


def test_a_host_that_only_falls_silent_is_lost_too(mesh: Mesh, proxies: list[Proxy]) -> None:
    mesh.lead(["sleep", "600"], members=2, limits=Limits(schedule=60.0, start=3.0, grace=1.0))
    behind_proxies(mesh, proxies, 2)
    mesh.until("running")
    proxies[1].set(SWALLOW)
    status = mesh.ended()
    assert (status.phase, status.exit_code) == ("failed", 125)
    assert "its host host-1 was not heard of for" in status.reason
    assert mesh.hosts["host-1"].wait(40) == 3  # nobody answers it: it ends its ranks by itself


def test_another_agent_in_a_hosts_place_means_that_its_ranks_are_lost(mesh: Mesh) -> None:
    mesh.lead(["sleep", "600"], members=2, limits=LIMITS)
    mesh.host(0)
    first = mesh.host(1)
    mesh.until("running")
    mesh.kill(first.pid, mesh.agent_pid("host-1"))
    mesh.host(9, name="host-1", members=["worker-1"])
    status = mesh.ended()
    assert (status.phase, status.exit_code) == ("failed", 125)
    assert "a new agent came in its place" in status.reason


ONCE = """
    import os, time
    print("attempt", os.environ["HORA_ATTEMPT"], flush=True)
    time.sleep(600 if os.environ["HORA_ATTEMPT"] == "1" else 0)
"""


def test_with_a_restart_left_another_agent_in_a_hosts_place_serves_the_next_attempt(mesh: Mesh) -> None:
    mesh.lead(python(ONCE), members=2, limits=LIMITS, restarts=1)
    mesh.host(0)
    first = mesh.host(1)
    mesh.until("running")
    wait_until(lambda: len(mesh.output()) == 2, "both ranks")
    mesh.kill(first.pid, mesh.agent_pid("host-1"))
    mesh.host(9, name="host-1", members=["worker-1"])
    status = mesh.ended()
    assert (status.phase, status.attempt) == ("succeeded", 2), status
    assert mesh.output() == dict.fromkeys(["worker-0/0", "worker-1/0"], b"attempt 1\nattempt 2\n")


def test_a_host_that_was_given_up_is_waited_for_in_the_next_attempt(mesh: Mesh) -> None:
    limits = Limits(schedule=60.0, start=4.0, grace=1.0)
    mesh.lead(python(ONCE), members=2, limits=limits, restarts=1)
    mesh.host(0)
    first = mesh.host(1)
    mesh.until("running")
    wait_until(lambda: len(mesh.output()) == 2, "both ranks")
    mesh.kill(first.pid, mesh.agent_pid("host-1"))
    mesh.until("checking")
    mesh.host(9, name="host-1", members=["worker-1"])
    status = mesh.ended()
    assert (status.phase, status.attempt) == ("succeeded", 2), status
    assert any("host-1 was not heard of for" in note for note in status.notes), status.notes


def test_a_host_that_comes_back_after_it_was_given_up_ends_its_old_ranks_first(
    mesh: Mesh, proxies: list[Proxy]
) -> None:
    limits = Limits(schedule=60.0, start=8.0, grace=1.0)
    mesh.lead(python(ONCE), members=2, limits=limits, restarts=1)
    proxies.append(Proxy(mesh.port))
    mesh.host(0)
    mesh.host(1, port=proxies[0].port, patience=60.0)
    mesh.until("running")
    proxies[0].set(REFUSE, cut=True)
    mesh.until("checking")
    proxies[0].set(PASS)
    status = mesh.ended()
    assert (status.phase, status.attempt) == ("succeeded", 2), status
    assert mesh.output()["worker-1/0"] == b"attempt 1\nattempt 2\n"
