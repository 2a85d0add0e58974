"""Does the namespace take the job?  Asked before anything is made, and only as far as the user may see."""

from __future__ import annotations

import threading

from hora.errors import PlaceError, UsageError
from hora.places.kubernetes import fit, levels, words
from hora.places.kubernetes.api import ApiError, path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hora.places.kubernetes.api import Api
    from hora.spec import JobSpec

    Objects = tuple[dict[str, Any], ...]

ENFORCE = "pod-security.kubernetes.io/enforce"
HIDDEN = (401, 403, 404)  # what the user may not see, and what a cluster without it answers


def remarks(api: Api, namespace: str, spec: JobSpec) -> tuple[str, ...]:
    """What is worth knowing; UsageError with all that stands against the job."""
    found = _lists(api, namespace, _wanted(spec))
    problems, notes = fit.against(
        spec, found.get("persistentvolumeclaims"), found.get("resourcequotas"), found.get("limitranges"), None
    )
    needs = levels.needed(spec)
    refusal = levels.refusal(needs, enforced(api, namespace)) if needs else None
    problems += [refusal] if refusal else []
    if problems:
        raise UsageError("\n".join(problems))
    return tuple(notes)


def _wanted(spec: JobSpec) -> list[str]:
    claims = any(volume.kind == "pvc" for role in spec.roles for volume in role.volumes)
    return ["resourcequotas", "limitranges", *(["persistentvolumeclaims"] if claims else [])]


def _lists(api: Api, namespace: str, plurals: list[str]) -> dict[str, Objects | None]:
    """Each asked for in a thread of its own: a cluster is often far away."""
    found: dict[str, Objects | None] = {}
    problems: list[PlaceError] = []

    def ask(plural: str) -> None:
        try:
            found[plural] = listed(api, path("v1", plural, namespace))
        except PlaceError as problem:
            problems.append(problem)

    threads = [threading.Thread(target=ask, args=(plural,), daemon=True) for plural in plurals[1:]]
    for thread in threads:
        thread.start()
    ask(plurals[0])
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return found


def listed(api: Api, where: str) -> Objects | None:
    """None for what the user may not see."""
    try:
        return tuple(api.request("GET", where)["items"])
    except ApiError as problem:
        if problem.status not in HIDDEN:
            raise
        return None


def enforced(api: Api, namespace: str) -> str:
    """The Pod Security level of the namespace; the highest where it can't be seen: pods then tell by themselves."""
    try:
        labels = api.request("GET", path("v1", "namespaces", name=namespace))["metadata"].get("labels", {})
    except ApiError as problem:
        if problem.status not in HIDDEN:
            raise
        return words.PRIVILEGED
    return str(labels.get(ENFORCE, words.PRIVILEGED))
