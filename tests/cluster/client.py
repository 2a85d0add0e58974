"""What tests do with a cluster, ours or somebody's: ask its API, make a namespace, a user, a break in the weather."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from cluster.kube import build, certificates
from cluster.kube import cluster as ours
from cluster.kube.problems import wait_until
from helpers import leftovers

Manifest = dict[str, Any]
Manifests = list[Manifest]


class ApiError(Exception):
    """The API server says no."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class User:
    """Somebody who may do nothing, until a RoleBinding names the subject."""

    kubeconfig: Path
    subject: Manifest


class Cluster:
    """A cluster, as its administrator.  `own`: the one of scripts/cluster, whose nodes can be switched off."""

    def __init__(self, kubeconfig: Path, own: bool, images: str) -> None:
        self.kubeconfig = kubeconfig
        self.own = own
        self._images = images
        self._folder = Path(tempfile.mkdtemp(prefix="hk-", dir="/tmp"))
        self._proxy: subprocess.Popen[str] | None = None
        self._proxy_made = 0

    def close(self) -> None:
        if self._proxy:
            end(self._proxy)
        shutil.rmtree(self._folder)

    def image(self, name: str) -> str:
        """base (Python, Open MPI 4, numpy, mpi4py), slim (Python), nopython, root (expects to be root)."""
        return f"{self._images}/{name}:1"

    @property
    def nodes(self) -> list[str]:
        return [node["metadata"]["name"] for node in self.get("/api/v1/nodes")["items"]]

    # --- the API --------------------------------------------------------------------------------------------------

    def get(self, path: str, **query: str) -> Any:
        """An object, a list, or the text of a log."""
        return self.request("GET", f"{path}?{urlencode(query)}" if query else path)

    def create(self, path: str, manifest: Manifest) -> Any:
        return self.request("POST", path, manifest)

    def patch(self, path: str, change: Manifest) -> Any:
        """A merge patch."""
        return self.request("PATCH", path, change)

    def delete(self, path: str, **query: str) -> Any:
        return self.request("DELETE", f"{path}?{urlencode(query)}" if query else path)

    def request(self, method: str, path: str, content: Manifest | None = None) -> Any:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        connection = _Unix(self._socket())
        try:
            body = None if content is None else json.dumps(content)
            connection.request(method, path, body, {"Content-Type": kind})
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        finally:
            connection.close()
        found = json.loads(text) if "json" in answer.headers.get("Content-Type", "") else text
        if answer.status >= 400:
            status = found if isinstance(found, dict) else {}
            raise ApiError(answer.status, status.get("reason", ""), status.get("message", text))
        return found

    def _socket(self) -> Path:
        """kubectl's proxy understands every kind of kubeconfig, and is started once; kubectl costs half a second."""
        made = self.kubeconfig.stat().st_mtime_ns  # each `up` makes new certificates
        if self._proxy and (self._proxy.poll() is not None or self._proxy_made != made):
            end(self._proxy)
            self._proxy = None
        path = self._folder / f"api-{made}"
        if self._proxy is None:
            path.unlink(missing_ok=True)
            variables = self.environment()
            variables.pop(leftovers.VARIABLE, None)  # it outlives the test that happens to be the first
            self._proxy_made = made
            self._proxy = subprocess.Popen(
                [kubectl_program(), "proxy", f"--unix-socket={path}"],
                env=variables,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            assert self._proxy.stdout
            said = self._proxy.stdout.readline()
            assert said.startswith("Starting to serve"), said
        return path

    def environment(self, user: User | None = None) -> dict[str, str]:
        """For kubectl."""
        found = ours.kubectl_environment(user.kubeconfig if user else self.kubeconfig)
        return found if self.own else {**found, "KUBECACHEDIR": str(self._folder / "cache")}

    def kubectl(
        self, *words: str | Path, user: User | None = None, stdin: str = "", timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Whatever it says and however it ends: the test judges."""
        return subprocess.run(
            [kubectl_program(), *map(str, words)],
            env=self.environment(user),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    # --- what is made in it ---------------------------------------------------------------------------------------

    def new_namespace(self, labels: dict[str, str] | None = None) -> Namespace:
        name = f"hora-test-{uuid.uuid4().hex[:8]}"
        self.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}})
        namespace = Namespace(self, name)
        # Pods are refused before it is there.
        wait_until(lambda: namespace.find("ServiceAccount", "default"), "the default service account", 30)
        return namespace

    # --- what can happen to it ------------------------------------------------------------------------------------

    def kill_node(self, name: str) -> None:
        """A power cut."""
        ours.kill_node(name)

    def start_node(self, name: str) -> None:
        """Power is back; returns when pods can be scheduled there."""
        ours.start_node(name)
        wait_until(lambda: self.ready(name), f"node {name} being Ready", 60)

    @contextlib.contextmanager
    def node_lost(self, name: str) -> Iterator[None]:
        try:
            self.kill_node(name)
            yield
        finally:
            self.start_node(name)

    @contextlib.contextmanager
    def api_server_down(self) -> Iterator[None]:
        try:
            ours.stop_api_server()
            yield
        finally:
            ours.start_api_server()

    def ready(self, node: str) -> bool:
        """Ready, and open for pods."""
        found = self.get(f"/api/v1/nodes/{node}")
        return self.condition(node) == "True" and not found["spec"].get("taints")

    def condition(self, node: str) -> str:
        """Of being Ready: True, False, Unknown."""
        conditions = self.get(f"/api/v1/nodes/{node}")["status"]["conditions"]
        return next(each["status"] for each in conditions if each["type"] == "Ready")


class Namespace:
    """One test's part of a cluster."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name

    def __str__(self) -> str:
        return self.name

    def remove(self) -> None:
        """In the background, and with no grace for pods; from here on nothing new can be made in it."""
        self.cluster.delete(f"/api/v1/namespaces/{self.name}")
        self.cluster.delete(f"/api/v1/namespaces/{self.name}/pods", gracePeriodSeconds="0")

    def path(self, kind: str, name: str = "") -> str:
        group = GROUPS.get(kind, "v1")
        root = "/api" if group == "v1" else "/apis"
        return f"{root}/{group}/namespaces/{self.name}/{plural(kind)}{f'/{name}' if name else ''}"

    def create(self, manifest: Manifest) -> Manifest:
        """By its kind; apiVersion need not be said."""
        found: Manifest = self.cluster.create(self.path(manifest["kind"]), with_version(manifest))
        return found

    def get(self, kind: str, name: str) -> Manifest:
        found: Manifest = self.cluster.get(self.path(kind, name))
        return found

    def find(self, kind: str, name: str) -> Manifest | None:
        """The same, or None where there is none."""
        try:
            return self.get(kind, name)
        except ApiError as problem:
            if problem.status != 404:
                raise
            return None

    def list(self, kind: str, **labels: str) -> Manifests:
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        found: Manifests = self.cluster.get(self.path(kind), labelSelector=selector)["items"]
        return found

    def delete(self, kind: str, name: str, **query: str) -> None:
        self.cluster.delete(self.path(kind, name), **{"propagationPolicy": "Background", **query})

    def logs(self, pod: str, **query: str) -> str:
        return str(self.cluster.get(self.path("Pod", f"{pod}/log"), **query))

    def kubectl(
        self, *words: str | Path, user: User | None = None, stdin: str = "", timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        return self.cluster.kubectl(
            f"--namespace={self.name}", *words, user=user, stdin=stdin, timeout=timeout
        )

    def user(self, name: str = "ann") -> User:
        """A person with a certificate; on somebody's cluster, whose authority isn't ours, a service account."""
        if self.cluster.own:
            path = certificates.user(f"{name}.{self.name}", namespace=self.name)
            subject = {"kind": "User", "name": f"{name}.{self.name}", "apiGroup": "rbac.authorization.k8s.io"}
            return User(path, subject)
        return self._service_account(name)

    def _service_account(self, name: str) -> User:
        self.create({"kind": "ServiceAccount", "metadata": {"name": name}})
        request = with_version({"kind": "TokenRequest", "spec": {"expirationSeconds": 7200}})
        path = self.path("ServiceAccount", f"{name}/token")
        token = self.cluster.create(path, request)["status"]["token"]
        told = self.cluster.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json")
        config = json.loads(told.stdout)
        config["users"][0]["user"] = {"token": token}
        config["contexts"][0]["context"]["namespace"] = self.name
        file = self.cluster._folder / f"{name}.{self.name}.kubeconfig"
        file.write_text(json.dumps(config))
        return User(file, {"kind": "ServiceAccount", "name": name, "namespace": self.name})

    def allow(self, user: User, rules: Manifests) -> None:
        """Give the user rights in this namespace."""
        name = f"test-{uuid.uuid4().hex[:5]}"
        self.create({"kind": "Role", "metadata": {"name": name}, "rules": rules})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [user.subject]}
        self.create({"kind": "RoleBinding", **binding})

    @contextlib.contextmanager
    def forward(self, pod: str, port: int, user: User | None = None) -> Iterator[int]:
        """A port of this machine that leads to one of the pod."""
        process = subprocess.Popen(
            [kubectl_program(), f"--namespace={self.name}", "port-forward", f"pod/{pod}", f":{port}"],
            env=self.cluster.environment(user),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert process.stdout
            said = process.stdout.readline()  # Forwarding from 127.0.0.1:40123 -> 8000
            assert said.startswith("Forwarding from"), said
            yield int(said.split(" -> ")[0].rpartition(":")[2])
        finally:
            end(process)

    def wait_for_phase(self, pod: str, *phases: str, timeout: float = 60.0) -> str:
        """Which of the phases the pod is in."""

        def look() -> str:
            phase: str = self.get("Pod", pod)["status"]["phase"]
            return phase if phase in phases else ""

        return wait_until(
            look,
            f"pod {pod} being {' or '.join(phases)}",
            timeout,
            lambda: str(self.get("Pod", pod)["status"]),
        )


GROUPS = {
    "CronJob": "batch/v1",
    "Job": "batch/v1",
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "EndpointSlice": "discovery.k8s.io/v1",
    "PodDisruptionBudget": "policy/v1",
    "TokenRequest": "authentication.k8s.io/v1",
}  # of kinds that aren't in the oldest group


def with_version(manifest: Manifest) -> Manifest:
    return {"apiVersion": GROUPS.get(manifest["kind"], "v1"), **manifest}


def plural(kind: str) -> str:
    word = kind.lower()
    return f"{word[:-1]}ies" if word.endswith("y") else word if word.endswith("s") else f"{word}s"


def kubectl_program() -> str:
    mine = build.binary("kubectl")
    found = str(mine) if mine.exists() else shutil.which("kubectl")
    if not found:
        raise FileNotFoundError("there is no kubectl: neither on PATH nor built by scripts/cluster")
    return found


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    if process.stdout:
        process.stdout.close()


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
