"""Pods: the lead's and the members'.  Pure: no clock, no cluster, no randomness."""

from __future__ import annotations

import json

from hora.places.kubernetes import quantities, shipping, words
from hora.places.kubernetes.volumes import volumes
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hora.plan import LaunchPlan
    from hora.spec import JobSpec, Kubernetes, Placement, RoleSpec

USER = 1000  # unless the job or the cluster says otherwise
GRACE_MORE = 15  # seconds for the agent beyond what the ranks have
LEAD_RESOURCES = {
    "requests": {"cpu": "100m", "memory": "128Mi"},
    "limits": {"cpu": "1", "memory": "256Mi"},  # with 100m it would need a second to start
}
# Hora finds a Python by itself: images call it python3 or python.
_START = (
    "for p in python3 python; do command -v $p >/dev/null 2>&1 && "
    'exec $p -S -E -c "$HORA_POD_BOOT"; done; '
    'echo "hora: this image has no python3; Hora needs Python 3.8 or newer in it" >&2; exit 127'
)


class Setting(Record):
    """What is the run's and the cluster's rather than the job's."""

    run: str
    namespace: str
    agent: str = ""  # hash of the agent that members fetch from the lead
    leads: tuple[str, ...] = ()  # addresses of the lead, where they are known when members are made
    uids: bool = True  # False: the cluster assigns user ids itself (OpenShift)


def lead_pod(
    spec: JobSpec,
    setting: Setting,
    agent_parts: int = 0,
    plan_parts: int = 0,
    code: shipping.Shipped = shipping.NOTHING,
) -> dict[str, Any]:
    first = spec.roles[0]
    name = words.base(spec.name, setting.run)
    agent = agent_config(spec, setting)
    config = {"part": words.LEAD, "run": setting.run, "port": words.PORT}
    container = {
        "name": words.LEAD,
        "image": first.image,
        "env": [
            *_boot(spec, setting, words.LEAD, config),
            _from_config("HORA_POD_LEAD", name, "lead.json"),
            *(_from_config(f"HORA_POD_PLAN_{n}", name, f"plan-{n}") for n in range(plan_parts)),
            *(_from_config(f"HORA_POD_AGENT_{n}", agent, f"agent-{n}") for n in range(agent_parts)),
            *shipping.environment(name, code),
        ],
        "ports": [
            {"name": "hora", "containerPort": words.PORT},
            {"name": "handout", "containerPort": words.PORT + 1},
        ],
        "resources": LEAD_RESOURCES,
    }
    if code.shards:
        container["volumeMounts"] = [{"name": "code", "mountPath": shipping.FOLDER, "readOnly": True}]
    pod = _pod(first, setting, container, _like(first.placement), grace=5)
    if code.shards:
        pod["volumes"] = [shipping.volume(name, code)]
    return _template(spec, first.kubernetes, setting, words.LEAD, pod)


def member_pod(spec: JobSpec, plan: LaunchPlan, role: RoleSpec, setting: Setting) -> dict[str, Any]:
    own, mounts = volumes(role.volumes, role.resources.shm)
    container = {
        "name": words.MEMBER,
        "image": role.image,
        # Before all others: Kubernetes adds the index of a Job's pod after them, too late to be used.
        "env": [
            _field("HORA_POD_INDEX", "metadata.annotations['batch.kubernetes.io/job-completion-index']"),
            *_boot(spec, setting, words.MEMBER, member_config(spec, plan, role, setting)),
            *_secrets(spec, role, setting),
        ],
        "resources": quantities.requirements(role.resources),
    }
    if mounts:
        container["volumeMounts"] = mounts
    grace = int(spec.timeouts.grace) + GRACE_MORE
    pod = _pod(role, setting, container, _placement(role.placement), grace)
    if own:
        pod["volumes"] = own
    pod["subdomain"] = words.peers_service(spec.name, setting.run)
    if spec.network.host:
        pod["hostNetwork"] = True
        pod["dnsPolicy"] = "ClusterFirstWithHostNet"
    return _template(spec, role.kubernetes, setting, role.name, pod)


def member_config(spec: JobSpec, plan: LaunchPlan, role: RoleSpec, setting: Setting) -> dict[str, Any]:
    """What the agents of a role are told: their own number they find in the environment."""
    hosts = [*setting.leads, words.base(spec.name, setting.run)]
    return {
        "part": words.MEMBER,
        "run": setting.run,
        "role": role.name,
        "lead": [[host, words.PORT] for host in hosts],
        "handout": [[host, words.PORT + 1] for host in hosts],
        "agent": setting.agent,
        "patience": plan.limits.start,
        "grace": plan.limits.grace,
        "output": plan.output,
        "ports": list(plan.ports),
    }


def agent_config(spec: JobSpec, setting: Setting) -> str:
    return words.role_job(spec.name, setting.run, "agent")


def _boot(spec: JobSpec, setting: Setting, part: str, config: dict[str, Any]) -> list[dict[str, Any]]:
    """Only its own part of the identity: a member can't speak as the lead or as a client."""
    identity = {"name": words.base(spec.name, setting.run), "key": f"{part}.json"}
    return [
        _field("HORA_POD_IP", "status.podIP"),
        {"name": "HORA_POD_CONFIG", "value": words.literal(json.dumps(config))},
        {"name": "HORA_POD_IDENTITY", "valueFrom": {"secretKeyRef": identity}},
        {"name": "HORA_POD_BOOT", "value": words.literal(_boot_text())},
    ]


