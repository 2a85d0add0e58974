"""What is known of every member and rank, and the document made of it."""

from __future__ import annotations

from hora import state
from hora.agent.lead.board import Board
from hora.plan import EndRule, LaunchPlan, RolePlan


def a_board() -> Board:
    roles = (RolePlan("worker", 2, ("true",), ranks=2), RolePlan("ps", 1, ("true",), in_world=False))
    return Board(LaunchPlan("job", "plain", roles, EndRule(("worker",))))


def phases(board: Board) -> dict[str, str]:
    return {member.name: member.phase for member in board.document()}


def test_it_knows_every_seat_from_the_start() -> None:
    board = a_board()
    assert board.members == ["worker-0", "worker-1", "ps-0"]
    assert board.labels_of("worker-1") == ["worker-1/0", "worker-1/1"]
    assert board.unhosted() == board.members
    assert board.knows("worker-1/1") and not board.knows("worker-2/0")


def test_members_become_ready_running_and_ended() -> None:
    board = a_board()
    board.host("worker-0", "here")
    assert (phases(board)["worker-0"], board.host_of("worker-0")) == ("ready", "here")
    assert board.unhosted() == ["worker-1", "ps-0"]
    board.change("worker-0/0", state=state.ALIVE, pid=7)
    assert phases(board)["worker-0"] == "running"
    board.change("worker-0/0", state=state.EXITED, exit_code=0)
    assert phases(board)["worker-0"] != "ended", "one of two has ended"
    board.change("worker-0/1", state=state.EXITED, exit_code=0)
    assert phases(board)["worker-0"] == "ended"


def test_a_lost_host_takes_what_ran_on_it() -> None:
    board = a_board()
    for member in board.members:
        board.host(member, "here" if member != "worker-1" else "there")
    for label in ("worker-0/0", "worker-1/0", "worker-1/1"):
        board.change(label, state=state.ALIVE)
    board.change("worker-1/1", state=state.EXITED, exit_code=0)
    assert board.lost("there") == ["worker-1/0"]
    assert phases(board)["worker-1"] == "lost" and phases(board)["worker-0"] == "running"
    assert board.ranks["worker-1/0"].state == state.LOST
    assert board.ranks["worker-1/1"].state == state.EXITED, "that was seen"


def test_a_host_that_is_lost_after_its_ranks_have_ended_takes_nothing() -> None:
    board = a_board()
    board.host("worker-0", "there")
    for label in board.labels_of("worker-0"):
        board.change(label, state=state.EXITED, exit_code=0)
    assert board.lost("there") == [] and phases(board)["worker-0"] == "ended"


def test_a_launcher_has_a_seat_and_is_no_rank() -> None:
    board = a_board()
    seat = board.seat("worker-0/launcher")
    assert (seat.member, board.rank_of("worker-0/launcher")) == ("worker-0", None)


def test_global_numbers_are_those_of_the_world_alone() -> None:
    board = a_board()
    assert board.by_number(0) == "worker-0/0" and board.by_number(3) == "worker-1/1"
    assert board.by_number(4) is None


def test_the_document_is_whole_json() -> None:
    board = a_board()
    board.phase("ps-0", "waiting", "for its image")
    members = [state.MemberState.from_json(member.to_json()) for member in board.document()]
    assert tuple(members) == board.document()
    assert members[2].note == "for its image"
