"""Why Jobs have no pods, how causes are folded and ordered, and what an answer of the API means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.kube_objects import (
    BASE,
    LEAD,
    NOW,
    Object,
    create_failed,
    ended,
    event,
    job,
    running,
    told,
    unscheduled,
    waiting,
)
from hora.places.kubernetes.why import KINDS, PROGRESS, Cause, Seen, causes, refused

FORBIDDEN = f'pods "{BASE}-worker-2-x7b2k" is forbidden: '


def without_pods(*events: Object, members: int = 4, **rest: object) -> Cause:
    """Only the lead runs."""
    workers = job(members=members)
    seen = Seen(jobs=(LEAD, workers), pods=(running(role="lead"),), events=events, now=NOW, **rest)  # type: ignore[arg-type]
    (cause,) = causes(seen, BASE)
    return cause


# --- pods that the API server doesn't take -----------------------------------------------------------

LESS = "ask for less ({}), or wait until others end; `kubectl describe quota team` shows what is used"


@pytest.mark.parametrize(
    ("message", "kind", "what", "step", "final"),
    [
        pytest.param("exceeded quota: team, requested: limits.cpu=2,requests.cpu=2, used: limits.cpu=39,requests.cpu=39, limited: limits.cpu=40,requests.cpu=40",
                     "quota", "the quota team has no room: one more pod asks for 2 CPUs (limits), and 39 of 40 are used; 2 CPUs, and 39 of 40 are used",
                     LESS.format("resources.cpu"), False, id="quota on CPUs"),
        pytest.param("exceeded quota: team, requested: requests.memory=4Gi, used: requests.memory=14Gi, limited: requests.memory=16Gi",
                     "quota", "the quota team has no room: one more pod asks for 4Gi memory, and 14Gi of 16Gi are used",
                     LESS.format("resources.memory"), False, id="quota on memory"),
        pytest.param("exceeded quota: team, requested: pods=1, used: pods=10, limited: pods=10",
                     "quota", "the quota team has no room: one more pod asks for 1 pod, and 10 of 10 are used",
                     LESS.format("workers"), False, id="quota on pods"),
        pytest.param("exceeded quota: team, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=0, limited: requests.nvidia.com/gpu=4",
                     "quota", "the quota team has no room: one more pod asks for 8 GPUs, and 0 of 4 are used",
                     "ask for less (resources.gpu), or ask for a larger quota", True, id="a quota that one pod exceeds"),
        pytest.param("failed quota: team: must specify limits.cpu for: member; limits.memory for: member",
                     "quota-needs", "the quota team counts limits.cpu and limits.memory, and the pods don't say how much they need",
                     "set resources.cpu, resources.memory", True, id="quota on limits that the job leaves out"),
        pytest.param('violates PodSecurity "restricted:latest": restricted volume types (volume "v0" uses restricted volume type "nfs"), runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false), runAsUser=0 (pod must not set runAsUser=0)',
                     "pod-security", "the namespace enforces the Pod Security level restricted, which forbids volumes (the volume type nfs) and kubernetes.user (user 0)",
                     "use a pvc volume instead and leave out kubernetes.user (Hora then runs as user 1000), or ask for a namespace with the level baseline", True, id="nfs and root under restricted"),
        pytest.param('violates PodSecurity "baseline:v1.34": host namespaces (hostNetwork=true), hostPath volumes (volume "v0")',
                     "pod-security", "the namespace enforces the Pod Security level baseline, which forbids network.host (the host's network) and volumes (a hostPath volume)",
                     "leave out network.host and use a pvc volume instead, or ask for a namespace with the level privileged", True, id="host network and path under baseline"),
        pytest.param('violates PodSecurity "restricted:latest": non-default capabilities (container "member" must not include "IPC_LOCK" in securityContext.capabilities.add), unrestricted capabilities (container "member" must not include "IPC_LOCK" in securityContext.capabilities.add)',
                     "pod-security", "the namespace enforces the Pod Security level restricted, which forbids kubernetes.podPatch (the capability IPC_LOCK)",
                     "take that out of kubernetes.podPatch, or ask for a namespace with the level privileged", True, id="a capability"),
        pytest.param('violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "istio-init" must set securityContext.allowPrivilegeEscalation=false), seccompProfile (pod or container "istio-init" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
                     "pod-security", "the namespace enforces the Pod Security level restricted, which forbids kubernetes.podPatch (the container istio-init without allowPrivilegeEscalation: false, no seccompProfile)",
                     "take that out of kubernetes.podPatch, or ask for a namespace with the level baseline", True, id="an init container"),
        pytest.param("unable to validate against any security context constraint: [provider \"anyuid\": Forbidden: not usable by user or serviceaccount]",
                     "pod-security", "no security context constraint of the cluster allows its pods",
                     "leave out what needs more rights (kubernetes.user, network.host, hostPath), or ask for such an SCC", True, id="OpenShift"),
        pytest.param("maximum cpu usage per Container is 4, but limit is 8",
                     "limit-range", "the namespace's LimitRange: each container may have at most 4 CPU, and it has 8",
                     "set resources.cpu to what it allows", True, id="LimitRange, too much"),
        pytest.param("[maximum cpu usage per Container is 4, but limit is 8, maximum memory usage per Pod is 8Gi, but limit is 16Gi]",
                     "limit-range", "the namespace's LimitRange: each container may have at most 4 CPU, and it has 8; each pod may have at most 8Gi memory, and it has 16Gi",
                     "set resources.cpu, resources.memory to what it allows", True, id="LimitRange, twice"),
        pytest.param("minimum memory usage per Container is 256Mi, but request is 128Mi",
                     "limit-range", "the namespace's LimitRange: each container may have at least 256Mi memory, and it has 128Mi",
                     "set resources.memory to what it allows", True, id="LimitRange, too little"),
        pytest.param("maximum cpu usage per Container is 4.  No limit is specified",
                     "limit-range", "the namespace's LimitRange: each container may have at most 4 CPU, and it has no limit",
                     "set resources.cpu to what it allows", True, id="LimitRange, nothing said"),
        pytest.param("cpu max limit to request ratio per Container is 2, but provided ratio is 10.000000",
                     "limit-range", "the namespace's LimitRange: the limit of a container may be 2 times its request of CPU, and it is 10",
                     "set resources.cpu to what it allows", True, id="LimitRange, ratio"),
        pytest.param('error looking up service account team/training: serviceaccount "training" not found',
                     "service-account", "there is no service account training in the namespace",
                     "correct kubernetes.serviceAccount, or create it (kubectl create serviceaccount)", False, id="service account"),
        pytest.param("no PriorityClass with name high was found", "priority-class", "the cluster has no priority class high",
                     "correct placement.priorityClass; `kubectl get priorityclasses` shows those that are there", False, id="priority class"),
        pytest.param('pod rejected: RuntimeClass "nvidia" not found', "runtime-class", "the cluster has no runtime class nvidia",
                     "correct kubernetes.runtimeClass; `kubectl get runtimeclasses` shows those that are there", False, id="runtime class"),
        pytest.param("ValidatingAdmissionPolicy 'owners.example.org' with binding 'all' denied request: every pod needs the label owner",
                     "webhook-denied", "the cluster's rule owners.example.org forbids it: every pod needs the label owner",
                     "change what it names (labels, annotations, podPatch: under kubernetes), or ask who runs the cluster", True, id="admission policy"),
        pytest.param("pods are not welcome today", "refused", "the cluster refuses its pods: pods are not welcome today",
                     "ask who runs the namespace", False, id="something new"),
    ],
)  # fmt: skip
def test_pods_that_are_refused(message: str, kind: str, what: str, step: str, final: bool) -> None:
    cause = without_pods(create_failed(FORBIDDEN + message))
    assert (cause.text, cause.next) == (f"all 4 members: {what}", step)
    assert (cause.kind, cause.final) == (kind, final)


@pytest.mark.parametrize(
    ("message", "kind", "what", "step"),
    [
        pytest.param('admission webhook "validate.kyverno.svc-fail" denied the request: resource Pod/team/x was blocked due to the following policies: require-owner',
                     "webhook-denied", "the cluster's rule validate.kyverno.svc-fail forbids it: resource Pod/team/x was blocked due to the following policies: require-owner",
                     "change what it names (labels, annotations, podPatch: under kubernetes), or ask who runs the cluster", id="webhook denies"),
        pytest.param('admission webhook "quiet.example.org" denied the request without explanation',
                     "webhook-denied", "the cluster's rule quiet.example.org forbids it and doesn't say why",
                     "change what it names (labels, annotations, podPatch: under kubernetes), or ask who runs the cluster", id="webhook denies silently"),
        pytest.param('Internal error occurred: failed calling webhook "pods.example.org": failed to call webhook: Post "https://hook.ops.svc:443/mutate?timeout=10s": dial tcp 10.96.1.2:443: connect: connection refused',
                     "webhook-down", "the cluster's rule pods.example.org can't be asked: dial tcp 10.96.1.2:443: connect: connection refused",
                     "it is tried again by itself; ask who runs the cluster if it stays", id="webhook away"),
        pytest.param('Pod "digits-k7x2m-worker-0-x7b2k" is invalid: spec.containers[0].resources.requests: Invalid value: "128Mi": must be less than or equal to memory limit of 64Mi',
                     "invalid", "the cluster can't read its pods: spec.containers[0].resources.requests: must be less than or equal to memory limit of 64Mi",
                     "correct that field, most likely in kubernetes.podPatch or placement", id="invalid"),
    ],
)  # fmt: skip
def test_pods_that_are_refused_in_other_ways(message: str, kind: str, what: str, step: str) -> None:
    cause = without_pods(create_failed(message))
    assert (cause.text, cause.next, cause.kind) == (f"all 4 members: {what}", step, kind)


def test_a_limit_range_that_horas_lead_breaks() -> None:
    told_ = create_failed(
        f'pods "{BASE}-abcde" is forbidden: minimum cpu usage per Container is 200m, but request is 100m',
        LEAD,
    )
    (cause,) = causes(Seen(jobs=(LEAD,), events=(told_,), now=NOW), BASE)
    assert (
        cause.text
        == "lead: the namespace's LimitRange: each container may have at least 200m CPU, and it has 100m"
    )
    assert cause.next == "ask who runs the namespace to allow Hora's lead: 100m CPU, 128Mi memory"


def test_only_members_without_a_pod_are_named() -> None:
    pods = (running(0), running(1), running(role="lead"))
    denied = create_failed(
        FORBIDDEN + "exceeded quota: team, requested: pods=1, used: pods=3, limited: pods=3"
    )
    (cause,) = causes(Seen(jobs=(LEAD, job()), pods=pods, events=(denied,), now=NOW), BASE)
    assert (cause.who, cause.members) == ("worker-2 and worker-3", ("worker-2", "worker-3"))


def test_a_refusal_is_over_when_pods_were_made_after_it() -> None:
    workers = job()
    made = event(workers, "SuccessfulCreate", "Created pod: x", ago=1, kind="Job")
    denied = create_failed(FORBIDDEN + "pods are not welcome", workers, ago=20)
    assert told(events=(denied,)) == ()  # all members are there
    assert without_pods(denied, made).kind == "pod-missing"


def test_a_refusal_of_an_earlier_job_of_that_name_is_not_this_ones() -> None:
    earlier = {**job(), "metadata": {**job()["metadata"], "uid": "another"}}
    assert without_pods(create_failed("pods are not welcome", earlier)).kind == "pod-missing"


# --- Jobs --------------------------------------------------------------------------------------------


def test_pods_that_are_missing_without_a_word() -> None:
    cause = without_pods()
    assert cause.text == "all 4 members: they have no pod, and nothing says why"
    assert cause.next == f"a pod that was deleted is made anew; else see `kubectl describe job {BASE}-worker`"


def test_pods_that_are_missing_are_explained_by_a_full_quota_where_events_may_not_be_seen() -> None:
    quota = {"metadata": {"name": "team"}, "status": {"hard": {"pods": "3"}, "used": {"pods": "3"}}}
    cause = without_pods(quotas=(quota,))
    assert (
        cause.text
        == "all 4 members: the quota team has no room: one more pod asks for 1 pod, and 3 of 3 are used"
    )


def test_nothing_is_told_in_a_jobs_first_seconds() -> None:
    assert causes(Seen(jobs=(LEAD, job(ago=2)), pods=(running(role="lead"),), now=NOW), BASE) == ()


def test_a_job_that_nothing_looks_at() -> None:
    (cause,) = causes(Seen(jobs=(job("lead", status={"startTime": None}),), now=NOW), BASE)
    assert cause.text == "lead: nothing in the cluster has looked at its Job yet"


def test_a_job_in_kueues_queue() -> None:
    held = job(
        spec={"suspend": True}, labels={"kueue.x-k8s.io/queue-name": "team-a"}, status={"startTime": None}
    )
    workload = {"metadata": {"name": f"job-{BASE}-worker-1a2b3", "uid": "w"}}
    why = event(
        workload,
        "Pending",
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed",
        kind="Workload",
    )
    seen = Seen(jobs=(LEAD, held), pods=(running(role="lead"),), events=(why,), now=NOW)
    (cause,) = causes(seen, BASE)
    assert cause.text == (
        "all 4 members: it waits in the queue team-a: couldn't assign flavors to pod set main: insufficient unused "
        "quota for cpu in flavor default, 2 more needed"
    )
    assert (cause.next, cause.problem) == ("wait; `kubectl get workloads` shows the queue team-a", False)


def test_a_job_that_somebody_suspended() -> None:
    (cause,) = told(alone=True, jobs=(job(spec={"suspend": True}),))
    assert (
        cause.text
        == "all 4 members: its Job is suspended: somebody, or a queue of the cluster, holds it back"
    )
    assert (
        cause.next == f'kubectl patch job {BASE}-worker --type merge -p \'{{"spec": {{"suspend": false}}}}\''
    )


def failed(role: str, reason: str, message: str = "") -> Cause:
    condition = {"type": "Failed", "status": "True", "reason": reason, "message": message}
    made = job(role, spec={"backoffLimit": 20}, status={"conditions": [condition]})
    (cause,) = causes(Seen(jobs=(made,), now=NOW), BASE)
    return cause


@pytest.mark.parametrize(
    ("role", "reason", "message", "kind", "text", "step"),
    [
        ("lead", "BackoffLimitExceeded", "Job has reached the specified backoff limit", "job-failed",
         "lead: its pod failed more than 20 times, and the cluster tries no more", "see its last lines: `hora logs`"),
        ("worker", "DeadlineExceeded", "Job was active longer than specified deadline", "deadline",
         "all 4 members: its Job was stopped: it ran longer than its deadline",
         "raise timeouts.total, or activeDeadlineSeconds where a rule of the cluster sets it"),
        ("worker", "PodFailurePolicy", "Container member for pod team/digits-k7x2m-worker-2-abcde failed with exit code 3 matching FailJob rule at index 1", "gave-up",
         "all 4 members: a member found no lead for too long, and gave up",
         "see `hora status` for the lead; a NetworkPolicy of the namespace may keep the pods apart"),
        ("worker", "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes", "job-failed",
         "all 4 members: its Job failed: Job has exceeded the specified maximal number of failed indexes", "see `hora logs`"),
    ],
)  # fmt: skip
def test_a_job_that_the_cluster_gave_up(
    role: str, reason: str, message: str, kind: str, text: str, step: str
) -> None:
    cause = failed(role, reason, message)
    assert (cause.text, cause.next, cause.kind, cause.final) == (text, step, kind, True)


def test_a_run_that_ended_without_success_is_the_leads_to_tell() -> None:
    message = (
        f"Container lead for pod team/{BASE}-abcde failed with exit code 1 matching FailJob rule at index 1"
    )
    condition = {"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": message}
    lead = job("lead", status={"conditions": [condition]})
    held = unscheduled("0/1 nodes are available: 1 Too many pods.")
    assert causes(Seen(jobs=(lead, job()), pods=(held,), now=NOW), BASE) == ()
    complete = job("lead", status={"conditions": [{"type": "Complete", "status": "True"}]})
    assert causes(Seen(jobs=(complete, job()), now=NOW), BASE) == ()


# --- folding and order -------------------------------------------------------------------------------

FULL = "0/1 nodes are available: 1 Too many pods."


@pytest.mark.parametrize(
    ("held", "who"),
    [
        ([3], "worker-3"),
        ([0, 1], "worker-0 and worker-1"),
        ([0, 1, 2, 3], "worker-0 … worker-3 (4 of 8 members)"),
        ([0, 2, 5], "worker-0, worker-2, worker-5 (3 of 8 members)"),
        ([0, 1, 2, 5, 7], "worker-0 … worker-2, worker-5, worker-7 (5 of 8 members)"),
        (range(8), "all 8 members"),
    ],
)
def test_equal_causes_are_one_sentence(held: list[int], who: str) -> None:
    pods = [unscheduled(FULL, index) if index in held else running(index) for index in range(8)]
    (cause,) = causes(Seen(jobs=(LEAD, job(members=8)), pods=(*pods, running(role="lead")), now=NOW), BASE)
    assert cause.text == f"{who}: the only node is full of pods"
    assert cause.members == tuple(f"worker-{index}" for index in held)


def test_members_of_several_roles_and_the_lead_are_folded_too() -> None:
    jobs = (LEAD, job("ps", 2), job(members=4))
    pods = (
        unscheduled(FULL, role="lead"),
        *(unscheduled(FULL, i, role="ps") for i in range(2)),
        *(unscheduled(FULL, i) for i in range(4)),
    )
    (cause,) = causes(Seen(jobs=jobs, pods=pods, now=NOW), BASE)
    assert cause.text == "lead and all 6 members: the only node is full of pods"


def test_the_gravest_cause_is_told_first() -> None:
    found = told(
        unscheduled(FULL, 0),
        waiting("InvalidImageName", "Failed to apply default image tag", 1),
        ended(2, exitCode=137, reason="OOMKilled"),
        waiting("ContainerCreating", index=3, ago=60),
    )
    assert [cause.kind for cause in found] == ["image-name", "oom", "pods", "starting"]


def test_what_runs_is_not_told() -> None:
    held = running(0)
    old = event(held, "FailedScheduling", FULL)
    assert told(held, events=(old,)) == ()
    assert causes(Seen(now=NOW), BASE) == ()


def test_events_of_an_earlier_pod_of_that_name_are_not_this_ones() -> None:
    held = waiting("ContainerCreating", ago=5)
    earlier = {**held, "metadata": {**held["metadata"], "uid": "another"}}
    assert told(held, events=(event(earlier, "FailedMount", 'secret "x" not found'),)) == ()


def test_other_runs_are_not_looked_at() -> None:
    other = unscheduled(FULL)
    other["metadata"]["labels"]["hora.dev/run"] = "other"
    assert told(running(0), other) == ()


def test_every_kind_has_a_place_and_progress_comes_last() -> None:
    assert set(PROGRESS) <= set(KINDS)
    assert set(list(KINDS)[-len(PROGRESS) - 1 :]) >= set(PROGRESS) - {"init-running"}


@given(
    st.text(),
    st.sampled_from(["ErrImagePull", "CreateContainerConfigError", "RunContainerError", "CrashLoopBackOff"]),
)
def test_whatever_the_cluster_says_there_is_one_sentence_and_a_next_step(message: str, reason: str) -> None:
    for cause in told(waiting(reason, message), unscheduled(message, 1), events=(create_failed(message),)):
        assert cause.kind in KINDS
        assert cause.what and cause.next and cause.members
        assert (cause.text + cause.next).isprintable()


# --- answers of the API ------------------------------------------------------------------------------

USER = 'User "system:serviceaccount:team:me" '


@pytest.mark.parametrize(
    ("status", "reason", "message", "kind", "text", "step", "final"),
    [
        pytest.param(403, "Forbidden", f'jobs.batch is forbidden: {USER}cannot create resource "jobs" in API group "batch" in the namespace "team"',
                     "rights", "you may not create jobs in the namespace team", "ask for the Role that `hora rbac` prints, or choose another --namespace", True, id="no right"),
        pytest.param(403, "Forbidden", f'pods "{BASE}-abcde" is forbidden: {USER}cannot create resource "pods/portforward" in API group "" in the namespace "team"',
                     "rights", "you may not create pods/portforward in the namespace team", "ask for the Role that `hora rbac` prints, or choose another --namespace", True, id="no port-forward"),
        pytest.param(403, "Forbidden", f'nodes is forbidden: {USER}cannot list resource "nodes" in API group "" at the cluster scope',
                     "rights", "you may not list nodes in the whole cluster", "ask for the Role that `hora rbac` prints, or choose another --namespace", True, id="no right in the cluster"),
        pytest.param(403, "Forbidden", f'jobs.batch "{BASE}" is forbidden: because I say so',
                     "rights", "the cluster doesn't let you create a Job: because I say so", "`hora rbac` prints the Role to ask for", True, id="another rule"),
        pytest.param(403, "Forbidden", f'jobs.batch "{BASE}" is forbidden: exceeded quota: team, requested: count/jobs.batch=1, used: count/jobs.batch=20, limited: count/jobs.batch=20',
                     "quota", "the quota team has no room: this Job asks for 1 jobs.batch, and 20 of 20 are used",
                     "remove runs that have ended (`hora rm`), or wait until others end; `kubectl describe quota team` shows what is used", False, id="quota on objects"),
        pytest.param(403, "Forbidden", f'secrets "{BASE}" is forbidden: unable to create new content in namespace team because it is being terminated',
                     "namespace-ending", "the namespace team is being deleted", "use another: --namespace", True, id="a namespace on its way out"),
        pytest.param(404, "NotFound", 'namespaces "team" not found', "namespace-missing", "the cluster has no namespace team",
                     "correct --namespace (or kubernetes.namespace), or create it: kubectl create namespace", True, id="no namespace"),
        pytest.param(404, "NotFound", "the server could not find the requested resource", "invalid", "the cluster doesn't know objects of the kind Job",
                     "ask who runs the cluster for a newer Kubernetes", True, id="an old cluster"),
        pytest.param(401, "Unauthorized", "Unauthorized", "login", "the cluster doesn't accept your login: its certificate or token is wrong or has expired",
                     "log in again, until `kubectl get pods` answers, or choose another --context", True, id="no login"),
        pytest.param(400, "BadRequest", 'admission webhook "v.example.org" denied the request: no owner', "webhook-denied",
                     "the cluster's rule v.example.org forbids it: no owner", "change what it names (labels, annotations, podPatch: under kubernetes), or ask who runs the cluster", True, id="webhook denies"),
        pytest.param(500, "InternalError", 'Internal error occurred: failed calling webhook "v.example.org": failed to call webhook: Post "https://v.ops.svc:443/": context deadline exceeded', "webhook-down",
                     "the cluster's rule v.example.org can't be asked: context deadline exceeded", "it is tried again by itself; ask who runs the cluster if it stays", False, id="webhook away"),
        pytest.param(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728", "too-large", "the Job is larger than the cluster takes",
                     "make code smaller (.horaignore), env shorter, or put large files into a volume", True, id="too large"),
        pytest.param(500, "InternalError", "etcdserver: request is too large", "too-large", "the Job is larger than the cluster takes",
                     "make code smaller (.horaignore), env shorter, or put large files into a volume", True, id="too large for etcd"),
        pytest.param(409, "AlreadyExists", f'jobs.batch "{BASE}" already exists', "conflict", f"there is a Job {BASE} already",
                     "try again: the run then gets another name", False, id="conflict"),
        pytest.param(503, "ServiceUnavailable", "apiserver is shutting down", "unavailable", "the API server can't answer now (status 503): apiserver is shutting down",
                     "try again in a moment", False, id="API server away"),
        pytest.param(429, "TooManyRequests", "Too many requests, please try again later.", "unavailable", "the API server has too much to do",
                     "try again in a moment", False, id="busy"),
    ],
)  # fmt: skip
def test_an_answer_that_is_not_yes(
    status: int, reason: str, message: str, kind: str, text: str, step: str, final: bool
) -> None:
    details = {"name": BASE} if reason == "AlreadyExists" else {}
    cause = refused(status, reason, message, details, "create", "Job")
    assert (cause.text, cause.next, cause.kind, cause.final) == (text, step, kind, final)


def test_an_invalid_field_is_named_and_its_value_is_not() -> None:
    details = {
        "causes": [
            {"reason": "FieldValueInvalid", "field": "spec.template.spec.containers[0].env[2].value",
             "message": 'Invalid value: "hunter2 \\"quoted\\"": must be shorter'},
            {"reason": "FieldValueNotSupported", "field": "spec.template.spec.restartPolicy",
             "message": 'Unsupported value: "hunter2": supported values: "Never", "OnFailure"'},
        ]
    }  # fmt: skip
    cause = refused(422, "Invalid", 'Job.batch "x" is invalid: hunter2', details, "create", "Job")
    assert cause.text == (
        "the cluster calls the Job wrong: spec.template.spec.containers[0].env[2].value: must be shorter; "
        'spec.template.spec.restartPolicy: unsupported value: supported values: "Never", "OnFailure"'
    )
    assert cause.next == "correct that field, most likely in kubernetes.podPatch or placement"


def test_an_invalid_field_in_the_message_alone() -> None:
    message = 'Job.batch "x" is invalid: spec.x: Invalid value: "hunter2": must be smaller'
    assert (
        refused(422, "Invalid", message, None, "create", "Job").text
        == "the cluster calls the Job wrong: spec.x: must be smaller"
    )
    unread = 'Job in version "v1" cannot be handled as a Job: json: cannot unmarshal string hunter2 into Go struct field'
    assert "hunter2" not in refused(400, "BadRequest", unread, None, "create", "Job").text
