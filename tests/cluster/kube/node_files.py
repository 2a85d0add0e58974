"""What the daemons of a node read: pure functions of its name."""

from __future__ import annotations

from typing import Any

from cluster.kube import layout
from cluster.kube.recipe import PAUSE

# As the daemons see it, below /run of the node.
INSIDE = "/run/hora"
SOCKET = "/run/containerd/containerd.sock"
KUBELET_FOLDER = "/var/lib/kubelet"

# Plugins that this cluster has no use for; each costs some time at every start.
_UNUSED = ("snapshotter.v1.aufs", "snapshotter.v1.btrfs", "snapshotter.v1.devmapper", "snapshotter.v1.zfs")


def containerd_toml(pods: bool = True) -> str:
    """Without `pods` nobody minds the containers: that is how those of an earlier cluster are cleared away."""
    disabled = [f"io.containerd.{name}" for name in _UNUSED] + ([] if pods else ["io.containerd.grpc.v1.cri"])
    return f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [{", ".join(f'"{name}"' for name in disabled)}]
[grpc]
address = "{SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
# Without CAP_SYS_RESOURCE, as in many a container, no pod could start otherwise.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{layout.CNI_PLUGINS}"
conf_dir = "{INSIDE}/etc/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


def cni(name: str) -> dict[str, Any]:
    """`ptp`: every packet between pods is routed.

    On a bridge the answers of a Service would pass between pods of one node unseen, unless the kernel can filter
    bridges; not every kernel can.
    """
    ranges = [[{"subnet": layout.pod_network(name)}]]
    routes = [{"dst": "0.0.0.0/0"}]
    addresses = {"type": "host-local", "ranges": ranges, "routes": routes, "dataDir": "/run/cni"}
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {"type": "ptp", "ipMasq": False, "ipam": addresses},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def kubelet(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": layout.cgroup(name),
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "address": "0.0.0.0",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{INSIDE}/etc/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{INSIDE}/etc/kubelet.crt",
        "tlsPrivateKeyFile": f"{INSIDE}/etc/kubelet.key",
        "clusterDNS": [layout.HOST_ADDRESS],
        "clusterDomain": layout.DOMAIN,
        "resolvConf": f"{INSIDE}/etc/resolv.conf",
        # A lost node is to be seen within seconds: it has a lease of 8 s and renews it every 2 s.
        "nodeLeaseDurationSeconds": 8,
        "nodeStatusUpdateFrequency": "5s",
        # A disk that others fill must not evict pods, and images are never in the way.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "maxPods": 250,
        "serializeImagePulls": False,
        "registryPullQPS": 100,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        "volumePluginDir": f"{KUBELET_FOLDER}/plugins-of-others",
    }


def kubelet_command(name: str) -> list[str]:
    return [
        f"{INSIDE}/bin/kubelet",
        f"--config={INSIDE}/etc/kubelet.json",
        f"--kubeconfig={INSIDE}/etc/kubelet.kubeconfig",
        f"--root-dir={KUBELET_FOLDER}",
        f"--hostname-override={name}",
        f"--node-ip={layout.node_address(name)}",
    ]


def kube_proxy_command(name: str) -> list[str]:
    return [
        f"{INSIDE}/bin/kube-proxy",
        f"--kubeconfig={INSIDE}/etc/kube-proxy.kubeconfig",
        f"--hostname-override={name}",
        "--proxy-mode=iptables",
        f"--cluster-cidr={layout.POD_NETWORK}",
        # The kernel's table belongs to the whole machine.
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
        "--oom-score-adj=0",
    ]


def containerd_command(config: str = "containerd.toml") -> list[str]:
    return ["/usr/bin/containerd", f"--config={INSIDE}/etc/{config}"]
