"""Reading what the API wrote: times, events, and which pod speaks for which member."""

from __future__ import annotations

import calendar
import re

from hora.agent.lead.sentences import plain
from hora.names import RUN_LENGTH
from hora.places.kubernetes import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hora.places.kubernetes.why.kinds import Object, Seen

INDEX = "batch.kubernetes.io/job-completion-index"
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d+)?")


def moment(text: object) -> float | None:
    """Seconds, from 2026-11-19T20:48:15.123456Z."""
    match = _TIME.match(text) if isinstance(text, str) else None
    if match is None:
        return None
    numbers = tuple(int(part) for part in match.groups()[:6])
    return calendar.timegm((*numbers, 0, 0, 0)) + float(match[7] or 0)


def created(item: Object) -> float:
    return moment(item.get("metadata", {}).get("creationTimestamp")) or 0.0


def happened(event: Object) -> float:
    """The newest of an event's times: which of them are there depends on who wrote it (fact 24)."""
    series = event.get("series") or {}
    times = [event.get("eventTime"), event.get("lastTimestamp"), event.get("firstTimestamp")]
    found = [moment(text) for text in [*times, series.get("lastObservedTime")]]
    return max((time for time in found if time is not None), default=created(event))


def short(message: object, most: int = 240) -> str:
    """Somebody else's words, fit to stand in our sentence."""
    text = plain(" ".join(str(message or "").split())).rstrip(". ")
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


class Events:
    """Those of each object, the newest first."""

    def __init__(self, events: Iterable[Object]) -> None:
        self._by_name: dict[tuple[str, str], list[Object]] = {}
        for event in sorted(events, key=happened, reverse=True):
            about = event.get("involvedObject") or {}
            self._by_name.setdefault((about.get("kind", ""), about.get("name", "")), []).append(event)

    def of(self, kind: str, item: Object) -> list[Object]:
        """An object of the same name that is gone has another uid."""
        name, uid = item["metadata"].get("name", ""), item["metadata"].get("uid")
        found = self._by_name.get((kind, name), [])
        return [each for each in found if (each["involvedObject"].get("uid") or uid) in (None, uid)]

    def named(self, kind: str, prefix: str) -> list[Object]:
        found = [
            event
            for (what, name), events in self._by_name.items()
            if what == kind and name.startswith(prefix)
            for event in events
        ]
        return sorted(found, key=happened, reverse=True)


def newest(events: Sequence[Object], *reasons: str) -> Object | None:
    return next((event for event in events if event.get("reason") in reasons), None)


# --- whose -------------------------------------------------------------------------------------------


def ours(seen: Seen, base: str, items: Sequence[Object]) -> list[Object]:
    """Those of this run, whatever else was listed."""
    run = base[-RUN_LENGTH:]
    return [item for item in items if label(item, words.RUN) in ("", run)]


def label(item: Object, name: str) -> str:
    return str((item.get("metadata", {}).get("labels") or {}).get(name, ""))


def role(item: Object) -> str:
    return label(item, words.ROLE)


def member(pod: Object) -> str:
    """lead, or worker-3."""
    whose = role(pod)
    if whose == words.LEAD:
        return words.LEAD
    metadata = pod.get("metadata", {})
    index = (metadata.get("annotations") or {}).get(INDEX) or label(pod, INDEX)
    return f"{whose}-{index}"


def members_of(job: Object) -> list[str]:
    whose = role(job)
    if whose == words.LEAD:
        return [words.LEAD]
    return [f"{whose}-{index}" for index in range(job.get("spec", {}).get("completions") or 0)]


def by_member(pods: Iterable[Object]) -> dict[str, list[Object]]:
    """Each member's pods, the newest first."""
    found: dict[str, list[Object]] = {}
    for pod in sorted(pods, key=lambda each: (created(each), each["metadata"].get("name", "")), reverse=True):
        found.setdefault(member(pod), []).append(pod)
    return found


# --- parts of an object ------------------------------------------------------------------------------


def condition(item: Object, kind: str) -> Object:
    conditions = (item.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == kind), {})


def holds(item: Object, kind: str) -> bool:
    return condition(item, kind).get("status") == "True"


def phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def node(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def at_node(pod: Object) -> str:
    return f"the node {node(pod)}" if node(pod) else "its node"


def statuses(pod: Object, kind: str = "containerStatuses") -> list[Object]:
    return list((pod.get("status") or {}).get(kind) or ())


def container(pod: Object, name: str) -> Object:
    spec = pod.get("spec") or {}
    everything = [*spec.get("initContainers", ()), *spec.get("containers", ())]
    return next((each for each in everything if each.get("name") == name), {})


def namespace(item: Object) -> str:
    return str(item.get("metadata", {}).get("namespace") or "default")


def whose_container(name: str) -> str:
    """Said where it isn't Hora's own."""
    return "" if name in (words.LEAD, words.MEMBER) else f"the container {name}: "
