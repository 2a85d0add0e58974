"""What the cluster is made of.  A change here builds the part anew: the versions are in the names of its folders."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GoModule:
    """Commands that are built from a module of the Go proxy."""

    name: str  # of the folder, with the version
    module: str
    version: str
    commands: tuple[str, ...]  # packages below the module; "" is the module itself
    usually: str  # how long it takes on two cores
    variables: tuple[tuple[str, str], ...] = ()  # what the linker writes into them
    files: tuple[str, ...] = ()  # of the module, kept beside the commands

    @property
    def key(self) -> str:
        return f"{self.name}-{self.version}"


def _kubernetes(version: str) -> GoModule:
    major, minor, _ = version.removeprefix("v").split(".")
    stamps = (("gitVersion", version), ("gitMajor", major), ("gitMinor", minor))
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    commands = (
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-proxy",
        "kubelet",
        "kubectl",
    )
    return GoModule(
        name="kubernetes",
        module="k8s.io/kubernetes",
        version=version,
        commands=tuple(f"cmd/{command}" for command in commands),
        usually="six to ten minutes",
        variables=tuple((f"{package}.{name}", value) for package in packages for name, value in stamps),
    )


# 1.34 is the newest line that runs with the containerd of Debian 12 and on cgroups of version 1.
KUBERNETES = _kubernetes("v1.34.4")
COREDNS = GoModule("coredns", "github.com/coredns/coredns", "v1.14.6", ("",), "two to four minutes")

# What Hora is measured against; only built when asked for.
MPI_OPERATOR = GoModule(
    name="mpi-operator",
    module="github.com/kubeflow/mpi-operator",
    version="v0.8.2",
    commands=("cmd/mpi-operator",),
    usually="two to seven minutes",
    files=("deploy/v2beta1/mpi-operator.yaml",),  # its CustomResourceDefinition, for kubectl apply
)

# What comes from Debian: a file that tells whether the package is there, and the package.
DEBIAN = {
    "/usr/bin/etcd": "etcd-server",
    "/usr/bin/containerd": "containerd",
    "/usr/sbin/runc": "runc",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
    "/usr/sbin/iptables": "iptables",
    "/usr/sbin/conntrack": "conntrack",
    "/usr/sbin/ip": "iproute2",
    "/usr/sbin/debootstrap": "debootstrap",
    "/usr/bin/unshare": "util-linux",
    "/usr/bin/pgrep": "procps",
}
SERVICES = {"etcd-server": "etcd", "containerd": "containerd"}  # which of them bring a service along
