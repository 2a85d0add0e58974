"""Why a pod has no node, from the scheduler's words: 0/3 nodes are available: 1 Insufficient cpu, 2 node(s) …"""

from __future__ import annotations

import re

from hora.agent.lead.sentences import count, few
from hora.places.kubernetes import amounts
from hora.places.kubernetes.why import objects
from hora.places.kubernetes.why.kinds import Reason
from hora.places.kubernetes.why.objects import Events, condition, happened, short
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hora.places.kubernetes.why.kinds import Object, Seen

LATE = 10.0  # seconds after which somebody should have looked at a pod
GATES = (
    "ask whoever put the gates there, as a queue of the cluster; they are in the pod's spec.schedulingGates"
)


class Part(Record):
    """One of the scheduler's reasons: how many nodes it rules out, in our words, and what helps."""

    kind: str
    what: str
    next: str
    nodes: int = 0


def without_node(pod: Object, seen: Seen, events: Events) -> Reason | None:
    scheduled = condition(pod, "PodScheduled")
    reason, message = scheduled.get("reason"), str(scheduled.get("message", ""))
    if reason == "SchedulingGated" or (not scheduled and (pod.get("spec") or {}).get("schedulingGates")):
        gates = [str(gate.get("name")) for gate in pod["spec"].get("schedulingGates", ())]
        return Reason("gated", f"held back by {few(gates) or 'scheduling gates'}", GATES)
    if message:
        return explained(message, pod, seen, events)
    told = objects.newest(events.of("Pod", pod), "FailedScheduling")
    if told is not None:
        return explained(str(told.get("message", "")), pod, seen, events)
    if objects.created(pod) + LATE > seen.now:
        return None
    name = (pod.get("spec") or {}).get("schedulerName", "default-scheduler")
    step = "correct placement.scheduler" if name != "default-scheduler" else "ask who runs the cluster"
    return Reason(
        "no-scheduler", f"no scheduler has looked at it yet; it waits for the one named {name}", step
    )


def explained(message: str, pod: Object, seen: Seen, events: Events) -> Reason:
    match = re.match(r"0/(\d+) nodes are available: (.*)", message, re.DOTALL)
    if match is None:
        if message.startswith("no nodes available"):
            return Reason(
                "no-nodes", "the cluster has no nodes now", "wait for nodes, or ask who runs the cluster"
            )
        found = _part(message, 0, pod, seen, events)
        return Reason(found.kind, found.what, found.next)
    total = int(match[1])
    said = re.split(r"\. |\.$", match[2], maxsplit=1)[0]
    parts = [_counted(text, total, pod, seen, events) for text in re.split(r", (?=\d+ )", said) if text]
    return _together(total, [part for part in parts if part.kind], parts)


def _counted(text: str, total: int, pod: Object, seen: Seen, events: Events) -> Part:
    match = re.match(r"(\d+) (.*)", text, re.DOTALL)
    number, text = (int(match[1]), match[2]) if match else (total, text)
    return _part(text, number, pod, seen, events)


def _together(total: int, usable: Sequence[Part], parts: Sequence[Part]) -> Reason:
    """Nodes that could never serve (control plane, not ready) are named but give no advice if others do."""
    ranked = sorted(usable, key=lambda part: _ORDER.index(part.kind) if part.kind in _ORDER else len(_ORDER))
    first = ranked[0] if ranked else Part("unschedulable", "", "ask who runs the cluster for nodes")
    steps = list(dict.fromkeys(part.next for part in (ranked or [first])[:2]))
    if len(parts) == 1 and parts[0].nodes == total:
        only = parts[0]
        where = "the only node" if total == 1 else f"each of the {total} nodes"
        what = only.what if only.what.startswith(_OF_CLAIMS) else f"{where} {_conjugated(only.what, 1)}"
    else:
        first_those = sorted(parts, key=lambda part: ranked.index(part) if part in ranked else len(ranked))
        told = [f"{part.nodes} {_conjugated(part.what, part.nodes)}" for part in first_those]
        what = f"no node is free for it; of {count(total, 'node')} {', '.join(told)}"
    return Reason(first.kind, what, "; or ".join(steps))


def _conjugated(what: str, nodes: int) -> str:
    verb, _, rest = what.partition(" ")
    return f"{_SINGULAR.get(verb, verb)} {rest}" if nodes == 1 else what


