"""etcd, the API server, the two managers and CoreDNS: plain processes on the host, set for tests."""

from __future__ import annotations

import shutil
from pathlib import Path

from cluster.kube import api, build, certificates, layout, processes
from cluster.kube.problems import ClusterError, tail, wait_until

ETCD_URL = f"http://127.0.0.1:{layout.ETCD_PORT}"
COREDNS_READY_PORT = 8181
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns")
API_SERVER = "kube-apiserver"


def prepare() -> None:
    """Certificates, and the kubeconfigs of the managers."""
    certificates.make_authority()
    names = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        f"kubernetes.default.svc.{layout.DOMAIN}",
    ]
    names += ["localhost", "127.0.0.1", layout.SERVICE_OF_THE_API, layout.HOST_ADDRESS]
    certificates.issue_files(API_SERVER, API_SERVER, [], names)
    certificates.issue_files("to-kubelets", "kube-apiserver-to-kubelets", [certificates.ADMINISTRATORS], [])
    certificates.kubeconfig(layout.KUBECONFIG, "admin", [certificates.ADMINISTRATORS])
    for name in ("kube-controller-manager", "kube-scheduler", "coredns"):
        user = f"system:{name}"
        certificates.kubeconfig(layout.PKI / f"{name}.kubeconfig", user)
    _corefile()


def start_etcd() -> None:
    """An empty one: every `up` gives a fresh cluster."""
    data = layout.STATE / "etcd"
    shutil.rmtree(data, ignore_errors=True)
    peers = f"http://127.0.0.1:{layout.ETCD_PEER_PORT}"
    command = [
        "/usr/bin/etcd",
        f"--data-dir={data}",
        f"--listen-client-urls={ETCD_URL}",
        f"--advertise-client-urls={ETCD_URL}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--logger=zap",
        "--unsafe-no-fsync",  # the disk of a test machine is slow, and nothing here outlives it
    ]
    processes.start("etcd", command)
    _wait_for("etcd", f"{ETCD_URL}/health")


def start_api_server() -> None:
    pki = layout.PKI
    service_account = certificates.SERVICE_ACCOUNT_KEY
    command: list[str | Path] = [
        build.binary(API_SERVER),
        f"--etcd-servers={ETCD_URL}",
        f"--bind-address={layout.HOST_ADDRESS}",
        f"--advertise-address={layout.HOST_ADDRESS}",
        f"--secure-port={layout.API_PORT}",
        f"--service-cluster-ip-range={layout.SERVICE_NETWORK}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged",
        f"--client-ca-file={certificates.CA}",
        f"--tls-cert-file={pki / 'kube-apiserver.crt'}",
        f"--tls-private-key-file={pki / 'kube-apiserver.key'}",
        f"--kubelet-client-certificate={pki / 'to-kubelets.crt'}",
        f"--kubelet-client-key={pki / 'to-kubelets.key'}",
        f"--kubelet-certificate-authority={certificates.CA}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-issuer=https://kubernetes.default.svc.{layout.DOMAIN}",
        f"--service-account-key-file={service_account}",
        f"--service-account-signing-key-file={service_account}",
        # Pods leave a lost node after 5 s; Kubernetes' own default is 5 minutes.
        "--default-not-ready-toleration-seconds=5",
        "--default-unreachable-toleration-seconds=5",
    ]
    processes.start(API_SERVER, command)
    wait_until(_api_ready, "the API server", 60, lambda: tail(layout.LOGS / f"{API_SERVER}.log"))


def start_managers() -> None:
    """One of each: who needs no election starts at once."""
    pki = layout.PKI
    processes.start(
        "kube-controller-manager",
        [
            build.binary("kube-controller-manager"),
            f"--kubeconfig={pki / 'kube-controller-manager.kubeconfig'}",
            "--leader-elect=false",
            "--secure-port=0",
            "--use-service-account-credentials",
            # By default 20 requests a second, which makes its own start three seconds long.
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            f"--flex-volume-plugin-dir={layout.STATE / 'volume-plugins'}",  # it makes this folder
            f"--root-ca-file={certificates.CA}",
            f"--service-account-private-key-file={certificates.SERVICE_ACCOUNT_KEY}",
            # A node is lost when it was silent for 10 s; Kubernetes' own default is 50 s.  The kubelets renew
            # their lease every 2 s (node_files.py), so that a busy machine loses none by mistake.
            "--node-monitor-period=1s",
            "--node-monitor-grace-period=10s",
        ],
    )
    processes.start(
        "kube-scheduler",
        [
            build.binary("kube-scheduler"),
            f"--kubeconfig={pki / 'kube-scheduler.kubeconfig'}",
            "--leader-elect=false",
            "--secure-port=0",
        ],
    )


def start_coredns() -> None:
    _allow_coredns()
    processes.start("coredns", [build.binary("coredns"), "-quiet", "-conf", layout.STATE / "Corefile"])


def wait_for_coredns() -> None:
    _wait_for("coredns", f"http://{layout.HOST_ADDRESS}:{COREDNS_READY_PORT}/ready")


def _corefile() -> None:
    """Names of the cluster alone: any other doesn't exist, at once, whatever the network of the day."""
    (layout.STATE / "Corefile").write_text(f"""\
{layout.DOMAIN} in-addr.arpa ip6.arpa {{
    bind {layout.HOST_ADDRESS}
    errors
    ready {layout.HOST_ADDRESS}:{COREDNS_READY_PORT}
    kubernetes {layout.DOMAIN} in-addr.arpa ip6.arpa {{
        kubeconfig {layout.PKI / "coredns.kubeconfig"} hora-test
        pods insecure
    }}
}}
. {{
    bind {layout.HOST_ADDRESS}
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
""")


def _allow_coredns() -> None:
    name = {"name": "system:coredns"}
    group = "rbac.authorization.k8s.io"
    reads = ["get", "list", "watch"]
    rules = [
        {"apiGroups": [""], "resources": ["services", "namespaces", "pods", "endpoints"], "verbs": reads},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": reads},
    ]
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": name, "rules": rules}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": name,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", **name},
        "subjects": [{"apiGroup": group, "kind": "User", **name}],
    }
    for kind, manifest in (("clusterroles", role), ("clusterrolebindings", binding)):
        if api.create(f"/apis/{group}/v1/{kind}", manifest) is None:
            raise ClusterError(f"the API server refused to create {kind} {name['name']}")


def _api_ready() -> bool:
    processes.check_alive(API_SERVER)
    return bool(api.get("/readyz") == "ok")


def _wait_for(part: str, url: str) -> None:
    def ready() -> bool:
        processes.check_alive(part)
        return api.answers(url)

    wait_until(ready, part, 30, lambda: tail(layout.LOGS / f"{part}.log"))
