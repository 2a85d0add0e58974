"""From validated keys to the spec: the job's defaults go into its roles, short form becomes long form."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from hora import names
from hora.load import models as m
from hora.load.checks import absolute
from hora.load.detect import default_name, detect
from hora.load.fast import found_framework
from hora.load.here import here
from hora.load.overrides import Loaded
from hora.record import Record, fields, replace
from hora.spec import (
    VOLUME_KINDS,
    Code,
    JobSpec,
    Kubernetes,
    Network,
    Pairs,
    Placement,
    Resources,
    RoleSpec,
    SecretSource,
    Service,
    Timeouts,
    Toleration,
    Volume,
)


def build(job: m.JobKeys, folder: str, file: str | None, has_ranks: bool) -> Loaded:
    """The spec.  `folder` is where relative paths of the file begin: the job file's own, or the caller's."""
    namespace = job.kubernetes.namespace
    code = _code(job.code, folder)
    roles = tuple(_role(job, name, role, namespace, folder) for name, role in _roles(job, has_ranks).items())
    command = next((role.command for role in roles if role.command), ())
    framework: str | None = job.framework
    notes: tuple[str, ...] = ()
    if framework is None:
        framework, notes = _framework(command, code)
    spec = JobSpec(
        name=job.name or names.job_name(default_name(command, folder)),
        framework=framework,
        roles=roles,
        code=code,
        setup=job.setup,
        network=Network(job.network.host, job.network.interface, job.network.ports, job.network.allow_from),
        timeouts=Timeouts(**dict(job.timeouts)),
        restarts=job.restarts,
        keep=job.keep,
        output=job.output,
        stall=job.stall,
        services=_services(job.services),
        version=job.version,
    )
    return Loaded(spec, notes, file)


def _framework(command: tuple[str, ...], code: Code | None) -> tuple[str, tuple[str, ...]]:
    if code is not None and code.git is not None:
        found = detect(command, os.devnull)  # the script isn't here yet, and one of that name may be another
        if not found.read:
            return found.framework, (
                f"framework {found.framework}: the script comes from git; name another with --framework",
            )
    folder = code.path if code is not None and code.path is not None else here()
    return found_framework(command, folder)


def _roles(job: m.JobKeys, has_ranks: bool) -> dict[str, m.RoleKeys]:
    if job.roles:
        return job.roles
    return (
        {"worker": m.RoleKeys(replicas=job.workers or 1, ranks=job.ranks_per_worker or 1)}
        if has_ranks
        else {}
    )


def _role(job: m.JobKeys, name: str, role: m.RoleKeys, namespace: str | None, folder: str) -> RoleSpec:
    return RoleSpec(
        name=name,
        replicas=role.replicas,
        ranks=role.ranks,
        command=role.command or job.command or (),
        image=role.image or job.image,
        resources=_resources(job.resources, role.resources),
        env=_merged(job.env, role.env),
        secrets=_secrets(_merged(job.secrets, role.secrets), folder),
        volumes=_volumes(job.volumes, role.volumes),
        placement=_placement(job.placement, role.placement),
        kubernetes=_kubernetes(job.kubernetes, role.kubernetes, namespace),
    )


def _merged(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> tuple[tuple[str, Any], ...]:
    return tuple({**(first or {}), **(second or {})}.items())


def _given(record: Record, *sources: m.Keys, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    """For each field of a record the last source that says something."""
    values: dict[str, Any] = {}
    for source in sources:
        for name in fields(record):
            value = getattr(source, name, None)
            if name not in skip and value is not None:
                values[name] = value
    return values


def _resources(*sources: m.ResourcesKeys) -> Resources:
    other: Pairs = ()
    for source in sources:
        other = _merged(dict(other), source.other)
    return replace(Resources(), **_given(Resources(), *sources, skip=("other",)), other=other)


def _secrets(
    sources: tuple[tuple[str, m.SecretKeys], ...], folder: str
) -> tuple[tuple[str, SecretSource], ...]:
    return tuple(
        (
            name,
            SecretSource(
                source.secret, source.key, source.env, absolute(source.file, folder) if source.file else None
            ),
        )
        for name, source in sources
    )


def _volumes(*lists: tuple[m.VolumeKeys, ...]) -> tuple[Volume, ...]:
    by_mount = {volume.mount: _volume(volume) for volumes in lists for volume in volumes}
    return tuple(by_mount.values())


_SINGLE = {
    "pvc": "claim",
    "hostPath": "path",
    "memory": "size",
    "scratch": "size",
    "configMap": "name",
    "secret": "name",
}


def _volume(volume: m.VolumeKeys) -> Volume:
    by_key = {key.alias or name: getattr(volume, name) for name, key in type(volume).model_fields.items()}
    kind = next(kind for kind in VOLUME_KINDS if by_key[kind] is not None)
    value = by_key[kind]
    source: tuple[tuple[str, Any], ...]
    if kind in _SINGLE:
        source = ((_SINGLE[kind], value),)
    else:
        source = tuple(
            (key, tuple(part.items()) if isinstance(part, dict) else part)
            for key, part in value.model_dump(by_alias=True, exclude_defaults=True).items()
        )
    return Volume(volume.mount, kind, source, volume.sub_path, volume.read_only)


def _placement(*sources: m.PlacementKeys) -> Placement:
    given = _given(Placement(), *sources)
    given["node_selector"] = _joined("node_selector", *sources)
    if "tolerations" in given:
        given["tolerations"] = tuple(Toleration(**dict(each)) for each in given["tolerations"])
    if "affinity" in given:
        given["affinity"] = _json(given["affinity"])
    return Placement(**given)


def _kubernetes(job: m.KubernetesKeys, role: m.RoleKubernetesKeys, namespace: str | None) -> Kubernetes:
    given = _given(Kubernetes(), job, role)
    given["labels"] = _joined("labels", job, role)
    given["annotations"] = _joined("annotations", job, role)
    given["namespace"] = namespace
    if "pod_patch" in given:
        given["pod_patch"] = _json(given["pod_patch"])
    return Kubernetes(**given)


def _joined(name: str, *sources: m.Keys) -> Pairs:
    pairs: Pairs = ()
    for source in sources:
        pairs = _merged(dict(pairs), getattr(source, name))
    return pairs


def _json(value: dict[str, Any]) -> str:
    return json.dumps(
        value, sort_keys=True
    )  # the order of a map means nothing, so equal maps give equal specs


def _code(code: m.CodeKeys | None, folder: str) -> Code | None:
    if code is None:
        return None
    if code.git is not None:
        return Code(None, _repository(code.git, folder), code.ref)
    return Code(absolute(code.path or "", folder))


def _repository(url: str, folder: str) -> str:
    """A URL or `host:path` as it is; any other is a path, and begins where the file's paths begin."""
    return url if ":" in url.split("/")[0] else absolute(url, folder)


def _services(services: m.ServicesKeys) -> tuple[Service, ...]:
    return tuple(_service(name, keys) for name, keys in services if keys is not None)


def _service(name: str, keys: m.ServiceKeys) -> Service:
    common = set(m.ServiceKeys.model_fields)
    options = tuple((option, value) for option, value in keys if option not in common and value is not None)
    return Service(name, options, keys.image, keys.port, _resources(keys.resources), tuple(keys.env.items()))
