"""Why a member isn't there, from its pods: the newest one speaks, the one before it only while that waits."""

from __future__ import annotations

from hora.places.kubernetes import words
from hora.places.kubernetes.why import containers, ends, images, mounts, objects, scheduling
from hora.places.kubernetes.why.kinds import SINCE, Reason
from hora.places.kubernetes.why.objects import node, phase, statuses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hora.places.kubernetes.why.kinds import Object, Seen
    from hora.places.kubernetes.why.objects import Events

QUIET = 15.0  # seconds that a node may take to make a container before it is worth a word


def reasons(pods: Sequence[Object], seen: Seen, events: Events, base: str) -> Iterator[Reason]:
    """Of one member; `pods` newest first."""
    pod = pods[0]
    own = events.of("Pod", pod)
    found = _alive(pod, seen, own) if _runs(pod) else _not_running(pod, seen, events, base)
    if found is not None:
        yield found
    if phase(pod) == "Pending" and not _runs(pod) and len(pods) > 1:
        before = _gone(pods[1])
        if before is not None:
            yield before


def _runs(pod: Object) -> bool:
    """Hora's own container runs: what others wait for is over."""
    mine = [each for each in statuses(pod) if each.get("name") in (words.LEAD, words.MEMBER)]
    return phase(pod) == "Running" and all("running" in (each.get("state") or {}) for each in mine)


def _alive(pod: Object, seen: Seen, events: Sequence[Object]) -> Reason | None:
    return _deleted(pod, seen) or ends.unreachable(pod, seen, events)


def _deleted(pod: Object, seen: Seen) -> Reason | None:
    going = ends.ending(pod, seen)
    if going is not None and going.kind == "ending":
        return ends.taken(pod) or going
    return going


def _not_running(pod: Object, seen: Seen, events: Events, base: str) -> Reason | None:
    own = events.of("Pod", pod)
    if phase(pod) == "Succeeded":
        return None
    if phase(pod) == "Failed":
        return _gone(pod)
    found = _deleted(pod, seen) or ends.unreachable(pod, seen, own) or ends.taken(pod)
    if found is not None:
        return found
    if not node(pod):
        return scheduling.without_node(pod, seen, events)
    return _on_node(pod, own, seen, base)


def _gone(pod: Object) -> Reason | None:
    """How a pod that failed did so."""
    taken = ends.taken(pod)
    if taken is not None:
        return taken
    for status in [*statuses(pod, "initContainerStatuses"), *_mine_first(pod)]:
        found = containers.ended(pod, status)
        if found is not None:
            return found
    return None


def _mine_first(pod: Object) -> list[Object]:
    return sorted(statuses(pod), key=lambda each: each.get("name") not in (words.LEAD, words.MEMBER))


def _on_node(pod: Object, own: Sequence[Object], seen: Seen, base: str) -> Reason | None:
    held = containers.init(pod, own, base)
    if held is not None:
        return held
    for status in _mine_first(pod):
        found = containers.waiting(pod, status, own, base) or containers.ended(pod, status)
        if found is not None:
            return found
    held = mounts.held_up(pod, own, base)
    if held is not None:
        return held
    for status in _mine_first(pod) or [{"name": words.MEMBER}]:
        found = images.pulling(containers.image_of(pod, status), own)
        if found is not None:
            return found
    return _starting(pod, seen)


def _starting(pod: Object, seen: Seen) -> Reason | None:
    """Without a right to events this is all there is to tell."""
    since = objects.moment(objects.condition(pod, "PodScheduled").get("lastTransitionTime"))
    if since is None or since + QUIET > seen.now:
        return None
    what = f"{objects.at_node(pod)} is making its container{SINCE}: it pulls the image or mounts volumes"
    return Reason("starting", what, "wait; a large image takes minutes on each new node", since=since)