_SINGULAR = {"have": "has", "lack": "lacks", "are": "is", "aren't": "isn't"}


# What is told first where nodes are ruled out for several reasons.
_ORDER = (
    "claim-missing", "claim-unbound", "claim-in-use", "gpu", "resource", "selector", "volume-node", "memory",
    "cpu", "storage", "affinity", "spread", "ports", "pods", "taint", "unschedulable",
)  # fmt: skip
_OF_CLAIMS = ("the claim", "a claim", "there is no claim")  # the scheduler looked at no node
_WAIT = "wait until other pods end"

# (kind, pattern, what, next); `what` follows "each of the 3 nodes" and "2".
_SAYS: tuple[tuple[str, str, str, str], ...] = (
    ("selector", r"didn't match Pod's node affinity|didn't match scheduler-enforced|requested node name|node selector",
     "lack what the job asks for{selector}", "correct placement.nodeSelector or placement.affinity"),
    ("volume-node", r"didn't match PersistentVolume's node affinity|had (?:no available volume zone|volume node aff)",
     "can't reach the volume of {claims}, which is bound to other nodes",
     "let the job run where that volume is (placement.nodeSelector), or take another claim in volumes"),
    ("claim-unbound", r"didn't find available persistent volumes|did not have enough free storage",
     "have no volume for {claims}", "see `kubectl describe pvc`, or take another claim in volumes"),
    ("claim-in-use", r"ReadWriteOncePod access mode already in-use",
     "can't mount {claims}: it is ReadWriteOncePod and another pod has it",
     "wait until that pod ends, or take a claim with ReadWriteMany"),
    ("volume-node", r"exceed max volume count", "have no place for another volume", f"{_WAIT}, or ask for nodes"),
    ("volume-node", r"bound to non-existent pv", "can't mount {claims}: the volume behind it is gone",
     "take another claim in volumes"),
    ("affinity", r"anti-affinity", "have pods that it must not be beside (anti-affinity)",
     "loosen placement.affinity, or ask for more nodes"),
    ("affinity", r"pod affinity", "lack pods that it must be beside (affinity)", "correct placement.affinity"),
    ("spread", r"topology spread", "would have too many of its pods (topology spread)",
     "loosen topologySpreadConstraints in kubernetes.podPatch"),
    ("ports", r"free ports", "have its host ports taken",
     "leave out network.host or the ports in kubernetes.podPatch, or ask for more nodes"),
    ("pods", r"Too many pods", "are full of pods", f"{_WAIT}, or ask for more nodes"),
    ("", r"were unschedulable", "are closed for new pods (cordoned)", "ask who runs the cluster when they open"),
    ("", r"unknown conditions|not-ready|unreachable", "aren't ready", "wait until they are"),
)  # fmt: skip


def _part(text: str, nodes: int, pod: Object, seen: Seen, events: Events) -> Part:
    lacking = re.match(r"Insufficient (\S+)", text)
    if lacking:
        return _lacking(lacking[1], nodes, pod)
    if "untolerated taint" in text or "had taints that the pod didn't tolerate" in text:
        return _tainted(text, nodes, pod, seen)
    claim = re.search(r'persistentvolumeclaim "([^"]+)" (not found|is being deleted|bound to)', text)
    if claim:
        return _claim(claim[1], claim[2], nodes)
    if "unbound immediate PersistentVolumeClaims" in text:
        return _unbound(nodes, pod, seen, events)
    for kind, pattern, what, step in _SAYS:
        if re.search(pattern, text):
            return Part(kind, _filled(what, nodes, pod), step, nodes)
    return Part("unschedulable", f"can't take it: {short(text)}", "ask who runs the cluster", nodes)


def _filled(what: str, nodes: int, pod: Object) -> str:
    selector = (pod.get("spec") or {}).get("nodeSelector") or {}
    labels = " and ".join(f"{key}={value}" for key, value in selector.items())
    what = what.replace("{selector}", f", the label {labels}" if labels else " (affinity)")
    return what.replace("{claims}", _claims(pod) or "its claim")


def claims_of(pod: Object) -> list[str]:
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return [each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each]


def _claims(pod: Object) -> str:
    names = claims_of(pod)
    return f"the claim {names[0]}" if len(names) == 1 else f"the claims {few(names)}" if names else ""


