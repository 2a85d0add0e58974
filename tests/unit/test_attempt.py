"""One attempt: what is ordered of the hosts, when it has failed, succeeded, or is over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hora import state
from hora.agent.lead import judging
from hora.agent.lead.attempt import Attempt
from hora.agent.lead.board import Board
from hora.plan import EndRule, LaunchPlan, RolePlan


def plan(*roles: RolePlan, decides: tuple[str, ...] = ("worker",)) -> LaunchPlan:
    return LaunchPlan("job", "plain", roles or (RolePlan("worker", 2, ("true",)),), EndRule(decides))


def host(name: str, *members: str) -> Any:
    prepared = {"address": "10.0.0.1", "interface": "eth0", "threads": 8, "folder": "/f", "ports": {}}
    return SimpleNamespace(name=name, members=list(members), prepared=prepared)


def begun(what: LaunchPlan, *hosts: Any) -> tuple[Attempt, Board, dict[str, Any]]:
    board = Board(what)
    attempt = Attempt(1, what, "ab12c", board)
    orders = attempt.orders(attempt.scene(list(hosts)))
    return attempt, board, orders


def how(
    board: Board, label: str, code: int | None = 0, signal: int | None = None, stopped: bool = False
) -> Any:
    header = {"label": label, "code": code, "signal": signal, "stopped": stopped, "oom": False}
    return judging.ended(header, board, "here", 10.0, 0.0, False, 9.0)


def test_each_host_is_ordered_its_own_ranks_with_their_numbers() -> None:
    attempt, board, orders = begun(plan(), host("a", "worker-1"), host("b", "worker-0"))
    assert {name: [rank["label"] for rank in order["ranks"]] for name, order in orders.items()} == {
        "a": ["worker-1/0"],
        "b": ["worker-0/0"],
    }
    (first,) = orders["b"]["ranks"]
    assert (first["env"]["HORA_RANK"], first["env"]["HORA_WORLD_SIZE"], first["attempt"]) == ("0", "2", 1)
    assert attempt.expected == {"worker-0/0", "worker-1/0"}
    assert not attempt.all_started and board.ranks["worker-0/0"].state == state.WAITING


def test_threads_are_shared_by_the_ranks_of_a_host() -> None:
    what = plan(RolePlan("worker", 2, ("true",), ranks=2))
    board = Board(what)
    scene = Attempt(1, what, "ab12c", board).scene([host("a", "worker-0", "worker-1")])
    assert {spot.threads for spot in scene.spots.values()} == {2}


def test_all_started_once_each_has_begun_or_ended() -> None:
    attempt, board, _ = begun(plan(), host("a", "worker-0", "worker-1"))
    attempt.started("worker-0/0", 11, 9.0)
    assert not attempt.all_started
    attempt.ended("worker-1/0", how(board, "worker-1/0", 1))
    assert attempt.all_started and board.ranks["worker-0/0"].pid == 11


def test_it_succeeds_when_all_that_decide_have_ended_well() -> None:
    helper = RolePlan("ps", 1, ("true",), in_world=False)
    attempt, board, _ = begun(
        plan(RolePlan("worker", 2, ("true",)), helper), host("a", "worker-0", "worker-1", "ps-0")
    )
    attempt.ended("worker-0/0", how(board, "worker-0/0"))
    assert not attempt.succeeded
    attempt.ended("worker-1/0", how(board, "worker-1/0"))
    assert attempt.succeeded and not attempt.failed
    assert not attempt.over, "the helper still runs"
    attempt.ended("ps-0/0", how(board, "ps-0/0", None, 15, stopped=True))
    assert attempt.over


def test_a_helper_that_fails_after_the_success_changes_nothing() -> None:
    helper = RolePlan("ps", 1, ("true",), in_world=False)
    attempt, board, _ = begun(plan(RolePlan("worker", 1, ("true",)), helper), host("a", "worker-0", "ps-0"))
    attempt.ended("worker-0/0", how(board, "worker-0/0"))
    attempt.ended("ps-0/0", how(board, "ps-0/0", 1))
    assert attempt.succeeded and not attempt.failed


def test_a_helper_that_fails_before_fails_the_attempt() -> None:
    helper = RolePlan("ps", 1, ("true",), in_world=False)
    attempt, board, _ = begun(plan(RolePlan("worker", 1, ("true",)), helper), host("a", "worker-0", "ps-0"))
    attempt.ended("ps-0/0", how(board, "ps-0/0", 1))
    assert attempt.failed
    attempt.ended("worker-0/0", how(board, "worker-0/0"))
    assert not attempt.succeeded


@pytest.mark.parametrize(("code", "signal"), [(None, 15), (0, None)])
def test_ranks_that_were_stopped_neither_fail_it_nor_let_it_succeed(
    code: int | None, signal: int | None
) -> None:
    attempt, board, _ = begun(plan(), host("a", "worker-0", "worker-1"))
    for label in ("worker-0/0", "worker-1/0"):
        attempt.ended(label, how(board, label, code, signal, stopped=True))
    assert attempt.over and not attempt.failed and not attempt.succeeded


def test_a_rank_that_nobody_saw_end_is_lost() -> None:
    attempt, board, _ = begun(plan(), host("a", "worker-0", "worker-1"))
    attempt.started("worker-0/0", 11, 9.0)
    attempt.ended("worker-0/0", judging.lost("worker-0/0", board, "a", 10.0, "its agent was killed"))
    assert attempt.failed and board.ranks["worker-0/0"].state == state.LOST


def test_ports_are_asked_for_by_name() -> None:
    what = plan(RolePlan("worker", 2, ("true",), ports=("master",)))
    prepare = Attempt(3, what, "ab12c", Board(what)).prepare(host("a", "worker-0", "worker-1"))
    assert prepare["attempt"] == 3
    assert {
        member: [name for name in names if name == "master"] for member, names in prepare["ports"].items()
    } == {
        "worker-0": ["master"],
        "worker-1": ["master"],
    }


def test_judging_an_attempt_without_a_failure_is_a_mistake() -> None:
    _, board, _ = begun(plan(), host("a", "worker-0", "worker-1"))
    with pytest.raises(ValueError, match="no exit of this attempt is a failure"):
        judging.judge({"worker-0/0": how(board, "worker-0/0")})


def test_what_agents_tell_becomes_an_exit() -> None:
    _, board, _ = begun(plan(), host("a", "worker-0", "worker-1"))
    header = {
        "label": "worker-1/0",
        "code": None,
        "signal": 9,
        "stopped": False,
        "oom": True,
        "memory": 1 << 30,
    }
    told = judging.ended(header, board, "a", 12.0, 0.1, True, 10.0)
    assert (told.member, told.rank, told.signal, told.oom, told.memory_limit) == (
        "worker-1",
        1,
        9,
        True,
        1 << 30,
    )
    assert (told.reset, told.error, told.started_at) == (True, 0.1, 10.0)
    refused = judging.not_started("worker-0/0", board, "a", 12.0, {"why": "no such file", "code": 127})
    assert refused.failed and refused.exit_code == 127 and "no such file" in refused.cause
