"""Why the API server took no such pod or object: quota, LimitRange, Pod Security, webhooks, missing names."""

from __future__ import annotations

import re

from hora.places.kubernetes import amounts, levels
from hora.places.kubernetes.why.kinds import Reason
from hora.places.kubernetes.why.objects import short

_ADMIN = "ask who runs the namespace"


def denied(message: str, role: str = "", asks: str = "one more pod asks for") -> Reason | None:
    """From the text after `is forbidden:`, in an event of a Job or an answer of the API.  None: not of these."""
    message = re.sub(r"^Error creating: ", "", message)
    for read in (_quota, _needs, _security, _limits, _names, _rules, _ending):
        found = read(message, role, asks)
        if found is not None:
            return found
    return None


# --- quota -------------------------------------------------------------------------------------------


def _quota(message: str, _role: str, asks: str) -> Reason | None:
    match = re.search(r"exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)", message)
    if match is None:
        return None
    asked, used, hard = (_pairs(match[part]) for part in (2, 3, 4))
    told = [
        f"{amounts.amount(value, name)}{_of_limits(name)}, and {amounts.number(used.get(name, 0), name)} "
        f"of {amounts.number(hard.get(name, 0), name)} are used"
        for name, value in asked.items()
    ]
    never = any(value > hard.get(resource, value) for resource, value in asked.items())
    what = f"the quota {match[1]} has no room: {asks} {'; '.join(told)}"
    return Reason("quota", what, _quota_step(list(asked), match[1], never), final=never)


def _of_limits(resource: str) -> str:
    return " (limits)" if resource.startswith("limits.") else ""


def _pairs(text: str) -> dict[str, int]:
    pairs = (pair.partition("=") for pair in text.rstrip(",.]").split(","))
    return amounts.millis({name: value for name, _, value in pairs})


def _quota_step(resources: list[str], name: str, never: bool) -> str:
    keys = dict.fromkeys(key for key in map(amounts.key, resources) if key)
    less = f"ask for less ({', '.join(keys)})" if keys else "remove runs that have ended (`hora rm`)"
    if never:
        return f"{less}, or ask for a larger quota"
    return f"{less}, or wait until others end; `kubectl describe quota {name}` shows what is used"


def _needs(message: str, _role: str, _asks: str) -> Reason | None:
    match = re.search(r"failed quota: (\S+): must specify (.*)", message)
    if match is None:
        return None
    resources = re.findall(r"(\S+) for: ", match[2])
    keys = ", ".join(dict.fromkeys(amounts.key(resource) for resource in resources))
    told = " and ".join(resources)
    what = f"the quota {match[1]} counts {told}, and the pods don't say how much they need"
    return Reason("quota-needs", what, f"set {keys}", final=True)


# --- Pod Security and LimitRange ---------------------------------------------------------------------


def _security(message: str, _role: str, _asks: str) -> Reason | None:
    enforced, needs = levels.told(message)
    if not enforced:
        if "unable to validate against any security context constraint" not in message:
            return None
        step = "leave out what needs more rights (kubernetes.user, network.host, hostPath), or ask for such an SCC"
        return Reason(
            "pod-security", "no security context constraint of the cluster allows its pods", step, final=True
        )
    what = f"the namespace enforces the Pod Security level {enforced}, which forbids "
    if not needs:
        step = f"{_ADMIN} for the level privileged, or take it out of kubernetes.podPatch"
        return Reason("pod-security", what + short(message.partition('": ')[2]), step, final=True)
    step = f"{levels.without(needs)}, or ask for a namespace with the level {levels.level(needs)}"
    return Reason("pod-security", what + levels.listed(needs), step, final=True)


_PER = re.compile(
    r"(maximum|minimum) (\S+) usage per (\w+) is ([^,\s]+?)(?:, but (?:request|limit) is ([^,\s\]]+)|\.  No (\w+) is)"
)
_RATIO = re.compile(
    r"(\S+) max limit to request ratio per (\w+) is ([^,\s]+), but (?:provided ratio is ([\d.]+)|no (\w+))"
)