# --- parts that need more than a sentence ------------------------------------------------------------


def _lacking(resource: str, nodes: int, pod: Object) -> Part:
    kinds = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "storage"}
    kind = kinds.get(resource) or ("gpu" if resource.endswith("/gpu") else "resource")
    asked = amounts.of_pod(pod.get("spec") or {}, "requests").get(resource)
    needs = f" (it asks for {amounts.amount(asked, resource)})" if asked else ""
    little = "too few" if kind == "gpu" else "too little"
    what = f"have {little} {amounts.named(resource)} free{needs}"
    return Part(kind, what, f"lower {amounts.key(resource) or 'resources'}, or {_WAIT}", nodes)


_OF_THE_CLUSTER = ("node-role.kubernetes.io/", "node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


def _tainted(text: str, nodes: int, pod: Object, seen: Seen) -> Part:
    """Since 1.34 the scheduler doesn't name the taint: the nodes do, where they may be seen."""
    named = re.search(r"taint(?:\(s\))? \{([^:}]+): ?([^}]*)\}", text)
    taints = [named[1] + (f"={named[2]}" if named[2] else "")] if named else untolerated(pod, seen.nodes)
    other = [taint for taint in taints if not taint.startswith(_OF_THE_CLUSTER)]
    if taints and not other:
        if all("control-plane" in taint or "master" in taint for taint in taints):
            return Part("", "are for the control plane only", "ask for nodes that run work", nodes)
        return Part(
            "", f"aren't ready ({few(taints)})", "wait until they are, or ask who runs the cluster", nodes
        )
    what = f"have a taint that the job doesn't tolerate{': ' + few(other) if other else ''}"
    step = (
        f"placement.tolerations ({few(other)})"
        if other
        else "placement.tolerations; `kubectl get nodes -o yaml` shows the taints"
    )
    return Part("taint", what, f"if the job may use these nodes, set {step}", nodes)


def untolerated(pod: Object, nodes: Sequence[Object]) -> list[str]:
    tolerations = (pod.get("spec") or {}).get("tolerations") or ()
    found = []
    for node in nodes:
        for taint in (node.get("spec") or {}).get("taints") or ():
            keeps_out = taint.get("effect") in ("NoSchedule", "NoExecute")
            if keeps_out and not any(tolerates(each, taint) for each in tolerations):
                found.append(taint.get("key", "") + (f"={taint['value']}" if taint.get("value") else ""))
    return list(dict.fromkeys(found))


def tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint.get("key"))
    same = (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(toleration.get("key") == taint.get("key") and same)


def _claim(name: str, state: str, nodes: int) -> Part:
    if state == "not found":
        step = (
            "create it, or correct the claim's name in volumes; `kubectl get pvc` shows those that are there"
        )
        return Part("claim-missing", f"there is no claim {name}", step, nodes)
    gone = "is being deleted" if state == "is being deleted" else "is bound to a volume that no longer exists"
    return Part("claim-missing", f"the claim {name} {gone}", "take another claim in volumes", nodes)


def _unbound(nodes: int, pod: Object, seen: Seen, events: Events) -> Part:
    names = claims_of(pod)
    known = {claim["metadata"]["name"]: claim for claim in seen.claims if claim["metadata"]["name"] in names}
    pending = [name for name in names if (known.get(name, {}).get("status") or {}).get("phase") != "Bound"]
    name = (pending or names or [""])[0]
    what = f"the claim {name} has no volume yet" if name else "a claim has no volume yet"
    claim = known.get(name)
    storage = (claim or {}).get("spec", {}).get("storageClassName")
    told = _provisioning(claim, events) if claim else ""
    if told:
        what += f": {told}"
    elif claim is not None:
        what += f" (storage class {storage})" if storage else " and no storage class that could make one"
    return Part(
        "claim-unbound",
        what,
        f"see `kubectl describe pvc {name}`, or take another claim in volumes".replace("  ", " "),
        nodes,
    )


def _provisioning(claim: Object, events: Events) -> str:
    found = sorted(events.of("PersistentVolumeClaim", claim), key=happened, reverse=True)
    told = objects.newest(found, "ProvisioningFailed", "FailedBinding", "ExternalProvisioning")
    return short(told.get("message")) if told is not None else ""
