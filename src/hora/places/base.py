"""What every place offers.  One conformance suite runs over all of them."""

from __future__ import annotations

from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from hora.places.connection import Connection
    from hora.plan import LaunchPlan
    from hora.spec import JobSpec
    from hora.state import RunStatus
else:
    Protocol = object


class Submission(Record):
    """A job, ready to be run."""

    spec: JobSpec
    plan: LaunchPlan
    notes: tuple[str, ...] = ()
    attached: bool = True  # the run ends when the client that submits it goes away (where the place says so)


class Chunk(Record):
    """Bytes that one rank wrote; `dropped` bytes were lost to the limit `output` before it."""

    number: int  # place in the run's output: go on from number + 1
    label: str
    time: float
    attempt: int
    data: bytes
    dropped: int = 0


class Place(Protocol):
    name: str

    def remarks(self, spec: JobSpec) -> tuple[str, ...]:
        """What the place leaves out of such a job; UsageError, in one sentence, for what it can't do at all."""

    def render(self, submission: Submission) -> str:
        """What `submit` would make, as text."""

    def submit(self, submission: Submission) -> tuple[str, Connection | None]:
        """Start the run; returns its id and, when attached, the owner's connection to its lead."""

    def find(self, name: str) -> str:
        """The id of the run that `name` (an id, its beginning, or a job's name: the newest) means."""

    def list(self) -> list[RunStatus]:
        """All runs that this place still knows, oldest first."""

    def status(self, run: str) -> RunStatus:
        """The state of a run now, or how it ended."""

    def attach(self, run: str) -> Connection:
        """A connection to the run's lead; LeadGone when it has ended."""

    def history(self, run: str, start: int = 0) -> Iterator[Chunk]:
        """The output that is kept, without the lead's help."""

    def results(self, run: str) -> dict[str, bytes]:
        """What the ranks left as results, by label."""

    def delete(self, run: str) -> None:
        """Forget an ended run and all that is kept of it."""
