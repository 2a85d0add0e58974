"""The Python API.  The command line is written on it and can do nothing that it can't."""

from __future__ import annotations

import time

from hora import load, places, state
from hora.errors import JobFailed, LeadGone, PlaceError, WaitTimeout
from hora.load import Loaded, Overrides
from hora.places.base import Chunk, Submission
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from hora.agent.stacks import Stack
    from hora.places.base import Place
    from hora.places.connection import Connection
    from hora.state import RunStatus

LOOK_AGAIN = 0.1  # seconds between looks at a run whose lead is gone and whose keeper is tidying up


class Job:
    """A job from Python values: the keys of the job file, in snake_case."""

    def __init__(self, **keys: Any) -> None:
        self.loaded: Loaded = load.from_python(**keys)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], overrides: Overrides | None = None) -> Job:
        return cls.of(load.load_job(path, overrides))

    @classmethod
    def of(cls, loaded: Loaded) -> Job:
        job = cls.__new__(cls)
        job.loaded = loaded
        return job

    def submission(self, attached: bool = True) -> Submission:
        """The job with its plan."""
        from hora import frameworks

        spec = self.loaded.spec
        plan = frameworks.get(spec.framework).plan(spec)
        return Submission(spec, plan, self.loaded.notes, attached)


class Line(Record):
    """One line of one rank, without its end."""

    label: str
    text: str
    time: float
    attempt: int


class Event(Record):
    """What `Run.follow` tells: exactly one of the three."""

    status: RunStatus | None = None
    said: str = ""
    chunk: Chunk | None = None


class Run:
    """One run of a job, alive or ended."""

    def __init__(self, place: Place, run_id: str, owner: Connection | None = None) -> None:
        self.place = place
        self.id = run_id
        self.owner = owner  # while it is open, the run belongs to this process and ends with it

    # --- looking ---

    def status(self) -> RunStatus:
        return self.place.status(self.id)

    def follow(
        self, output: bool = True, start: int = 0, labels: Sequence[str] | None = None
    ) -> Iterator[Event]:
        """What happens, as it happens, until the run has ended and everything was told."""
        following = Following(self, output, start, labels)
        try:
            while not following.done:
                yield from following.events(None)
        finally:  # also when the caller has seen enough
            following.close()

    def chunks(
        self, start: int = 0, follow: bool = True, labels: Sequence[str] | None = None
    ) -> Iterator[Chunk]:
        """What the ranks wrote, byte by byte as they wrote it, in the order of arrival."""
        if not follow:
            wanted = set(labels) if labels is not None else None
            for chunk in self.place.history(self.id, start):
                if wanted is None or chunk.label in wanted:
                    yield chunk
            return
        for event in self.follow(start=start, labels=labels):
            if event.chunk is not None:
                yield event.chunk

    def logs(self, follow: bool = True, labels: Sequence[str] | None = None) -> Iterator[Line]:
        """Whole lines; a line without an end comes when its rank has ended."""
        begun: dict[str, tuple[bytes, Chunk]] = {}
        for chunk in self.chunks(follow=follow, labels=labels):
            data = begun.pop(chunk.label, (b"", chunk))[0] + chunk.data
            *whole, rest = data.split(b"\n")
            for text in whole:
                yield _line(chunk, text)
            if rest:
                begun[chunk.label] = (rest, chunk)
        for rest, chunk in begun.values():
            yield _line(chunk, rest)

    def wait(self, timeout: float | None = None, check: bool = True) -> RunStatus:
        """Until the run has ended.  Raises JobFailed unless it succeeded (or `check` is off)."""
        until = None if timeout is None else time.monotonic() + timeout
        following = Following(self, False, 0, None)
        try:
            while not following.done:
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise WaitTimeout(f"run {self.id} was still {self.status().phase} after {timeout:g} s")
                following.events(left)
        finally:
            following.close()
        status = self.status()
        if check and status.phase != state.SUCCEEDED:
            raise JobFailed(f"run {self.id} {status.phase}: {status.reason}", status)
        return status

    # --- changing ---

    def connect(self) -> Connection:
        """A new connection to the run's lead; LeadGone when the run has ended."""
        return self.place.attach(self.id)

    def stop(self, kill: bool = False, why: str = "") -> None:
        """Ask for the end: SIGTERM, `timeouts.grace`, SIGKILL; or SIGKILL at once.  Returns at once."""
        connection = self.connect()
        try:
            connection.answer("stop", kill=kill, why=why)
        finally:
            connection.close()

    def stacks(self, labels: Sequence[str] | None = None) -> list[Stack]:
        """Where each living rank is just now."""
        from hora.agent.stacks import Stack

        connection = self.connect()
        try:
            header, _ = connection.answer("stacks", ranks=list(labels) if labels is not None else None)
        finally:
            connection.close()
        return [Stack.from_json(item) for item in header["stacks"]]

    def results(self) -> dict[str, bytes]:
        """What each rank left in the file $HORA_RESULT, by label."""
        return self.place.results(self.id)

    def label_of(self, rank: int | str) -> str:
        """`worker-1/0` for a global number or for a label (also `worker-1`, its first rank)."""
        status = self.status()
        labels = {
            f"{member.name}/{known.number}": known.rank for member in status.members for known in member.ranks
        }
        wanted = str(rank)
        if wanted in labels:
            return wanted
        for label, number in labels.items():
            if str(number) == wanted or label == f"{wanted}/0":
                return label
        raise PlaceError(f"run {self.id} has no rank {wanted}; it has {', '.join(list(labels)[:8])}")

    def delete(self) -> None:
        self.place.delete(self.id)

    def detach(self) -> None:
        """Let the run go on without this process."""
        if self.owner is not None:
            self.owner.answer("detach")
            self.owner.close()
            self.owner = None


