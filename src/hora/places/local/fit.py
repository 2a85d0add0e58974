"""What this machine can't give a job: refused before anything starts, or noted where the job can go on."""

from __future__ import annotations

import os

from hora.errors import UsageError
from hora.spec import Kubernetes, Placement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.spec import JobSpec, RoleSpec, Volume


def remarks(spec: JobSpec) -> tuple[str, ...]:
    """Notes for the user; UsageError for what can't be."""
    if not spec.roles:
        names = " and ".join(service.name for service in spec.services)
        raise UsageError(
            f"the job has no ranks, only services ({names}), and this version starts none: give it a command"
        )
    _gpus(spec)
    _secrets(spec)
    return (*_clone(spec), *_volumes(spec), *_without_effect(spec))


def _secrets(spec: JobSpec) -> None:
    for role in spec.roles:
        for name, source in role.secrets:
            if source.secret is not None:
                raise UsageError(
                    f"secrets.{name}: the Kubernetes Secret {source.secret!r} can't be read on this machine; "
                    f"give it with --secret {name}=env:VARIABLE or --secret {name}=file:PATH"
                )


def _clone(spec: JobSpec) -> list[str]:
    """Said before it is made: it may take a while."""
    if spec.code is None or spec.code.git is None:
        return []
    at = f" at {spec.code.ref}" if spec.code.ref else ""
    return [f"the ranks start in a new clone of {spec.code.git}{at}"]


def _volumes(spec: JobSpec) -> list[str]:
    """Nothing is mounted on this machine: a volume is a folder that is there already."""
    notes = []
    for role in spec.roles:
        for volume in role.volumes:
            if not os.path.isdir(volume.mount):
                raise UsageError(
                    f"{role.name} needs the volume {volume.mount} ({_named(volume)}), and nothing can be mounted on "
                    "this machine: make that folder, or run without it: --set volumes=[]"
                )
            if not _is_the_folder_itself(volume):
                notes.append(f"{volume.mount} is this machine's own folder, not the {_named(volume)}")
    return list(dict.fromkeys(notes))


def _is_the_folder_itself(volume: Volume) -> bool:
    path = dict(volume.source).get("path") if volume.kind == "hostPath" else None
    return path is not None and os.path.realpath(path) == os.path.realpath(volume.mount)


def _named(volume: Volume) -> str:
    first = next((value for _, value in volume.source if isinstance(value, str)), "")
    return f"{volume.kind} {first}" if first else volume.kind


def _gpus(spec: JobSpec) -> None:
    wanted = sum(role.replicas * role.resources.gpu for role in spec.roles)
    if not wanted:
        return
    here = gpus_here()
    if wanted > here:
        each = " and ".join(_counted(role) for role in spec.roles if role.resources.gpu)
        has = {0: "no GPU", 1: "1 GPU"}.get(here, f"{here} GPUs")
        raise UsageError(
            f"resources.gpu: the job asks for {wanted} ({each}), and this machine has {has}: "
            "ask for fewer (on the command line: --gpu 0)"
        )


def _counted(role: RoleSpec) -> str:
    return f"{role.replicas} {role.name} x {role.resources.gpu}"


def gpus_here() -> int:
    """GPUs that a driver shows, less those that the caller's CUDA_VISIBLE_DEVICES hides."""
    import glob

    nvidia = max(len(glob.glob("/proc/driver/nvidia/gpus/*")), len(glob.glob("/dev/nvidia[0-9]*")))
    amd = sum(_holds_a_number(path) for path in glob.glob("/sys/class/kfd/kfd/topology/nodes/*/gpu_id"))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        nvidia = min(nvidia, len([each for each in visible.split(",") if each.strip()]))
    return nvidia + amd


def _holds_a_number(path: str) -> bool:
    """The kernel lists CPUs as nodes, too: their gpu_id is 0."""
    try:
        with open(path) as file:
            return file.read().strip() not in ("", "0")
    except OSError:
        return False


def _without_effect(spec: JobSpec) -> list[str]:
    """One line for all that only a cluster reads."""
    keys = {
        "image": any(role.image for role in spec.roles),
        "placement": any(role.placement != Placement() for role in spec.roles),
        "kubernetes": any(role.kubernetes != Kubernetes() for role in spec.roles),
        "services": bool(spec.services),
        "resources.shm": any(role.resources.shm is not None for role in spec.roles),
        **{f"resources.{name}": True for role in spec.roles for name, _ in role.resources.other},
        "network.host": spec.network.host,
        "network.allowFrom": bool(spec.network.allow_from),
    }
    given = [key for key, said in keys.items() if said]
    return [f"without effect on this machine: {', '.join(given)}"] if given else []
