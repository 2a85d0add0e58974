"""The cluster itself: what the tests of the place rely on."""

from __future__ import annotations

import textwrap
import urllib.request

import pytest

from cluster.client import ApiError, Cluster, Namespace
from cluster.kube.problems import wait_until
from cluster.manifests import headless_service, indexed_job, pod, service

SERVER = ("python3", "-m", "http.server", "8000")


def python(code: str) -> tuple[str, str, str]:
    return "python3", "-c", textwrap.dedent(code)


def fetch(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as answer:
        return str(answer.read().decode())


def ended(namespace: Namespace, name: str) -> str:
    """What a pod has said, once it has ended well."""
    phase = namespace.wait_for_phase(name, "Succeeded", "Failed")
    said = namespace.logs(name)
    assert phase == "Succeeded", said
    return said


def test_it_has_two_nodes_that_are_ready(cluster: Cluster) -> None:
    assert len(cluster.nodes) >= 2
    assert all(cluster.ready(node) for node in cluster.nodes)


def test_the_pods_of_an_indexed_job_run_on_both_nodes_and_know_their_index(
    cluster: Cluster, namespace: Namespace
) -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "ranks"}},
    }
    say = python("import os, platform; print(os.environ['JOB_COMPLETION_INDEX'], platform.python_version())")
    job = indexed_job("ranks", 4, cluster.image("slim"), *say, topologySpreadConstraints=[spread])
    namespace.create(job)
    wait_until(
        lambda: namespace.get("Job", "ranks")["status"].get("succeeded") == 4,
        "the end of four pods",
        60,
        lambda: str(namespace.get("Job", "ranks")["status"]),
    )
    pods = namespace.list("Pod", app="ranks")
    assert len({each["spec"]["nodeName"] for each in pods}) == 2
    lines = sorted(namespace.logs(each["metadata"]["name"]) for each in pods)
    assert [line.split()[0] for line in lines] == ["0", "1", "2", "3"]
    assert all(line.split()[1].startswith("3.11.") for line in lines)


@pytest.mark.parametrize(
    ("image", "command", "expected"),
    [
        ("base", python("import mpi4py, numpy, os; print(numpy.arange(3).sum(), os.getuid())"), "3 0\n"),
        ("base", ("sh", "-c", "mpirun --version | head -n 1"), "mpirun (Open MPI) 4."),
        ("nopython", ("sh", "-c", "command -v python3 || echo none"), "none\n"),
        ("root", ("cat", "/root/only"), "only root reads this\n"),
    ],
    ids=["base has numpy and mpi4py", "base has Open MPI 4", "nopython has none", "root has its own files"],
)
def test_each_image_holds_what_its_name_says(
    cluster: Cluster, namespace: Namespace, image: str, command: tuple[str, ...], expected: str
) -> None:
    namespace.create(pod("look", cluster.image(image), *command))
    assert ended(namespace, "look").startswith(expected)


def test_the_image_root_does_not_work_for_others(cluster: Cluster, namespace: Namespace) -> None:
    user = {"runAsUser": 1000}
    namespace.create(pod("look", cluster.image("root"), "cat", "/root/only", securityContext=user))
    assert namespace.wait_for_phase("look", "Succeeded", "Failed") == "Failed"


def test_names_of_services_and_of_pods_resolve_in_pods(cluster: Cluster, namespace: Namespace) -> None:
    namespace.create(headless_service("group"))
    namespace.create(service("web", 8000))
    namespace.create(pod("web", cluster.image("slim"), *SERVER))
    named = {"subdomain": "group", "hostname": "zero"}
    namespace.create(pod("group", cluster.image("slim"), *SERVER, **named))
    for name in ("web", "group"):
        namespace.wait_for_phase(name, "Running")
    address = wait_until(
        lambda: namespace.get("Pod", "group")["status"].get("podIP"), "the pod's address", 10
    )
    look = python(f"""
        import socket, time, urllib.request
        def resolve(name):
            for _ in range(200):
                try:
                    return socket.gethostbyname(name)
                except OSError:
                    time.sleep(0.1)
        print(resolve("zero.group"), resolve("zero.group.{namespace}.svc.cluster.local"), resolve("group"))
        resolve("web")
        print(urllib.request.urlopen("http://web:8000", timeout=10).status)
    """)
    namespace.create(pod("look", cluster.image("slim"), *look))
    assert ended(namespace, "look").split() == [address, address, address, "200"]


