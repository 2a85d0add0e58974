"""Following a run: through its lead while that lives, and to the end of what is kept when it doesn't."""

from __future__ import annotations

import time
from itertools import islice

from hora import state
from hora.errors import LeadGone
from hora.places.base import Chunk
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from hora.api import Run
    from hora.places.base import Place, Watch
    from hora.places.connection import Connection
    from hora.state import RunStatus

LOOK_AGAIN = 0.1  # seconds between looks at a run whose lead is gone, at first
LONGEST_PAUSE = 1.0
MOMENT = 0.3  # that a run may wait before its place is asked why
AT_ONCE = 64  # chunks of kept output


class Event(Record):
    """What `Run.follow` tells: exactly one of the three."""

    status: RunStatus | None = None
    said: str = ""
    chunk: Chunk | None = None


class Waits:
    """What the place knows of a run that isn't whole yet; it is asked once the run has waited for a moment."""

    def __init__(self, place: Place, run: str) -> None:
        self._place = place
        self._run = run
        self._began = time.monotonic()
        self._watch: Watch | None = None
        self._changed = False

    def news(self, status: RunStatus) -> bool:
        """Whether the place may know more than when it was last asked."""
        if status.phase not in (state.QUEUED, state.GATHERING):
            self.close()
            return False
        if self._watch is None and time.monotonic() - self._began > MOMENT:
            self._watch = self._place.watch(self._run, self._note)
        changed, self._changed = self._changed, False
        return changed

    def explained(self, status: RunStatus) -> RunStatus:
        return status if self._watch is None else self._place.explained(status)

    def _note(self) -> None:
        self._changed = True

    def close(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()


class Following:
    """Follows one run; `events` until `done`, then `close`.

    An attached run has its owner's connection, which is there before the lead: the first to follow borrows
    it, whoever follows meanwhile gets a connection of his own.
    """

    def __init__(
        self, run: Run, output: bool = True, start: int = 0, labels: Sequence[str] | None = None
    ) -> None:
        self.run = run
        self.done = False
        self.status: RunStatus | None = None
        self._told_last: RunStatus | None = None  # before the lead went
        self._labels = set(labels) if labels is not None else None
        self._next = start
        self._output = output
        self._ended_output = not output
        self._watch = self._subscription = 0  # numbers of our requests
        self._kept: Iterator[Chunk] | None = None  # what is read without a lead
        self._connection: Connection | None = None
        self._waits = Waits(run.place, run.id)
        self._connect()

    def _connect(self) -> None:
        owner = self.run.owner
        try:
            if owner is not None and not self.run.owner_follows:
                self.run.owner_follows = True
                self._connection = owner
            else:
                self._connection = self.run.connect()
            self._watch = self._connection.ask("watch")
            if self._output:
                ranks = sorted(self._labels) if self._labels is not None else None
                self._subscription = self._connection.ask("output", ranks=ranks, start=self._next)
        except LeadGone:
            self._lost()

    def fileno(self) -> int:
        """For select: -1 when there is no lead to listen to."""
        return self._connection.fileno() if self._connection is not None else -1

    @property
    def connection(self) -> Connection | None:
        return self._connection

    def events(self, timeout: float | None = None) -> list[Event]:
        """What has happened; waits for at most `timeout`."""
        if self._connection is None:
            return self._without_lead(timeout)
        found = [event for item in self._connection.frames(timeout) for event in self._told(*item)]
        if self.status is not None and self._waits.news(self.status):
            self.status = self._waits.explained(self.status)
            found.append(Event(status=self.status))
        if self.status is not None and self.status.ended and self._ended_output:
            self.done = self.run.over = True
            self._lost()
        elif self._connection is not None and self._connection.closed:
            self._lost()
        return found

    def _told(self, header: dict[str, Any], body: bytes) -> list[Event]:
        kind, number = header["t"], header.get("id")
        if number not in (self._watch, self._subscription):
            return []  # of somebody who followed before us on the owner's connection
        if kind == "status":
            self.status = self._waits.explained(state.RunStatus.from_json(header["status"]))
            return [Event(status=self.status)]
        if kind == "say":
            return [Event(said=header["text"])]
        if kind == "o":
            self._next = header["n"] + 1
            label, dropped = header["label"], header.get("dropped", 0)
            return [Event(chunk=Chunk(header["n"], label, header["at"], header["a"], body, dropped))]
        if kind == "end":
            self._ended_output = True
        return []

    def close(self) -> None:
        """Listen no more.  The owner's connection stays: the run would end with it."""
        self._waits.close()
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection is not self.run.owner:
            connection.close()
            return
        self.run.owner_follows = False
        if self._subscription and not connection.closed:
            try:
                connection.ask("unoutput", which=self._subscription)
            except LeadGone:
                pass  # then nothing comes any more

    def _lost(self) -> None:
        """The lead has gone, or has told us everything."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection.close()
        if connection is self.run.owner:
            self.run.owner, self.run.owner_follows = None, False

    @property
    def hopeless(self) -> str:
        """Why the run will never begin; empty while it may."""
        return "" if self.status is None else self.run.place.hopeless(self.status)

    # --- without a lead ---

    def _without_lead(self, timeout: float | None) -> list[Event]:
        """The lead can't be reached, was killed or has ended: what the place tells, then what is kept."""
        if self._kept is None:
            news = self._look(timeout)
            if self._kept is None:
                return news
        found = [Event(chunk=chunk) for chunk in islice(self._kept, AT_ONCE)]
        if len(found) < AT_ONCE:
            self.done = self.run.over = True
            if self.status != self._told_last:
                found.append(Event(status=self.status))
        return found

    def _look(self, timeout: float | None) -> list[Event]:
        """Until there is a lead again, news, or the end."""
        until = None if timeout is None else time.monotonic() + timeout
        pause = LOOK_AGAIN
        while True:
            self._connect()
            if self._connection is not None:
                return []
            status = self.run.status()
            self._waits.news(status)
            if status.ended:
                self._told_last, self.status = self.status, status
                self._kept = self._rest()
                return []
            if status != self.status:
                self.status = status
                return [Event(status=status)]
            if until is not None and time.monotonic() >= until:
                return []
            time.sleep(pause)  # nobody is left who could tell
            pause = min(pause * 1.5, LONGEST_PAUSE)

    def _rest(self) -> Iterator[Chunk]:
        if not self._output:
            return
        for chunk in self.run.place.history(self.run.id, self._next):
            if self._labels is None or chunk.label in self._labels:
                yield chunk
