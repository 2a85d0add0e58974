"""Stalls and silences, by a lead's loop with a clock of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.runs import wait_until
from hora.agent.lead.watching import SILENCE, Watching
from hora.agent.loop import Loop
from hora.agent.stacks import Stack


class Lead:
    """What Watching needs of a lead, with nothing behind it."""

    def __init__(self, folder: Path, stall: float | None = 0.5, kill: bool = False) -> None:
        self.loop = Loop()
        self.folder = str(folder)
        limits = SimpleNamespace(stall=stall, start=600.0)
        self.plan = SimpleNamespace(limits=limits, stall="kill" if kill else "report")
        self.hosts: dict[str, Any] = {}
        self.ranks = ["worker-0/0", "worker-1/0"]  # that live
        self.said: list[str] = []
        self.failed: list[tuple[str, str, int]] = []
        self.lost: list[str] = []
        self.asked: list[Callable[[list[Stack]], None]] = []
        self.requests = SimpleNamespace(stacks=lambda labels, done: self.asked.append(done))
        self.telling = SimpleNamespace(say=self.said.append)

    def fail(self, reason: str, origin: str, code: int) -> None:
        self.failed.append((reason, origin, code))

    def host_lost(self, link: Any, why: str) -> None:
        self.lost.append(why)

    def turn(self, watching: Watching, cpu: Callable[[], float] = lambda: 1.0) -> bool:
        """One look around, with the heartbeats that came before it."""
        samples = [["worker-0/0", cpu(), 0.0], ["worker-1/0", 1.0, 0.0]]
        watching.beat(None, {"ranks": [one for one in samples if one[0] in self.ranks]})  # type: ignore[arg-type]
        self.loop.after(0.02, lambda: None)
        self.loop.turn()
        return bool(self.asked)


@pytest.fixture
def leads(tmp_path: Path) -> Iterator[Callable[..., Lead]]:
    made: list[Lead] = []

    def make(**options: Any) -> Lead:
        made.append(Lead(tmp_path, **options))
        return made[-1]

    yield make
    for lead in made:
        lead.loop.close()


STACKS = [
    Stack("worker-0/0", 10, "faulthandler", ("train.py:7 load",)),
    Stack("worker-1/0", 11, "faulthandler", ("train.py:9 all_reduce",)),
]


def test_a_stall_asks_for_stacks_and_tells_them(leads: Callable[..., Lead]) -> None:
    lead = leads()
    watching = Watching(lead)
    watching.restart()
    wait_until(lambda: lead.turn(watching), "the stacks are asked for", 10)
    lead.asked[0](STACKS)
    (said,) = lead.said
    assert said.startswith(
        "stalled: no rank has printed or computed anything for 0.5 s. worker-0/0 is in load"
    )
    assert "<- the odd one out" in said and lead.failed == []


def test_a_stall_that_shall_kill_ends_the_run_with_124(leads: Callable[..., Lead]) -> None:
    lead = leads(kill=True)
    watching = Watching(lead)
    watching.restart()
    wait_until(lambda: lead.turn(watching), "the stacks are asked for", 10)
    lead.asked[0](STACKS)
    ((reason, origin, code),) = lead.failed
    assert (origin, code) == ("hora", 124) and "worker-0/0 is in load" in reason


def test_ranks_that_went_on_while_they_were_asked_are_not_killed(leads: Callable[..., Lead]) -> None:
    lead = leads(kill=True)
    watching = Watching(lead)
    watching.restart()
    wait_until(lambda: lead.turn(watching), "the stacks are asked for", 10)
    watching.beat(None, {"ranks": [["worker-0/0", 1.0, 5.0]]})  # type: ignore[arg-type]  # it has printed
    lead.asked[0](STACKS)
    assert lead.failed == []


def test_stacks_that_come_after_the_end_are_of_no_interest(leads: Callable[..., Lead]) -> None:
    lead = leads(kill=True)
    watching = Watching(lead)
    watching.restart()
    wait_until(lambda: lead.turn(watching), "the stacks are asked for", 10)
    watching.pause()
    lead.asked[0](STACKS)
    assert lead.said == [] and lead.failed == []


def test_a_rank_that_has_ended_hides_no_stall_of_the_others(leads: Callable[..., Lead]) -> None:
    lead = leads()
    watching = Watching(lead)
    watching.restart()
    lead.turn(watching)
    watching.ended("worker-0/0")
    lead.ranks.remove("worker-0/0")
    wait_until(lambda: lead.turn(watching), "the stacks are asked for", 10)


def test_work_is_no_stall_and_no_limit_is_none(leads: Callable[..., Lead]) -> None:
    busy, free = leads(), leads(stall=None)
    for lead in (busy, free):
        watching, end = Watching(lead), time.monotonic() + 1.5
        watching.restart()
        while time.monotonic() < end:
            assert not lead.turn(watching, time.monotonic)


def link(lead: Lead, heard: float, silent_since: float | None = None, up: bool = True) -> Any:
    """A host's link that has last heard something so many seconds ago."""
    now, closed = lead.loop.now(), []
    channel = SimpleNamespace(heard=now - heard, close=closed.append)
    since = None if silent_since is None else now - silent_since
    return SimpleNamespace(
        name="there", lost=False, up=up, channel=channel, silent_since=since, closed=closed
    )


def test_a_silent_link_is_closed_so_that_its_agent_dials_again(leads: Callable[..., Lead]) -> None:
    lead = leads()
    quiet, lively = link(lead, SILENCE + 1), link(lead, 1.0)
    lead.hosts = {"quiet": quiet, "lively": lively}
    Watching(lead).look()
    assert len(quiet.closed) == 1 and lively.closed == [] and lead.lost == []


def test_a_host_is_given_up_only_after_the_limit(leads: Callable[..., Lead]) -> None:
    lead = leads()
    lead.hosts = {"there": link(lead, 500.0, silent_since=500.0, up=False)}
    Watching(lead).look()
    assert lead.lost == []
    lead.hosts = {"there": link(lead, 700.0, silent_since=700.0, up=False)}
    Watching(lead).look()
    assert len(lead.lost) == 1 and "was not heard of for" in lead.lost[0]


def test_a_folder_that_was_removed_ends_the_run(leads: Callable[..., Lead], tmp_path: Path) -> None:
    lead = leads()
    Watching(lead).look()
    assert lead.failed == []
    lead.folder = str(tmp_path / "gone")
    Watching(lead).look()
    assert "was removed while the run went on" in lead.failed[0][0] and lead.failed[0][2] == 125
