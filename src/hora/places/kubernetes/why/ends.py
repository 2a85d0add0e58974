"""How a pod was taken away: evicted, preempted, its node drained, shut down or lost."""

from __future__ import annotations

import re

from hora.places.kubernetes.why import objects
from hora.places.kubernetes.why.kinds import SINCE, Reason
from hora.places.kubernetes.why.objects import at_node, condition, holds, moment, node, phase, short, statuses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hora.places.kubernetes.why.kinds import Object, Seen

OVERDUE = 30.0  # seconds that a pod may take to vanish after its grace
_AGAIN = "it is made again where there is room"
_OTHER_NODES = "or choose other nodes (placement.nodeSelector)"


def taken(pod: Object) -> Reason | None:
    """From the pod's status and its condition DisruptionTarget."""
    status = pod.get("status") or {}
    why = str(status.get("reason") or "")
    disruption = condition(pod, "DisruptionTarget")
    how = str(disruption.get("reason") or "") if disruption.get("status") == "True" else ""
    message = str(status.get("message") or disruption.get("message") or "")
    if why == "NodeLost":
        return lost(pod)
    if why == "Evicted":
        return evicted(pod, message)
    if why in ("Terminated", "NodeShutdown", "Shutdown") or "node shutdown" in message:
        return Reason("node-shutdown", f"{at_node(pod)} was shut down", _AGAIN)
    if why == "Preempting" or "admit critical pod" in message:
        what = f"{at_node(pod)} needed its place for a pod of the cluster's own"
        return Reason("preempted", what, _AGAIN)
    if how in _DISRUPTIONS:
        kind, what, step = _DISRUPTIONS[how]
        return Reason(kind, what.replace("{node}", at_node(pod)), step)
    return evicted(pod, message) if how == "TerminationByKubelet" else _rejected(pod, why, message)


_DISRUPTIONS = {
    "PreemptionByScheduler": (
        "preempted", "it was evicted to make room for a pod with a higher priority",
        f"{_AGAIN}; placement.priorityClass gives the job a higher one",
    ),
    "EvictionByEvictionAPI": (
        "drained", "it was evicted from {node}, as when somebody drains that node", _AGAIN,
    ),
    "DeletionByTaintManager": (
        "evicted-taint", "it was evicted: {node} got a taint, as one that is lost or in maintenance does",
        f"{_AGAIN}; placement.tolerations lets it stay longer",
    ),
    "DeletionByPodGC": ("node-gone", "{node} no longer exists", _AGAIN),
}  # fmt: skip


def evicted(pod: Object, message: str) -> Reason:
    low = re.search(r"low on resource: ([\w.-]+)", message)
    resource = low[1].rstrip(".") if low else ""
    if resource == "memory":
        used = re.search(r"was using (\S+), request is (\S+),", message)
        numbers = f" (it used {used[1]} and had asked for {used[2]})" if used else ""
        what = f"{at_node(pod)} ran out of memory, so it was evicted{numbers}"
        return Reason("evicted-memory", what, "ask for what it uses: resources.memory")
    volume = re.search(r'Usage of EmptyDir volume "([^"]+)" exceeds the limit "([^"]+)"', message)
    if volume:
        return _outgrown(volume[1], volume[2])
    if "ephemeral" in message and "exceed" in message:
        limit = re.search(r'limit "([^"]+)"|containers (\S+?)\. ?$', message)
        most = f" of {limit[1] or limit[2]}" if limit else ""
        step = "write to a volume, or raise the limit on ephemeral-storage (kubernetes.podPatch, LimitRange)"
        return Reason(
            "evicted-disk", f"it wrote more to its local disk than its limit{most}, and was evicted", step
        )
    if resource or "DiskPressure" in message:
        what = f"{at_node(pod)} ran out of {_RESOURCES.get(resource, 'local disk')}, so it was evicted"
        return Reason(
            "evicted-disk", what, f"write to a volume rather than to the image's folders, {_OTHER_NODES}"
        )
    detail = f": {short(message, 160)}" if message else ""
    return Reason("evicted", f"{at_node(pod)} evicted it{detail}", _AGAIN)


_RESOURCES = {"pids": "process numbers", "inodes": "inodes on its local disk"}


def _outgrown(volume: str, limit: str) -> Reason:
    if volume == "shm":
        return Reason(
            "evicted-volume",
            f"it put more than {limit} into /dev/shm, and was evicted",
            "raise resources.shm",
        )
    what = f"it put more than {limit} into a scratch or memory volume, and was evicted"
    return Reason("evicted-volume", what, "raise that size in volumes")


def _rejected(pod: Object, why: str, message: str) -> Reason | None:
    """Between the scheduler and the kubelet something took its place: the Job makes another pod."""
    known = (
        "NodeAffinity",
        "UnexpectedAdmissionError",
        "TopologyAffinityError",
        "SysctlForbidden",
        "AppArmor",
    )
    if not (why.startswith("OutOf") or why in known):
        return None
    lacking = re.match(r"OutOf(\S+)", why)
    detail = f"it has too little {lacking[1]} left" if lacking else short(message or why, 160)
    return Reason("node-refused", f"{at_node(pod)} refused it: {detail}", _AGAIN)


# --- lost nodes --------------------------------------------------------------------------------------


def lost(pod: Object, since: float | None = None) -> Reason:
    what = f"{at_node(pod)} doesn't answer any more{SINCE if since else ''}"
    run = f"-l hora.dev/run={objects.label(pod, 'hora.dev/run')} -n {objects.namespace(pod)}"
    step = (
        "ask who runs the cluster; to have it made again elsewhere at once: kubectl delete pod --force "
        f"{run} --field-selector spec.nodeName={node(pod)}"
    )
    return Reason("node-lost", what, step, since=since)


def unreachable(pod: Object, seen: Seen, events: Sequence[Object]) -> Reason | None:
    """A pod whose node is gone looks alive for five minutes: it is its node that tells."""
    if phase(pod) == "Unknown":
        return lost(pod)
    if not node(pod) or phase(pod) not in ("Running", "Pending"):
        return None
    found = next((each for each in seen.nodes if each["metadata"].get("name") == node(pod)), None)
    if found is not None:
        ready = condition(found, "Ready")
        return (
            None
            if ready.get("status", "True") == "True"
            else lost(pod, moment(ready.get("lastTransitionTime")))
        )
    if seen.nodes:
        return Reason("node-gone", f"{at_node(pod)} no longer exists", _AGAIN)
    # Nothing of ours has a readiness probe, so only the control plane takes readiness from a running pod.
    ready = condition(pod, "Ready")
    gates = (pod.get("spec") or {}).get("readinessGates")
    running = all("running" in (each.get("state") or {}) for each in statuses(pod)) and statuses(pod)
    if running and not gates and ready.get("status") == "False" and holds(pod, "ContainersReady"):
        return lost(pod, moment(ready.get("lastTransitionTime")))
    told = objects.newest(events, "NodeNotReady")
    if told is not None and ready.get("status") == "False" and running:
        return lost(pod, objects.happened(told))
    return None


def ending(pod: Object, seen: Seen) -> Reason | None:
    until = moment(pod["metadata"].get("deletionTimestamp"))
    if until is None:
        return None
    if until + OVERDUE < seen.now:
        return lost(pod, until)
    return Reason("ending", "its pod is being deleted; another one is made when it is gone", "wait")
