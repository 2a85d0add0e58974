"""The Python API.  The command line is written on it and can do nothing that it can't."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager

from hora import load, places, state
from hora.errors import JobFailed, LeadGone, RunEnded, RunNotFound, UsageError, WaitTimeout
from hora.following import Event, Following
from hora.load import Loaded, Overrides
from hora.places import elsewhere
from hora.places.base import Chunk, Submission
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType
    from typing import Any, TypeVar

    from typing_extensions import Self, Unpack

    from hora.agent.stacks import Stack
    from hora.copying import Copied
    from hora.job_keys import CallKeys, JobKeys
    from hora.places.base import Place
    from hora.places.connection import Connection
    from hora.session import Session
    from hora.spec import JobSpec
    from hora.state import RunStatus
    from hora.syncing import Synced

    T = TypeVar("T")


class Job:
    """A job from Python values: the keys of the job file, in snake_case.

        hora.Job(command=["python", "train.py"], workers=4, env={"LR": "0.1"}, timeouts={"total": "2h"})

    JobFileError, with every problem at once, when something is wrong with them.
    """

    def __init__(self, **keys: Unpack[JobKeys]) -> None:
        self.loaded: Loaded = load.from_python(**keys)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], overrides: Overrides | None = None) -> Job:
        """The job in a job file, changed as the command line's options would change it."""
        if overrides is not None and not isinstance(overrides, Overrides):
            raise UsageError(f"Job.from_file takes hora.Overrides(workers=4, ...), got {_kind(overrides)}")
        return cls.of(load.load_job(path, overrides))

    @classmethod
    def of(cls, loaded: Loaded) -> Job:
        """A job that was loaded already."""
        job = cls.__new__(cls)
        job.loaded = loaded
        return job

    @property
    def spec(self) -> JobSpec:
        """The job, normalised: what the short and the long form have in common."""
        return self.loaded.spec

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found out rather than said, such as the framework."""
        from hora import frameworks

        if frameworks.is_built_in(self.spec.framework):  # whose start pays for no look at what is installed
            return self.loaded.notes
        return (*self.loaded.notes, *frameworks.notes())

    def submission(self, attached: bool = True) -> Submission:
        """The job with its plan: what a place takes."""
        from hora import frameworks

        return Submission(self.spec, frameworks.plan(self.spec), self.notes, attached)

    def render(
        self,
        on: str = places.DEFAULT,
        whole: bool = False,
        *,
        context: str | None = None,
        namespace: str | None = None,
    ) -> str:
        """What `submit` would make there, as text; nothing is started.

        `whole`: with the certificates and secrets that a run on a cluster needs.
        """
        place = places.get(on, context=context, namespace=namespace)
        return place.render(self.submission(), whole)

    def __repr__(self) -> str:
        roles = ", ".join(f"{role.name}: {role.replicas} × {role.ranks}" for role in self.spec.roles)
        return f"<Job {self.spec.name} ({self.spec.framework}; {roles})>"


STOP_LIMIT = 20.0  # seconds for a lead that is on its way to come
LOOK_AGAIN = 0.1


class Line(Record):
    """One line of one rank, without its end."""

    label: str
    text: str
    time: float
    attempt: int


class Run:
    """One run of a job, alive or ended.  Made by `submit` and `get_run`.

    As a context manager it ends an attached run that still goes on when the block is left.
    """

    def __init__(
        self, place: Place, run_id: str, owner: Connection | None = None, attached: bool = False
    ) -> None:
        self.place = place
        self.id = run_id
        self.owner = owner  # while it is open, the run belongs to this process and ends with it
        self.over = False  # somebody here has followed it to its end
        self.attached = attached  # as a context manager it ends the run
        self.owner_follows = False  # its connection is lent to a Following

    def __repr__(self) -> str:
        return f"<Run {self.id} on {self.place.name}>"

    # --- looking ---

    def status(self) -> RunStatus:
        """The state of the run now, or how it ended."""
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
        """What the ranks wrote, byte by byte as they wrote it, in the order of arrival.

        Without `follow` only what is there already.  `labels`: of these ranks alone.
        """
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
        """What the ranks wrote, as whole lines; a line that never got its end comes last.

        Without `follow` only what is there already.  `labels`: of these ranks alone.
        """
        begun: dict[str, _Begun] = {}
        for chunk in self.chunks(follow=follow, labels=labels):
            line = begun.get(chunk.label)
            if line is not None and line.chunk.attempt != chunk.attempt:
                del begun[chunk.label]
                if line.parts:
                    yield line.end()  # cut off by a restart
            begun.setdefault(chunk.label, _Begun(chunk))
            yield from begun[chunk.label].feed(chunk)
        for line in begun.values():
            if line.parts:
                yield line.end()

    def wait(self, timeout: float | None = None, check: bool = True) -> RunStatus:
        """Wait until the run has ended; its last status.

        JobFailed unless it succeeded (or `check` is off); WaitTimeout when it hasn't ended after `timeout`
        seconds: it goes on then.
        """
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float, type(None))):
            raise UsageError(f"wait: timeout must be a number of seconds or None, got {_kind(timeout)}")
        until = None if timeout is None else time.monotonic() + timeout
        following = Following(self, output=False)
        try:
            while not following.done:
                following.events(None if until is None else max(0.0, until - time.monotonic()))
                if until is None or time.monotonic() < until or following.done:
                    continue
                status = self.status()
                if not status.ended:
                    raise WaitTimeout(f"run {self.id} was still {status.phase} after {timeout:g} s")
                break
        finally:
            following.close()
        told = following.status
        status = told if told is not None and told.ended else self.status()
        if check and status.phase != state.SUCCEEDED:
            raise JobFailed(ended(status), status)
        return status

    # --- changing ---

    def connect(self) -> Connection:
        """A new connection to the run's lead; LeadGone when the run has ended."""
        return self.place.attach(self.id)

    def stop(self, kill: bool = False, why: str = "") -> None:
        """Ask for the end: SIGTERM, `timeouts.grace`, SIGKILL; or SIGKILL at once.

        Returns at once; `wait(check=False)` waits.  A run that has ended stays as it is.
        """
        until = time.monotonic() + STOP_LIMIT
        while True:
            try:
                connection = self.connect()
                try:
                    connection.answer("stop", kill=kill, why=why)
                    return
                finally:
                    connection.close()
            except LeadGone:
                status = self.status()
                if status.ended or (status.phase == state.QUEUED and self._taken_back(status, until)):
                    return
                if time.monotonic() > until:
                    raise
            time.sleep(LOOK_AGAIN)  # its lead is on its way, or goes just now

    def _taken_back(self, status: RunStatus, until: float) -> bool:
        """A run whose lead waits for something, or does not come, is not waited for: the place takes it back."""
        if not self.place.whereabouts or not (self.place.stuck(status) or time.monotonic() > until):
            return False
        self.place.give_up(self.id)
        return True

    def sync(self, folder: str | os.PathLike[str] | None = None, restart: bool = False) -> Synced:
        """Give the run new code, and start its ranks again with it as the next attempt.

        `folder`: another one than the job's.  Where the code's folder is used in place, nothing travels.  Code
        that hasn't changed changes nothing, unless `restart`.  Returns once the lead has the code: `status().attempt`
        tells when the ranks have it.  Not charged to `restarts`.
        """
        from hora import syncing

        self._must_live()
        fresh = self.place.fresh_code(self.id, syncing.existing(folder))
        return syncing.sync(self._lead(), fresh, restart)

    def exec(
        self,
        argv: Sequence[str],
        rank: int | str = 0,
        size: tuple[int, int] | None = None,
        terminal: str = "",
    ) -> Session:
        """Start a command beside a rank, with its environment and in its folder; without `argv` a shell.

        `size`: columns and rows of a terminal, if it is to have one, of the type `terminal`.
        """
        from hora.session import Session

        if isinstance(argv, (str, bytes)):
            raise UsageError(f"exec takes a list of words, as ['ls', '-l'], got {_kind(argv)}")
        self._must_live()
        label = self.label_of(rank)
        try:
            return Session(self.connect(), label, argv, size, terminal)
        except LeadGone as gone:
            self._must_live(gone)
            raise

    def copy_from(self, source: str, target: str | os.PathLike[str] = ".", rank: int | str = 0) -> Copied:
        """Copy a file or a folder from beside a rank, by the rules of `cp -r`.

        A relative `source` begins in the rank's folder.  Permissions, times and links are kept.  What is not
        whole never has its name; PlaceError says why nothing came.
        """
        from hora import copying

        return copying.fetch(self._lead(), self.label_of(rank), os.fspath(source), os.fspath(target))

    def copy_to(self, source: str | os.PathLike[str], target: str = ".", rank: int | str = 0) -> Copied:
        """Copy a file or a folder to the side of a rank; the same rules."""
        from hora import copying

        return copying.put(self._lead(), self.label_of(rank), os.fspath(source), os.fspath(target))

    def dial(self, port: int, rank: int | str = 0) -> socket.socket:
        """A socket that is connected to a port beside a rank, wherever that is; PlaceError when nothing answers."""
        from hora import opening

        return opening.dial(self._lead(), self.label_of(rank), port)

    def stacks(self, labels: Sequence[str] | None = None) -> list[Stack]:
        """Where each living rank is just now."""
        from hora.agent.stacks import Stack

        self._must_live()
        try:
            connection = self.connect()
            try:
                header, _ = connection.answer("stacks", ranks=list(labels) if labels is not None else None)
            finally:
                connection.close()
        except LeadGone as gone:
            self._must_live(gone)
            raise
        return [Stack.from_json(item) for item in header["stacks"]]

    def _must_live(self, why: LeadGone | None = None) -> None:
        """The lead of an ended run answers for a moment yet, then no more: users shall hear the same."""
        if self.status().ended:
            raise RunEnded(f"run {self.id} has ended: hora status {self.id}; hora logs {self.id}") from why

    def _lead(self) -> Connection:
        """`connect`, for what needs living ranks."""
        self._must_live()
        try:
            return self.connect()
        except LeadGone as gone:
            self._must_live(gone)
            raise

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
        some = ", ".join(list(labels)[:8]) + (", ..." if len(labels) > 8 else "")
        raise UsageError(f"run {self.id} has no rank {wanted}; it has {some or 'none yet'}")

    def delete(self) -> None:
        """Forget an ended run and all that is kept of it."""
        self.place.delete(self.id)
        elsewhere.forget(self.id)

    # --- belonging to this process ---

    @contextmanager
    def held(self) -> Iterator[None]:
        """While this is open the run's lead stays after the end, for up to a minute: for `results` on a
        cluster, which go with it."""
        connection = None
        try:
            connection = self.connect()
            connection.ask("hold")
        except LeadGone:
            pass  # a short run is over already; on this machine its results are files
        try:
            yield
        finally:
            if connection is not None:
                connection.close()

    def detach(self) -> None:
        """Let an attached run go on without this process."""
        self.attached = False
        if self.owner is not None:
            self.owner.answer("detach")
            self._let_go()

    def _let_go(self) -> None:
        if self.owner is not None:
            self.owner.close()
            self.owner = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.attached or self.over:
            return
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        try:
            self.stop(why="ctrl-c" if interrupted else "")
            self.wait(check=False)
        except KeyboardInterrupt:  # once more: no grace
            self.stop(kill=True, why="ctrl-c")
            self.wait(check=False)
            raise
        finally:
            self._let_go()


