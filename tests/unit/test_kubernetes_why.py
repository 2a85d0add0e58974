"""Why a run doesn't run, from objects as Kubernetes 1.34 with containerd writes them."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.kube_objects import (
    BASE,
    IMAGE,
    RUN,
    Object,
    at,
    ended,
    event,
    node,
    one,
    pod,
    running,
    told,
    unscheduled,
    waiting,
)

# --- images ------------------------------------------------------------------------------------------

PULL = f'rpc error: code = {{}} desc = failed to pull and unpack image "{IMAGE}": failed to resolve reference "{IMAGE}": '
HEAD = 'failed to do request: Head "https://registry.example.org/v2/team/train/manifests/1.4": '
CORRECT = "correct image: in the job file, or give another --image"
NAME_A_SECRET = (
    "name a Secret that opens it in kubernetes.imagePullSecrets (kubectl create secret docker-registry), "
    "or see whether the one that is named has expired"
)
REACH = "it is tried again by itself; see that the nodes reach that registry, or use another one"
NODE_AGAIN = "it is tried again by itself; ask who runs the cluster if it stays"
BUILD = (
    "build it for that too (docker buildx build --platform linux/amd64,linux/arm64), or choose the nodes: "
    "placement.nodeSelector {kubernetes.io/arch: amd64}"
)


@pytest.mark.parametrize(
    ("reason", "message", "kind", "what", "step"),
    [
        pytest.param("ErrImagePull", PULL.format("NotFound") + f"{IMAGE}: not found", "image-not-found",
                     f"registry.example.org has no image {IMAGE}", CORRECT, id="no such tag"),
        pytest.param("ImagePullBackOff", f'Back-off pulling image "{IMAGE}": ErrImagePull: ' + PULL.format("NotFound") + f"{IMAGE}: not found",
                     "image-not-found", f"registry.example.org has no image {IMAGE}", CORRECT,
                     id="no such tag, backing off"),
        pytest.param("ErrImagePull", PULL.format("Unknown") + "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed",
                     "image-denied", f"registry.example.org shows no image {IMAGE}: it doesn't exist, or it needs a login",
                     f"{CORRECT}; for a private image name its pull Secret in kubernetes.imagePullSecrets",
                     id="a registry that tells nothing without a login"),
        pytest.param("ErrImagePull", PULL.format("Unknown") + "failed to authorize: failed to fetch anonymous token: unexpected status: 401 Unauthorized",
                     "image-denied", f"registry.example.org doesn't let the cluster have the image {IMAGE}", NAME_A_SECRET,
                     id="no login"),
        pytest.param("ErrImagePull", PULL.format("Unknown") + "failed to authorize: failed to fetch oauth token: unexpected status from GET request to https://registry.example.org/token?scope=x: 403 Forbidden",
                     "image-denied", f"registry.example.org doesn't let the cluster have the image {IMAGE}", NAME_A_SECRET,
                     id="a login that doesn't suffice"),
        pytest.param("ErrImagePull", PULL.format("Unknown") + HEAD + "dial tcp: lookup registry.example.org on 10.0.0.1:53: no such host",
                     "image-dns", "the nodes know no registry with the name registry.example.org",
                     f"{CORRECT}; or ask who runs the cluster's DNS", id="a registry that DNS doesn't know"),
        pytest.param("ErrImagePull", PULL.format("Unknown") + HEAD + "dial tcp 10.1.2.3:443: connect: connection refused",
                     "image-unreachable", "registry.example.org doesn't answer the node", REACH, id="a registry that is down"),
        pytest.param("ErrImagePull", PULL.format("DeadlineExceeded") + HEAD + "dial tcp 10.1.2.3:443: i/o timeout",
                     "image-unreachable", "registry.example.org doesn't answer the node", REACH, id="a registry behind a wall"),
        pytest.param("ErrImagePull", PULL.format("Unknown") + HEAD + "tls: failed to verify certificate: x509: certificate signed by unknown authority",
                     "image-tls", "the node doesn't trust the certificate of registry.example.org: x509: certificate signed by unknown authority",
                     "ask who runs the cluster to have the nodes trust it, or use another registry", id="a registry that the nodes don't trust"),
        pytest.param("ErrImagePull", PULL.format("Unknown") + HEAD + "http: server gave HTTP response to HTTPS client",
                     "image-tls", "the node doesn't trust the certificate of registry.example.org: http: server gave HTTP response to HTTPS client",
                     "ask who runs the cluster to have the nodes trust it, or use another registry", id="a registry without TLS"),
        pytest.param("ErrImagePull", PULL.format("Unknown") + 'unexpected status from HEAD request to https://registry.example.org/v2/team/train/manifests/1.4: 429 Too Many Requests\ntoomanyrequests: You have reached your unauthenticated pull rate limit.',
                     "image-rate-limit", "registry.example.org gives no more images for now: its limit of pulls is reached",
                     "it is tried again by itself; an account of that registry in kubernetes.imagePullSecrets may pull more",
                     id="a registry's limit"),
        pytest.param("ErrImagePull", f'rpc error: code = NotFound desc = failed to pull and unpack image "{IMAGE}": no match for platform in manifest: not found',
                     "image-arch", f"the image {IMAGE} isn't made for the node's kind of machine", BUILD, id="no variant for these nodes"),
        pytest.param("ErrImagePull", f'rpc error: code = Unknown desc = failed to pull and unpack image "{IMAGE}": failed to extract layer sha256:1234: write /var/lib/containerd/x: no space left on device: unknown',
                     "disk-full", f"the node's disk is full, so the image {IMAGE} can't be stored",
                     "ask who runs the cluster to free it, or choose other nodes: placement.nodeSelector", id="a full node"),
        pytest.param("InvalidImageName", f'Failed to apply default image tag "{IMAGE}": couldn\'t parse image name "{IMAGE}": invalid reference format',
                     "image-name", f"{IMAGE} isn't the name of an image", CORRECT, id="not a name"),
        pytest.param("ErrImageNeverPull", f'Container image "{IMAGE}" is not present with pull policy of Never',
                     "image-never", f"the image {IMAGE} isn't on the node node-a, and kubernetes.imagePullPolicy is Never",
                     "set kubernetes.imagePullPolicy: IfNotPresent, or load it onto the nodes", id="never pulled"),
        pytest.param("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"', "image-failed",
                     f"the image {IMAGE} can't be pulled", CORRECT, id="an old kubelet, and events not visible"),
        pytest.param("ErrImagePull", "rpc error: code = Unknown desc = unpigz: corrupted input", "image-failed",
                     f"the image {IMAGE} can't be pulled: unpigz: corrupted input", CORRECT, id="something new"),
    ],
)  # fmt: skip
def test_an_image_that_cant_be_pulled(reason: str, message: str, kind: str, what: str, step: str) -> None:
    cause = one(waiting(reason, message))
    assert (cause.text, cause.next, cause.kind) == (f"worker-0: {what}", step, kind)
    assert cause.final == (kind in ("image-name", "image-arch"))


def test_an_old_kubelets_back_off_is_explained_by_the_event_before_it() -> None:
    held = waiting("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"')
    failed = event(
        held, "Failed", f'Failed to pull image "{IMAGE}": {PULL.format("NotFound")}{IMAGE}: not found'
    )
    assert one(held, events=(failed,)).text == f"worker-0: registry.example.org has no image {IMAGE}"


def test_an_image_may_be_called_like_an_error() -> None:
    image = "registry.example.org/not-found/403:401"
    message = f'failed to resolve reference "{image}": failed to do request: Head "https://x": EOF'
    assert one(waiting("ErrImagePull", message, image=image)).kind == "image-unreachable"


def test_an_image_of_no_registry_is_docker_hubs() -> None:
    cause = one(
        waiting(
            "ErrImagePull",
            "rpc error: code = NotFound desc = registry.example/library/python:9: not found",
            image="python:9",
        )
    )
    assert cause.text == "worker-0: Docker Hub has no image python:9"


def test_a_pull_that_goes_on_is_told_with_its_time_but_is_no_problem() -> None:
    held = waiting("ContainerCreating")
    cause = one(held, events=(event(held, "Pulling", f'Pulling image "{IMAGE}"', ago=45),))
    assert cause.text == f"worker-0: the image {IMAGE} is being pulled since 45 s"
    assert cause.next == "wait; a large image takes minutes on each new node"
    assert (cause.kind, cause.problem, cause.final) == ("image-pulling", False, False)


def test_a_pull_that_failed_is_told_by_its_event_before_the_state_says_so() -> None:
    held = waiting("ContainerCreating")
    seen = (
        event(held, "Pulling", f'Pulling image "{IMAGE}"', ago=9),
        event(
            held,
            "Failed",
            f'Failed to pull image "{IMAGE}": {PULL.format("Unknown")}unexpected status: 401 Unauthorized',
            ago=8,
        ),
    )
    assert one(held, events=seen).kind == "image-denied"


def test_a_pull_that_is_done_is_told_no_more() -> None:
    held = waiting("ContainerCreating", ago=5)
    seen = (event(held, "Pulling", "Pulling image", 4), event(held, "Pulled", "Successfully pulled image", 2))
    assert told(held, events=seen) == ()


def test_without_events_a_slow_start_is_told_by_its_time() -> None:
    cause = one(waiting("ContainerCreating", ago=40))
    assert (
        cause.text
        == "worker-0: the node node-a is making its container since 40 s: it pulls the image or mounts volumes"
    )
    assert not cause.problem


# --- no node -----------------------------------------------------------------------------------------

NO_PREEMPTION = " preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
UNRESOLVABLE = " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
LARGE = {
    "requests": {
        "cpu": "16",
        "memory": "64Gi",
        "nvidia.com/gpu": "8",
        "rdma/hca": "1",
        "ephemeral-storage": "10Gi",
    }
}
CLAIMS = {"volumes": [{"name": "v0", "persistentVolumeClaim": {"claimName": "data"}}]}
WAIT = "wait until other pods end, or ask for more nodes"


@pytest.mark.parametrize(
    ("message", "kind", "what", "step"),
    [
        pytest.param("0/3 nodes are available: 3 Insufficient cpu." + NO_PREEMPTION, "cpu",
                     "each of the 3 nodes has too little CPU free (it asks for 16 CPUs)",
                     "lower resources.cpu, or wait until other pods end", id="CPU"),
        pytest.param("0/1 nodes are available: 1 Insufficient memory. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
                     "memory", "the only node has too little memory free (it asks for 64Gi memory)",
                     "lower resources.memory, or wait until other pods end", id="memory on the only node"),
        pytest.param("0/3 nodes are available: 3 Insufficient nvidia.com/gpu." + NO_PREEMPTION, "gpu",
                     "each of the 3 nodes has too few GPUs free (it asks for 8 GPUs)",
                     "lower resources.gpu, or wait until other pods end", id="GPUs"),
        pytest.param("0/3 nodes are available: 3 Insufficient rdma/hca." + NO_PREEMPTION, "resource",
                     "each of the 3 nodes has too little rdma/hca free (it asks for 1 rdma/hca)",
                     'lower resources."rdma/hca", or wait until other pods end', id="another resource"),
        pytest.param("0/3 nodes are available: 3 Insufficient ephemeral-storage." + NO_PREEMPTION, "storage",
                     "each of the 3 nodes has too little local disk free (it asks for 10Gi local disk)",
                     "lower kubernetes.podPatch, or wait until other pods end", id="local disk"),
    ],
)  # fmt: skip
def test_too_little_of_a_resource(message: str, kind: str, what: str, step: str) -> None:
    cause = one(unscheduled(message, resources=LARGE))
    assert (cause.text, cause.next, cause.kind) == (f"worker-0: {what}", step, kind)
    assert not cause.final and cause.problem


SELECTOR = {**CLAIMS, "nodeSelector": {"disk": "nvme"}}


@pytest.mark.parametrize(
    ("message", "kind", "what", "step"),
    [
        pytest.param("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector." + UNRESOLVABLE,
                     "selector", "each of the 3 nodes lacks what the job asks for, the label disk=nvme",
                     "correct placement.nodeSelector or placement.affinity", id="selector"),
        pytest.param("0/3 nodes are available: 1 node(s) had untolerated taint {dedicated: ml}, 2 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }." + UNRESOLVABLE,
                     "taint", "no node is free for it; of 3 nodes 1 has a taint that the job doesn't tolerate: dedicated=ml, 2 are for the control plane only",
                     "if the job may use these nodes, set placement.tolerations (dedicated=ml)", id="a taint that 1.33 names"),
        pytest.param("0/3 nodes are available: 3 node(s) had untolerated taint(s)." + UNRESOLVABLE,
                     "taint", "each of the 3 nodes has a taint that the job doesn't tolerate",
                     "if the job may use these nodes, set placement.tolerations; `kubectl get nodes -o yaml` shows the taints",
                     id="a taint that 1.34 doesn't name, nodes not visible"),
        pytest.param("0/3 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 2 Insufficient cpu." + NO_PREEMPTION,
                     "cpu", "no node is free for it; of 3 nodes 2 have too little CPU free (it asks for 16 CPUs), 1 is for the control plane only",
                     "lower resources.cpu, or wait until other pods end", id="CPU, beside a control plane"),
        pytest.param("0/5 nodes are available: 2 Insufficient cpu, 2 Insufficient memory, 3 node(s) were unschedulable." + NO_PREEMPTION,
                     "memory", "no node is free for it; of 5 nodes 2 have too little memory free (it asks for 64Gi memory), 2 have too little CPU free (it asks for 16 CPUs), 3 are closed for new pods (cordoned)",
                     "lower resources.memory, or wait until other pods end; or lower resources.cpu, or wait until other pods end",
                     id="several reasons"),
        pytest.param("0/2 nodes are available: 1 node(s) were unschedulable, 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }." + UNRESOLVABLE,
                     "unschedulable", "no node is free for it; of 2 nodes 1 is closed for new pods (cordoned), 1 isn't ready (node.kubernetes.io/unreachable)",
                     "ask who runs the cluster for nodes", id="nodes that aren't open"),
        pytest.param('0/3 nodes are available: persistentvolumeclaim "data" not found.' + UNRESOLVABLE,
                     "claim-missing", "there is no claim data",
                     "create it, or correct the claim's name in volumes; `kubectl get pvc` shows those that are there", id="no such claim"),
        pytest.param('0/3 nodes are available: persistentvolumeclaim "data" is being deleted.' + UNRESOLVABLE,
                     "claim-missing", "the claim data is being deleted", "take another claim in volumes", id="a claim on its way out"),
        pytest.param("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims." + UNRESOLVABLE,
                     "claim-unbound", "the claim data has no volume yet",
                     "see `kubectl describe pvc data`, or take another claim in volumes", id="a claim without a volume"),
        pytest.param("0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind." + UNRESOLVABLE,
                     "claim-unbound", "each of the 3 nodes has no volume for the claim data",
                     "see `kubectl describe pvc`, or take another claim in volumes", id="no volume to bind"),
        pytest.param("0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity." + UNRESOLVABLE,
                     "volume-node", "each of the 3 nodes can't reach the volume of the claim data, which is bound to other nodes",
                     "let the job run where that volume is (placement.nodeSelector), or take another claim in volumes", id="a volume of other nodes"),
        pytest.param("0/3 nodes are available: 1 node(s) had volume node affinity conflict, 2 Insufficient cpu." + UNRESOLVABLE,
                     "volume-node", "no node is free for it; of 3 nodes 1 can't reach the volume of the claim data, which is bound to other nodes, 2 have too little CPU free (it asks for 16 CPUs)",
                     "let the job run where that volume is (placement.nodeSelector), or take another claim in volumes; or lower resources.cpu, or wait until other pods end",
                     id="a volume of other nodes, as older schedulers say it"),
        pytest.param("0/3 nodes are available: 3 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod." + UNRESOLVABLE,
                     "claim-in-use", "each of the 3 nodes can't mount the claim data: it is ReadWriteOncePod and another pod has it",
                     "wait until that pod ends, or take a claim with ReadWriteMany", id="a claim for one pod"),
        pytest.param("0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules." + NO_PREEMPTION,
                     "affinity", "each of the 3 nodes has pods that it must not be beside (anti-affinity)",
                     "loosen placement.affinity, or ask for more nodes", id="anti-affinity"),
        pytest.param("0/3 nodes are available: 3 node(s) didn't match pod affinity rules." + UNRESOLVABLE,
                     "affinity", "each of the 3 nodes lacks pods that it must be beside (affinity)",
                     "correct placement.affinity", id="affinity"),
        pytest.param("0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints." + NO_PREEMPTION,
                     "spread", "each of the 3 nodes would have too many of its pods (topology spread)",
                     "loosen topologySpreadConstraints in kubernetes.podPatch", id="topology spread"),
        pytest.param("0/3 nodes are available: 3 node(s) didn't have free ports for the requested pod ports." + NO_PREEMPTION,
                     "ports", "each of the 3 nodes has its host ports taken",
                     "leave out network.host or the ports in kubernetes.podPatch, or ask for more nodes", id="host ports"),
        pytest.param("0/3 nodes are available: 3 Too many pods." + NO_PREEMPTION, "pods",
                     "each of the 3 nodes is full of pods", WAIT, id="full nodes"),
        pytest.param("no nodes available to schedule pods", "no-nodes", "the cluster has no nodes now",
                     "wait for nodes, or ask who runs the cluster", id="no nodes"),
        pytest.param("0/3 nodes are available: 3 node(s) had a bad day." + UNRESOLVABLE, "unschedulable",
                     "each of the 3 nodes can't take it: node(s) had a bad day", "ask who runs the cluster", id="something new"),
    ],
)  # fmt: skip
def test_no_node(message: str, kind: str, what: str, step: str) -> None:
    cause = one(unscheduled(message, resources=LARGE, spec=SELECTOR))
    assert (cause.text, cause.next, cause.kind) == (f"worker-0: {what}", step, kind)
    assert not cause.final


def test_a_taint_is_named_from_the_nodes_where_they_may_be_seen() -> None:
    taints = [
        {"key": "dedicated", "value": "ml", "effect": "NoSchedule"},
        {"key": "gpu", "effect": "NoExecute"},
    ]
    held = unscheduled(
        "0/1 nodes are available: 1 node(s) had untolerated taint(s)." + UNRESOLVABLE,
        spec={"tolerations": [{"key": "gpu", "operator": "Exists"}]},
    )
    cause = one(held, nodes=(node(taints=taints),))
    assert cause.text == "worker-0: the only node has a taint that the job doesn't tolerate: dedicated=ml"
    assert cause.next == "if the job may use these nodes, set placement.tolerations (dedicated=ml)"


def test_an_unbound_claim_is_explained_by_its_own_event() -> None:
    claim = {
        "metadata": {"name": "data", "uid": "uid-data"},
        "spec": {"storageClassName": "fast"},
        "status": {"phase": "Pending"},
    }
    said = event(
        claim,
        "ProvisioningFailed",
        'storageclass.storage.k8s.io "fast" not found',
        kind="PersistentVolumeClaim",
    )
    held = unscheduled(
        "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims." + UNRESOLVABLE,
        spec=CLAIMS,
    )
    assert one(held, claims=(claim,), events=(said,)).text == (
        'worker-0: the claim data has no volume yet: storageclass.storage.k8s.io "fast" not found'
    )
    assert (
        one(held, claims=(claim,)).text == "worker-0: the claim data has no volume yet (storage class fast)"
    )
    none: Object = {**claim, "spec": {}}
    assert (
        one(held, claims=(none,)).text
        == "worker-0: the claim data has no volume yet and no storage class that could make one"
    )


def test_the_schedulers_event_serves_where_the_condition_is_missing() -> None:
    held = pod()
    said = event(held, "FailedScheduling", "0/3 nodes are available: 3 Too many pods." + NO_PREEMPTION,
                 firstTimestamp=None, lastTimestamp=None, eventTime=at(3)[:-1] + ".123456Z")  # fmt: skip
    assert one(held, events=(said,)).kind == "pods"


def test_scheduling_gates() -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }
    cause = one(pod(conditions=[condition], spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}))
    assert cause.text == "worker-0: held back by kueue.x-k8s.io/admission"
    assert (
        cause.next
        == "ask whoever put the gates there, as a queue of the cluster; they are in the pod's spec.schedulingGates"
    )
    assert not cause.problem


def test_a_scheduler_that_isnt_there() -> None:
    cause = one(pod(spec={"schedulerName": "volcano"}))
    assert cause.text == "worker-0: no scheduler has looked at it yet; it waits for the one named volcano"
    assert (cause.kind, cause.next) == ("no-scheduler", "correct placement.scheduler")
    assert told(pod(ago=3, spec={"schedulerName": "volcano"})) == ()


# --- a container that can't be made ------------------------------------------------------------------

TASK = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: "
MADE = "create it (kubectl create {} {} …), or correct its name in {}"
PYTHON = "use an image with Python 3.8 or newer, as python:3.12-slim"
ARCH = (
    "use an image for the node's kind of machine, or choose the nodes: placement.nodeSelector "
    "{kubernetes.io/arch: amd64}"
)


@pytest.mark.parametrize(
    ("reason", "message", "kind", "what", "step", "final"),
    [
        pytest.param("CreateContainerConfigError", 'secret "token" not found', "secret-missing",
                     "there is no Secret token in the namespace", MADE.format("secret generic", "token", "secrets or volumes"), False, id="no Secret"),
        pytest.param("CreateContainerConfigError", 'configmap "settings" not found', "configmap-missing",
                     "there is no ConfigMap settings in the namespace", MADE.format("configmap", "settings", "volumes"), False, id="no ConfigMap"),
        pytest.param("CreateContainerConfigError", "couldn't find key hf in Secret team/token", "secret-key",
                     "the Secret token has no key hf", "add the key to it, or correct key in secrets", False, id="no such key"),
        pytest.param("CreateContainerConfigError", "couldn't find key lr in ConfigMap team/settings", "configmap-key",
                     "the ConfigMap settings has no key lr", "add the key to it, or correct key in kubernetes.podPatch", False, id="no such key in a ConfigMap"),
        pytest.param("CreateContainerConfigError", f'secret "{BASE}" not found', "secret-missing",
                     f"the run's own Secret {BASE} is gone", "somebody deleted it: end the run with `hora rm`, and run it again", True, id="the run's own Secret"),
        pytest.param("CreateContainerConfigError", 'container has runAsNonRoot and image will run as root (pod: "digits-k7x2m-worker-0-abcde_team(1-2)", container: member)',
                     "user-root", "its image runs as root, and the pod must not", "set kubernetes.user to a number such as 1000", True, id="an image that runs as root"),
        pytest.param("CreateContainerConfigError", 'container has runAsNonRoot and image has non-numeric user (jovyan), cannot verify user is non-root (pod: "x_team(1)", container: member)',
                     "user-name", "its image runs as jovyan, and only a number shows that this isn't root", "set kubernetes.user to the number of jovyan", True, id="a user by name"),
        pytest.param("CreateContainerConfigError", 'failed to prepare subPath for volumeMount "v0" of container "member"', "sub-path",
                     "a subPath of its volumes can't be used", "subPath in volumes must be a folder that the ranks' user may enter (kubernetes.user, fsGroup)", False, id="subPath"),
        pytest.param("CreateContainerConfigError", "services have not yet been read at least once, cannot construct envvars", "container-config",
                     "its settings can't be used: services have not yet been read at least once, cannot construct envvars", NODE_AGAIN, False, id="other settings"),
        pytest.param("RunContainerError", TASK + 'exec: "sh": executable file not found in $PATH: unknown', "command-missing",
                     f"the image {IMAGE} has no sh", f"Hora needs a shell (sh) and Python in it: {PYTHON}", True, id="no shell"),
        pytest.param("RunContainerError", TASK + 'error during container init: exec: "/opt/sh": stat /opt/sh: no such file or directory: unknown', "command-missing",
                     f"the image {IMAGE} has no /opt/sh", f"Hora needs a shell (sh) and Python in it: {PYTHON}", True, id="no such file"),
        pytest.param("RunContainerError", TASK + 'exec: "sh": permission denied: unknown', "not-executable",
                     f"sh in the image {IMAGE} may not be executed by the ranks' user", "make it executable in the image (chmod a+rx), or set kubernetes.user", True, id="not executable"),
        pytest.param("RunContainerError", TASK + "exec /bin/sh: exec format error: unknown", "image-arch",
                     f"its image {IMAGE} is for another kind of machine than the node node-a", ARCH, True, id="wrong architecture"),
        pytest.param("RunContainerError", TASK + 'error during container init: mkdir /work: permission denied chdir to cwd ("/work") set in config.json failed: permission denied: unknown',
                     "workdir", "the working folder /work of the image can't be entered", "give the image's user that folder, or set workingDir in kubernetes.podPatch", True, id="working folder"),
        pytest.param("CreateContainerError", 'failed to generate container "1f" spec: failed to generate spec: unable to find user trainer: no matching entries in passwd file', "user-name",
                     "its image has no user trainer", "set kubernetes.user to a number", True, id="an unknown user"),
        pytest.param("RunContainerError", TASK + "error running prestart hook #0: exit status 1, stdout: , stderr: nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown", "gpu-runtime",
                     "the node node-a can't give the container its GPU: " + (TASK + "error running prestart hook")[:159].rstrip() + "…",
                     "ask who runs the cluster for that node's driver, or choose other nodes (placement.nodeSelector)", False, id="a GPU without a driver"),
        pytest.param("RunContainerError", TASK + "container init was OOM-killed (memory limit too low?): unknown", "oom",
                     "its memory limit is too low even to start", "raise resources.memory", False, id="no memory to start"),
        pytest.param("CreateContainerError", "context deadline exceeded", "container-start",
                     "the node node-a can't start its container: context deadline exceeded", NODE_AGAIN, False, id="a slow node"),
    ],
)  # fmt: skip
def test_a_container_that_cant_be_made(
    reason: str, message: str, kind: str, what: str, step: str, final: bool
) -> None:
    cause = one(waiting(reason, message))
    assert (cause.text, cause.next, cause.kind, cause.final) == (f"worker-0: {what}", step, kind, final)


@pytest.mark.parametrize(
    ("message", "kind", "what", "step"),
    [
        pytest.param('MountVolume.SetUp failed for volume "v0" : secret "certs" not found', "secret-missing",
                     "there is no Secret certs in the namespace", MADE.format("secret generic", "certs", "secrets or volumes"), id="Secret"),
        pytest.param('MountVolume.SetUp failed for volume "v0" : configmap "settings" not found', "configmap-missing",
                     "there is no ConfigMap settings in the namespace", MADE.format("configmap", "settings", "volumes"), id="ConfigMap"),
        pytest.param('MountVolume.SetUp failed for volume "v0" : references non-existent secret key: ca.pem', "secret-key",
                     "a Secret that it mounts has no key ca.pem", "add the key to it, or correct key in secrets", id="key"),
        pytest.param('MountVolume.SetUp failed for volume "v0" : mount failed: exit status 32\nMounting command: mount\nOutput: mount.nfs: Connection timed out\n', "volume-mount",
                     "the server of the nfs volume 10.0.0.2:/export doesn't answer the node node-a", f"see that the nodes reach it, or correct volumes; {NODE_AGAIN}", id="NFS server away"),
        pytest.param('MountVolume.SetUp failed for volume "v0" : mount failed: exit status 32\nOutput: mount.nfs: access denied by server while mounting 10.0.0.2:/export\n', "volume-mount",
                     "the nfs volume 10.0.0.2:/export may not be mounted by the node node-a", "let the server allow the nodes' addresses, or correct volumes", id="NFS refuses"),
        pytest.param('MountVolume.SetUp failed for volume "v0" : mount failed: exit status 32\nOutput: mount: bad option; for several filesystems (e.g. nfs, cifs) you might need a /sbin/mount.<type> helper program.', "volume-mount",
                     "the node node-a lacks the program that mounts the nfs volume 10.0.0.2:/export", "ask who runs the cluster to install it, or choose other nodes (placement.nodeSelector)", id="no mount.nfs"),
        pytest.param('MountVolume.SetUp failed for volume "v0" : hostPath type check failed: /data is not a directory', "volume-mount",
                     "the nfs volume 10.0.0.2:/export isn't there on the node node-a", "correct hostPath in volumes, or choose the nodes that have it (placement.nodeSelector)", id="host path"),
        pytest.param('Multi-Attach error for volume "pvc-1f" Volume is already exclusively attached to one node and can\'t be attached to another', "claim-in-use",
                     "the claim data is ReadWriteOnce and in use on another node", "let one member mount it, take a claim with ReadWriteMany, or wait until the other pod ends", id="attached elsewhere"),
        pytest.param('MountVolume.MountDevice failed for volume "pvc-1f" : kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name disk.csi.example.org not found in the list of registered CSI drivers', "csi-driver",
                     "the node node-a has no driver for the claim data", "choose nodes that have it (placement.nodeSelector), or another volume", id="no CSI driver"),
        pytest.param("Unable to attach or mount volumes: unmounted volumes=[v1], unattached volumes=[], failed to process volumes=[]: timed out waiting for the condition", "volume-mount",
                     "the server of the claim data doesn't answer the node node-a", f"see that the nodes reach it, or correct volumes; {NODE_AGAIN}", id="waited in vain"),
    ],
)  # fmt: skip
def test_a_volume_that_cant_be_mounted(message: str, kind: str, what: str, step: str) -> None:
    volumes = [
        {"name": "v0", "nfs": {"server": "10.0.0.2", "path": "/export"}},
        {"name": "v1", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    held = waiting("ContainerCreating", spec={"volumes": volumes})
    cause = one(held, events=(event(held, "FailedMount", message),))
    assert (cause.text, cause.next, cause.kind) == (f"worker-0: {what}", step, kind)


def test_what_a_mount_failed_of_is_told_rather_than_that_it_was_waited_for() -> None:
    held = waiting("ContainerCreating")
    seen = (
        event(
            held,
            "FailedMount",
            'MountVolume.SetUp failed for volume "hora" : configmap "settings" not found',
            ago=30,
        ),
        event(
            held,
            "FailedMount",
            "Unable to attach or mount volumes: unmounted volumes=[hora]: timed out waiting for the condition",
            ago=3,
        ),
    )
    assert one(held, events=seen).kind == "configmap-missing"


def test_a_mount_that_failed_before_the_image_came_is_over() -> None:
    held = waiting("ContainerCreating")
    seen = (
        event(
            held,
            "FailedMount",
            'MountVolume.SetUp failed for volume "hora" : object "team"/"x" not registered',
            ago=9,
        ),
        event(held, "Pulling", f'Pulling image "{IMAGE}"', ago=4),
    )
    assert one(held, events=seen).kind == "image-pulling"


@pytest.mark.parametrize(
    ("message", "kind", "what", "step"),
    [
        pytest.param('Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "1f2e": plugin type="bridge" failed (add): failed to allocate for range 0: no IP addresses available in range set: 10.244.0.1-10.244.0.254',
                     "sandbox", 'the node node-a can\'t make its pod: failed to setup network: plugin type="bridge" failed (add): failed to allocate for range 0: no IP addresses available in range set: 10.244.0.1-10.244.0.254',
                     NODE_AGAIN, id="no address"),
        pytest.param('Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "nvidia" is configured',
                     "runtime-class", "the node node-a has no runtime nvidia", "correct kubernetes.runtimeClass, or choose the nodes that have it", id="no runtime"),
    ],
)  # fmt: skip
def test_a_pod_without_a_sandbox(message: str, kind: str, what: str, step: str) -> None:
    held = waiting("ContainerCreating")
    cause = one(held, events=(event(held, "FailedCreatePodSandBox", message),))
    assert (cause.text, cause.next, cause.kind) == (f"worker-0: {what}", step, kind)


# --- containers that ended ---------------------------------------------------------------------------

GIB = {"limits": {"memory": "4Gi"}}


@pytest.mark.parametrize(
    ("end", "kind", "what", "step"),
    [
        pytest.param({"exitCode": 137, "reason": "OOMKilled", "resources": GIB}, "oom",
                     "its memory limit of 4Gi was not enough, and it was killed (OOM)",
                     "raise resources.memory, or let each rank use less, as with smaller batches", id="OOM"),
        pytest.param({"exitCode": 137, "reason": "OOMKilled"}, "oom",
                     "the memory of the node node-a was not enough, and it was killed (OOM)",
                     "set resources.memory, so that the job gets a node with enough", id="OOM without a limit"),
        pytest.param({"exitCode": 137}, "killed", "it was killed (signal 9)",
                     "look at its memory first (resources.memory): that is the usual reason", id="killed"),
        pytest.param({"exitCode": 127, "message": "hora: this image has no python3; Hora needs Python 3.8 or newer in it\n"}, "no-python",
                     f"the image {IMAGE} has no Python", PYTHON, id="no Python"),
        pytest.param({"exitCode": 255, "message": "exec /usr/bin/sh: exec format error\n"}, "image-arch",
                     f"its image {IMAGE} is for another kind of machine than the node node-a", ARCH, id="wrong architecture"),
        pytest.param({"exitCode": 128, "reason": "StartError", "message": TASK + 'exec: "sh": executable file not found in $PATH: unknown'}, "command-missing",
                     f"the image {IMAGE} has no sh", f"Hora needs a shell (sh) and Python in it: {PYTHON}", id="no shell"),
        pytest.param({"exitCode": 3}, "gave-up", "it found no lead for too long, and gave up",
                     "see `hora status` for the lead; a NetworkPolicy of the namespace may keep the pods apart", id="no lead"),
        pytest.param({"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "The container could not be located when the pod was terminated"}, "node-lost",
                     "the node node-a lost its container", "ask who runs the cluster what happened to that node; the pod is made again", id="a node that came back empty"),
        pytest.param({"exitCode": 2}, "container-ended", "its container ended with code 2 before the run was over",
                     "see its last lines: `hora logs`", id="ended early"),
    ],
)  # fmt: skip
def test_a_container_that_ended(end: Object, kind: str, what: str, step: str) -> None:
    cause = one(ended(**end))
    assert (cause.text, cause.next, cause.kind) == (f"worker-0: {what}", step, kind)


def test_hora_itself_out_of_memory() -> None:
    lead = ended(role="lead", exitCode=137, reason="OOMKilled", resources={"limits": {"memory": "256Mi"}})
    cause = one(lead)
    assert cause.text == "lead: Hora's own part ran out of memory (limit 256Mi) and was killed"
    assert cause.next == "it is made again; please report it, with `hora status -o json`"


def test_the_end_of_a_run_is_the_leads_to_tell() -> None:
    assert told(ended(role="lead", exitCode=1)) == ()
    assert told(ended(exitCode=0, reason="Completed")) == ()


def test_words_of_the_ranks_are_never_repeated() -> None:
    cause = one(ended(exitCode=2, message="TOKEN=hunter2"))
    assert "hunter2" not in cause.text + cause.next


def test_an_init_container_that_failed() -> None:
    failed = {"name": "download", "state": {"terminated": {"exitCode": 4, "reason": "Error"}}}
    held = waiting("PodInitializing", status={"initContainerStatuses": [failed]})
    cause = one(held)
    assert cause.text == "worker-0: the init container download ended with code 4"
    assert cause.next == f"see its last lines: kubectl logs {BASE}-worker-0-abcde -c download"


def test_an_init_container_that_takes_its_time() -> None:
    busy = {"name": "download", "state": {"running": {"startedAt": at(90)}}}
    cause = one(waiting("PodInitializing", status={"initContainerStatuses": [busy]}))
    assert cause.text == "worker-0: the init container download is still running since 90 s"
    assert not cause.problem


def test_an_init_container_whose_image_isnt_there() -> None:
    held = {
        "name": "download",
        "image": "nosuch:1",
        "state": {
            "waiting": {
                "reason": "ErrImagePull",
                "message": "rpc error: code = NotFound desc = registry.example/library/nosuch:1: not found",
            }
        },
    }
    cause = one(waiting("PodInitializing", status={"initContainerStatuses": [held]}))
    assert cause.text == "worker-0: the container download: Docker Hub has no image nosuch:1"


# --- pods that were taken away -----------------------------------------------------------------------

AGAIN = "it is made again where there is room"


def failed_pod(index: int = 0, disruption: str = "", **status: Any) -> Object:
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": disruption}] if disruption else []
    return pod(index, node="node-a", conditions=conditions, status={"phase": "Failed", **status})


@pytest.mark.parametrize(
    ("gone", "kind", "what", "step"),
    [
        pytest.param(failed_pod(disruption="TerminationByKubelet", reason="Evicted", message="The node was low on resource: memory. Threshold quantity: 100Mi, available: 52Mi. Container member was using 5Gi, request is 128Mi, has larger consumption of memory. "),
                     "evicted-memory", "the node node-a ran out of memory, so it was evicted (it used 5Gi and had asked for 128Mi)",
                     "ask for what it uses: resources.memory", id="memory"),
        pytest.param(failed_pod(disruption="TerminationByKubelet", reason="Evicted", message="The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi. "),
                     "evicted-disk", "the node node-a ran out of local disk, so it was evicted",
                     "write to a volume rather than to the image's folders, or choose other nodes (placement.nodeSelector)", id="disk"),
        pytest.param(failed_pod(reason="Evicted", message='Usage of EmptyDir volume "v1" exceeds the limit "10Gi". '),
                     "evicted-volume", "it put more than 10Gi into a scratch or memory volume, and was evicted", "raise that size in volumes", id="scratch"),
        pytest.param(failed_pod(reason="Evicted", message='Usage of EmptyDir volume "shm" exceeds the limit "1Gi". '),
                     "evicted-volume", "it put more than 1Gi into /dev/shm, and was evicted", "raise resources.shm", id="shared memory"),
        pytest.param(failed_pod(reason="Evicted", message='Container member exceeded its local ephemeral storage limit "1Gi". '),
                     "evicted-disk", "it wrote more to its local disk than its limit of 1Gi, and was evicted",
                     "write to a volume, or raise the limit on ephemeral-storage (kubernetes.podPatch, LimitRange)", id="its own limit on disk"),
        pytest.param(failed_pod(reason="Evicted", message="The node had condition: [DiskPressure]. "),
                     "evicted-disk", "the node node-a ran out of local disk, so it was evicted",
                     "write to a volume rather than to the image's folders, or choose other nodes (placement.nodeSelector)", id="refused by a full node"),
        pytest.param(failed_pod(disruption="PreemptionByScheduler"), "preempted",
                     "it was evicted to make room for a pod with a higher priority",
                     f"{AGAIN}; placement.priorityClass gives the job a higher one", id="preempted"),
        pytest.param(failed_pod(reason="Preempting", message="Preempted in order to admit critical pod"), "preempted",
                     "the node node-a needed its place for a pod of the cluster's own", AGAIN, id="preempted by the node"),
        pytest.param(failed_pod(disruption="EvictionByEvictionAPI"), "drained",
                     "it was evicted from the node node-a, as when somebody drains that node", AGAIN, id="drained"),
        pytest.param(failed_pod(disruption="DeletionByTaintManager"), "evicted-taint",
                     "it was evicted: the node node-a got a taint, as one that is lost or in maintenance does",
                     f"{AGAIN}; placement.tolerations lets it stay longer", id="tainted"),
        pytest.param(failed_pod(disruption="DeletionByPodGC"), "node-gone", "the node node-a no longer exists", AGAIN, id="node deleted"),
        pytest.param(failed_pod(disruption="TerminationByKubelet", reason="Terminated", message="Pod was terminated in response to imminent node shutdown."),
                     "node-shutdown", "the node node-a was shut down", AGAIN, id="shut down"),
        pytest.param(failed_pod(reason="OutOfcpu", message="Pod was rejected: Node didn't have enough resource: cpu, requested: 2000, used: 7000, capacity: 8000"),
                     "node-refused", "the node node-a refused it: it has too little cpu left", AGAIN, id="refused by the node"),
        pytest.param(failed_pod(reason="UnexpectedAdmissionError", message="Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected"),
                     "node-refused", "the node node-a refused it: Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected",
                     AGAIN, id="a sick GPU"),
    ],
)  # fmt: skip
def test_a_pod_that_was_taken_away(gone: Object, kind: str, what: str, step: str) -> None:
    cause = one(gone)
    assert (cause.text, cause.next, cause.kind) == (f"worker-0: {what}", step, kind)


def test_what_happened_before_is_told_while_the_next_pod_waits_and_no_longer() -> None:
    gone = {
        **failed_pod(disruption="EvictionByEvictionAPI"),
        "metadata": failed_pod()["metadata"] | {"name": "old", "creationTimestamp": at(90)},
    }
    held = unscheduled("0/3 nodes are available: 3 Too many pods." + NO_PREEMPTION)
    assert [cause.kind for cause in told(held, gone)] == ["drained", "pods"]
    assert told(running(), gone) == ()


LOST_STEP = (
    "ask who runs the cluster; to have it made again elsewhere at once: kubectl delete pod --force "
    f"-l hora.dev/run={RUN} -n team --field-selector spec.nodeName=node-a"
)


def test_a_lost_node_is_told_by_the_node_where_it_may_be_seen() -> None:
    cause = told(
        *[running(index) for index in range(4)], running(role="lead"), nodes=(node(ready="Unknown"),)
    )[0]
    assert cause.text == "lead and all 4 members: the node node-a doesn't answer any more since 40 s"
    assert (cause.next, cause.kind) == (LOST_STEP, "node-lost")


def test_a_lost_node_is_told_by_its_pods_where_it_may_not_be_seen() -> None:
    unready = [
        {"type": "Ready", "status": "False", "lastTransitionTime": at(20)},
        {"type": "ContainersReady", "status": "True"},
    ]
    assert (
        one(running(2, conditions=unready)).text
        == "worker-2: the node node-a doesn't answer any more since 20 s"
    )


def test_a_pod_that_should_be_long_gone() -> None:
    cause = one(running(2, metadata={"deletionTimestamp": at(200)}))
    assert cause.text == "worker-2: the node node-a doesn't answer any more since 3 min 20 s"


def test_a_pod_that_is_being_deleted() -> None:
    cause = one(running(2, metadata={"deletionTimestamp": at(-20)}))
    assert cause.text == "worker-2: its pod is being deleted; another one is made when it is gone"
    assert not cause.problem


def test_a_node_that_no_longer_exists() -> None:
    assert (
        one(running(2, node="node-b"), nodes=(node(),)).text == "worker-2: the node node-b no longer exists"
    )
