"""A spec written back as a job file: loading it gives the equal spec.  What has its default isn't written."""

from __future__ import annotations

import json
from typing import Any

import yaml

from hora.load.quantities import duration_text, size_text
from hora.record import Record, fields
from hora.spec import (
    Code,
    JobSpec,
    Kubernetes,
    Network,
    Placement,
    Resources,
    RoleSpec,
    SecretSource,
    Service,
    Volume,
)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True  # anchors are for machines


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    """PyYAML writes these three as line ends inside single quotes, and reads something else back."""
    style = '"' if set(text) & set("\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


class _Block(dict):  # type: ignore[type-arg]
    """The outermost map: one key per line, however short it is."""


_Dumper.add_representer(str, _text)
_Dumper.add_representer(
    _Block, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=False)
)


def job_file(spec: JobSpec) -> str:
    return dump(_job(spec))


def dump(data: dict[str, Any]) -> str:
    return yaml.dump(
        _Block(data), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None
    )


def _job(spec: JobSpec) -> dict[str, Any]:
    default = JobSpec("", "", ())
    data: dict[str, Any] = {"name": spec.name, "framework": spec.framework}
    roles = {role.name: _role(role) for role in spec.roles}
    if list(roles) == ["worker"]:
        data |= {"workers": spec.roles[0].replicas, "ranksPerWorker": spec.roles[0].ranks}
        data |= {key: value for key, value in roles["worker"].items() if key not in ("replicas", "ranks")}
    data["code"] = _code(spec.code)
    data["setup"] = spec.setup
    data["network"] = _network(spec.network)
    data["timeouts"] = _changed(spec.timeouts, default.timeouts, duration_text)
    data["stall"] = spec.stall if spec.stall != default.stall else None
    data["restarts"] = spec.restarts
    data["keep"] = duration_text(spec.keep) if spec.keep != default.keep else None
    data["output"] = size_text(spec.output) if spec.output != default.output else None
    data["services"] = {service.name: _service(service) for service in spec.services} or None
    if list(roles) != ["worker"] and roles:
        data["roles"] = roles
    namespace = spec.roles[0].kubernetes.namespace if spec.roles else None
    if namespace is not None:
        data["kubernetes"] = {"namespace": namespace, **data.get("kubernetes", {})}
    return _said(data)


def _role(role: RoleSpec) -> dict[str, Any]:
    return {
        "replicas": role.replicas,
        "ranks": role.ranks,
        **_said(
            {
                "command": list(role.command),
                "image": role.image,
                "resources": _resources(role.resources),
                "env": dict(role.env),
                "secrets": {name: _secret(source) for name, source in role.secrets},
                "volumes": [_volume(volume) for volume in role.volumes],
                "placement": _placement(role.placement),
                "kubernetes": _kubernetes(role.kubernetes),
            }
        ),
    }


def _said(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value not in (None, "", 0, {}, [])}


def _changed(record: Record, default: Record, text: Any = None) -> dict[str, Any]:
    """Fields that differ from the default, under the file's names."""
    return {
        _camel(name): text(value) if text else value
        for name in fields(record)
        if (value := getattr(record, name)) != getattr(default, name)
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _resources(resources: Resources) -> dict[str, Any]:
    data = _changed(resources, Resources())
    for name in ("memory", "shm"):
        if name in data:
            data[name] = size_text(data[name])
    other = dict(data.pop("other", ()))
    return {**data, **other}


def _secret(source: SecretSource) -> dict[str, Any]:
    return _changed(source, SecretSource())


def _volume(volume: Volume) -> dict[str, Any]:
    source: Any = {key: dict(part) if isinstance(part, tuple) else part for key, part in volume.source}
    if volume.kind not in ("nfs", "azureFile", "csi"):
        (source,) = source.values()
        source = size_text(source) if isinstance(source, int) else source
    data = {"mount": volume.mount, volume.kind: source}
    return data | _said({"subPath": volume.sub_path, "readOnly": volume.read_only})


def _network(network: Network) -> dict[str, Any]:
    data = _changed(network, Network())
    if network.ports is not None:
        data["ports"] = "{}-{}".format(*network.ports)
    if network.allow_from:
        data["allowFrom"] = list(network.allow_from)
    return data


def _placement(placement: Placement) -> dict[str, Any]:
    data = _changed(placement, Placement())
    if "nodeSelector" in data:
        data["nodeSelector"] = dict(placement.node_selector)
    if "tolerations" in data:
        data["tolerations"] = [_changed(each, type(each)()) for each in placement.tolerations]
    if "affinity" in data:
        data["affinity"] = json.loads(placement.affinity)
    return data


def _kubernetes(kubernetes: Kubernetes) -> dict[str, Any]:
    data = _changed(kubernetes, Kubernetes())
    data.pop("namespace", None)  # the job's, not the role's
    for name in ("labels", "annotations"):
        if name in data:
            data[name] = dict(data[name])
    if "imagePullSecrets" in data:
        data["imagePullSecrets"] = list(kubernetes.image_pull_secrets)
    if "podPatch" in data:
        data["podPatch"] = json.loads(kubernetes.pod_patch)
    return data


def _code(code: Code | None) -> Any:
    if code is None:
        return None
    return code.path if code.path is not None else _changed(code, Code())


def _service(service: Service) -> dict[str, Any]:
    return _said(
        {
            **dict(service.options),
            "image": service.image,
            "port": service.port,
            "resources": _resources(service.resources),
            "env": dict(service.env),
        }
    )
