"""What a cause is, and the one table of all kinds."""

from __future__ import annotations

from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Object = dict[str, Any]

# Every kind, the gravest and most specific first: the order in which causes are told.
KINDS = {
    "pod-security": "the namespace's Pod Security level forbids such pods",
    "image-name": "not the name of an image",
    "image-arch": "the image is for another kind of machine",
    "no-python": "the image has no Python",
    "command-missing": "the image lacks what is to be started",
    "not-executable": "what is to be started may not be executed",
    "workdir": "the working folder can't be entered",
    "user-root": "the image runs as root, and the pod must not",
    "user-name": "the user's number isn't known",
    "limit-range": "the namespace's LimitRange forbids such pods",
    "quota-needs": "the namespace's quota wants a number that the job doesn't give",
    "webhook-denied": "a rule of the cluster forbids such pods",
    "invalid": "the cluster calls a field wrong",
    "too-large": "more than the cluster takes",
    "rights": "the caller may not do that",
    "login": "the cluster doesn't accept the caller's login",
    "namespace-missing": "no such namespace",
    "namespace-ending": "the namespace is being deleted",
    "deadline": "the Job's own time is over",
    "job-failed": "the Job gave up",
    "secret-missing": "no such Secret",
    "secret-key": "no such key in the Secret",
    "configmap-missing": "no such ConfigMap",
    "configmap-key": "no such key in the ConfigMap",
    "claim-missing": "no such claim",
    "service-account": "no such service account",
    "priority-class": "no such PriorityClass",
    "runtime-class": "no such RuntimeClass",
    "image-denied": "the registry wants a login, or has no such image",
    "image-not-found": "the registry has no such image",
    "image-never": "the image isn't on the node and may not be pulled",
    "image-tls": "the registry's certificate isn't trusted",
    "image-dns": "the registry's name isn't known",
    "image-unreachable": "the registry doesn't answer",
    "image-rate-limit": "the registry gives no more for now",
    "image-signature": "the image's signature isn't accepted",
    "image-failed": "the image can't be pulled, for another reason",
    "oom": "out of memory",
    "evicted-memory": "the node ran out of memory",
    "evicted-disk": "the node's disk, or the pod's share of it, is full",
    "evicted-volume": "a volume outgrew its size",
    "preempted": "made room for a pod of higher priority",
    "drained": "evicted through the API, as when a node is drained",
    "evicted-taint": "the node got a taint",
    "node-shutdown": "the node was shut down",
    "evicted": "evicted for another reason",
    "node-lost": "the node doesn't answer",
    "node-gone": "the node no longer exists",
    "node-refused": "the node refused the pod",
    "init-failed": "an init container failed",
    "init-running": "an init container hasn't ended",
    "sub-path": "a volume's subPath can't be used",
    "claim-in-use": "a ReadWriteOnce claim is in use elsewhere",
    "csi-driver": "the node has no such CSI driver",
    "volume-mount": "a volume can't be mounted",
    "gpu-runtime": "the node can't give the container its GPU",
    "disk-full": "the node's disk is full",
    "sandbox": "the node can't make the pod's sandbox or network",
    "container-config": "the container's settings can't be used",
    "container-start": "the container can't start, for another reason",
    "gpu": "too few GPUs free",
    "cpu": "too little CPU free",
    "memory": "too little memory free",
    "storage": "too little local disk free",
    "resource": "too little free of another resource",
    "selector": "no node has the labels asked for",
    "taint": "nodes have taints that the job doesn't tolerate",
    "claim-unbound": "a claim has no volume yet",
    "volume-node": "a volume can't be had on the nodes that are left",
    "affinity": "pod affinity or anti-affinity",
    "spread": "topology spread",
    "ports": "the host's ports are taken",
    "pods": "nodes hold no more pods",
    "unschedulable": "no node, for another reason",
    "no-nodes": "the cluster has no nodes",
    "no-scheduler": "no scheduler has looked at the pod",
    "quota": "the namespace's quota is used up",
    "webhook-down": "a rule of the cluster can't be asked",
    "refused": "the cluster refuses the pods, for another reason",
    "conflict": "something of that name is there already",
    "unavailable": "the API server can't answer now",
    "gave-up": "a member found no lead",
    "killed": "killed by signal 9",
    "container-ended": "the container ended early",
    "pod-missing": "pods are missing and nothing says why",
    "controller": "nothing has looked at the Job yet",
    "gated": "held back by scheduling gates",
    "queued": "waits in a queue",
    "suspended": "the Job is suspended",
    "ending": "the pod is being deleted",
    "image-pulling": "the image is being pulled",
    "starting": "the node makes the container",
}
PROGRESS = ("gated", "queued", "suspended", "ending", "image-pulling", "starting", "init-running")
_RANK = {kind: rank for rank, kind in enumerate(KINDS)}


class Cause(Record):
    who: str  # whom it concerns, folded: worker-0 … worker-3 (4 of 8 members); nobody for a refused request
    what: str  # what is wrong, where and why
    next: str  # the next step
    members: tuple[str, ...]
    kind: str  # one of KINDS
    final: bool = False  # waiting can't help

    @property
    def text(self) -> str:
        return f"{self.who}: {self.what}" if self.who else self.what

    @property
    def problem(self) -> bool:
        """False for what only takes its time."""
        return self.kind not in PROGRESS


class Seen(Record):
    """What the API told; what the caller may not see is empty."""

    jobs: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    events: tuple[Object, ...] = ()
    nodes: tuple[Object, ...] = ()
    claims: tuple[Object, ...] = ()
    quotas: tuple[Object, ...] = ()
    now: float = 0.0


class Reason(Record):
    """A cause before it is known whom it concerns."""

    kind: str
    what: str
    next: str
    final: bool = False
    since: float | None = None  # then SINCE in `what` becomes how long ago that was


class Finding(Record):
    member: str
    reason: Reason


SINCE = "\x00"


def rank(kind: str, final: bool) -> tuple[bool, int]:
    return (not final, _RANK[kind])