def _boot_text() -> str:
    from hora.agent import boot

    with open(boot.__file__, encoding="utf-8") as file:
        return file.read()


# --- parts -------------------------------------------------------------------------------------------


def _pod(
    role: RoleSpec, setting: Setting, container: dict[str, Any], placement: dict[str, Any], grace: int
) -> dict[str, Any]:
    kubernetes = role.kubernetes
    container = {
        **container,
        "command": ["sh", "-c", _START],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if kubernetes.image_pull_policy:
        container["imagePullPolicy"] = kubernetes.image_pull_policy
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace,
        "securityContext": _security(kubernetes, setting),
        **placement,
        "containers": [container],
    }
    if kubernetes.service_account:
        pod["serviceAccountName"] = kubernetes.service_account
    if kubernetes.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in kubernetes.image_pull_secrets]
    if kubernetes.runtime_class:
        pod["runtimeClassName"] = kubernetes.runtime_class
    return pod


def _template(
    spec: JobSpec, kubernetes: Kubernetes, setting: Setting, role: str, pod: dict[str, Any]
) -> dict[str, Any]:
    labels = {
        **dict(kubernetes.labels),
        **words.labels(setting.run, spec.name, role),
        "sidecar.istio.io/inject": "false",
    }
    annotations = {**dict(kubernetes.annotations), "sidecar.istio.io/inject": "false"}
    made = {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod}
    patched: dict[str, Any] = merged(made, _patch_of(role, json.loads(kubernetes.pod_patch)))
    return patched


def _patch_of(role: str, patch: Any) -> Any:
    """Without the other kind's container: a patch that names both is one for lead and members alike."""
    other = words.MEMBER if role == words.LEAD else words.LEAD
    containers = patch.get("spec", {}).get("containers") if isinstance(patch, dict) else None
    if not isinstance(containers, list):
        return patch
    kept = [each for each in containers if not (isinstance(each, dict) and each.get("name") == other)]
    return {**patch, "spec": {**patch["spec"], "containers": kept}}


def _security(kubernetes: Kubernetes, setting: Setting) -> dict[str, Any]:
    context: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
    user = kubernetes.user if kubernetes.user is not None else (USER if setting.uids else None)
    group = kubernetes.group if kubernetes.group is not None else user
    fs_group = kubernetes.fs_group if kubernetes.fs_group is not None else group
    context["runAsNonRoot"] = user != 0
    given = {"runAsUser": user, "runAsGroup": group, "fsGroup": fs_group}
    context.update({key: value for key, value in given.items() if value is not None})
    if fs_group is not None:
        context["fsGroupChangePolicy"] = "OnRootMismatch"  # else every file of a large volume is touched
    return context


def _placement(placement: Placement) -> dict[str, Any]:
    made = _like(placement)
    affinity = json.loads(placement.affinity)
    if affinity:
        made["affinity"] = affinity
    return made


def _like(placement: Placement) -> dict[str, Any]:
    """What also holds for the lead, which may need the same nodes but no place of its own among them."""
    made: dict[str, Any] = {}
    if placement.node_selector:
        made["nodeSelector"] = dict(placement.node_selector)
    if placement.tolerations:
        made["tolerations"] = [_toleration(each) for each in placement.tolerations]
    if placement.priority_class:
        made["priorityClassName"] = placement.priority_class
    if placement.scheduler:
        made["schedulerName"] = placement.scheduler
    return made


def _toleration(toleration: Any) -> dict[str, Any]:
    given = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
        "tolerationSeconds": toleration.toleration_seconds,
    }
    return {key: value for key, value in given.items() if value is not None}


def _secrets(spec: JobSpec, role: RoleSpec, setting: Setting) -> list[dict[str, Any]]:
    """Those of the cluster by name; the caller's own values lie in the run's Secret."""
    made = []
    for variable, source in role.secrets:
        name, key = source.secret, source.key
        if source.secret is None:
            name, key = words.base(spec.name, setting.run), secret_key(role, variable)
        made.append({"name": variable, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}})
    return made


def secret_key(role: RoleSpec, variable: str) -> str:
    return f"env.{role.name}.{variable}"


def _from_config(name: str, config: str, key: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"configMapKeyRef": {"name": config, "key": key}}}


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def merged(base: Any, patch: Any) -> Any:
    """As `kubectl patch --type merge`, but lists of named things are merged by name."""
    if isinstance(base, dict) and isinstance(patch, dict):
        made = dict(base)
        for key, value in patch.items():
            if value is None:
                made.pop(key, None)
            else:
                made[key] = merged(made[key], value) if key in made else value
        return made
    if _named(base) and _named(patch):
        by_name = {item["name"]: item for item in base}
        for item in patch:
            by_name[item["name"]] = merged(by_name.get(item["name"], {}), item)
        return list(by_name.values())
    return patch


def _named(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) and "name" in item for item in value)
