"""What every place offers.  One conformance suite runs over all of them."""

from __future__ import annotations

from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    from hora.places.code import Packed
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


class Watch(Protocol):
    def close(self) -> None: ...


class Place(Protocol):
    """Made with the options that it names: which cluster, which namespace."""

    name: str
    options: tuple[str, ...]
    same_disk: bool  # ranks see the caller's files

    @property
    def whereabouts(self) -> dict[str, str]:
        """The options that lead here again; nothing where runs are found without being remembered."""

    def remarks(self, spec: JobSpec) -> tuple[str, ...]:
        """What the place leaves out of such a job; UsageError, in one sentence, for what it can't do at all."""

    def render(self, submission: Submission, whole: bool = False) -> str:
        """What `submit` would make, as text; `whole`: also the certificates and secrets of the run."""

    def submit(self, submission: Submission) -> tuple[str, Connection | None]:
        """Start the run; returns its id and, when attached and the run ends with its owner, the owner's
        connection to its lead."""

    def find(self, name: str) -> str:
        """The id of the run that `name` (an id, its beginning, or a job's name: the newest) means."""

    def list(self) -> list[RunStatus]:
        """All runs that this place still knows, oldest first."""

    def status(self, run: str) -> RunStatus:
        """The state of a run now, or how it ended."""

    def explained(self, status: RunStatus) -> RunStatus:
        """The same state of a run that goes on, with what the place itself knows of what the run waits for."""

    def watch(self, run: str, changed: Callable[[], None]) -> Watch | None:
        """From now on `explained` and `status` answer from what is watched; `changed` is called when there is
        more, from another thread.  None where the lead knows all there is to know."""

    def hopeless(self, status: RunStatus) -> str:
        """Why a run that waits will never begin; empty while it may."""

    def stuck(self, status: RunStatus) -> bool:
        """Whether a run that has no lead yet waits for more than its turn."""

    def give_up(self, run: str) -> None:
        """Take back a run that will never begin and whose lead can't be asked to end."""

    def attach(self, run: str) -> Connection:
        """A connection to the run's lead; LeadGone when it has ended or can't be reached just now."""

    def history(self, run: str, start: int = 0) -> Iterator[Chunk]:
        """The output that is kept, without the lead's help."""

    def results(self, run: str) -> dict[str, bytes]:
        """What the ranks left as results, by label."""

    def fresh_code(self, run: str, folder: str | None) -> Packed | str:
        """What `hora sync` brings: the archive of `folder`, or of the folder that the run's code came from; the
        folder itself where code is used in place (empty: the one that is used already)."""

    def delete(self, run: str) -> None:
        """Forget an ended run and all that is kept of it."""
