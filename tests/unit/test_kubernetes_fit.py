"""What is refused before anything is made on a cluster, and what is remarked: numbers, levels, claims, quotas, nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hora import frameworks
from hora.load import from_python
from hora.places.base import Submission
from hora.places.kubernetes import amounts, fit, levels, room
from hora.places.kubernetes.pods import Setting
from hora.places.kubernetes.render import render
from hora.spec import JobSpec

Object = dict[str, Any]


def a_job(**keys: Any) -> JobSpec:
    return from_python(command=["train"], **{"image": "python:3.12", **keys}).spec


# --- quantities --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [("2", 2000), ("500m", 500), ("0.5", 500), (".5", 500), ("1.", 1000), (4, 4000), (0.1, 100), ("1k", 10**6),
     ("4Gi", 4000 << 30), ("1.5Ki", 1536000), ("1e3", 10**6), ("1E3", 10**6), ("1E", 10**21), ("12E-1", 1200),
     ("100u", 1), ("1n", 1), ("-2", -2000), ("+2", 2000), ("0", 0), ("0.0001", 1)],
)  # fmt: skip
def test_quantities_as_kubernetes_writes_them(text: object, thousandths: int) -> None:
    assert amounts.milli(text) == thousandths


@pytest.mark.parametrize("text", ["", "Gi", "4 Gi", "4gi", "1e", "two", "1.2.3", None, "4GiB"])
def test_what_is_no_quantity(text: object) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        amounts.milli(text)
    assert amounts.millis({"cpu": text, "memory": "1"}) == {"memory": 1000}


@given(st.integers(0, 10**15), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi"]))
def test_whole_quantities_are_exact(number: int, unit: str) -> None:
    factor = {"m": 1, "": 1000, "k": 10**6, "M": 10**9, "Ki": 1000 << 10, "Mi": 1000 << 20, "Gi": 1000 << 30}[
        unit
    ]
    assert amounts.milli(f"{number}{unit}") == number * factor


@pytest.mark.parametrize(
    ("quantity", "resource", "text"),
    [("1", "cpu", "1 CPU"), ("36", "requests.cpu", "36 CPUs"), ("100m", "limits.cpu", "0.1 CPU"),
     ("4Gi", "memory", "4Gi memory"), ("1536Mi", "limits.memory", "1.5Gi memory"), ("0", "memory", "0 memory"),
     ("8", "requests.nvidia.com/gpu", "8 GPUs"), ("1", "rdma/hca", "1 rdma/hca"), ("3", "pods", "3 pods"),
     ("2", "count/jobs.batch", "2 jobs.batch"), ("1Gi", "ephemeral-storage", "1Gi local disk")],
)  # fmt: skip
def test_amounts_in_words(quantity: str, resource: str, text: str) -> None:
    assert amounts.amount(amounts.milli(quantity), resource) == text


def test_a_pod_is_counted_as_the_scheduler_does() -> None:
    def container(cpu: str, **rest: Any) -> Object:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **rest}

    pod = {"containers": [container("1"), container("500m")], "overhead": {"cpu": "100m"}}
    assert amounts.of_pod(pod, "requests") == {"cpu": 1600}
    pod["initContainers"] = [container("4"), container("1", restartPolicy="Always")]
    assert amounts.of_pod(pod, "requests") == {"cpu": 4100}


# --- Pod Security levels -----------------------------------------------------------------------------


def patched(**pod: Any) -> JobSpec:
    return a_job(kubernetes={"podPatch": {"spec": pod}})


def in_member(**security: Any) -> JobSpec:
    return patched(containers=[{"name": "member", "securityContext": security}])


NFS = {"mount": "/ckpt", "nfs": {"server": "10.0.0.2", "path": "/export"}}


@pytest.mark.parametrize(
    ("spec", "needs"),
    [
        pytest.param(a_job(), [], id="the default job"),
        pytest.param(a_job(volumes=[{"mount": "/a", "pvc": "a"}, {"mount": "/b", "scratch": "1Gi"}, {"mount": "/c", "memory": "1Gi"},
                                    {"mount": "/d", "configMap": "d"}, {"mount": "/e", "secret": "e"}, {"mount": "/f", "csi": {"driver": "f"}}],
                           resources={"shm": "1Gi"}), [], id="volumes that restricted allows"),
        pytest.param(a_job(kubernetes={"user": 0}), [("baseline", "kubernetes.user", "user 0")], id="root"),
        pytest.param(a_job(volumes=[NFS]), [("baseline", "volumes", "the nfs volume at /ckpt")], id="nfs"),
        pytest.param(a_job(volumes=[{"mount": "/s", "azureFile": {"secretName": "a", "shareName": "s"}}]),
                     [("baseline", "volumes", "the azureFile volume at /s")], id="Azure File"),
        pytest.param(a_job(volumes=[{"mount": "/data", "hostPath": "/data"}]),
                     [("privileged", "volumes", "the hostPath volume at /data")], id="a folder of the node"),
        pytest.param(a_job(network={"host": True}), [("privileged", "network.host", "the host's network")], id="host network"),
        pytest.param(in_member(capabilities={"add": ["IPC_LOCK"]}),
                     [("privileged", "kubernetes.podPatch", "the capability IPC_LOCK")], id="IPC_LOCK, as RDMA needs it"),
        pytest.param(in_member(capabilities={"add": ["CHOWN"]}),
                     [("baseline", "kubernetes.podPatch", "the capability CHOWN")], id="CHOWN"),
        pytest.param(in_member(capabilities={"add": ["NET_BIND_SERVICE"]}), [], id="the one capability that is free"),
        pytest.param(in_member(privileged=True), [("privileged", "kubernetes.podPatch", "privileged in the container member")], id="privileged"),
        pytest.param(in_member(runAsUser=0, runAsNonRoot=False), [("baseline", "kubernetes.podPatch", "user 0")], id="root by patch"),
        pytest.param(in_member(seccompProfile={"type": "Unconfined"}),
                     [("privileged", "kubernetes.podPatch", "seccompProfile Unconfined")], id="no seccomp"),
        pytest.param(patched(hostPID=True, hostIPC=True), [("privileged", "kubernetes.podPatch", "hostPID"), ("privileged", "kubernetes.podPatch", "hostIPC")], id="the node's processes"),
        pytest.param(patched(securityContext={"sysctls": [{"name": "net.core.somaxconn", "value": "1"}, {"name": "net.ipv4.tcp_rmem", "value": "1"}]}),
                     [("privileged", "kubernetes.podPatch", "the sysctl net.core.somaxconn")], id="sysctls"),
        pytest.param(patched(initContainers=[{"name": "get", "image": "x"}]),
                     [("baseline", "kubernetes.podPatch", "the container get without securityContext.capabilities.drop: [ALL]"),
                      ("baseline", "kubernetes.podPatch", "the container get without securityContext.allowPrivilegeEscalation: false")], id="an init container without settings"),
        pytest.param(patched(containers=[{"name": "member", "ports": [{"containerPort": 80, "hostPort": 80}]}]),
                     [("privileged", "kubernetes.podPatch", "the host's port 80")], id="a port of the host"),
        pytest.param(patched(volumes=[{"name": "more", "iscsi": {}}]),
                     [("baseline", "kubernetes.podPatch", "a volume of the kind iscsi")], id="another volume by patch"),
        pytest.param(in_member(procMount="Unmasked", seLinuxOptions={"type": "spc_t"}, appArmorProfile={"type": "Unconfined"}, windowsOptions={"hostProcess": True}),
                     [("privileged", "kubernetes.podPatch", what) for what in ("procMount in the container member", "appArmorProfile Unconfined", "seLinuxOptions", "a Windows host process")], id="rarer things"),
        pytest.param(patched(containers=[{"name": "member", "livenessProbe": {"httpGet": {"host": "127.0.0.1", "port": 1}}}]),
                     [("privileged", "kubernetes.podPatch", "livenessProbe with a host")], id="a probe of another host"),
        pytest.param(patched(securityContext={"seccompProfile": None, "runAsNonRoot": None}),
                     [("baseline", "kubernetes.podPatch", "runAsNonRoot not set"), ("baseline", "kubernetes.podPatch", "no seccompProfile")], id="settings taken out"),
    ],
)  # fmt: skip
def test_the_level_that_a_job_needs(spec: JobSpec, needs: list[tuple[str, str, str]]) -> None:
    assert levels.needed(spec) == tuple(levels.Need(*need) for need in needs)


def test_a_role_is_named_where_only_it_needs_more() -> None:
    spec = a_job(roles={"worker": {"replicas": 2}, "ps": {"replicas": 1, "volumes": [NFS]}})
    assert levels.needed(spec) == (levels.Need("baseline", "roles.ps.volumes", "the nfs volume at /ckpt"),)


@pytest.mark.parametrize(
    ("enforced", "text"),
    [
        ("restricted",
         ("network.host (the host's network), kubernetes.user (user 0) and volumes (the nfs volume at /ckpt) need the Pod Security level "
         "privileged, and the namespace enforces restricted: leave out network.host, leave out kubernetes.user (Hora then runs as user "
         "1000) and use a pvc volume instead, or ask for a namespace with that level")),
        ("baseline",
         ("network.host (the host's network) needs the Pod Security level privileged, and the namespace enforces baseline: leave out "
         "network.host, or ask for a namespace with that level")),
        ("privileged", None),
        ("", None),
    ],
)  # fmt: skip
def test_what_a_namespace_refuses(enforced: str, text: str | None) -> None:
    needs = levels.needed(a_job(network={"host": True}, kubernetes={"user": 0}, volumes=[NFS]))
    ordered = tuple(sorted(needs, key=lambda need: (need.level != "privileged", need.key)))
    assert levels.refusal(ordered, enforced) == text
    assert levels.level(needs) == "privileged"


@pytest.mark.parametrize(
    ("detail", "needs"),
    [
        ('restricted volume types (volumes "v0", "v1" use restricted volume types "azureFile", "nfs")',
         [("baseline", "volumes", "the volume type azureFile, nfs")]),
        ('hostPath volumes (volume "v0"), restricted volume types (volume "v0" uses restricted volume type "hostPath")',
         [("privileged", "volumes", "a hostPath volume")]),
        ('unrestricted capabilities (container "member" must not include "CHOWN" in securityContext.capabilities.add), seccompProfile (pod or container "x" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
         [("baseline", "kubernetes.podPatch", "the capability CHOWN"), ("baseline", "kubernetes.podPatch", "no seccompProfile")]),
        ('seccompProfile (pod and container "member" must not set securityContext.seccompProfile.type to "Unconfined")',
         [("privileged", "kubernetes.podPatch", "seccompProfile Unconfined")]),
        ('unrestricted capabilities (container "get" must set securityContext.capabilities.drop=["ALL"])',
         [("baseline", "kubernetes.podPatch", "the container get without capabilities.drop: [ALL]")]),
        ('privileged (container "member" must not set securityContext.privileged=true), host namespaces (hostNetwork=true, hostPID=true)',
         [("privileged", "network.host", "the host's network"), ("privileged", "kubernetes.podPatch", "hostPID"), ("privileged", "kubernetes.podPatch", "a privileged container")]),
        ('hostPort (container "member" uses hostPort 80)', [("privileged", "kubernetes.podPatch", "a port of the host")]),
        ("forbidden sysctls (net.core.somaxconn)", [("privileged", "kubernetes.podPatch", "forbidden sysctls")]),
    ],
)  # fmt: skip
def test_what_the_admission_says_is_traced_to_keys(detail: str, needs: list[tuple[str, str, str]]) -> None:
    message = f'pods "x" is forbidden: violates PodSecurity "restricted:latest": {detail}'
    assert levels.told(message) == ("restricted", tuple(levels.Need(*need) for need in needs))
    assert levels.told("exceeded quota: x") == ("", ())


# --- what can't be on any cluster --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"image": None}, "image: is needed on Kubernetes: one with Python 3.8 or newer, as --image python:3.12-slim"),
        ({"image": None, "roles": {"worker": {"image": "a"}, "ps": {}}},
         "image: is needed on Kubernetes for ps: one with Python 3.8 or newer, as --image python:3.12-slim"),
        ({"image": "My Image"}, "image: 'My Image' isn't the name of an image: lower-case letters, as registry/folder/name:tag"),
        ({"roles": {"worker": {}, "ps": {}}, "placement": {"queue": "team-a"}},
         "placement.queue: the queue team-a would admit 2 roles one by one, and a run starts only whole: use one role, or leave the queue out"),
        ({"volumes": [{"mount": "/", "scratch": "1Gi"}]},
         "volumes: nothing can be mounted at /: the image's own files lie there; take another path"),
        ({"volumes": [{"mount": "/a:b", "scratch": "1Gi"}]}, "volumes: nothing can be mounted at /a:b: Kubernetes takes no ':' in a path"),
        ({"resources": {"rdma/hca": "0.5"}}, 'resources."rdma/hca": must be a whole number, got 0.5 (worker)'),
        ({"resources": {"rdma/hca": "some"}}, 'resources."rdma/hca": must be a whole number, got some (worker)'),
    ],
)  # fmt: skip
def test_what_no_cluster_can_do(keys: Object, problem: str) -> None:
    assert fit.problems(a_job(**keys)) == [problem]


@pytest.mark.parametrize(
    "image",
    ["python", "python:3.12", "team/train", "registry.example.org:5000/a/b_c--d:V1.2", "localhost/base:1",
     "registry.example/a/b@sha256:" + "0" * 64, "[::1]:5000/a"],
)  # fmt: skip
def test_what_is_fine_on_a_cluster(image: str) -> None:
    keys: Object = {
        "secrets": {"A": {"env": "HOME"}, "B": {"file": "/x"}},
        "code": {"git": "https://example.org/a.git"},
    }
    assert fit.problems(a_job(image=image, placement={"queue": "team-a"}, **keys)) == []


def test_a_job_of_services_alone() -> None:
    spec = from_python(services={"tensorboard": {"logdir": "/logs"}}).spec
    assert fit.problems(spec) == [
        "the job has no ranks, only services (tensorboard), and this version starts none: give it a command"
    ]


def test_names_of_any_length_that_the_job_file_allows_fit() -> None:
    assert fit.problems(a_job(name="a" * 40, roles={"b" * 11: {"replicas": 10000}})) == []


# --- claims ------------------------------------------------------------------------------------------


def claim(*modes: str, phase: str = "Bound") -> Object:
    return {"metadata": {"name": "data"}, "spec": {"accessModes": list(modes)}, "status": {"phase": phase}}


def node(cpu: str = "8", memory: str = "32Gi", labels: Object | None = None, **rest: Any) -> Object:
    more = {key: rest.pop(key) for key in list(rest) if "/" in key}
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110", **more}
    return {
        "metadata": {"name": "n", "labels": labels or {}},
        "spec": rest,
        "status": {"allocatable": allocatable},
    }


def with_claim(members: int = 4, **volume: Any) -> JobSpec:
    return a_job(workers=members, volumes=[{"mount": "/ckpt", "pvc": "data", **volume}])


WAYS_OUT = "use a claim with ReadWriteMany (nfs, or a file share), one worker, or each member's own scratch"
ONCE = "volumes: the claim data is ReadWriteOnce, so one node can mount it, and 4 members would"
POD = "volumes: the claim data is ReadWriteOncePod, so one pod can mount it, and 4 members would"


@pytest.mark.parametrize(
    ("spec", "modes", "nodes", "problems", "remarks"),
    [
        pytest.param(with_claim(), ["ReadWriteOnce"], [], [f"{ONCE}: {WAYS_OUT}"], [], id="ReadWriteOnce, nodes not visible"),
        pytest.param(with_claim(readOnly=True), ["ReadWriteOnce"], [node(), node()], [f"{ONCE}: {WAYS_OUT}"], [], id="ReadWriteOnce, only read"),
        pytest.param(with_claim(), ["ReadWriteOnce"], [node()], [], [f"{ONCE}; it works only because the cluster has one node"], id="ReadWriteOnce, one node"),
        pytest.param(with_claim(), ["ReadWriteOncePod"], [node()], [f"{POD}: {WAYS_OUT}"], [], id="ReadWriteOncePod, one node"),
        pytest.param(with_claim(1), ["ReadWriteOncePod"], [], [], [], id="one member"),
        pytest.param(with_claim(), ["ReadWriteMany"], [], [], [], id="ReadWriteMany"),
        pytest.param(with_claim(readOnly=True), ["ReadOnlyMany"], [], [], [], id="ReadOnlyMany, only read"),
        pytest.param(with_claim(), ["ReadOnlyMany"], [],
                     [f"volumes: the claim data may only be read, and 4 members mount it without readOnly: true: {WAYS_OUT}"], [], id="ReadOnlyMany, written"),
        pytest.param(with_claim(), None, [], [], ["there is no claim data yet: the members wait until somebody makes it (volumes)"], id="no claim"),
    ],
)  # fmt: skip
def test_claims(
    spec: JobSpec, modes: list[str] | None, nodes: list[Object], problems: list[str], remarks: list[str]
) -> None:
    claims = [] if modes is None else [claim(*modes)]
    assert fit.against(spec, claims, None, None, nodes) == (problems, remarks)


def test_claims_that_may_not_be_seen_are_not_judged() -> None:
    assert fit.against(with_claim(), None, None, None, None) == ([], [])


def test_a_claim_that_lost_its_volume() -> None:
    found, _ = fit.against(with_claim(1), [claim("ReadWriteOnce", phase="Lost")], None, None, None)
    assert found == ["volumes: the claim data has lost its volume: use another claim"]


def test_members_of_all_roles_count() -> None:
    mounts = {"volumes": [{"mount": "/ckpt", "pvc": "data"}]}
    spec = a_job(
        roles={"chief": {"replicas": 1, **mounts}, "worker": {"replicas": 2}, "ps": {"replicas": 1, **mounts}}
    )
    found, _ = fit.against(spec, [claim("ReadWriteOnce")], None, None, None)
    assert found == [
        f"volumes: the claim data is ReadWriteOnce, so one node can mount it, and 2 members would: {WAYS_OUT}"
    ]


# --- ResourceQuota -----------------------------------------------------------------------------------


def quota(hard: Object, used: Object | None = None, **spec: Any) -> Object:
    return {
        "metadata": {"name": "team"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used or {}},
    }


GIVEN = {"cpu": 2, "memory": "4Gi", "gpu": 1}
WAIT = "some members wait until other runs end, or ask for less"


@pytest.mark.parametrize(
    ("hard", "used", "problems", "remarks"),
    [
        pytest.param({"requests.cpu": "40"}, {"requests.cpu": "3"}, [], [], id="room"),
        pytest.param({"requests.cpu": "40"}, {"requests.cpu": "28"}, [],
                     [f"the run needs 36.1 CPUs, and the quota team has 12 of 40 left: {WAIT} (resources.cpu or workers)"], id="CPUs are used"),
        pytest.param({"cpu": "30"}, {}, ["the run needs 36.1 CPUs, and the quota team has 30 in all: ask for less (resources.cpu or workers), or for a larger quota"], [], id="too few CPUs"),
        pytest.param({"limits.memory": "64Gi"}, {},
                     ["the run needs 72.2Gi memory (limits), and the quota team has 64Gi in all: ask for less (resources.memory or workers), or for a larger quota"], [], id="too little memory"),
        pytest.param({"requests.nvidia.com/gpu": "16"}, {},
                     ["the run needs 18 GPUs, and the quota team has 16 in all: ask for less (resources.gpu or workers), or for a larger quota"], [], id="too few GPUs"),
        pytest.param({"pods": "18", "count/pods": "50"}, {"count/pods": "40"},
                     ["the run needs 19 pods, and the quota team has 18 in all: ask for less (workers), or for a larger quota"],
                     [f"the run needs 19 pods, and the quota team has 10 of 50 left: {WAIT} (workers)"], id="pods, with the lead's"),
        pytest.param({"count/jobs.batch": "20", "secrets": "9"}, {"count/jobs.batch": "19", "secrets": "8"},
                     ["the run needs 2 jobs.batch, and the quota team has 1 of 20 left: remove runs that have ended (`hora ps`, `hora rm`)"], [], id="too many objects"),
        pytest.param({"count/jobs.batch": "1"}, {}, ["the run needs 2 jobs.batch, and the quota team has 1 in all: ask for a larger quota"], [], id="hardly any objects"),
        pytest.param({"requests.storage": "1Gi", "services.nodeports": "0", "persistentvolumeclaims": "0"}, {}, [], [], id="what a run doesn't use"),
    ],
)  # fmt: skip
def test_quotas(hard: Object, used: Object, problems: list[str], remarks: list[str]) -> None:
    spec = a_job(workers=18, resources=GIVEN)
    assert fit.against(spec, None, [quota(hard, used)], None, None) == (problems, remarks)


@pytest.mark.parametrize(
    ("hard", "text"),
    [
        ({"limits.cpu": "40"}, "the quota team counts limits of CPU, and worker says none, so no pod would be taken: set resources.cpu"),
        ({"limits.memory": "40Gi"}, "the quota team counts limits of memory, and worker says none, so no pod would be taken: set resources.memory"),
    ],
)  # fmt: skip
def test_a_quota_that_wants_numbers(hard: Object, text: str) -> None:
    assert fit.against(a_job(), None, [quota(hard)], None, None) == ([text], [])


def test_a_limit_ranges_defaults_serve_a_quota() -> None:
    limits = {"type": "Container", "default": {"cpu": "30"}, "defaultRequest": {"cpu": "1"}}
    found, _ = fit.against(
        a_job(workers=2), None, [quota({"limits.cpu": "40"})], [limit_range(**limits)], None
    )
    assert found == [
        "the run needs 61 CPUs (limits), and the quota team has 40 in all: ask for less (resources.cpu or workers), or for a larger quota"
    ]


@pytest.mark.parametrize(
    ("scope", "counts"),
    [
        ({"scopes": ["NotTerminating"]}, True),
        ({"scopes": ["Terminating"]}, False),
        ({"scopes": ["BestEffort"]}, False),
        ({"scopes": ["NotBestEffort"]}, True),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
                }
            },
            True,
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]}
                    ]
                }
            },
            False,
        ),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
            True,
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]
                }
            },
            False,
        ),
    ],
)
def test_a_quota_of_some_pods_only(scope: Object, counts: bool) -> None:
    found, _ = fit.against(
        a_job(placement={"priorityClass": "high"}), None, [quota({"pods": "1"}, **scope)], None, None
    )
    assert bool(found) == counts


def test_the_objects_that_are_counted_are_those_that_are_made() -> None:
    spec = a_job()
    made = render(Submission(spec, frameworks.plan(spec)), Setting("k7x2m", "team"), b"agent", 0.0).all
    plural = {
        "ConfigMap": "configmaps",
        "Secret": "secrets",
        "Service": "services",
        "NetworkPolicy": "networkpolicies.networking.k8s.io",
    }
    found: dict[str, int] = {}
    for each in made:
        if each["kind"] != "Job":
            found[plural[each["kind"]]] = found.get(plural[each["kind"]], 0) + 1
    assert found == room.OBJECTS


# --- LimitRange --------------------------------------------------------------------------------------


def limit_range(type: str = "Container", **rules: Any) -> Object:  # noqa: A002
    return {"metadata": {"name": "small"}, "spec": {"limits": [{"type": type, **rules}]}}


ADMIN = "ask who runs the namespace to allow it"


@pytest.mark.parametrize(
    ("resources", "rules", "problems"),
    [
        pytest.param(GIVEN, {"max": {"cpu": "4", "memory": "8Gi"}, "min": {"cpu": "50m"}}, [], id="within"),
        pytest.param({**GIVEN, "cpu": 8}, {"max": {"cpu": "4"}}, ["the LimitRange small allows each container at most 4 CPUs, and worker has 8 CPUs: set resources.cpu"], id="too much"),
        pytest.param({"cpu": 1}, {"max": {"memory": "4Gi"}}, ["the LimitRange small allows each container at most 4Gi memory, and worker has no limit: set resources.memory"], id="no limit"),
        pytest.param({"cpu": 1}, {"max": {"memory": "4Gi"}, "default": {"memory": "4Gi"}}, [], id="no limit but a default"),
        pytest.param({"cpu": 1, "memory": "64Mi"}, {"min": {"memory": "100Mi"}}, ["the LimitRange small asks each container for at least 100Mi memory, and worker has 64Mi memory: set resources.memory"], id="too little"),
        pytest.param(GIVEN, {"min": {"cpu": "200m"}}, [f"the LimitRange small asks each container for at least 0.2 CPU, and Hora's lead has 0.1 CPU: {ADMIN}"], id="too little for the lead"),
        pytest.param({"cpu": 4}, {"maxLimitRequestRatio": {"cpu": "20"}}, [], id="ratio"),
        pytest.param(GIVEN, {"maxLimitRequestRatio": {"cpu": "4"}}, [f"the LimitRange small allows each container a limit of 4 times its request of CPU, and Hora's lead has 1 CPU: {ADMIN}"], id="the lead's ratio"),
        pytest.param({}, {"default": {"memory": "64Mi"}}, ["the LimitRange small gives each container a limit of 64Mi memory, and worker has a request of 128Mi memory: set resources.memory"], id="a default below what Hora asks for"),
        pytest.param({**GIVEN, "cpu": 8}, {"type": "Pod", "max": {"cpu": "4"}}, ["the LimitRange small allows each pod at most 4 CPUs, and worker has 8 CPUs: set resources.cpu"], id="of a pod"),
        pytest.param(GIVEN, {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}, [], id="of claims"),
    ],
)  # fmt: skip
def test_limit_ranges(resources: Object, rules: Object, problems: list[str]) -> None:
    assert fit.against(a_job(workers=2, resources=resources), None, None, [limit_range(**rules)], None) == (
        problems,
        [],
    )


# --- nodes -------------------------------------------------------------------------------------------

TAINT = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("keys", "nodes", "remarks"),
    [
        pytest.param({}, [node()], [], id="room"),
        pytest.param({"resources": {"gpu": 8}}, [node(**{"nvidia.com/gpu": "4"}), node()], ["no node has 8 GPUs for worker; the largest has 4: see resources.gpu"], id="too large for every node"),
        pytest.param({"workers": 9, "resources": {"cpu": 3}}, [node(), node()], ["the nodes hold 4 of 9 workers at once, even when nothing else runs: use fewer workers or smaller ones, unless nodes are added"], id="too many"),
        pytest.param({"placement": {"nodeSelector": {"disk": "nvme"}}}, [node()], ["no node has the label disk=nvme now (worker): see placement.nodeSelector"], id="selector"),
        pytest.param({"placement": {"nodeSelector": {"disk": "nvme"}}}, [node(), node(labels={"disk": "nvme"})], [], id="selector that matches"),
        pytest.param({}, [node(taints=[TAINT]), node(unschedulable=True)], ["every node for worker is closed or has a taint that it doesn't tolerate: see placement.tolerations"], id="taints"),
        pytest.param({"placement": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}}, [node(taints=[TAINT])], [], id="tolerated"),
        pytest.param({"placement": {"tolerations": [{"key": "dedicated", "value": "ml"}]}}, [node(taints=[TAINT])], [], id="tolerated by value"),
        pytest.param({}, [node(taints=[{**TAINT, "effect": "PreferNoSchedule"}])], [], id="a taint that only asks"),
    ],
)  # fmt: skip
def test_nodes_are_advice(keys: Object, nodes: list[Object], remarks: list[str]) -> None:
    assert fit.against(a_job(**keys), None, None, None, nodes) == ([], remarks)


def test_everything_at_once_is_plain_data() -> None:
    spec = a_job(
        workers=3, resources={"cpu": 2}, kubernetes={"podPatch": json.loads('{"spec": {"hostIPC": true}}')}
    )
    found, notes = fit.against(
        spec, [], [quota({"pods": "2"})], [limit_range(max={"cpu": "1"})], [node(cpu="1")]
    )
    assert len(found) == 2 and len(notes) == 1
