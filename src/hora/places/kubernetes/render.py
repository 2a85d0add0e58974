"""Everything that a run is on a cluster, as Kubernetes objects.  Pure: `submit` sends what this returns."""

from __future__ import annotations

import json
import zlib

from hora import plan as plans
from hora.errors import UsageError
from hora.places.kubernetes import shipping, words
from hora.places.kubernetes.pods import agent_config, lead_pod, member_pod, secret_key
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from hora.identity import Identity
    from hora.places.base import Submission
    from hora.places.code import Packed
    from hora.places.kubernetes.pods import Setting
    from hora.spec import JobSpec

    Object = dict[str, Any]

LEAD_TRIES = 20  # pods of the lead; each next one waits longer
MEMBER_TRIES = 1_000_000  # a lost member is made again as long as the lead wants it
MOST_CONFIG = 1_000_000  # bytes in one ConfigMap; Kubernetes takes 1 MiB


class Objects(Record):
    """`lead` owns all others; `members` come once the lead's address is known, or after a moment without."""

    lead: Object
    parts: tuple[Object, ...]  # what the lead's pod mounts and is reached by
    members: tuple[Object, ...]

    @property
    def all(self) -> tuple[Object, ...]:
        return (*self.parts, self.lead, *self.members)


def render(
    submission: Submission,
    setting: Setting,
    agent: bytes,
    created_at: float | None,
    identity: Identity | None = None,
    values: Mapping[str, Mapping[str, str]] | None = None,
    code: Packed | None = None,
) -> Objects:
    """`identity` and `values` (secrets of the caller, by role and variable) are left open where absent."""
    spec, plan = submission.spec, submission.plan
    ships = shipping.shipped(code)
    agent_parts = words.pieces(agent)
    plan_parts = words.pieces(zlib.compress(plans.dumps(plan).encode(), 9))
    parts = (
        _secret(spec, setting, identity, values or {}),
        _config(submission, setting, created_at, plan_parts, ships),
        _agent(spec, setting, agent_parts),
        *_code(spec, setting, ships),
        _service(spec, setting),
        _peers(spec, setting),
        _network_policy(spec, setting),
    )
    template = lead_pod(spec, setting, len(agent_parts), len(plan_parts), ships)
    lead = _lead_job(submission, setting, created_at, template)
    return Objects(lead, parts, members(spec, plan, setting))


def about(submission: Submission, setting: Setting, created_at: float | None) -> dict[str, Any]:
    """What is known of a run without its lead."""
    spec = submission.spec
    return {
        "id": setting.run,
        "name": spec.name,
        "place": "kubernetes",
        "createdAt": created_at,
        "command": list(spec.roles[0].command),
        "framework": spec.framework,
    }


# --- Jobs --------------------------------------------------------------------------------------------


def _lead_job(submission: Submission, setting: Setting, created_at: float | None, template: Object) -> Object:
    spec = submission.spec
    job = {
        "backoffLimit": LEAD_TRIES,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": [_ignore_disruptions(), _fail_on(words.LEAD, words.VERDICT)]},
        "template": template,
    }
    if spec.keep is not None:
        job["ttlSecondsAfterFinished"] = int(spec.keep)
    made = _object("batch/v1", "Job", words.base(spec.name, setting.run), spec, setting, words.LEAD)
    told = about(submission, setting, created_at)
    made["metadata"]["annotations"] = {
        **made["metadata"].get("annotations", {}),
        words.ABOUT: words.compact({**told, "members": _seats(spec)}),
    }
    return {**made, "spec": job}


def _seats(spec: JobSpec) -> dict[str, int]:
    return {role.name: role.replicas for role in spec.roles}