def _limits(message: str, role: str, _asks: str) -> Reason | None:
    told, resources = [], []
    for bound, resource, per, limit, given, absent in _PER.findall(message):
        most = "at most" if bound == "maximum" else "at least"
        has = f"it has {given}" if given else f"it has no {absent}"
        told.append(f"each {per.lower()} may have {most} {limit} {amounts.named(resource)}, and {has}")
        resources.append(resource)
    for resource, per, limit, given, absent in _RATIO.findall(message):
        has = f"it is {given.rstrip('0').rstrip('.')}" if given else f"it has no {absent}"
        told.append(
            f"the limit of a {per.lower()} may be {limit} times its request of {amounts.named(resource)}, and {has}"
        )
        resources.append(resource)
    if not told:
        return None
    keys = ", ".join(dict.fromkeys(filter(None, map(amounts.key, resources))))
    step = (
        f"set {keys or 'resources'} to what it allows"
        if role != "lead"
        else f"{_ADMIN} to allow Hora's lead: 100m CPU, 128Mi memory"
    )
    return Reason(
        "limit-range", f"the namespace's LimitRange: {'; '.join(dict.fromkeys(told))}", step, final=True
    )


# --- names that are missing --------------------------------------------------------------------------


def _names(message: str, _role: str, _asks: str) -> Reason | None:
    found = re.search(r'looking up service account [^/\s]+/(\S+?): serviceaccount "[^"]+" not found', message)
    if found:
        step = "correct kubernetes.serviceAccount, or create it (kubectl create serviceaccount)"
        return Reason("service-account", f"there is no service account {found[1]} in the namespace", step)
    found = re.search(r"no PriorityClass with name (\S+) was found", message)
    if found:
        step = "correct placement.priorityClass; `kubectl get priorityclasses` shows those that are there"
        return Reason("priority-class", f"the cluster has no priority class {found[1]}", step)
    found = re.search(r'RuntimeClass "([^"]+)" not found', message)
    if found:
        step = "correct kubernetes.runtimeClass; `kubectl get runtimeclasses` shows those that are there"
        return Reason("runtime-class", f"the cluster has no runtime class {found[1]}", step)
    return None


# --- rules of the cluster ----------------------------------------------------------------------------


def _rules(message: str, _role: str, _asks: str) -> Reason | None:
    found = re.search(
        r'admission webhook "([^"]+)" denied the request(?:: (.*)| without)', message, re.DOTALL
    )
    if found:
        return _rule(found[1], found[2])
    found = re.search(r"ValidatingAdmissionPolicy '([^']+)' .*?denied request: (.*)", message, re.DOTALL)
    if found:
        return _rule(found[1], found[2])
    found = re.search(r'failed calling webhook "([^"]+)": (.*)', message, re.DOTALL)
    if found:
        what = f"the cluster's rule {found[1]} can't be asked: {short(_last(found[2]), 120)}"
        return Reason(
            "webhook-down", what, "it is tried again by itself; ask who runs the cluster if it stays"
        )
    return None


def _rule(name: str, why: str | None) -> Reason:
    said = f": {short(why)}" if why else " and doesn't say why"
    step = (
        "change what it names (labels, annotations, podPatch: under kubernetes), or ask who runs the cluster"
    )
    return Reason("webhook-denied", f"the cluster's rule {name} forbids it{said}", step, final=True)


def _last(message: str) -> str:
    return re.sub(r'^failed to call webhook: |Post "[^"]*": ', "", message)


def _ending(message: str, _role: str, _asks: str) -> Reason | None:
    found = re.search(r"in namespace (\S+) because it is being terminated", message)
    if found is None:
        return None
    return Reason(
        "namespace-ending",
        f"the namespace {found[1]} is being deleted",
        "use another: --namespace",
        final=True,
    )
