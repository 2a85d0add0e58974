"""Objects of a run as Kubernetes 1.34 with containerd writes them, in short."""

from __future__ import annotations

import datetime
from typing import Any

from hora.places.kubernetes import words
from hora.places.kubernetes.why import Cause, Seen, causes

NOW = 1_795_000_000.0  # 2026-11-18T10:13:20Z
RUN = "k7x2m"
BASE = f"digits-{RUN}"
IMAGE = "registry.example.org/team/train:1.4"
Object = dict[str, Any]


def at(ago: float) -> str:
    return datetime.datetime.fromtimestamp(NOW - ago, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def job(role: str = "worker", members: int = 4, ago: float = 60, **rest: Any) -> Object:
    name = BASE if role == "lead" else f"{BASE}-{role}"
    labels = {words.RUN: RUN, words.ROLE: role, **rest.pop("labels", {})}
    spec: Object = {"template": {"spec": rest.pop("pod", {})}, **rest.pop("spec", {})}
    if role != "lead":
        spec |= {"completions": members, "parallelism": members, "completionMode": "Indexed"}
    status = {"startTime": at(ago), "active": 0, **rest.pop("status", {})}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "labels": labels,
                     "creationTimestamp": at(ago)},
        "spec": spec, "status": status,
    }  # fmt: skip


LEAD = job("lead")


def pod(index: int = 0, role: str = "worker", ago: float = 50, node: str = "", **rest: Any) -> Object:
    own = words.LEAD if role == "lead" else words.MEMBER
    name = rest.pop("name", f"{BASE}-abcde" if role == "lead" else f"{BASE}-{role}-{index}-abcde")
    container = {"name": own, "image": rest.pop("image", IMAGE), "resources": rest.pop("resources", {})}
    spec: Object = {"containers": [container], "schedulerName": "default-scheduler", **rest.pop("spec", {})}
    status = {"phase": "Pending", "conditions": rest.pop("conditions", []), **rest.pop("status", {})}
    if node:
        spec["nodeName"] = node
        status["conditions"] = [
            *status["conditions"],
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(ago)},
        ]
    if "state" in rest:
        status["containerStatuses"] = [{"name": own, "image": container["image"], "state": rest.pop("state")}]
    annotations = {} if role == "lead" else {"batch.kubernetes.io/job-completion-index": str(index)}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}",
                     "labels": {words.RUN: RUN, words.ROLE: role}, "annotations": annotations,
                     "creationTimestamp": at(ago), **rest.pop("metadata", {})},
        "spec": spec, "status": status,
    }  # fmt: skip


def running(index: int = 0, role: str = "worker", **rest: Any) -> Object:
    conditions = [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}]
    rest = {"node": "node-a", "conditions": conditions, **rest}
    return pod(index, role, status={"phase": "Running"}, state={"running": {"startedAt": at(10)}}, **rest)


def waiting(reason: str, message: str = "", index: int = 0, **rest: Any) -> Object:
    state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    return pod(index, node="node-a", state=state, **rest)


def ended(index: int = 0, **terminated: Any) -> Object:
    rest = {
        key: terminated.pop(key) for key in ("role", "resources", "image", "ago", "name") if key in terminated
    }
    state = {"terminated": {"exitCode": 1, "reason": "Error", **terminated}}
    return pod(index, node="node-a", status={"phase": "Failed"}, state=state, **rest)


def unscheduled(message: str, index: int = 0, **rest: Any) -> Object:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod(index, conditions=[condition], **rest)


def event(about: Object, reason: str, message: str, ago: float = 5, kind: str = "Pod", **rest: Any) -> Object:
    metadata = about["metadata"]
    involved = {"kind": kind, "name": metadata["name"], "uid": metadata["uid"], "namespace": "team"}
    return {
        "metadata": {"name": f"{metadata['name']}.1", "creationTimestamp": at(ago)},
        "involvedObject": involved, "reason": reason, "message": message, "type": "Warning",
        "firstTimestamp": at(ago), "lastTimestamp": at(ago), "eventTime": None, **rest,
    }  # fmt: skip


def create_failed(message: str, about: Object | None = None, ago: float = 5) -> Object:
    return event(about or job(), "FailedCreate", f"Error creating: {message}", ago, "Job")


def node(name: str = "node-a", ready: str = "True", taints: list[Object] | None = None) -> Object:
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": at(40)}]
    return {
        "metadata": {"name": name},
        "spec": {"taints": taints or []},
        "status": {"conditions": conditions},
    }


def told(*pods: Object, jobs: tuple[Object, ...] = (LEAD, job()), **rest: Any) -> tuple[Cause, ...]:
    """Of 4 members those that aren't given run; nothing is missing."""
    there = {
        (
            p["metadata"]["labels"][words.ROLE],
            p["metadata"]["annotations"].get("batch.kubernetes.io/job-completion-index", ""),
        )
        for p in pods
    }
    others = [running(index) for index in range(4) if ("worker", str(index)) not in there]
    lead = [] if ("lead", "") in there else [running(role="lead")]
    fill = [] if rest.pop("alone", False) else [*lead, *others]
    return causes(Seen(jobs=jobs, pods=(*pods, *fill), now=NOW, **rest), BASE)


def one(*pods: Object, **rest: Any) -> Cause:
    (cause,) = told(*pods, **rest)
    return cause
