"""What the cluster knows of a run that isn't whole yet, put into the run's own status."""

from __future__ import annotations

from hora import state
from hora.places.kubernetes import words
from hora.places.kubernetes.why import causes
from hora.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.places.kubernetes.why import Cause, Seen

WAITING = (state.QUEUED, state.GATHERING)


def explained(status: state.RunStatus, seen: Seen) -> state.RunStatus:
    """The gravest cause is the sentence; what each member waits for stands beside it."""
    if status.phase not in WAITING:
        return status
    found = causes(seen, words.base(status.name, status.id))
    if not found:
        return status
    notes = {member: cause.what for cause in reversed(found) for member in cause.members}
    members = tuple(replace(member, note=notes.get(member.name, member.note)) for member in status.members)
    return replace(status, reason=sentence(found[0]), members=members)


def sentence(cause: Cause) -> str:
    return f"{cause.text}; {cause.next}" if cause.next else cause.text


def hopeless(status: state.RunStatus, seen: Seen) -> str:
    """The first cause that waiting doesn't cure."""
    found = causes(seen, words.base(status.name, status.id))
    return next((sentence(cause) for cause in found if cause.final), "")
