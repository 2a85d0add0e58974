"""From what agents tell to the exits that a verdict is made of."""

from __future__ import annotations

from hora.agent.lead import verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from hora.agent.frames import Header
    from hora.agent.lead.board import Board


UNASKED = "its agent stopped it, and nobody had asked for that"
UNASKED_SINCE = "its agent stopped it, as a lead may have asked that was killed since"


def judge(exits: dict[str, verdict.Exit]) -> verdict.Verdict:
    """The verdict over an attempt that failed."""
    found = verdict.first_failure(exits.values())
    if found is None:
        raise ValueError("no exit of this attempt is a failure")
    return found


def ended(
    header: Header, board: Board, host: str, at: float, error: float, reset: bool, began: Optional[float]
) -> verdict.Exit:
    """What an agent told of one rank's end."""
    label = header["label"]
    return verdict.Exit(
        label=label,
        member=board.seat(label).member,
        rank=board.rank_of(label),
        host=host,
        time=at,
        error=error,
        exit_code=header["code"],
        signal=header["signal"],
        stopped=header["stopped"],
        reset=reset,
        oom=header["oom"],
        started_at=began,
        memory_limit=header.get("memory"),
    )


def not_started(label: str, board: Board, host: str, at: float, header: Header) -> verdict.Exit:
    """What an agent told of one rank that never began."""
    member, rank = board.seat(label).member, board.rank_of(label)
    return verdict.not_started(label, member, rank, host, at, header["why"], header["code"])


def lost(label: str, board: Board, host: str, at: float, why: str) -> verdict.Exit:
    """A rank whose end nobody saw."""
    return verdict.lost(label, board.seat(label).member, board.rank_of(label), host, at, why)