def test_pods_on_one_node_reach_pods_on_the_other(cluster: Cluster, namespace: Namespace) -> None:
    first, second = cluster.nodes[:2]
    namespace.create(pod("server", cluster.image("slim"), *SERVER, node=first))
    namespace.wait_for_phase("server", "Running")
    address = wait_until(
        lambda: namespace.get("Pod", "server")["status"].get("podIP"), "the pod's address", 10
    )
    look = f"""
        import time, urllib.request
        for _ in range(100):
            try:
                print(urllib.request.urlopen("http://{address}:8000", timeout=5).status)
                break
            except OSError:
                time.sleep(0.1)
    """
    for node in (first, second):
        namespace.create(pod(f"from-{node}", cluster.image("slim"), *python(look), node=node))
    assert [ended(namespace, f"from-{node}") for node in (first, second)] == ["200\n", "200\n"]


def test_port_forward_exec_and_logs_work_on_both_nodes(cluster: Cluster, namespace: Namespace) -> None:
    for node in cluster.nodes:
        serve = f"echo here is {node}; cd /tmp; echo {node} >where; exec python3 -m http.server 8000"
        namespace.create(pod(f"on-{node}", cluster.image("slim"), "sh", "-c", serve, node=node))
    for node in cluster.nodes:
        name = f"on-{node}"
        namespace.wait_for_phase(name, "Running")
        with namespace.forward(name, 8000) as port:
            found = wait_until(lambda at=port: try_fetch(f"http://127.0.0.1:{at}/where"), "an answer", 20)
        assert found == f"{node}\n"
        assert namespace.kubectl("exec", name, "--", "cat", "/tmp/where").stdout == f"{node}\n"
        assert namespace.logs(name).startswith(f"here is {node}\n")


def try_fetch(url: str) -> str:
    """Nothing, while the server in the pod still starts."""
    try:
        return fetch(url)
    except OSError:
        return ""


def test_a_user_without_rights_is_refused_until_they_are_given(
    cluster: Cluster, namespace: Namespace
) -> None:
    user = namespace.user()
    refused = namespace.kubectl("get", "pods", user=user)
    assert refused.returncode == 1
    assert "Forbidden" in refused.stderr
    namespace.allow(user, [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
    allowed = namespace.kubectl("get", "pods", user=user)
    assert allowed.returncode == 0, allowed.stderr
    assert namespace.kubectl("get", "secrets", user=user).returncode == 1


def test_a_pod_reaches_the_api_with_the_token_of_its_service_account(
    cluster: Cluster, namespace: Namespace
) -> None:
    ask = python("""
        import pathlib, ssl, urllib.error, urllib.request
        folder = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
        trusted = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        space, token = (folder / "namespace").read_text(), (folder / "token").read_text()
        url = f"https://kubernetes.default.svc/api/v1/namespaces/{space}/pods"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        try:
            urllib.request.urlopen(request, context=trusted, timeout=20)
        except urllib.error.HTTPError as refused:
            print(refused.code, refused.read().decode())
    """)
    namespace.create(pod("look", cluster.image("slim"), *ask))
    said = ended(namespace, "look")
    assert said.startswith("403 ")
    assert f"system:serviceaccount:{namespace}:default" in said


def test_a_namespace_that_enforces_restricted_refuses_root(cluster: Cluster) -> None:
    namespace = cluster.new_namespace({"pod-security.kubernetes.io/enforce": "restricted"})
    try:
        with pytest.raises(ApiError, match="violates PodSecurity"):
            namespace.create(pod("root", cluster.image("root"), "true"))
        manifest = pod("modest", cluster.image("slim"), "id", "-u")
        modest = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        manifest["spec"]["containers"][0]["securityContext"] = modest
        namespace.create(manifest)
        assert ended(namespace, "modest") == "1000\n"
    finally:
        namespace.remove()


def test_memory_limits_hold(cluster: Cluster, namespace: Namespace) -> None:
    greedy = pod("greedy", cluster.image("slim"), *python("x = bytearray(200 << 20); print(len(x))"))
    greedy["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}
    namespace.create(greedy)
    assert namespace.wait_for_phase("greedy", "Succeeded", "Failed") == "Failed"
    state = namespace.get("Pod", "greedy")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["reason"], state["exitCode"]) == ("OOMKilled", 137)
