"""Numbers as Kubernetes writes them (500m, 4Gi, 1e3), and what the pods of a run ask for.  Pure.

Counted in whole thousandths: exact, and cheaper to load than fractions.
"""

from __future__ import annotations

import re

from hora.places.kubernetes import pods, words
from hora.plan import EndRule, LaunchPlan
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from hora.spec import JobSpec

GPU = "nvidia.com/gpu"
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_QUANTITY = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,3})|([KMGTPE]i|[numkMGTPE])?)\Z")


def milli(quantity: object) -> int:
    """Thousandths, rounded up."""
    match = _QUANTITY.match(str(quantity).strip())
    if match is None or not (match[2] or match[3]):
        raise ValueError(f"not a Kubernetes quantity: {quantity!r}")
    decimals = match[3] or ""
    number, power = int((match[2] or "") + decimals), 3 - len(decimals)
    if match[5] in _BINARY:
        number <<= _BINARY[match[5]]
    else:
        power += int(match[4]) if match[4] else _DECIMAL[match[5] or ""]
    made: int = number * 10**power if power >= 0 else -(-number // 10**-power)
    return -made if match[1] == "-" else made


def millis(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    """All that can be read: what another version writes in another way is not worth an error."""
    made = {}
    for resource, quantity in (quantities or {}).items():
        try:
            made[resource] = milli(quantity)
        except ValueError:
            continue
    return made


# --- in words ----------------------------------------------------------------------------------------

_NAMES = {"cpu": "CPU", GPU: "GPU", "amd.com/gpu": "GPU", "pods": "pod"}
_BYTES = {"memory": "memory", "ephemeral-storage": "local disk", "storage": "storage"}
_KEYS = {"cpu": "resources.cpu", "memory": "resources.memory", GPU: "resources.gpu", "pods": "workers"}


def bare(resource: str) -> str:
    """limits.cpu, requests.nvidia.com/gpu, count/pods: what is counted."""
    for prefix in ("requests.", "limits.", "count/"):
        if resource.startswith(prefix):
            return resource[len(prefix) :]
    return resource


def named(resource: str) -> str:
    resource = bare(resource)
    if resource in _BYTES:
        return _BYTES[resource]
    return "CPU" if resource == "cpu" else f"{_NAMES[resource]}s" if resource in _NAMES else resource


def key(resource: str) -> str:
    """The job file's key that asks for it; nothing where only the run's own objects count."""
    resource = bare(resource)
    if resource in _KEYS:
        return _KEYS[resource]
    if resource == "ephemeral-storage":
        return "kubernetes.podPatch"
    return f'resources."{resource}"' if "/" in resource else ""


def number(thousandths: int, resource: str = "") -> str:
    """36, 0.5, 4Gi."""
    if bare(resource) in _BYTES:
        return _size(thousandths)
    whole, rest = divmod(thousandths, 1000)
    return str(whole) if not rest else f"{thousandths / 1000:.3f}".rstrip("0")


def amount(thousandths: int, resource: str) -> str:
    """36 CPUs, 4Gi memory, 1 GPU, 2 rdma/hca."""
    told, what = number(thousandths, resource), bare(resource)
    if what in _BYTES:
        return f"{told} {_BYTES[what]}"
    if what in _NAMES:
        return f"{told} {_NAMES[what]}{'' if thousandths <= 1000 else 's'}"
    return f"{told} {what}"


def _size(thousandths: int) -> str:
    size = -(-thousandths // 1000)
    for unit, power in reversed(_BINARY.items()):
        if size >= 1 << power:
            return f"{size / (1 << power):.1f}".removesuffix(".0") + unit
    return str(size)


# --- a run's pods ------------------------------------------------------------------------------------


class Group(Record):
    """Pods that are alike: the lead's, or the members of a role."""

    role: str
    count: int
    template: dict[str, Any]

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.template["spec"]
        return spec

    @property
    def containers(self) -> tuple[dict[str, Any], ...]:
        return (*self.spec.get("initContainers", ()), *self.spec.get("containers", ()))


_SETTING = pods.Setting(run="xxxxx", namespace="x")


def groups(spec: JobSpec, setting: pods.Setting = _SETTING) -> tuple[Group, ...]:
    """The pods as they are sent, with podPatch; the lead's first.  Names that only a run has are made up."""
    plan = LaunchPlan(spec.name, spec.framework, (), EndRule(()))
    members = (
        Group(role.name, role.replicas, pods.member_pod(spec, plan, role, setting)) for role in spec.roles
    )
    return (Group(words.LEAD, 1, pods.lead_pod(spec, setting)), *members)


def asked(containers: Iterable[Mapping[str, Any]], kind: str) -> dict[str, int]:
    """What all of these together have under `requests` or `limits`."""
    total: dict[str, int] = {}
    for container in containers:
        for resource, value in millis((container.get("resources") or {}).get(kind)).items():
            total[resource] = total.get(resource, 0) + value
    return total


def of_pod(spec: Mapping[str, Any], kind: str) -> dict[str, int]:
    """As the scheduler and a quota count a pod: its containers, or the largest init container before them."""
    inits = spec.get("initContainers", ())
    beside = [each for each in inits if each.get("restartPolicy") == "Always"]
    total = asked([*spec.get("containers", ()), *beside], kind)
    for container in inits:
        for resource, value in asked([container], kind).items():
            total[resource] = max(total.get(resource, 0), value)
    for resource, value in millis(spec.get("overhead")).items():
        total[resource] = total.get(resource, 0) + value
    return total
