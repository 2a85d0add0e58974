"""What a cluster can't give a job: refused before anything is made, or noted where the job can go on.  Pure.

`problems` needs the job alone, `against` what the namespace shows: None is what the caller may not see.
"""

from __future__ import annotations

import re

from hora import names
from hora.agent.lead.sentences import count
from hora.places.kubernetes import amounts, limitranges, room
from hora.places.kubernetes.amounts import groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from hora.spec import JobSpec, RoleSpec

    Object = Mapping[str, Any]
    Objects = Sequence[Object] | None

_DOMAIN = r"(?:[a-zA-Z0-9.-]+(?::[0-9]+)?|\[[0-9a-fA-F:]+\](?::[0-9]+)?)"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_DOMAIN}/)?{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?(?:@\w+:[0-9a-fA-F]{{32,}})?\Z"
)


def problems(spec: JobSpec) -> list[str]:
    """What can't be on any cluster."""
    if not spec.roles:
        services = " and ".join(service.name for service in spec.services)
        return [
            f"the job has no ranks, only services ({services}), and this version starts none: give it a command"
        ]
    return [*_images(spec), *_names(spec), *_queue(spec), *_mounts(spec), *_whole_numbers(spec)]


def _images(spec: JobSpec) -> Iterator[str]:
    without = [role.name for role in spec.roles if not role.image]
    if without:
        of = "" if len(without) == len(spec.roles) else f" for {' and '.join(without)}"
        yield f"image: is needed on Kubernetes{of}: one with Python 3.8 or newer, as --image python:3.12-slim"
    for image in dict.fromkeys(role.image for role in spec.roles if role.image):
        if not _IMAGE.match(image):
            yield f"image: {image!r} isn't the name of an image: lower-case letters, as registry/folder/name:tag"


def _names(spec: JobSpec) -> Iterator[str]:
    try:
        names.longest_name(
            spec.name, "x" * names.RUN_LENGTH, {role.name: role.replicas for role in spec.roles}
        )
    except names.NameTooLong as problem:
        yield f"name: {problem}"


def _queue(spec: JobSpec) -> Iterator[str]:
    """Kueue admits Jobs one by one: of two roles one could hold its nodes and wait for ever for the other."""
    queues = sorted({role.placement.queue for role in spec.roles if role.placement.queue})
    if queues and len(spec.roles) > 1:
        yield (
            f"placement.queue: the queue {queues[0]} would admit {count(len(spec.roles), 'role')} one by one, and "
            "a run starts only whole: use one role, or leave the queue out"
        )


def _mounts(spec: JobSpec) -> Iterator[str]:
    for mount in dict.fromkeys(volume.mount for role in spec.roles for volume in role.volumes):
        path = mount.rstrip("/")
        if not path:
            yield f"volumes: nothing can be mounted at {mount}: the image's own files lie there; take another path"
        elif ":" in path:
            yield f"volumes: nothing can be mounted at {mount}: Kubernetes takes no ':' in a path"


def _whole_numbers(spec: JobSpec) -> Iterator[str]:
    for role in spec.roles:
        for resource, value in role.resources.other:
            try:
                whole = amounts.milli(value) % 1000 == 0
            except ValueError:
                whole = False
            if not whole:
                yield f'resources."{resource}": must be a whole number, got {value} ({role.name})'


# --- against what the namespace has ------------------------------------------------------------------


def against(
    spec: JobSpec, claims: Objects, quotas: Objects, limit_ranges: Objects, nodes: Objects
) -> tuple[list[str], list[str]]:
    """(problems, remarks)."""
    pods = groups(spec)
    found: list[str] = []
    notes: list[str] = []
    _claims(spec, claims, nodes, found, notes)
    for group in pods:
        found += limitranges.problems(group, limit_ranges or ())
    given = tuple(limitranges.completed(group, limit_ranges or ()) for group in pods)
    for quota in quotas or ():
        room.quota(given, quota, found, notes)
    if nodes:
        notes += [note for group in given[1:] for note in room.nodes(group, nodes)]
    return list(dict.fromkeys(found)), list(dict.fromkeys(notes))


# --- claims ------------------------------------------------------------------------------------------

_WAYS_OUT = "a claim with ReadWriteMany (nfs, or a file share), one worker, or each member's own scratch"


def _claims(spec: JobSpec, claims: Objects, nodes: Objects, found: list[str], notes: list[str]) -> None:
    known = None if claims is None else {claim["metadata"]["name"]: claim for claim in claims}
    for name in dict.fromkeys(name for role in spec.roles for name, _ in _claims_of(role)):
        if known is None:
            continue
        if name not in known:
            notes.append(f"there is no claim {name} yet: the members wait until somebody makes it (volumes)")
            continue
        problem = _shared(spec, name, known[name])
        if problem and len(nodes or ()) == 1 and "ReadWriteOncePod" not in problem:
            notes.append(f"{problem}; it works only because the cluster has one node")
        elif problem:
            found.append(f"{problem}: use {_WAYS_OUT}")
        if (known[name].get("status") or {}).get("phase") == "Lost":
            found.append(f"volumes: the claim {name} has lost its volume: use another claim")


def _claims_of(role: RoleSpec) -> list[tuple[str, bool]]:
    """(claim, read-only) of each."""
    return [
        (str(dict(volume.source)["claim"]), volume.read_only)
        for volume in role.volumes
        if volume.kind == "pvc"
    ]


def _shared(spec: JobSpec, name: str, claim: Object) -> str:
    modes = (claim.get("status") or {}).get("accessModes") or claim["spec"].get("accessModes") or ()
    mounted = {role: _claims_of(role) for role in spec.roles}
    users = sum(role.replicas for role, own in mounted.items() if any(used == name for used, _ in own))
    only_read = all(read for own in mounted.values() for used, read in own if used == name)
    if users < 2 or "ReadWriteMany" in modes or ("ReadOnlyMany" in modes and only_read):
        return ""
    if "ReadOnlyMany" in modes and "ReadWriteOnce" not in modes:
        return (
            f"volumes: the claim {name} may only be read, and {users} members mount it without readOnly: true"
        )
    mode = "ReadWriteOncePod" if "ReadWriteOncePod" in modes else "ReadWriteOnce"
    where = "one pod" if mode == "ReadWriteOncePod" else "one node"
    return f"volumes: the claim {name} is {mode}, so {where} can mount it, and {users} members would"
