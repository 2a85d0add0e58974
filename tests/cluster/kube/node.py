"""One node: switch it on, start its daemons, cut its power.

Its disk outlives it, and with it the images; everything else is in namespaces that end with its first process.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cluster.kube import certificates, cgroups, layout, network, node_files, processes
from cluster.kube.problems import ClusterError, run, tail, wait_until
from cluster.kube.versions import KUBERNETES

NAMESPACES = (
    "--mount",
    "--pid",
    "--uts",
    "--ipc",
    "--net",
    "--fork",
    "--kill-child",
    "--propagation=private",
)
ENVIRONMENT = {"PATH": layout.SYSTEM_PATH, "HOME": "/"}  # of the daemons
DAEMONS = ("containerd", "kubelet", "kube-proxy")


class Node:
    """A node by its name; whether it runs is asked of the machine."""

    def __init__(self, name: str) -> None:
        if name not in layout.NODES:
            raise ClusterError(f"no node {name!r}; there are {', '.join(layout.NODES)}")
        self.name = name
        self.part = f"node-{name}"
        self.disk = layout.DISKS / name
        self.files = layout.STATE / self.part  # its /run/hora/etc
        self.orders = -1  # a pipe to its first process, while this program starts it

    def pid(self) -> int:
        """Of its first process, as the machine sees it; 0 when the node is off."""
        return next((each.pid for each in processes.parts(self.part) if each.is_init), 0)

    def exec(self, *command: str | Path, stdin: str | None = None, timeout: float = 60.0) -> str:
        """What a command in the node says."""
        return run(*self.enter(), *command, stdin=stdin, timeout=timeout)

    def enter(self) -> list[str]:
        pid = self.pid()
        if not pid:
            raise ClusterError(f"node {self.name} is off: scripts/cluster node {self.name} start")
        return ["nsenter", f"--target={pid}", "--mount", "--pid", "--uts", "--ipc", "--net", "--"]

    # --- power ----------------------------------------------------------------------------------------------------

    def power_on(self) -> None:
        """Its namespaces and first process, without network and daemons."""
        for folder in ("containerd", "kubelet", "log"):
            (self.disk / folder).mkdir(parents=True, exist_ok=True)
        self.files.mkdir(parents=True, exist_ok=True)
        ready_read, ready_write = os.pipe()
        orders_read, self.orders = os.pipe()
        script = Path(__file__).with_name("node_init.py")
        setup = json.dumps(self._setup(ready_write, orders_read))
        command: list[str | Path] = ["unshare", *NAMESPACES, sys.executable, "-I", "-S", script, setup]
        try:
            processes.start(self.part, command, pass_fds=(ready_write, orders_read))
        finally:
            os.close(ready_write)
            os.close(orders_read)
        with os.fdopen(ready_read, "rb", buffering=0) as ready:
            if not ready.read(32):  # nothing: it has ended
                raise ClusterError(
                    f"node {self.name} does not start; {tail(layout.LOGS / f'{self.part}.log')}"
                )

    def _setup(self, ready: int, orders: int) -> dict[str, object]:
        inside = node_files.INSIDE
        return {
            "name": self.name,
            "ready": ready,
            "orders": orders,
            "environment": ENVIRONMENT,
            "logs": {name: str(self._log_file(name)) for name in DAEMONS},
            "binds": {
                str(self.disk / "containerd"): "/var/lib/containerd",
                str(self.disk / "kubelet"): node_files.KUBELET_FOLDER,
                str(self.disk / "log"): "/var/log",
                str(self.files): f"{inside}/etc",
                str(layout.FOLDER / KUBERNETES.key): f"{inside}/bin",
            },
        }

    def power_cut(self) -> None:
        """Everything in it ends at once, with no chance to say so."""
        processes.end(self.part)

    def _order(self, daemon: str, command: Sequence[str]) -> None:
        os.write(self.orders, json.dumps({"name": daemon, "command": list(command)}).encode() + b"\n")

    def close(self) -> None:
        """No more orders."""
        if self.orders >= 0:
            os.close(self.orders)
            self.orders = -1

    # --- daemons --------------------------------------------------------------------------------------------------

    def start_containerd(self, pods: bool = True) -> None:
        name = "containerd.toml" if pods else "without-pods.toml"
        (self.files / name).write_text(node_files.containerd_toml(pods))
        self._order("containerd", node_files.containerd_command(name))
        wait_until(
            self._containerd_answers, f"containerd of node {self.name}", 30, lambda: self.log("containerd")
        )

    def _containerd_answers(self) -> bool:
        try:
            self.ctr("version", timeout=5)
        except (ClusterError, subprocess.TimeoutExpired):
            processes.check_alive(self.part)
            return False
        return True

    def ctr(self, *words: str | Path, timeout: float = 60.0) -> str:
        return self.exec(
            "ctr", f"--address={node_files.SOCKET}", "--namespace=k8s.io", *words, timeout=timeout
        )

    def write_files(self) -> None:
        """What the kubelet and its helpers read; fresh certificates each time."""
        etc = self.files
        (etc / "cni").mkdir(parents=True, exist_ok=True)
        (etc / "cni" / "10-pods.conflist").write_text(json.dumps(node_files.cni(self.name)))
        (etc / "resolv.conf").write_text(f"nameserver {layout.HOST_ADDRESS}\n")
        (etc / "kubelet.json").write_text(json.dumps(node_files.kubelet(self.name), indent=1))
        shutil.copy(certificates.CA, etc / "ca.crt")
        certificate, key = certificates.issue(self.name, names=[self.name, layout.node_address(self.name)])
        (etc / "kubelet.crt").write_bytes(certificate)
        (etc / "kubelet.key").write_bytes(key)
        certificates.kubeconfig(etc / "kubelet.kubeconfig", f"system:node:{self.name}", ["system:nodes"])
        certificates.kubeconfig(etc / "kube-proxy.kubeconfig", "system:kube-proxy")

    def start_kubelet(self) -> None:
        self._order("kubelet", node_files.kubelet_command(self.name))
        self._order("kube-proxy", node_files.kube_proxy_command(self.name))

    def restart_kubelet(self) -> None:
        """Pods don't notice."""
        self.exec("pkill", "-KILL", "-x", "kubelet")
        with open(self._log_file("kubelet"), "ab") as log:
            subprocess.run(
                [*self.enter(), "setsid", "--fork", *node_files.kubelet_command(self.name)],
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
            )

    def boot(self) -> None:
        """All of it, as after a power cut: what was on the disk is still there."""
        cgroups.make(layout.cgroup(self.name))
        self.power_on()
        try:
            network.plug_in(self.name, self.pid())
            self.start_containerd()
            self.start_kubelet()
        finally:
            self.close()

    # --- disk -----------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Remove what the pods of an earlier cluster left on the disk; images stay.  Needs containerd without pods."""
        if containers := self.ctr("containers", "list", "--quiet").split():
            self.ctr("containers", "remove", *containers)
        shutil.rmtree(self.disk / "containerd" / "io.containerd.grpc.v1.cri", ignore_errors=True)
        for folder in ("kubelet", "log"):
            for left in (self.disk / folder).iterdir():
                shutil.rmtree(left) if left.is_dir() else left.unlink()

    def stop_containerd(self) -> None:
        self.exec("pkill", "-TERM", "-x", "containerd")  # its files are whole when it ends by itself
        wait_until(lambda: not self._runs("containerd"), f"the end of containerd in node {self.name}", 20)

    def _runs(self, daemon: str) -> bool:
        done = subprocess.run([*self.enter(), "pgrep", "-x", daemon], stdout=subprocess.DEVNULL, check=False)
        return done.returncode == 0

    def running(self) -> list[str]:
        """Its daemons that run."""
        return [daemon for daemon in DAEMONS if self.pid() and self._runs(daemon)]

    def _log_file(self, daemon: str) -> Path:
        return layout.LOGS / f"{self.part}-{daemon}.log"

    def log(self, daemon: str) -> str:
        return tail(self._log_file(daemon))
