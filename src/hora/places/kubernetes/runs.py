"""What a run is, as far as its objects tell: without its lead's help, and after the lead has gone."""

from __future__ import annotations

import datetime
import json

from hora import state
from hora.errors import EXIT_HORA
from hora.places.kubernetes import words
from hora.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Object = dict[str, Any]

ABOUT_TO_BEGIN = "its lead is about to begin"
YOUNG = 10.0  # seconds of a pod's life in which the API may not know yet what became of it
NO_VERDICT = "how it ended is not known: its lead's pod is gone, and the verdict with it"


class Known(Record):
    """A run by its lead's Job."""

    run: str
    name: str  # of the job
    base: str  # of the lead's Job, its Secret, its Service
    created_at: float
    members: tuple[tuple[str, int], ...]  # replicas by role
    command: tuple[str, ...]
    framework: str
    job: str  # the Job itself, as JSON


def known(job: Object) -> Known | None:
    """None for a Job that only looks like ours."""
    metadata = job["metadata"]
    try:
        about = json.loads(metadata["annotations"][words.ABOUT])
        return Known(
            run=about["id"],
            name=about["name"],
            base=metadata["name"],
            created_at=about["createdAt"] or _moment(metadata["creationTimestamp"]) or 0.0,
            members=tuple(about["members"].items()),
            command=tuple(about["command"]),
            framework=about["framework"],
            job=json.dumps(job),
        )
    except (KeyError, TypeError, ValueError):
        return None


def ended(job: Object) -> str | None:
    """The condition that ended the Job, `Complete` or `Failed`; None while it goes on."""
    for condition in job.get("status", {}).get("conditions", ()):
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return str(condition["type"])
    return None


def verdict(pods: Sequence[Object]) -> state.RunStatus | None:
    """What the lead left as its last word; of several pods the newest one that has left any."""
    for pod in reversed(pods):
        for container in pod.get("status", {}).get("containerStatuses", ()):
            told = container.get("state", {}).get("terminated") or {}
            found = _status_in(told.get("message", ""))
            if found is not None:
                return found
    return None


def _status_in(text: str) -> state.RunStatus | None:
    if not text.startswith("{"):
        return None
    try:
        return state.RunStatus.from_json(json.loads(text))
    except (ValueError, KeyError, TypeError):
        return None


def status(run: Known, pods: Sequence[Object]) -> state.RunStatus:
    """As far as it is known without asking the lead."""
    begun = state.RunStatus(
        id=run.run,
        name=run.name,
        place="kubernetes",
        phase=state.QUEUED,
        reason=ABOUT_TO_BEGIN,
        created_at=run.created_at,
        framework=run.framework,
        command=run.command,
        members=tuple(
            state.MemberState(f"{role}-{number}", None, "waiting")
            for role, replicas in run.members
            for number in range(replicas)
        ),
    )
    told = verdict(pods)
    if told is not None:
        return told if told.members else replace(told, members=begun.members)
    job = json.loads(run.job)
    how = ended(job)
    if how is None:
        return begun
    why = next((c.get("message", "") for c in job["status"]["conditions"] if c["type"] == how), "")
    return replace(
        begun,
        phase=state.FAILED,
        reason=NO_VERDICT + (f" ({why})" if why and how == "Failed" else ""),
        exit_code=EXIT_HORA,
        origin=state.ORIGIN_HORA,
        ended_at=_moment(job["status"].get("completionTime")),
    )


def unsettled(pods: Sequence[Object], now: float) -> bool:
    """Whether the newest pod may have ended without the API knowing: it looks once a second, or is told late."""
    if not pods:
        return False
    told = pods[-1].get("status", {})
    if told.get("phase") not in ("Pending", "Running"):
        return False
    containers = told.get("containerStatuses", ())
    if any("running" in container.get("state", {}) for container in containers):
        return True
    waits = [container.get("state", {}).get("waiting", {}).get("reason") for container in containers]
    if any(reason not in (None, "ContainerCreating", "PodInitializing") for reason in waits):
        return False  # it waits for what it says
    began = _moment(pods[-1]["metadata"]["creationTimestamp"]) or now
    return now - began < YOUNG


def _moment(text: str | None) -> float | None:
    if not text:
        return None
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
