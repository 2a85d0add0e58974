"""`hora logs`: during the run and after it."""

from __future__ import annotations

import select
import time

from hora.cli import out
from hora.cli.look import chosen_run
from hora.cli.stream import Stream
from hora.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hora.api import Run
    from hora.cli.words import Words
    from hora.places.base import Chunk

TICK = 0.5  # seconds between looks at lines that wait for their end


def logs(words: Words) -> int:
    run = chosen_run(words)
    labels = [run.label_of(rank) for rank in words.many("rank")] or None
    tail = tail_of(words)
    since = None if words.text("since") is None else time_of(words.text("since") or "", time.time())
    stream = Stream(out.STDOUT, not words.flag("no_prefix"), words.flag("timestamps"))
    kept = _since(run.chunks(0, False, labels), since)
    view = View(stream)
    start = _show(view, kept if tail is None else _last(kept, tail))
    if words.flag("follow"):
        _follow(view, run, start, labels)
    for label in list(view.missing):
        view.tell_missing(label)
    _finish(stream.end())
    return 0


class View:
    """A stream, and what of each rank isn't kept any more: told once for each gap."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.missing: dict[str, int] = {}

    def add(self, chunk: Chunk) -> None:
        if chunk.dropped:
            self.missing[chunk.label] = self.missing.get(chunk.label, 0) + chunk.dropped
            return
        self.tell_missing(chunk.label)
        self.stream.add(chunk)

    def tell_missing(self, label: str) -> None:
        count = self.missing.pop(label, 0)
        if count:
            self.stream.tell(f"hora: {count} bytes of {label} are not kept any more")


def _show(view: View, chunks: Iterable[Chunk]) -> int:
    """Shows them; returns the number of the chunk that comes next."""
    start, stream = 0, view.stream
    for chunk in chunks:
        start = chunk.number + 1
        view.add(chunk)
        if len(stream.pending) >= 64:
            _finish(stream.flush())
    _finish(stream.flush())
    return start


def _follow(view: View, run: Run, start: int, labels: Sequence[str] | None) -> None:
    from hora.following import Following

    stream = view.stream
    following = Following(run, True, start, labels)
    while not following.done:
        for event in following.events(TICK):
            if event.chunk is not None:
                view.add(event.chunk)
        _finish(stream.flush() and stream.tick())
        if not _has_reader():
            _finish(False)


def _has_reader() -> bool:
    poll = select.poll()
    poll.register(out.STDOUT, 0)
    return not poll.poll(0)


def _finish(read: bool) -> None:
    if not read:
        raise BrokenPipeError


# --- what part of it ---


def tail_of(words: Words) -> int | None:
    text = words.text("tail")
    if text is None:
        return None
    if not text.isdecimal():
        raise UsageError(f"logs: --tail: must be a number of lines, got {text!r}")
    return int(text)


def time_of(text: str, now: float) -> float:
    """A moment: so long ago (10m, 1h30m), or a date and time, UTC unless it says otherwise."""
    from hora.load import quantities

    try:
        return now - quantities.duration(0)(text)
    except ValueError:
        pass
    from datetime import datetime, timezone

    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise UsageError(
            f"logs: --since: must be a time span (90s, 10m, 1h30m) or a moment (2026-01-31T12:00:00Z), got {text!r}"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def _since(chunks: Iterable[Chunk], since: float | None) -> Iterable[Chunk]:
    return chunks if since is None else (chunk for chunk in chunks if chunk.time >= since)


def _last(chunks: Iterable[Chunk], lines: int) -> list[Chunk]:
    """The last lines of each rank, in the order of arrival."""
    from collections import deque

    from hora.record import replace

    kept: dict[str, deque[Chunk]] = {}
    count: dict[str, int] = {}
    every: list[Chunk] = []
    for chunk in chunks:
        mine = kept.setdefault(chunk.label, deque())
        mine.append(chunk)
        count[chunk.label] = count.get(chunk.label, 0) + chunk.data.count(b"\n")
        while len(mine) > 1 and count[chunk.label] - mine[0].data.count(b"\n") > lines:
            count[chunk.label] -= mine.popleft().data.count(b"\n")
    for label, mine in kept.items():
        whole = not mine[-1].data.endswith(b"\n")  # a begun line counts as one
        excess = count[label] + whole - lines
        while mine and excess > 0:
            first = mine.popleft()
            breaks = first.data.count(b"\n")
            if breaks >= excess:
                rest = first.data.split(b"\n", excess)[-1]
                mine.appendleft(replace(first, data=rest))
                break
            excess -= breaks
        every.extend(chunk for chunk in mine if chunk.data or chunk.dropped)
    return sorted(every, key=lambda chunk: chunk.number)
