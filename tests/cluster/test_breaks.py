"""What tests do to the cluster: nodes lost, API server away, all of it killed; and what `down` leaves."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from cluster.client import Cluster, Namespace
from cluster.kube import cluster as ours
from cluster.kube import layout, machine, processes
from cluster.kube.problems import wait_until
from cluster.manifests import pod

SLEEP = ("sleep", "3600")


def test_a_lost_node_is_seen_within_seconds_and_comes_back_with_its_images(
    own_cluster: Cluster, namespace: Namespace
) -> None:
    cluster, node = own_cluster, own_cluster.nodes[-1]
    namespace.create(pod("there", cluster.image("slim"), *SLEEP, node=node))
    namespace.wait_for_phase("there", "Running")
    began = time.monotonic()
    with cluster.node_lost(node):
        wait_until(lambda: cluster.condition(node) == "Unknown", "the node being seen as lost", 30)
        seen = time.monotonic() - began
        assert seen < 20
        lost = wait_until(
            lambda: namespace.get("Pod", "there")["metadata"].get("deletionTimestamp"),
            "the pod's eviction",
            30,
        )
        assert lost
    wait_until(lambda: not namespace.find("Pod", "there"), "the end of the lost pod", 60)
    namespace.create(pod("again", cluster.image("slim"), *SLEEP, node=node))
    namespace.wait_for_phase("again", "Running")


def test_pods_outlive_an_outage_of_the_api_server(own_cluster: Cluster, namespace: Namespace) -> None:
    namespace.create(pod("tough", own_cluster.image("slim"), *SLEEP))
    namespace.wait_for_phase("tough", "Running")
    with own_cluster.api_server_down():
        refused = own_cluster.kubectl("get", "nodes")
        assert refused.returncode == 1
        assert "refused" in refused.stderr
    assert namespace.get("Pod", "tough")["status"]["phase"] == "Running"
    assert namespace.kubectl("exec", "tough", "--", "echo", "here").stdout == "here\n"
    namespace.create(pod("next", own_cluster.image("slim"), "true"))
    namespace.wait_for_phase("next", "Succeeded")


@pytest.fixture
def machine_of_its_own(own_cluster: Cluster) -> Iterator[None]:
    """For tests that end the cluster of all: it is up again for the next."""
    yield
    ours.up()


def test_down_leaves_nothing_of_a_cluster_that_has_worked(
    own_cluster: Cluster, machine_of_its_own: None
) -> None:
    assert ours.down()
    assert not ours.down()  # and is harmless
    before = machine.belongings()
    ours.up()
    memory = {"emptyDir": {"medium": "Memory"}, "name": "shm"}
    made = own_cluster.new_namespace()
    for node in own_cluster.nodes:
        worker = pod(f"on-{node}", own_cluster.image("slim"), *SLEEP, node=node, volumes=[memory])
        worker["spec"]["containers"][0]["volumeMounts"] = [{"mountPath": "/dev/shm", "name": "shm"}]
        made.create(worker)
    for node in own_cluster.nodes:
        made.wait_for_phase(f"on-{node}", "Running")
    assert machine.belongings() != before
    ours.down()
    wait_until(lambda: not left(before), "nothing being left", 20, lambda: str(left(before)))
    assert processes.all_parts() == []
    assert strays() == []


def left(before: dict[str, set[str]]) -> dict[str, set[str]]:
    """Kinds with something that wasn't there; others' processes may have ended meanwhile."""
    now = machine.belongings()
    return {kind: found - before[kind] for kind, found in now.items() if found - before[kind]}


def strays() -> list[str]:
    """Programs of the cluster's that run; kubectl is the tests' own."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            program = os.readlink(f"/proc/{entry}/exe") if entry.isdigit() else ""
        except OSError:
            continue  # it has ended, or is the kernel's own
        name = os.path.basename(program)
        if name.startswith(("containerd", "etcd")) or (
            program.startswith(f"{layout.FOLDER}/") and name != "kubectl"
        ):
            found.append(f"{entry} {program}")
    return found


def test_it_comes_up_again_after_all_of_it_was_killed(own_cluster: Cluster, machine_of_its_own: None) -> None:
    for process in processes.parts():
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended with another
    was_up, _seconds = ours.up()
    assert not was_up
    assert all(own_cluster.ready(node) for node in own_cluster.nodes)


def test_up_when_it_is_up_is_quick_and_changes_nothing(own_cluster: Cluster) -> None:
    pids = sorted(each.pid for each in processes.parts())
    began = time.monotonic()
    assert ours.up() == (True, 0.0)
    assert time.monotonic() - began < 2
    assert sorted(each.pid for each in processes.parts()) == pids
