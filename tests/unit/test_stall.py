"""When a run counts as halted: neither output nor CPU time, as far as was seen."""

from __future__ import annotations

import pytest

from hora.agent.lead.stall import StallWatch

LIMIT = 60.0


def fed(
    watch: StallWatch, until: float, cpu: float = 0.0, output: float | None = 0.0, since: float = 0.0
) -> None:
    """A heartbeat every 2 s of two ranks; `cpu` is used per second by the second of them."""
    now = since
    while now <= until:
        watch.sample("worker-0/0", 1.0, 0.0, now)
        watch.sample("worker-1/0", 1.0 + cpu * now, output, now)
        now += 2.0


def test_silence_and_idleness_of_all_is_a_stall_told_once() -> None:
    watch = StallWatch(LIMIT)
    fed(watch, 58.0)
    assert not watch.due(59.0)
    fed(watch, 64.0, since=60.0)
    assert watch.due(64.0) and watch.certain(64.0)
    assert not watch.due(65.0), "it was told"


def test_one_rank_that_computes_keeps_the_run_alive() -> None:
    watch = StallWatch(LIMIT)
    fed(watch, 300.0, cpu=0.5)
    assert not watch.due(300.0)


def test_housekeeping_of_less_than_a_hundredth_of_a_cpu_is_no_sign_of_life() -> None:
    watch = StallWatch(LIMIT)
    fed(watch, 120.0, cpu=0.002)
    assert watch.due(120.0)


def test_one_rank_that_prints_keeps_the_run_alive() -> None:
    watch = StallWatch(LIMIT)
    for now in range(0, 300, 2):
        watch.sample("worker-0/0", 1.0, 0.0, float(now))
        watch.sample("worker-1/0", 1.0, float(now // 50), float(now))  # every 50 s
    assert not watch.due(299.0)


def test_the_hosts_clocks_do_not_matter() -> None:
    watch = StallWatch(LIMIT)
    fed(watch, 120.0, output=1e9)
    assert watch.due(120.0)


def test_ranks_that_wait_by_spinning_are_stalled_without_output_but_never_certainly() -> None:
    watch = StallWatch(LIMIT, spins=True)
    fed(watch, 120.0, cpu=1.0)
    assert watch.due(120.0) and not watch.certain(120.0)


def test_without_heartbeats_nothing_is_said() -> None:
    watch = StallWatch(LIMIT)
    fed(watch, 10.0)
    assert not watch.due(1000.0)


def test_the_end_of_a_rank_is_news() -> None:
    watch = StallWatch(LIMIT)
    fed(watch, 50.0)
    watch.forget("worker-0/0")
    for now in (60.0, 80.0, 100.0):
        watch.sample("worker-1/0", 1.0, 0.0, now)
    assert not watch.due(100.0)
    watch.sample("worker-1/0", 1.0, 0.0, 112.0)
    assert watch.due(112.0)


def test_a_sign_of_life_after_the_report_begins_anew() -> None:
    watch = StallWatch(LIMIT)
    fed(watch, 62.0)
    assert watch.due(62.0)
    watch.sample("worker-1/0", 1.0, 5.0, 64.0)
    assert not watch.due(64.0)
    fed(watch, 126.0, since=66.0, output=5.0)
    assert watch.due(126.0)


def test_no_limit_no_stall() -> None:
    watch = StallWatch(None)
    fed(watch, 10_000.0)
    assert not watch.due(10_000.0) and watch.wait(10_000.0) is None


def test_no_ranks_no_stall() -> None:
    watch = StallWatch(LIMIT)
    assert not watch.due(1000.0) and not watch.certain(1000.0) and watch.quiet(1000.0) == 0.0
    fed(watch, 10.0)
    watch.clear()
    assert not watch.due(1000.0)


def test_it_says_how_long_to_wait() -> None:
    watch = StallWatch(LIMIT)
    fed(watch, 10.0)
    assert watch.wait(10.0) == pytest.approx(50.0)
    assert watch.quiet(10.0) == pytest.approx(10.0)


def test_rare_heartbeats_are_judged_by_the_average_use() -> None:
    """A burst of CPU long ago, seen late, is not work just now; steady work is."""
    steady = StallWatch(LIMIT)
    for now in (0.0, 40.0, 80.0, 120.0):
        steady.sample("worker-0/0", now * 0.5, None, now)
    assert not steady.due(120.0)
    idle = StallWatch(LIMIT)
    for now in (0.0, 40.0, 80.0, 120.0):
        idle.sample("worker-0/0", now * 0.001, None, now)
    assert idle.due(120.0)


@pytest.mark.parametrize("limit", [1.0, 2.0, 5.0])
def test_short_limits_see_work_too(limit: float) -> None:
    watch = StallWatch(limit)
    for step in range(100):
        watch.sample("worker-0/0", step * 0.2 * 0.9, None, step * 0.2)
    assert not watch.due(99 * 0.2)
