"""An answer of the API that isn't yes, in one sentence."""

from __future__ import annotations

import re

from hora.places.kubernetes.why.admission import denied
from hora.places.kubernetes.why.jobs import without_values
from hora.places.kubernetes.why.kinds import Cause, Reason
from hora.places.kubernetes.why.objects import short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_AGAIN = "try again in a moment"
_LARGE = ("request is too large", "larger than max", "Too long: ", "entity too large", "Too large")


def refused(
    status: int, reason: str, message: str, details: Mapping[str, Any] | None, verb: str, kind: str
) -> Cause:
    """`verb` and `kind` as a person would say it: create, Job."""
    message, details = message or "", details or {}
    found = _found(status, reason, message, details, verb, kind)
    return Cause(who="", what=found.what, next=found.next, members=(), kind=found.kind, final=found.final)


def _found(
    status: int, reason: str, message: str, details: Mapping[str, Any], verb: str, kind: str
) -> Reason:
    rule = denied(message, asks=f"this {kind} asks for")
    if rule is not None:
        return rule
    if status == 401:
        what = "the cluster doesn't accept your login: its certificate or token is wrong or has expired"
        return Reason(
            "login", what, "log in again, until `kubectl get pods` answers, or choose another --context", True
        )
    if status == 413 or any(mark in message for mark in _LARGE):
        what = f"the {kind} is larger than the cluster takes"
        step = "make code smaller (.horaignore), env shorter, or put large files into a volume"
        return Reason("too-large", what, step, True)
    if status == 403:
        return _forbidden(message, verb, kind)
    if status == 404:
        return _not_found(message, details, kind)
    if status == 409:
        name = details.get("name") or ""
        what = f"there is a {kind} {name} already".replace("  ", " ")
        if reason == "Conflict":
            what = f"somebody else changed the {kind} {name} meanwhile".replace("  ", " ")
        return Reason("conflict", what, "try again: the run then gets another name")
    if status in (400, 422):
        return _invalid(message, details, kind)
    return _unavailable(status, message)


def _forbidden(message: str, verb: str, kind: str) -> Reason:
    right = re.search(
        r'cannot (\w+) resource "([^"]+)"(?: in API group "[^"]*")?(?: in the namespace "([^"]+)")?', message
    )
    if right is None:
        what = f"the cluster doesn't let you {verb} a {kind}: {short(re.sub(r'^.*?is forbidden: ', '', message))}"
        return Reason("rights", what, "`hora rbac` prints the Role to ask for", True)
    where = f"in the namespace {right[3]}" if right[3] else "in the whole cluster"
    what = f"you may not {right[1]} {right[2]} {where}"
    return Reason(
        "rights", what, "ask for the Role that `hora rbac` prints, or choose another --namespace", True
    )


def _not_found(message: str, details: Mapping[str, Any], kind: str) -> Reason:
    namespace = re.search(r'namespaces "([^"]+)" not found', message)
    if namespace:
        step = "correct --namespace (or kubernetes.namespace), or create it: kubectl create namespace"
        return Reason("namespace-missing", f"the cluster has no namespace {namespace[1]}", step, True)
    name = details.get("name")
    if name:
        return Reason("conflict", f"the {kind} {name} is gone", "see `hora ps` for the runs that are there")
    what = f"the cluster doesn't know objects of the kind {kind}"
    return Reason("invalid", what, "ask who runs the cluster for a newer Kubernetes", True)


def _invalid(message: str, details: Mapping[str, Any], kind: str) -> Reason:
    """The field and what is wrong with it, never its value: that may be a secret."""
    told = [
        f"{cause.get('field')}: {short(without_values(str(cause.get('message', ''))), 120)}"
        for cause in details.get("causes") or ()
        if cause.get("field")
    ]
    if not told:
        text = without_values(re.sub(r"^.*? is invalid: ", "", message))
        told = [short(re.sub(r"json: .*", "it isn't of the form that Kubernetes reads", text))]
    what = f"the cluster calls the {kind} wrong: {'; '.join(dict.fromkeys(told[:3]))}"
    return Reason(
        "invalid", what, "correct that field, most likely in kubernetes.podPatch or placement", True
    )


def _unavailable(status: int, message: str) -> Reason:
    if status == 429:
        return Reason("unavailable", "the API server has too much to do", _AGAIN)
    detail = f": {short(message, 160)}" if message else ""
    return Reason("unavailable", f"the API server can't answer now (status {status}){detail}", _AGAIN)
