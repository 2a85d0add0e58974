"""Names, labels and paths that everything on the cluster shares."""

from __future__ import annotations

import base64
import json

from hora import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DOMAIN = "hora.dev"
RUN = f"{DOMAIN}/run"
JOB = f"{DOMAIN}/job"
ROLE = f"{DOMAIN}/role"
ABOUT = f"{DOMAIN}/about"  # annotation of the lead's Job: what `hora ps` tells of a run
MANAGED = "app.kubernetes.io/managed-by"
HORA = "hora"
LEAD = "lead"  # the role of Hora's own pod, and its container's name
MEMBER = "member"  # a member's container's name
CLIENT = "client"  # whose part of the identity clients read

PORT = 7777  # of the lead, for agents and for clients; the next one hands out the agent
LONGEST_VALUE = 120_000  # bytes of one environment variable: Linux takes 128 KiB

VERDICT = (
    1  # the lead's exit code when the run has not succeeded; any other means that the lead itself failed
)
GAVE_UP = 3  # a member's exit code when it has found no lead for too long

NOT_FOUND = 404  # the API's answer for what isn't there

PRIVILEGED = "privileged"  # the Pod Security level that allows everything
ALL_RUNS = f"{MANAGED}={HORA},{ROLE}={LEAD}"  # selects the leads' Jobs and pods


def labels(run: str, job: str, role: str | None = None) -> dict[str, str]:
    found = {MANAGED: HORA, RUN: run, JOB: job}
    if role is not None:
        found[ROLE] = role
    return found


def selector(run: str, role: str | None = None) -> str:
    return f"{RUN}={run}" + (f",{ROLE}={role}" if role else "")


def base(job: str, run: str) -> str:
    """Name of the lead's Job, its Service, the Secret, ...: one name, several kinds."""
    return names.object_name(job, run)


def role_job(job: str, run: str, role: str) -> str:
    return names.object_name(job, run, role)


def peers_service(job: str, run: str) -> str:
    """The headless Service that gives members their names in DNS."""
    return names.object_name(job, run, "net")


def literal(text: str) -> str:
    """A value that Kubernetes leaves as it is: it would read $(NAME) as another variable's value."""
    return text.replace("$(", "$$(")


def pieces(data: bytes) -> list[str]:
    """As texts that each fit a variable."""
    text = base64.b64encode(data).decode("ascii")
    return [text[at : at + LONGEST_VALUE] for at in range(0, len(text), LONGEST_VALUE)]


def compact(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
