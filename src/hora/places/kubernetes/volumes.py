"""A job's volumes as a pod has them."""

from __future__ import annotations

from hora.places.kubernetes import quantities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from hora.spec import Volume

SHM = "/dev/shm"


def volumes(wanted: Sequence[Volume], shm: int | None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(volumes, mounts).  What is mounted twice under two paths is one volume."""
    made: dict[str, dict[str, Any]] = {}
    mounts = []
    for volume in wanted:
        source = _source(volume)
        name = next((known for known, other in made.items() if other == source), f"v{len(made)}")
        made[name] = source
        mount: dict[str, Any] = {"name": name, "mountPath": volume.mount}
        if volume.sub_path:
            mount["subPath"] = volume.sub_path
        if volume.read_only:
            mount["readOnly"] = True
        mounts.append(mount)
    if shm is not None and all(volume.mount != SHM for volume in wanted):
        made["shm"] = _memory(shm)
        mounts.append({"name": "shm", "mountPath": SHM})
    return [{"name": name, **source} for name, source in made.items()], mounts


def _memory(bytes_: int) -> dict[str, Any]:
    return {"emptyDir": {"medium": "Memory", "sizeLimit": quantities.size(bytes_)}}


def _source(volume: Volume) -> dict[str, Any]:
    source = dict(volume.source)
    make = _KINDS.get(volume.kind)
    return make(source) if make is not None else {volume.kind: source}


def _csi(source: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {key: source[key] for key in ("driver", "fsType") if key in source}
    if source.get("volumeAttributes"):
        made["volumeAttributes"] = dict(source["volumeAttributes"])
    if "nodePublishSecret" in source:
        made["nodePublishSecretRef"] = {"name": source["nodePublishSecret"]}
    return {"csi": made}


# nfs and azureFile have Kubernetes' own keys.
_KINDS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "pvc": lambda source: {"persistentVolumeClaim": {"claimName": source["claim"]}},
    "hostPath": lambda source: {"hostPath": {"path": source["path"]}},
    "csi": _csi,
    "memory": lambda source: _memory(source["size"]),
    "scratch": lambda source: {"emptyDir": {"sizeLimit": quantities.size(source["size"])}},
    "configMap": lambda source: {"configMap": {"name": source["name"]}},
    "secret": lambda source: {"secret": {"secretName": source["name"], "defaultMode": 0o440}},
}
