"""The lead's decisions, from what agents tell and clients ask: one host, whose agent is played by the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hora import plan as plans
from hora import state
from hora.agent.lead import sentences
from hora.agent.lead.hosts import HostLink
from hora.agent.lead.lead import Lead
from hora.plan import EndRule, LaunchPlan, RolePlan
from hora.record import replace

RANKS = ("worker-0/0", "worker-1/0")
KILL = replace(sentences.HORA_STOP, kill=True)
HELLO = {"attempt": 0, "incarnation": 1, "pid": 7, "keeper": 6, "facts": {}, "got": 0, "journal": [0, 0]}
PREPARED = {
    "address": "127.0.0.1",
    "interface": "lo",
    "threads": 1,
    "folder": "/f",
    "ports": {},
    "setup": False,
}


class Played:
    """A lead with one host; `orders` is what it was ordered."""

    def __init__(self, folder: Path, **plan: Any) -> None:
        what = LaunchPlan("job", "plain", (RolePlan("worker", 2, ("true",)),), EndRule(("worker",)), **plan)
        run = {"id": "ab12c", "name": "job", "place": "test", "createdAt": 0.0, "command": ["true"]}
        config = {"run": run, "plan": plans.to_data(what), "folder": str(folder), "same_clock": True}
        self.lead = Lead(config)
        self.link = self.lead.hosts["here"] = HostLink("here", self.lead.store, same_clock=True)
        self.link.members, self.link.incarnation = ["worker-0", "worker-1"], 1
        self.lead.host_came(self.link)

    @property
    def orders(self) -> list[dict[str, Any]]:
        return self.link._orders

    def tell(self, kind: str, **values: Any) -> None:
        self.lead.event(self.link, {"t": kind, "attempt": self.lead.attempt.number, **values}, b"")

    def run(self) -> Played:
        self.tell("prepared", **PREPARED)
        for pid, label in enumerate(RANKS, 100):
            self.tell("started", label=label, pid=pid, at=1000.0)
        assert self.lead.phase == "running"
        return self

    def exit(self, label: str, code: int | None = 0, **values: Any) -> None:
        how = {"signal": None, "stopped": False, "oom": False, "at": 1010.0, **values}
        self.tell("exit", label=label, code=code, **how)

    def stopped(self, code: int | None = None) -> None:
        """All ranks end because the agent said so."""
        for label in RANKS:
            self.exit(label, code, signal=15 if code is None else None, stopped=True)

    @property
    def verdict(self) -> tuple[str, int | None]:
        return self.lead.phase, self.lead.exit_code

    def phases(self) -> set[str]:
        return {member.phase for member in self.lead.board.document()}


@pytest.fixture
def played(work: Path) -> Iterator[Callable[..., Played]]:
    made: list[Played] = []

    def play(**plan: Any) -> Played:
        made.append(Played(work, **plan))
        return made[-1]

    yield play
    for one in made:
        one.lead.store.close()
        one.lead.loop.close()


@pytest.mark.parametrize("code", [None, 0], ids=["by the signal", "with code 0"])
def test_ranks_that_an_agent_stopped_without_an_order_are_lost(
    played: Callable[..., Played], code: int | None
) -> None:
    run = played().run()
    run.stopped(code)
    assert run.lead.phase == "stopping"
    run.tell("gone")
    assert run.verdict == ("failed", 125)
    assert "its agent stopped it" in run.lead.reason and "nobody had asked for that" in run.lead.reason


def test_one_host_that_stops_its_ranks_by_itself_ends_those_of_the_others(
    played: Callable[..., Played],
) -> None:
    run = played().run()
    run.exit("worker-1/0", None, signal=15, stopped=True)
    assert [order["t"] for order in run.orders][-1] == "stop"
    run.exit("worker-0/0", None, signal=15, stopped=True)
    run.tell("gone")
    assert run.verdict == ("failed", 125) and "worker-1/0" in run.lead.reason


def test_ranks_that_were_stopped_in_order_are_not_lost(played: Callable[..., Played]) -> None:
    run = played().run()
    run.lead.stop(sentences.HORA_STOP)
    run.stopped()
    run.tell("gone")
    assert run.verdict == ("stopped", 143)
    assert {rank.state for rank in run.lead.board.ranks.values()} == {"exited"}


def test_a_stop_when_nothing_is_left_ends_the_run_at_once(played: Callable[..., Played]) -> None:
    run = played().run()
    run.link.gone = True
    run.lead.stop(KILL)
    assert run.verdict == ("stopped", 143)


def test_who_asks_for_the_end_after_a_time_out_changes_no_verdict(played: Callable[..., Played]) -> None:
    run = played().run()
    run.lead.fail("it took longer than timeouts.total", "hora", 124)
    run.lead.stop(sentences.CTRL_C)
    run.lead.stop(replace(sentences.CTRL_C, kill=True))
    assert run.orders[-1]["kill"], "it only comes sooner"
    run.stopped()
    run.tell("gone")
    assert run.verdict == ("failed", 124) and run.lead.reason == "it took longer than timeouts.total"


def test_a_failure_before_a_stop_stands_though_no_restart_follows_it(played: Callable[..., Played]) -> None:
    run = played(restarts=1).run()
    run.exit("worker-0/0", 5, at=1500.0)
    run.lead.stop(sentences.HORA_STOP)
    run.exit("worker-1/0", None, signal=15, stopped=True, at=1501.0)
    run.tell("gone")
    assert run.verdict == ("failed", 5)


def test_what_goes_wrong_after_somebody_asked_for_the_end_is_a_note(played: Callable[..., Played]) -> None:
    run = played().run()
    run.lead.stop(sentences.CTRL_C)
    for _ in range(3):
        run.lead.fail("the disk is full", "hora", 125)
    run.stopped()
    run.tell("gone")
    assert run.verdict == ("stopped", 130) and run.lead.reason == "stopped by Ctrl-C"
    assert run.lead.telling.notes == ["the disk is full"]


def test_a_member_whose_host_is_lost_is_shown_as_lost_until_it_is_back(
    played: Callable[..., Played],
) -> None:
    run = played(restarts=1).run()
    assert run.phases() == {"running"}
    run.lead.host_lost(run.link, "its machine is gone")
    assert run.lead.phase == "checking", "the next attempt waits for it"
    assert run.phases() == {"lost"}
    run.tell("prepared", **PREPARED)
    assert run.phases() == {"ready"}


def test_a_member_whose_agent_was_killed_is_shown_as_lost_at_the_end(played: Callable[..., Played]) -> None:
    run = played().run()
    run.link.incarnation = 2
    run.lead.host_came(run.link)  # the next agent says hello, and then what happened to the first one
    run.tell("agentlost", incarnation=2, why="its agent was killed by signal 9 (SIGKILL)", at=1010.0)
    assert run.lead.phase == "failed" and run.phases() == {"lost"}
    assert {rank.state for rank in run.lead.board.ranks.values()} == {"lost"}


def test_a_set_up_is_shown_with_every_member(played: Callable[..., Played]) -> None:
    run = played(setup=("sh", "-c", "pip install x"))
    run.tell("prepared", **PREPARED)
    assert {(member.phase, member.note) for member in run.lead.board.document()} == {
        ("setup", "setting up: pip install x")
    }
    run.tell("exit", label=state.SETUP + "here", code=0, signal=None, stopped=False)
    assert {(member.phase, member.note) for member in run.lead.board.document()} == {("ready", "")}


def test_a_rank_began_when_its_agent_says_so(played: Callable[..., Played]) -> None:
    """Also where that is told to another lead, long after."""
    run = played().run()
    run.exit("worker-0/0", 1, at=1500.0)
    run.exit("worker-1/0", None, signal=15, stopped=True, at=1501.0)
    run.tell("gone")
    assert run.lead.failure is not None and run.lead.failure.after == 500.0
