"""Whether a whole run has room: in the quotas of its namespace, and on the nodes that may be seen.  Pure."""

from __future__ import annotations

from hora.agent.lead.sentences import count
from hora.places.kubernetes import amounts
from hora.places.kubernetes.amounts import amount, millis, named, number
from hora.places.kubernetes.why.scheduling import tolerates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from hora.places.kubernetes.amounts import Group

    Object = Mapping[str, Any]


# What a run has beside its pods; a test holds it to render.py.
OBJECTS = {"configmaps": 2, "secrets": 1, "services": 2, "networkpolicies.networking.k8s.io": 1}
_CORE = ("configmaps", "secrets", "services", "pods")


def quota(pods: Sequence[Group], limits: Object, found: list[str], notes: list[str]) -> None:
    counted = [group for group in pods if _in_scope(group, limits)]
    status = limits.get("status") or {}
    hard = millis(status.get("hard") or (limits.get("spec") or {}).get("hard"))
    used = millis(status.get("used"))
    name = limits["metadata"]["name"]
    found += _unsaid(counted, name, hard)
    asked = _asked(counted, pods if not _scoped(limits) else ())
    for resource, most in hard.items():
        value = asked.get(resource, 0)
        left = max(most - used.get(resource, 0), 0)
        if not value or value <= left:
            continue
        (found if value > most or not _of_pods(resource) else notes).append(
            f"the run needs {_of_quota(value, resource)}, and the quota {name} has "
            + _short_of(resource, value, left, most)
        )


def _of_pods(resource: str) -> bool:
    """Counted when a pod is made, which is tried again; other objects are refused at once."""
    return bool(amounts.key(resource))


def _short_of(resource: str, value: int, left: int, most: int) -> str:
    step = " or ".join(dict.fromkeys(filter(None, (amounts.key(resource), "workers"))))
    if value > most:
        less = f"ask for less ({step}), or" if _of_pods(resource) else "ask"
        return f"{number(most, resource)} in all: {less} for a larger quota"
    told = f"{number(left, resource)} of {number(most, resource)} left: "
    if not _of_pods(resource):
        return told + "remove runs that have ended (`hora ps`, `hora rm`)"
    return told + f"some members wait until other runs end, or ask for less ({step})"


def _of_quota(value: int, resource: str) -> str:
    return amount(value, resource) + (" (limits)" if resource.startswith("limits.") else "")


def _asked(counted: Sequence[Group], everything: Sequence[Group]) -> dict[str, int]:
    """By the names that quotas use."""
    total: dict[str, int] = {}
    for group in counted:
        for kind in ("requests", "limits"):
            for resource, value in amounts.of_pod(group.spec, kind).items():
                key = f"{kind}.{resource}"
                total[key] = total.get(key, 0) + group.count * value
    for resource in ("cpu", "memory", "ephemeral-storage"):
        if f"requests.{resource}" in total:
            total[resource] = total[f"requests.{resource}"]
    total["pods"] = 1000 * sum(group.count for group in counted)
    if everything:
        objects = {**OBJECTS, "jobs.batch": len([group for group in everything if group.count])}
        for resource, each in objects.items():
            total[f"count/{resource}"] = 1000 * each
            if resource in _CORE:
                total[resource] = 1000 * each
    total["count/pods"] = total["pods"]
    return total


def _unsaid(counted: Sequence[Group], name: str, hard: Mapping[str, int]) -> Iterator[str]:
    """A quota on CPU or memory refuses every pod that doesn't say how much it takes."""
    for kind, resource in (
        (kind, resource) for kind in ("requests", "limits") for resource in ("cpu", "memory")
    ):
        counts = f"{kind}.{resource}" in hard or (kind == "requests" and resource in hard)
        silent = [
            group.role
            for group in counted
            if any(
                resource not in millis((each.get("resources") or {}).get(kind)) for each in group.containers
            )
        ]
        if counts and silent:
            yield (
                f"the quota {name} counts {kind} of {named(resource)}, and {' and '.join(silent)} "
                f"{'says' if len(silent) == 1 else 'say'} none, so no pod would be taken: set {amounts.key(resource)}"
            )


def _scoped(quota: Object) -> bool:
    spec = quota.get("spec") or {}
    return bool(spec.get("scopes") or (spec.get("scopeSelector") or {}).get("matchExpressions"))


def _in_scope(group: Group, quota: Object) -> bool:
    spec = quota.get("spec") or {}
    rules = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    rules += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return all(_matches(group, rule) for rule in rules)


def _matches(group: Group, rule: Object) -> bool:
    """Our pods always ask for something, so they are never BestEffort."""
    scope, operator, values = rule.get("scopeName"), rule.get("operator"), rule.get("values") or ()
    ends = "activeDeadlineSeconds" in group.spec
    if scope != "PriorityClass":
        return {"Terminating": ends, "NotTerminating": not ends, "NotBestEffort": True}.get(str(scope), False)
    own = group.spec.get("priorityClassName")
    return {
        "In": own in values,
        "NotIn": own not in values,
        "Exists": bool(own),
        "DoesNotExist": not own,
    }.get(str(operator), False)


# --- nodes: advice, since more may come ---------------------------------------------------------------


def nodes(group: Group, known: Sequence[Object]) -> Iterator[str]:
    selector = group.spec.get("nodeSelector") or {}
    labelled = [node for node in known if selector.items() <= (node["metadata"].get("labels") or {}).items()]
    if not labelled:
        told = " and ".join(f"{key}={value}" for key, value in selector.items())
        yield f"no node has the label {told} now ({group.role}): see placement.nodeSelector"
        return
    open_ = [node for node in labelled if _takes(node, group.spec.get("tolerations") or ())]
    if not open_:
        what = f"every node for {group.role} is closed or has a taint that it doesn't tolerate"
        yield f"{what}: see placement.tolerations"
        return
    asked = {name: value for name, value in amounts.of_pod(group.spec, "requests").items() if value}
    room = [millis((node.get("status") or {}).get("allocatable")) for node in open_]
    for resource, value in asked.items():
        most = max(each.get(resource, 0) for each in room)
        if value > most:
            key = amounts.key(resource) or "resources"
            yield (
                f"no node has {amount(value, resource)} for {group.role}; the largest has {number(most, resource)}: "
                f"see {key}"
            )
            return
    fits = sum(
        min(each.get(resource, 0) // value for resource, value in asked.items()) for each in room if asked
    )
    if asked and fits < group.count:
        yield (
            f"the nodes hold {fits} of {count(group.count, group.role)} at once, even when nothing else runs: "
            "use fewer workers or smaller ones, unless nodes are added"
        )


def _takes(node: Object, tolerations: Sequence[Any]) -> bool:
    spec = node.get("spec") or {}
    taints = [each for each in spec.get("taints") or () if each.get("effect") in ("NoSchedule", "NoExecute")]
    return not spec.get("unschedulable") and all(
        any(tolerates(each, taint) for each in tolerations) for taint in taints
    )
