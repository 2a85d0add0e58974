"""Which Pod Security level a job needs, and because of which key of the job file.  Pure.

The checks are those of Kubernetes 1.34's Pod Security Standards, asked of the pods as they are sent.
"""

from __future__ import annotations

import re

from hora.places.kubernetes.amounts import groups
from hora.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from hora.places.kubernetes.amounts import Group
    from hora.spec import JobSpec, RoleSpec

    Object = Mapping[str, Any]

LEVELS = ("restricted", "baseline", "privileged")  # each allows all that those before it do
RESTRICTED, BASELINE, PRIVILEGED = LEVELS
PATCH = "kubernetes.podPatch"

VOLUMES = (
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image",
    "persistentVolumeClaim", "projected", "secret",
)  # fmt: skip
CAPABILITIES = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
    "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
)  # fmt: skip
SYSCTLS = (
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
)  # fmt: skip
SELINUX = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")


class Need(Record):
    level: str  # the least that allows it
    key: str  # of the job file: kubernetes.user, roles.ps.volumes, kubernetes.podPatch, ...
    what: str  # user 0, the nfs volume at /ckpt, ...


def needed(spec: JobSpec) -> tuple[Need, ...]:
    """Everything that `restricted` forbids; nothing for a job that runs anywhere.  The highest level first."""
    found: dict[tuple[str, str, str], list[str]] = {}
    plain = {group.role: group for group in groups(_unpatched(spec))}
    for group in groups(spec):
        before = set(_broken(plain[group.role]))
        role = spec.role(group.role) or spec.roles[0]
        for level, what in _broken(group):
            key, what = _source(role, what) if (level, what) in before else (PATCH, what)
            found.setdefault((level, key, what), []).append(role.name)
    needs = [Need(level, _path(spec, key, set(roles)), what) for (level, key, what), roles in found.items()]
    return tuple(sorted(dict.fromkeys(needs), key=lambda need: -LEVELS.index(need.level)))


def level(needs: Sequence[Need]) -> str:
    """The least level that allows the job."""
    return max((need.level for need in needs), key=LEVELS.index, default=RESTRICTED)


def refusal(needs: Sequence[Need], enforced: str) -> str | None:
    """One sentence when the namespace enforces less than the job needs.  `enforced` as in its label."""
    allowed = LEVELS.index(enforced) if enforced in LEVELS else LEVELS.index(PRIVILEGED)
    over = [need for need in needs if LEVELS.index(need.level) > allowed]
    if not over:
        return None
    return (
        f"{listed(over)} {'needs' if len(over) == 1 else 'need'} the Pod Security level {level(over)}, and the "
        f"namespace enforces {enforced}: {without(over)}, or ask for a namespace with that level"
    )


def listed(needs: Sequence[Need]) -> str:
    """kubernetes.user (user 0) and volumes (the nfs volume at /a, the nfs volume at /b)."""
    by_key: dict[str, list[str]] = {}
    for need in needs:
        by_key.setdefault(need.key, []).append(need.what)
    return joined([f"{key} ({', '.join(dict.fromkeys(what))})" for key, what in by_key.items()])


def without(needs: Sequence[Need]) -> str:
    """What to write instead."""
    return joined(list(dict.fromkeys(_OTHERWISE.get(need.key.split(".")[-1], "") for need in needs)))


_OTHERWISE = {
    "user": "leave out kubernetes.user (Hora then runs as user 1000)",
    "volumes": "use a pvc volume instead",
    "host": "leave out network.host",
    "podPatch": "take that out of kubernetes.podPatch",
}


def _unpatched(spec: JobSpec) -> JobSpec:
    roles = tuple(replace(role, kubernetes=replace(role.kubernetes, pod_patch="{}")) for role in spec.roles)
    return replace(spec, roles=roles)


def _source(role: RoleSpec, what: str) -> tuple[str, str]:
    """The key that brought it in; volumes are named by where they are mounted."""
    for volume in role.volumes:
        if what == _volume(volume.kind):
            return "volumes", f"the {volume.kind} volume at {volume.mount}"
    return ("network.host", what) if what == _HOST_NETWORK else ("kubernetes.user", what)


def _path(spec: JobSpec, key: str, roles: set[str]) -> str:
    """The short form holds where all roles have it."""
    return key if len(roles) == len(spec.roles) or key == "network.host" else f"roles.{min(roles)}.{key}"