class Following:
    """Follows one run through its lead, and to its end without it when the lead is killed."""

    def __init__(self, run: Run, output: bool, start: int, labels: Sequence[str] | None) -> None:
        self.run = run
        self.done = False
        self.status: RunStatus | None = None
        self._output = output
        self._labels = set(labels) if labels is not None else None
        self._next = start
        self._said = 0
        self._ended_output = not output
        self._subscription = 0
        self._connection = self._connect()

    def _connect(self) -> Connection | None:
        try:
            connection = self.run.owner or self.run.connect()
            connection.ask("watch")
            if self._output:
                ranks = sorted(self._labels) if self._labels is not None else None
                self._subscription = connection.ask("output", ranks=ranks, start=self._next)
        except LeadGone:
            return None
        return connection

    def fileno(self) -> int:
        """For select: -1 when there is no lead to listen to."""
        return self._connection.fileno() if self._connection is not None else -1

    @property
    def connection(self) -> Connection | None:
        return self._connection

    def events(self, timeout: float | None) -> list[Event]:
        """What has happened; waits for at most `timeout`."""
        if self._connection is None:
            return self._without_lead(timeout)
        found = [event for item in self._connection.frames(timeout) for event in self._told(*item)]
        if self.status is not None and self.status.ended and self._ended_output:
            self._finish()
        elif self._connection is not None and self._connection.closed:
            self._finish_connection()
        return found

    def _told(self, header: dict[str, Any], body: bytes) -> list[Event]:
        kind = header["t"]
        if kind == "status":
            self.status = state.RunStatus.from_json(header["status"])
            return [Event(status=self.status)]
        if kind == "say":
            self._said += 1
            return [Event(said=header["text"])]
        if header.get("id") != self._subscription:
            return []  # of somebody who followed before us on the owner's connection
        if kind == "o":
            self._next = header["n"] + 1
            label, dropped = header["label"], header.get("dropped", 0)
            return [Event(chunk=Chunk(header["n"], label, header["at"], header["a"], body, dropped))]
        if kind == "end":
            self._ended_output = True
        return []

    def close(self) -> None:
        """Listen no more.  The owner's connection stays: the run would end with it."""
        connection, self._connection = self._connection, None
        if connection is None or connection.closed:
            return
        if connection is not self.run.owner:
            connection.close()
        elif self._subscription:
            connection.ask("unoutput", which=self._subscription)

    def _finish_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self.run.owner = None

    def _finish(self) -> None:
        self._finish_connection()
        self.done = True

    def _without_lead(self, timeout: float | None) -> list[Event]:
        """The lead has ended or was killed: what is kept tells the rest."""
        until = None if timeout is None else time.monotonic() + timeout
        status = self.run.status()
        while not status.ended:
            if until is not None and time.monotonic() >= until:
                return []
            time.sleep(LOOK_AGAIN)  # nobody is left who could tell
            status = self.run.status()
        found = [Event(chunk=chunk) for chunk in self._rest()]
        if status != self.status:
            self.status = status
            found.append(Event(status=status))
        self.done = True
        return found

    def _rest(self) -> Iterator[Chunk]:
        if not self._output:
            return
        for chunk in self.run.place.history(self.run.id, self._next):
            if self._labels is None or chunk.label in self._labels:
                yield chunk


def _line(chunk: Chunk, text: bytes) -> Line:
    return Line(chunk.label, text.decode("utf-8", "replace").rstrip("\r"), chunk.time, chunk.attempt)


# --- the functions -----------------------------------------------------------------------------------


def submit(job: Job, on: str = "local", attached: bool = False) -> Run:
    """Start a job; returns at once.  `attached`: the run ends when this process does."""
    place = places.get(on)
    run_id, owner = place.submit(job.submission(attached))
    return Run(place, run_id, owner)


def get_run(name: str, on: str = "local") -> Run:
    """The run with that id, the beginning of it, or the newest one of the job with that name."""
    place = places.get(on)
    return Run(place, place.find(name))


def list_runs(on: str = "local") -> list[RunStatus]:
    """All runs that are known, oldest first."""
    return places.get(on).list()


def call(
    function: Callable[..., Any],
    *arguments: Any,
    workers: int = 1,
    on: str = "local",
    echo: bool = True,
    **keys: Any,
) -> list[Any]:
    """Run `function(*arguments)` on every rank and return the results in rank order.

    `keys` are those of the job file (env, framework, resources, ...).  What the ranks print goes to stderr
    (`echo`).  If a rank raises, RemoteError is raised here, with the remote exception as its cause.
    """
    from hora import calling

    return calling.call(function, arguments, workers, on, echo, keys)


__all__ = ["Event", "Job", "Line", "Loaded", "Overrides", "Run", "call", "get_run", "list_runs", "submit"]