def members(spec: JobSpec, plan: plans.LaunchPlan, setting: Setting) -> tuple[Object, ...]:
    made = []
    for role in spec.roles:
        if not role.replicas:
            continue
        job = {
            "completionMode": "Indexed",
            "completions": role.replicas,
            "parallelism": role.replicas,
            "backoffLimit": MEMBER_TRIES,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [_ignore_disruptions(), _fail_on(words.MEMBER, words.GAVE_UP)]},
            "template": member_pod(spec, plan, role, setting),
        }
        name = words.role_job(spec.name, setting.run, role.name)
        head = _object("batch/v1", "Job", name, spec, setting, role.name)
        if role.placement.queue:
            head["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = role.placement.queue
        made.append({**head, "spec": job})
    return tuple(made)


def _ignore_disruptions() -> dict[str, Any]:
    return {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def _fail_on(container: str, code: int) -> dict[str, Any]:
    codes = {"containerName": container, "operator": "In", "values": [code]}
    return {"action": "FailJob", "onExitCodes": codes}


# --- what the pods mount -----------------------------------------------------------------------------


def _secret(
    spec: JobSpec, setting: Setting, identity: Identity | None, values: Mapping[str, Mapping[str, str]]
) -> Object:
    parts = {words.LEAD: "lead", words.MEMBER: "agent", words.CLIENT: "client"}
    data = {
        f"{name}.json": "" if identity is None else json.dumps(identity.part(part))
        for name, part in parts.items()
    }
    for role in spec.roles:
        for variable, source in role.secrets:
            if source.secret is None:
                data[secret_key(role, variable)] = values.get(role.name, {}).get(variable, "")
    made = _object("v1", "Secret", words.base(spec.name, setting.run), spec, setting)
    return {**made, "type": "Opaque", "immutable": True, "stringData": data}


def _config(
    submission: Submission,
    setting: Setting,
    created_at: float | None,
    plan_parts: Sequence[str],
    code: shipping.Shipped,
) -> Object:
    """The lead's: the run and its plan."""
    size = sum(map(len, plan_parts))
    if size > MOST_CONFIG:
        raise UsageError(
            f"the job is too large for the cluster: its plan has {size >> 10} KiB when packed, a ConfigMap "
            f"takes {MOST_CONFIG >> 10}; make env smaller, or read large values from a file in code"
        )
    config = {"run": about(submission, setting, created_at), "notes": list(submission.notes)}
    if code.config is not None:
        config["code"] = code.config
    name = words.base(submission.spec.name, setting.run)
    made = _object("v1", "ConfigMap", name, submission.spec, setting)
    plan = {f"plan-{number}": part for number, part in enumerate(plan_parts)}
    return {**made, "immutable": True, "data": {"lead.json": words.compact(config), **plan}}


def _code(spec: JobSpec, setting: Setting, code: shipping.Shipped) -> list[Object]:
    names = shipping.config_names(words.base(spec.name, setting.run), code)
    return [
        {**_object("v1", "ConfigMap", name, spec, setting), "immutable": True, **content}
        for name, content in zip(names, shipping.contents(code), strict=True)
    ]


def _agent(spec: JobSpec, setting: Setting, agent_parts: Sequence[str]) -> Object:
    made = _object("v1", "ConfigMap", agent_config(spec, setting), spec, setting)
    data = {f"agent-{number}": part for number, part in enumerate(agent_parts)}
    return {**made, "immutable": True, "data": data}


# --- the network -------------------------------------------------------------------------------------


def _service(spec: JobSpec, setting: Setting) -> Object:
    """The way to the lead when its address is not known or has changed."""
    made = _object("v1", "Service", words.base(spec.name, setting.run), spec, setting, words.LEAD)
    ports = [
        {"name": "hora", "port": words.PORT, "targetPort": "hora"},
        {"name": "handout", "port": words.PORT + 1, "targetPort": "handout"},
    ]
    select = {words.RUN: setting.run, words.ROLE: words.LEAD}
    return {**made, "spec": {"selector": select, "ports": ports, "publishNotReadyAddresses": True}}


def _peers(spec: JobSpec, setting: Setting) -> Object:
    made = _object("v1", "Service", words.peers_service(spec.name, setting.run), spec, setting)
    select = {words.RUN: setting.run}
    return {**made, "spec": {"clusterIP": "None", "selector": select, "publishNotReadyAddresses": True}}


def _network_policy(spec: JobSpec, setting: Setting) -> Object:
    """Only pods of this run reach each other; `network.allowFrom` lets others in."""
    peers: list[dict[str, Any]] = [{"podSelector": {"matchLabels": {words.RUN: setting.run}}}]
    peers += [_peer(text) for text in spec.network.allow_from]
    made = _object("networking.k8s.io/v1", "NetworkPolicy", words.base(spec.name, setting.run), spec, setting)
    select = {"matchLabels": {words.RUN: setting.run}}
    return {
        **made,
        "spec": {"podSelector": select, "policyTypes": ["Ingress"], "ingress": [{"from": peers}]},
    }


def _peer(text: str) -> dict[str, Any]:
    """A block of addresses, or a namespace."""
    if "/" in text:
        return {"ipBlock": {"cidr": text}}
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": text}}}


# --- all of them -------------------------------------------------------------------------------------


def _object(
    version: str, kind: str, name: str, spec: JobSpec, setting: Setting, role: str | None = None
) -> Object:
    shared = spec.roles[0].kubernetes
    labels = {**dict(shared.labels), **words.labels(setting.run, spec.name, role)}
    metadata: dict[str, Any] = {"name": name, "namespace": setting.namespace, "labels": labels}
    if shared.annotations:
        metadata["annotations"] = dict(shared.annotations)
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def owned(made: Object, lead: Object) -> Object:
    """The same object, gone when the lead's Job goes; `lead` as the cluster returned it."""
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": lead["metadata"]["name"],
        "uid": lead["metadata"]["uid"],
        "controller": False,
        "blockOwnerDeletion": False,
    }
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [owner]}}