def joined(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


# --- the standards -----------------------------------------------------------------------------------

_HOST_NETWORK = "the host's network"


def _volume(kind: str) -> str:
    return f"a volume of the kind {kind}"


def _broken(group: Group) -> Iterator[tuple[str, str]]:
    """(level that is needed, what needs it), as a set would hold them but in order."""
    found = [*_of_pod(group.spec)]
    for container in group.containers:
        found += _of_container(container)
    found += _who(group)
    yield from dict.fromkeys(found)


def _of_pod(pod: Object) -> Iterator[tuple[str, str]]:
    hosts = {"hostNetwork": _HOST_NETWORK, "hostPID": "hostPID", "hostIPC": "hostIPC"}
    for key, what in hosts.items():
        if pod.get(key):
            yield PRIVILEGED, what
    for volume in pod.get("volumes", ()):
        kind = next((key for key in volume if key != "name"), "emptyDir")
        if kind not in VOLUMES:
            yield (PRIVILEGED if kind == "hostPath" else BASELINE), _volume(kind)
    security = pod.get("securityContext") or {}
    for sysctl in security.get("sysctls", ()):
        if sysctl.get("name") not in SYSCTLS:
            yield PRIVILEGED, f"the sysctl {sysctl.get('name')}"
    yield from _profiles(security)


def _of_container(container: Object) -> Iterator[tuple[str, str]]:
    security = container.get("securityContext") or {}
    name = container.get("name", "")
    if security.get("privileged"):
        yield PRIVILEGED, f"privileged in the container {name}"
    if security.get("procMount", "Default") != "Default":
        yield PRIVILEGED, f"procMount in the container {name}"
    capabilities = security.get("capabilities") or {}
    for capability in capabilities.get("add") or ():
        if capability != "NET_BIND_SERVICE":
            yield (BASELINE if capability in CAPABILITIES else PRIVILEGED), f"the capability {capability}"
    if "ALL" not in (capabilities.get("drop") or ()):
        yield BASELINE, f"the container {name} without securityContext.capabilities.drop: [ALL]"
    if security.get("allowPrivilegeEscalation") is not False:
        yield BASELINE, f"the container {name} without securityContext.allowPrivilegeEscalation: false"
    for port in container.get("ports", ()):
        if port.get("hostPort"):
            yield PRIVILEGED, f"the host's port {port['hostPort']}"
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        for way in ("httpGet", "tcpSocket"):
            if ((container.get(probe) or {}).get(way) or {}).get("host"):
                yield PRIVILEGED, f"{probe} with a host"
    yield from _profiles(security)


def _profiles(security: Object) -> Iterator[tuple[str, str]]:
    if (security.get("seccompProfile") or {}).get("type") == "Unconfined":
        yield PRIVILEGED, "seccompProfile Unconfined"
    if (security.get("appArmorProfile") or {}).get("type") == "Unconfined":
        yield PRIVILEGED, "appArmorProfile Unconfined"
    selinux = security.get("seLinuxOptions") or {}
    if selinux.get("type", "") not in SELINUX or selinux.get("user") or selinux.get("role"):
        yield PRIVILEGED, "seLinuxOptions"
    if (security.get("windowsOptions") or {}).get("hostProcess"):
        yield PRIVILEGED, "a Windows host process"


def _who(group: Group) -> Iterator[tuple[str, str]]:
    """User and seccomp: the pod's word holds for containers that say nothing."""
    pod = group.spec.get("securityContext") or {}
    for container in group.containers:
        own = container.get("securityContext") or {}
        user = own.get("runAsUser", pod.get("runAsUser"))
        if user == 0 or own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
            yield BASELINE, "user 0" if user == 0 else "runAsNonRoot not set"
        if not own.get("seccompProfile", pod.get("seccompProfile")):
            yield BASELINE, "no seccompProfile"


# --- what the admission says -------------------------------------------------------------------------

# Its reasons, the level that each needs where `restricted` or `baseline` is enforced, and the key behind it.
_SAYS: tuple[tuple[str, str, str, str], ...] = (
    (r"host namespaces \([^()]*?hostNetwork=true", PRIVILEGED, "network.host", "the host's network"),
    (r"host namespaces \([^()]*?(hostPID|hostIPC)=true", PRIVILEGED, PATCH, "{}"),
    (r"hostPath volumes", PRIVILEGED, "volumes", "a hostPath volume"),
    (r"hostPort \(", PRIVILEGED, PATCH, "a port of the host"),
    (r"privileged \(", PRIVILEGED, PATCH, "a privileged container"),
    (r"non-default capabilities \([^()]*?must not include ([^()]*?) in", PRIVILEGED, PATCH, "the capability {}"),
    (r'seccompProfile \([^()]*?to "Unconfined"', PRIVILEGED, PATCH, "seccompProfile Unconfined"),
    ((r"(seLinuxOptions|procMount|hostProcess|forbidden sysctls|forbidden AppArmor profiles?|"
     r"probe or lifecycle host)"), PRIVILEGED, PATCH, "{}"),
    (r'restricted volume types \([^()]*?types? ("[^()]*)', BASELINE, "volumes", "the volume type {}"),
    (r"runAsUser=0", BASELINE, "kubernetes.user", "user 0"),
    (r"runAsNonRoot != true", BASELINE, "kubernetes.user", "user 0"),
    (r"unrestricted capabilities \([^()]*?must not include ([^()]*?) in", BASELINE, PATCH, "the capability {}"),
    (r"unrestricted capabilities \([^()]*?(?:container|containers) ([^()]*?) must set", BASELINE, PATCH,
     "the container {} without capabilities.drop: [ALL]"),
    (r"allowPrivilegeEscalation != false \(containers? ([^()]*?) must", BASELINE, PATCH,
     "the container {} without allowPrivilegeEscalation: false"),
    (r"seccompProfile \(pod or", BASELINE, PATCH, "no seccompProfile"),
)  # fmt: skip


def told(message: str) -> tuple[str, tuple[Need, ...]]:
    """The enforced level, and what is needed, from: violates PodSecurity "restricted:latest": ..."""
    match = re.search(r'violates PodSecurity "([a-z]+):[^"]*": (.*)', message, re.DOTALL)
    if match is None:
        return "", ()
    needs: list[Need] = []
    for pattern, least, key, what in _SAYS:
        found = re.search(pattern, match[2])
        if found:
            detail = found[1].replace('"', "") if found.groups() else ""
            needs.append(Need(least, key, what.format(detail)))
    if any(need.what == "a hostPath volume" for need in needs):  # `restricted` names it a second time
        needs = [need for need in needs if need.what != "the volume type hostPath"]
    return match[1], tuple(dict.fromkeys(needs))
