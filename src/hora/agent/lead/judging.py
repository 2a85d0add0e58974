"""From the exits of an attempt to the failure that the status tells."""

from __future__ import annotations

from hora import state
from hora.agent.lead import verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Optional, Tuple

    from hora.agent.frames import Header
    from hora.agent.lead.board import Board

LAST_LINES = 50
PORT_RETRY = 30.0  # seconds: a port taken between choice and use shows early


def failure(exits: List[verdict.Exit], attempt: int, lines: Callable[[str], List[bytes]]) -> state.Failure:
    """The first failure, with its last lines, its ties and its echoes."""
    found = verdict.first_failure(exits)
    if found is None:
        raise ValueError("no exit of this attempt is a failure")
    first = found.first
    after = max(0.0, first.time - first.started_at) if first.started_at is not None else None
    return state.Failure(
        member=first.member,
        rank=first.rank,
        label=first.label,
        host=first.host,
        attempt=attempt,
        cause=found.cause,
        exit_code=first.exit_code,
        signal=first.signal,
        at=first.time,
        after=after,
        ties=tuple(exit.label for exit in found.ties),
        echoes=tuple(exit.label for exit in found.echoes),
        last_lines=tuple(line.decode("utf-8", "replace") for line in lines(first.label)),
    )


def verdict_of(exits: List[verdict.Exit]) -> Tuple[int, str, verdict.Exit]:
    """(exit code, origin, the first failure's exit)."""
    found = verdict.first_failure(exits)
    if found is None:
        raise ValueError("no exit of this attempt is a failure")
    origin = state.ORIGIN_HORA if found.first.lost else state.ORIGIN_JOB
    return found.exit_code, origin, found.first


def address_taken(text: bytes) -> bool:
    return b"Address already in use" in text or b"EADDRINUSE" in text


def ended(header: Header, board: Board, host: str, at: float, error: float, reset: bool, began: Optional[float]) -> verdict.Exit:
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
    return verdict.Exit(
        label=label,
        member=board.seat(label).member,
        rank=board.rank_of(label),
        host=host,
        time=at,
        exit_code=header["code"],
        problem=header["why"],
    )


def lost(label: str, board: Board, host: str, at: float) -> verdict.Exit:
    rank = board.rank_of(label)
    return verdict.Exit(label=label, member=board.seat(label).member, rank=rank, host=host, time=at, lost=True)

