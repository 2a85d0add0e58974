"""`hora cp`."""

from __future__ import annotations

import re

from hora import api
from hora.cli import out
from hora.errors import UsageError
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.cli.words import Words

_RANK = re.compile(r"\d+|[a-z][a-z0-9-]*-\d+(/\d+)?")


class Beside(Record):
    """A path beside a rank of a run."""

    run: str
    rank: str | None
    path: str


def copy(words: Words) -> int:
    given, wanted = words.text("source") or "", words.text("target") or ""
    source, target = beside(given), beside(wanted)
    if (source is None) is (target is None):
        raise UsageError(
            f"cp: {'both' if source else 'none'} of the two paths {'are' if source else 'is'} beside a rank; allowed: "
            "hora cp RUN:PATH HERE, hora cp HERE RUN:PATH"
        )
    there = source or target
    assert there is not None
    run = api.get_run(there.run, **words.where)
    rank = _rank(there, words)
    done = run.copy_from(there.path, wanted, rank) if source else run.copy_to(given, there.path, rank)
    for note in done.notes:
        out.tell(f"hora: {note}")
    if not words.flag("quiet"):
        from hora.places.code import size_of

        files = f"{done.files} file{'s' * (done.files != 1)}"
        out.tell(f"hora: copied {files}, {size_of(done.bytes)}, {given} -> {wanted}")
    return 0


def _rank(there: Beside, words: Words) -> str | int:
    option = words.text("rank")
    if option is not None and there.rank is not None:
        raise UsageError(f"cp: say --rank {option} or {there.run}:{there.rank}:{there.path}, not both")
    return option or there.rank or 0


def beside(text: str) -> Beside | None:
    """RUN:PATH or RUN:RANK:PATH; None for a path of this computer."""
    run, colon, rest = text.partition(":")
    if not colon or "/" in run or run in ("", ".", ".."):
        return None
    rank, colon, path = rest.partition(":")
    if colon and _RANK.fullmatch(rank):
        return Beside(run, rank, path or ".")
    return Beside(run, None, rest or ".")