class _Begun:
    """The line that a rank has begun."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk  # the last that belongs to it
        self.parts: list[bytes] = []

    def feed(self, chunk: Chunk) -> Iterator[Line]:
        self.chunk = chunk
        *whole, rest = chunk.data.split(b"\n")
        for text in whole:
            self.parts.append(text)
            yield self.end()
        if rest:
            self.parts.append(rest)

    def end(self) -> Line:
        text = b"".join(self.parts).decode("utf-8", "replace")
        self.parts = []
        return Line(self.chunk.label, text.rstrip("\r"), self.chunk.time, self.chunk.attempt)


def ended(status: RunStatus) -> str:
    """How a run ended, in a sentence: `run k3f9x failed: ...`, `run k3f9x stopped by ...`."""
    said = status.reason.startswith(f"{status.phase} ")
    return f"run {status.id} {status.reason if said else f'{status.phase}: {status.reason}'}"


def _kind(value: object) -> str:
    return f"{type(value).__name__} {value!r}"[:80]


# --- the functions -----------------------------------------------------------------------------------


def submit(
    job: Job,
    on: str = places.DEFAULT,
    attached: bool = False,
    *,
    context: str | None = None,
    namespace: str | None = None,
) -> Run:
    """Start a job on a place; returns at once.

    The run goes on when this process ends.  With `attached` it ends with it (on this machine): use it as a
    context manager, or `wait` for it.  `context` and `namespace`: which cluster, and where in it.
    """
    return start(job, places.get(on, context=context, namespace=namespace), attached)


def start(job: Job, place: Place, attached: bool) -> Run:
    """`submit` for who has the place already."""
    if not isinstance(job, Job):
        raise UsageError(f"hora.submit takes a job, as hora.Job(command=['true']), got {_kind(job)}")
    return begin(job.submission(attached), place)


def begin(submission: Submission, place: Place) -> Run:
    run_id, owner = place.submit(submission)
    if place.whereabouts:
        elsewhere.remember(run_id, submission.spec.name, place.name, place.whereabouts, submission.spec.code)
    return Run(place, run_id, owner, submission.attached)


def get_run(
    name: str, on: str | None = None, *, context: str | None = None, namespace: str | None = None
) -> Run:
    """The run with that id, the beginning of it, or the newest one of the job with that name.

    Without `on`: a run on this machine, else one that was started from here on another place.
    """
    if on is not None or context is not None or namespace is not None:
        place = places.get(on or places.DEFAULT, context=context, namespace=namespace)
        return Run(place, place.find(name))
    place = places.get(places.DEFAULT)
    try:
        return Run(place, place.find(name))
    except RunNotFound:
        known = elsewhere.find(name)
        if known is None:
            raise
    place = places.get(known.place, **dict(known.options))
    try:
        return Run(place, place.find(known.run))
    except RunNotFound:
        elsewhere.forget(known.run)
        raise


def list_runs(
    on: str = places.DEFAULT, *, context: str | None = None, namespace: str | None = None
) -> list[RunStatus]:
    """All runs that are known, oldest first."""
    return places.get(on, context=context, namespace=namespace).list()


def call(
    function: Callable[..., T],
    *arguments: Any,
    workers: int = 1,
    on: str = "local",
    echo: bool = True,
    context: str | None = None,
    namespace: str | None = None,
    **keys: Unpack[CallKeys],
) -> list[T]:
    """Run `function(*arguments)` on every rank and return the results in rank order.

    `keys` are those of the job file (env, framework, resources, ...).  What the ranks print goes to stderr
    (`echo`).  What the first failing rank raises is raised here, its traceback in the RemoteError that is its
    `__cause__`; RemoteError itself where that exception can't travel, and where a rank dies or calls exit.
    The function, its arguments and its results travel by cloudpickle, so closures and lambdas may.
    """
    from hora import calling

    where = {"context": context, "namespace": namespace}
    return calling.call(function, arguments, workers, on, echo, dict(keys), where)


__all__ = [
    "Event",
    "Following",
    "Job",
    "Line",
    "Loaded",
    "Overrides",
    "Run",
    "call",
    "get_run",
    "list_runs",
    "submit",
]
