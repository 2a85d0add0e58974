"""Why a Job has no pods, or ended: its conditions, its events, and the quotas where events may not be seen."""

from __future__ import annotations

import re

from hora.places.kubernetes import amounts, words
from hora.places.kubernetes.why import objects
from hora.places.kubernetes.why.admission import denied
from hora.places.kubernetes.why.containers import NO_LEAD
from hora.places.kubernetes.why.kinds import Reason
from hora.places.kubernetes.why.objects import condition, happened, holds, moment, role, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hora.places.kubernetes.why.kinds import Object, Seen
    from hora.places.kubernetes.why.objects import Events

LATE = 10.0  # seconds that controllers may take
QUEUE = "kueue.x-k8s.io/queue-name"


def over(job: Object) -> bool:
    return holds(job, "Complete") or holds(job, "Failed")


def failed(job: Object) -> Reason | None:
    """Of a Job that the cluster gave up; not of a run that ended without success, which its lead tells."""
    for kind in ("Failed", "FailureTarget"):
        found = condition(job, kind)
        if found.get("status") == "True":
            return _failed(job, str(found.get("reason", "")), str(found.get("message", "")))
    return None


def _failed(job: Object, reason: str, message: str) -> Reason | None:
    lead = role(job) == words.LEAD
    code = re.search(r"Container (\S+) for pod .*? failed with exit code (\d+)", message)
    if reason == "DeadlineExceeded":
        step = "raise timeouts.total, or activeDeadlineSeconds where a rule of the cluster sets it"
        return Reason("deadline", "its Job was stopped: it ran longer than its deadline", step, final=True)
    if reason == "PodFailurePolicy" and code:
        if lead and int(code[2]) == words.VERDICT:
            return None
        if int(code[2]) == words.GAVE_UP:
            return Reason("gave-up", "a member found no lead for too long, and gave up", NO_LEAD, final=True)
    if reason == "BackoffLimitExceeded":
        tries = job.get("spec", {}).get("backoffLimit")
        what = (
            f"its pod failed more than {tries} times, and the cluster tries no more"
            if tries
            else "its pods failed too often"
        )
        return Reason("job-failed", what, "see its last lines: `hora logs`", final=True)
    told = short(message) or reason or "the cluster doesn't say why"
    return Reason("job-failed", f"its Job failed: {told}", "see `hora logs`", final=True)


def waiting(job: Object, missing: Sequence[str], seen: Seen, events: Events) -> Reason | None:
    """Why these members have no pod."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    own = events.of("Job", job)
    if spec.get("suspend"):
        return _suspended(job, events)
    if not missing:
        return None
    refusal = objects.newest(own, "FailedCreate")
    made = objects.newest(own, "SuccessfulCreate")
    if refusal is not None and (made is None or happened(refusal) >= happened(made)):
        return refused(str(refusal.get("message", "")), role(job))
    if status.get("startTime") or objects.created(job) + LATE > seen.now:
        return None
    return Reason(
        "controller", "nothing in the cluster has looked at its Job yet", "ask who runs the cluster"
    )


def refused(message: str, whose: str) -> Reason:
    found = denied(message, whose)
    if found is not None:
        return found
    text = re.sub(r"^Error creating: (?:pods? )?", "", message)
    invalid = re.match(r'(?:Pod )?"[^"]+" is invalid: (.*)', text, re.DOTALL)
    if invalid:
        step = "correct that field, most likely in kubernetes.podPatch or placement"
        return Reason(
            "invalid",
            f"the cluster can't read its pods: {short(without_values(invalid[1]))}",
            step,
            final=True,
        )
    text = re.sub(r'^"[^"]+" is forbidden: ', "", text)
    return Reason("refused", f"the cluster refuses its pods: {short(text)}", "ask who runs the namespace")


def without_values(message: str) -> str:
    """A value may be a secret; what is wrong with it is not."""
    message = re.sub(r'Invalid value: (?:"(?:\\.|[^"\\])*"|\S+?): ', "", message)
    message = re.sub(r'Unsupported value: "(?:\\.|[^"\\])*": ', "unsupported value: ", message)
    return re.sub(r'Duplicate value: (?:"(?:\\.|[^"\\])*"|\{[^}]*\}|\S+)', "given twice", message)


def _suspended(job: Object, events: Events) -> Reason:
    queue = objects.label(job, QUEUE)
    if not queue:
        step = f'kubectl patch job {job["metadata"].get("name")} --type merge -p \'{{"spec": {{"suspend": false}}}}\''
        return Reason(
            "suspended", "its Job is suspended: somebody, or a queue of the cluster, holds it back", step
        )
    told = objects.newest(
        events.named("Workload", f"job-{job['metadata'].get('name')}-"),
        "Pending",
        "QuotaReserved",
        "Inadmissible",
    )
    why = (
        f": {short(told.get('message'))}"
        if told is not None and told.get("reason") != "QuotaReserved"
        else ""
    )
    step = f"wait; `kubectl get workloads` shows the queue {queue}"
    return Reason("queued", f"it waits in the queue {queue}{why}", step)


def silent(job: Object, missing: Sequence[str], seen: Seen) -> Reason | None:
    """No event tells, or none may be seen: a quota that is full is the likeliest cause."""
    since = moment((job.get("status") or {}).get("startTime"))
    if not missing or since is None or since + LATE > seen.now:
        return None
    spec = ((job.get("spec") or {}).get("template") or {}).get("spec") or {}
    for quota in seen.quotas:
        status = quota.get("status") or {}
        hard, used = amounts.millis(status.get("hard")), amounts.millis(status.get("used"))
        asked = {f"requests.{name}": value for name, value in amounts.of_pod(spec, "requests").items()}
        asked |= {f"limits.{name}": value for name, value in amounts.of_pod(spec, "limits").items()}
        asked |= {name: asked.get(f"requests.{name}", 0) for name in ("cpu", "memory")} | {"pods": 1000}
        for name, value in asked.items():
            if name in hard and value and used.get(name, 0) + value > hard[name]:
                return _full(quota["metadata"].get("name", ""), name, value, used.get(name, 0), hard[name])
    has = "it has" if len(missing) == 1 else "they have"
    step = (
        f"a pod that was deleted is made anew; else see `kubectl describe job {job['metadata'].get('name')}`"
    )
    return Reason("pod-missing", f"{has} no pod, and nothing says why", step)


def _full(quota: str, name: str, value: int, used: int, hard: int) -> Reason:
    message = (
        f"exceeded quota: {quota}, requested: {name}={value}m, used: {name}={used}m, limited: {name}={hard}m"
    )
    return refused(message, "")
