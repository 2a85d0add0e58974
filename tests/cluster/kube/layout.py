"""Where everything is: folders, addresses and names, each in this file alone."""

from __future__ import annotations

import os
from pathlib import Path

# Read when this is imported, before a test gets a home of its own.
_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
FOLDER = Path(os.environ.get("HORA_TEST_CLUSTER") or _cache / "hora" / "cluster").absolute()

STATE = FOLDER / "state"  # of the cluster that runs
LOGS = STATE / "log"
PKI = STATE / "pki"
USERS = STATE / "users"
DISKS = FOLDER / "disks"  # of the nodes: they outlive `down`, and so do the images in them
KUBECONFIG = STATE / "admin.kubeconfig"

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CNI_PLUGINS = "/usr/lib/cni"

# The network of the nodes, that of the pods, and that of the Services.
BRIDGE = "hora0"  # what the host sees of the switch between the nodes
HOST_ADDRESS = "10.88.0.1"
NODE_NETWORK_BITS = 24
POD_NETWORK = "10.89.0.0/16"
SERVICE_NETWORK = "10.96.0.0/16"
SERVICE_OF_THE_API = "10.96.0.1"
API_PORT = 6443
API_URL = f"https://{HOST_ADDRESS}:{API_PORT}"
# Not etcd's own ports: somebody may run one here.
ETCD_PORT = 23790
ETCD_PEER_PORT = 23791
DOMAIN = "cluster.local"

NODES = {"one": 1, "two": 2}


def node_address(name: str) -> str:
    return f"10.88.0.{10 + NODES[name]}"


def pod_network(name: str) -> str:
    """The addresses of a node's pods."""
    return f"10.89.{NODES[name]}.0/24"


def cgroup(name: str) -> str:
    """Below it the node's kubelet makes groups; each needs its own, or they end each other's pods."""
    return f"/hora-cluster/{name}"


def environment() -> dict[str, str]:
    """For commands of ours: the sbin folders, and Go's, are not on everybody's PATH."""
    return {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}:/usr/local/go/bin"}
