"""The whole: build, up, down, and what runs."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from cluster.kube import api, build, cgroups, controlplane, debian, disks, images, layout, network, processes
from cluster.kube.node import Node
from cluster.kube.problems import ClusterError, wait_until
from cluster.kube.versions import MPI_OPERATOR

_lent = layout.STATE / "lent"  # there while nobody has asked for the cluster to stay


def make(peers: bool = False) -> None:
    """Build what isn't built, and bring the images to the nodes' disks."""
    debian.install()
    for module in (*build.NEEDED, *([MPI_OPERATOR] if peers else [])):
        build.go(module)
    images.archive()
    with build.lock("cluster"):
        disks.fill()


def nodes() -> list[Node]:
    return [Node(name) for name in layout.NODES]


def is_up() -> bool:
    """Every part runs and the API server answers: where a node is off, `up` makes a new cluster."""
    running = {each.part for each in processes.parts()}
    return running >= {*controlplane.PARTS, *(node.part for node in nodes())} and api.get("/readyz") == "ok"


def up() -> tuple[bool, float]:
    """Whether it was up before, and how long it took."""
    make()
    began = time.monotonic()
    with build.lock("cluster"):
        if is_up():
            return True, 0.0
        if others := processes.strangers():
            raise ClusterError(
                f"a cluster of {others[0].folder} is up on this machine, and there is room for one"
            )
        _clean()
        try:
            _start()
        except BaseException:
            _clean(keep=(layout.LOGS,))
            raise
    return False, time.monotonic() - began


def keep() -> None:
    """Somebody wants it up, whoever started it."""
    _lent.unlink(missing_ok=True)


@contextmanager
def lent() -> Iterator[None]:
    """Up, while this lasts; then down, if it wasn't up before and nobody else has it."""
    layout.FOLDER.mkdir(parents=True, exist_ok=True)
    with open(layout.FOLDER / ".lent.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        if not up()[0]:
            _lent.touch()
        yield
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # the last one ends it
        if _lent.exists():
            down()
            _lent.unlink()


def _start() -> None:
    """The nodes' containerds start while the control plane does; kubelets wait for neither but for both."""
    network.save_settings()
    network.up()
    controlplane.prepare()
    with ThreadPoolExecutor() as pool:
        booting = [pool.submit(_power_on, node) for node in nodes()]
        controlplane.start_etcd()
        controlplane.start_api_server()
        controlplane.start_managers()
        controlplane.start_coredns()
        ready = [boot.result() for boot in booting]
    for node in ready:
        node.start_kubelet()
        node.close()
    wait_until(
        _nodes_ready, "both nodes being Ready", 60, lambda: "\n".join(node.log("kubelet") for node in ready)
    )
    controlplane.wait_for_coredns()
    wait_until(_account_there, "the default service account", 30)


def _power_on(node: Node) -> Node:
    """Up to containerd, without what an earlier cluster left."""
    node.write_files()
    cgroups.make(layout.cgroup(node.name))
    node.power_on()
    network.plug_in(node.name, node.pid())
    if disks.used(node):
        node.start_containerd(pods=False)
        node.clear()
        node.stop_containerd()
    disks.set_used(node)
    node.start_containerd()
    return node


def node_state(name: str) -> str:
    """Ready, NotReady, or why it isn't known."""
    found = api.get(f"/api/v1/nodes/{name}")
    if found is None:
        return "unknown to the API server"
    conditions = {each["type"]: each["status"] for each in found["status"].get("conditions", [])}
    return "Ready" if conditions.get("Ready") == "True" else "NotReady"


def _nodes_ready() -> bool:
    """Ready, open for pods, and with the Services' rules in place."""
    for name in layout.NODES:
        found = api.get(f"/api/v1/nodes/{name}")
        if not found or found["spec"].get("taints") or node_state(name) != "Ready":
            return False
        if not api.answers(f"http://{layout.node_address(name)}:10256/healthz"):  # of kube-proxy
            return False
    return True


def _account_there() -> bool:
    return api.get("/api/v1/namespaces/default/serviceaccounts/default") is not None


def down() -> bool:
    """Whether there was anything to end."""
    with build.lock("cluster"):
        return _clean()


def _clean(keep: Sequence[Path] = ()) -> bool:
    """End and remove all that `up` makes, however much of it is there."""
    found = bool(processes.parts()) or network.exists()
    if processes.strangers() and not found:
        return False  # what is left on this machine is another cluster's
    processes.end()
    network.down()
    network.restore_settings()
    for name in layout.NODES:
        cgroups.remove(layout.cgroup(name))
    for left in {layout.PKI, layout.USERS, layout.STATE / "etcd", layout.LOGS}.difference(keep):
        shutil.rmtree(left, ignore_errors=True)
    layout.KUBECONFIG.unlink(missing_ok=True)
    return found


def start_node(name: str) -> None:
    with build.lock("cluster"):
        node = Node(name)
        if not network.exists():
            raise ClusterError("the cluster is not up: scripts/cluster up")
        if not node.pid():
            node.boot()


def kill_node(name: str) -> None:
    with build.lock("cluster"):
        Node(name).power_cut()
        cgroups.remove(layout.cgroup(name))


def stop_api_server() -> None:
    """As a crash: connections break, and new ones are refused."""
    with build.lock("cluster"):
        processes.end(controlplane.API_SERVER)


def start_api_server() -> None:
    with build.lock("cluster"):
        if not layout.PKI.exists():
            raise ClusterError("the cluster is not up: scripts/cluster up")
        if processes.alive(controlplane.API_SERVER):
            return
        controlplane.start_api_server()
        # A kubelet notices up to a minute later, by its back-off; whoever is the second to do so would lose its pods,
        # which tolerate a lost node for 5 s here and 5 minutes elsewhere.  One that starts looks at once.
        on = [node for node in nodes() if node.pid()]
        for node in on:
            node.restart_kubelet()
        for node in on:
            wait_until(
                lambda name=node.name: _knows_its_pods(name),
                f"node {node.name} being Ready",
                60,
                lambda of=node: of.log("kubelet"),
            )


def _knows_its_pods(name: str) -> bool:
    """Whether the node is Ready, and exec and the like work for its pods."""
    wanted = api.get(f"/api/v1/pods?fieldSelector=spec.nodeName={name}")
    known = api.get(f"/api/v1/nodes/{name}/proxy/pods")  # the kubelet's own answer
    if wanted is None or known is None or node_state(name) != "Ready":
        return False
    return {pod["metadata"]["uid"] for pod in wanted["items"]} <= {
        pod["metadata"]["uid"] for pod in known["items"] or []
    }


def kubectl_environment(kubeconfig: Path | None = None) -> dict[str, str]:
    """What kubectl learns about the API is kept here, not in somebody's home, and used by all.

    No proxy of the environment stands between here and an address of this machine.
    """
    direct = ",".join(
        filter(None, [os.environ.get("NO_PROXY") or os.environ.get("no_proxy"), layout.HOST_ADDRESS])
    )
    mine = {
        "KUBECONFIG": str(kubeconfig or layout.KUBECONFIG),
        "KUBECACHEDIR": str(layout.STATE / "kubectl"),
        "NO_PROXY": direct,
        "no_proxy": direct,
    }
    return {**layout.environment(), **mine}


def kubectl(
    *words: str, kubeconfig: Path | None = None, stdin: str | None = None, timeout: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Whatever it says and however it ends: the caller judges."""
    return subprocess.run(
        [str(build.binary("kubectl")), *words],
        env=kubectl_environment(kubeconfig),
        input=stdin if stdin is not None else "",
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def status() -> list[str]:
    """One line for each part."""
    running = processes.parts()
    lines = []
    for part in controlplane.PARTS:
        pids = [str(each.pid) for each in running if each.part == part]
        lines.append(f"{part}: {'pid ' + pids[0] if pids else 'off'}")
    for node in nodes():
        pid = node.pid()
        daemons = f"pid {pid}, {', '.join(node.running()) or 'no daemon'}; " if pid else "off; "
        lines.append(f"node {node.name}: {daemons}{node_state(node.name)}")
    lines.append(f"API: {layout.API_URL if api.get('/readyz') == 'ok' else 'does not answer'}")
    return lines


def run_in_node(name: str, words: Sequence[str]) -> int:
    return subprocess.call([*Node(name).enter(), *words])
