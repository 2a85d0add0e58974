"""How to reach a cluster: what kubectl would use here, as one frozen record."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from hora.errors import PlaceError, UsageError
from hora.places.kubernetes.api import credentials, kubeconfig, proxy
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from hora.places.kubernetes.api.credentials import Credentials
    from hora.places.kubernetes.api.kubeconfig import Entry, Kubeconfig
    from hora.places.kubernetes.api.proxy import Proxy

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class Tls(Record):
    """How the server proves who it is."""

    authority: str = ""  # PEM; empty: whom this machine trusts
    insecure: bool = False
    name: str = ""  # in its certificate, where that isn't its host


class Access(Record):
    scheme: str
    host: str
    port: int
    base: str  # path before /api, as Rancher has it; no slash at its end
    namespace: str
    context: str  # empty in a pod, where a service account serves
    source: str  # where all this comes from, for messages
    tls: Tls
    proxy: Proxy | None
    credentials: Credentials
    headers: tuple[tuple[str, str], ...] = ()  # with every request: on whose behalf

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.address}{self.base}"

    @property
    def address(self) -> str:
        """Host and port, as in a URL or a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == proxy.PORTS[self.scheme] else f"{host}:{self.port}"

    def __repr__(self) -> str:
        return f"Access({self.url!r}, namespace={self.namespace!r}, context={self.context!r})"


def load_access(
    context: str | None = None, namespace: str | None = None, env: Mapping[str, str] = os.environ
) -> Access:
    """kubectl's rules: KUBECONFIG, else ~/.kube/config, else the service account of the pod we are in."""
    given = [file for file in env.get("KUBECONFIG", "").split(os.pathsep) if file]
    home = env.get("HOME") or os.path.expanduser("~")
    files = given or [os.path.join(home, ".kube", "config")]
    config = kubeconfig.read(files)
    name = context or config.current
    if name:
        return _from_context(config, files, name, namespace, env, asked=bool(context))
    if _in_cluster(env):
        return _from_service_account(namespace, env)
    raise PlaceError(_nothing_found(config, files, bool(given)))


def _from_context(
    config: Kubeconfig,
    files: list[str],
    name: str,
    namespace: str | None,
    env: Mapping[str, str],
    asked: bool,
) -> Access:
    context = config.contexts.get(name)
    if context is None:
        raise (UsageError if asked else PlaceError)(_unknown_context(config, files, name, asked))
    cluster = _named(config.clusters, context, "cluster", files)
    user = _named(config.users, context, "user", files) if context.text("user") else _nobody(context)
    tls = Tls(
        "" if cluster.flag("insecure-skip-tls-verify") else cluster.pem("certificate-authority"),
        cluster.flag("insecure-skip-tls-verify"),
        cluster.text("tls-server-name"),
    )
    who = credentials.from_user(user, env, _told_to_plugins(cluster, tls))
    scheme, host, port, base = _server(cluster, tls, user)
    through = cluster.text("proxy-url")
    return Access(
        scheme,
        host,
        port,
        base,
        namespace or context.text("namespace") or "default",
        name,
        context.file,
        tls,
        proxy.from_url(through, f"proxy-url of {cluster.where}")
        if through
        else proxy.from_environment(scheme, host, port, env),
        who,
        credentials.impersonation(user),
    )


def _server(cluster: Entry, tls: Tls, user: Entry) -> tuple[str, str, int, str]:
    """Scheme, host, port and path of the server; without a scheme it is https if anything speaks of TLS."""
    url = cluster.text("server")
    certificate = any(user.text(key) for key in ("client-certificate", "client-certificate-data"))
    if "://" not in url:
        url = f"{'https' if tls.insecure or tls.authority or certificate else 'http'}://{url}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in proxy.PORTS:
        raise PlaceError(f"{cluster.where}: server must be a URL like https://10.0.0.1:6443")
    return parts.scheme, host, port or proxy.PORTS[parts.scheme], parts.path.rstrip("/")


def _named(known: dict[str, Entry], context: Entry, kind: str, files: list[str]) -> Entry:
    name = context.text(kind)
    if not name:
        raise PlaceError(f"{context.where} names no {kind}")
    if name not in known:
        raise PlaceError(f'{context.where} names the {kind} "{name}", which is not in {" or ".join(files)}')
    return known[name]


def _nobody(context: Entry) -> Entry:
    return kubeconfig.Entry("context", context.name, {}, context.file)


def _told_to_plugins(cluster: Entry, tls: Tls) -> dict[str, Any]:
    import base64

    extensions = cluster.entries("extensions")
    config = next(
        (item.values.get("extension") for item in extensions if item.text("name") == EXEC_EXTENSION), None
    )
    told = {
        "server": cluster.text("server"),
        "tls-server-name": tls.name,
        "insecure-skip-tls-verify": tls.insecure,
        "certificate-authority-data": base64.b64encode(tls.authority.encode()).decode("ascii"),
        "proxy-url": cluster.text("proxy-url"),
        "config": config,
    }
    return {key: value for key, value in told.items() if value}


def _in_cluster(env: Mapping[str, str]) -> bool:
    return bool(
        env.get("KUBERNETES_SERVICE_HOST")
        and env.get("KUBERNETES_SERVICE_PORT")
        and os.path.isfile(f"{SERVICE_ACCOUNT}/token")
    )


def _from_service_account(namespace: str | None, env: Mapping[str, str]) -> Access:
    host, port = env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]
    if not port.isdecimal():
        raise PlaceError(f"the variable KUBERNETES_SERVICE_PORT must be a number, and is {port!r}")
    where = f"the service account in {SERVICE_ACCOUNT}"
    own = f"{SERVICE_ACCOUNT}/namespace"
    if not namespace:
        namespace = env.get("POD_NAMESPACE")
    if not namespace and os.path.isfile(own):
        namespace = kubeconfig.read_text(own, "the namespace of the service account").strip()
    authority = kubeconfig.read_text(f"{SERVICE_ACCOUNT}/ca.crt", f"the authority of {where}")
    who = credentials.from_token_file(where, f"{SERVICE_ACCOUNT}/token")
    # kubectl asks the environment for a proxy here too.
    through = proxy.from_environment("https", host, int(port), env)
    return Access(
        "https", host, int(port), "", namespace or "default", "", where, Tls(authority), through, who
    )


def _unknown_context(config: Kubeconfig, files: list[str], name: str, asked: bool) -> str:
    whose = "there is no context" if asked else "the current context is"
    lacks = "" if asked else ", which is not there"
    text = f'{whose} "{name}" in {" or ".join(files)}{lacks}'
    if not config.contexts:
        return f"{text}: {'it has' if config.files else 'there is no such file, so'} no contexts"
    import difflib

    near = difflib.get_close_matches(name, list(config.contexts), n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"{text}{meant} (known: {', '.join(sorted(config.contexts))})"


def _nothing_found(config: Kubeconfig, files: list[str], given: bool) -> str:
    if config.contexts:
        known = ", ".join(sorted(config.contexts))
        return (
            f"{' and '.join(config.files)} has no current-context: choose one of {known}, for good with "
            "kubectl config use-context NAME"
        )
    looked = f"{' and '.join(files)} ({'as KUBECONFIG says' if given else 'KUBECONFIG is not set'})"
    return (
        f"no Kubernetes cluster is configured: {looked} {'is empty' if config.files else 'does not exist'}, and "
        "this is no pod with a service account; get a kubeconfig from whoever runs the cluster (aws eks "
        "update-kubeconfig, gcloud container clusters get-credentials, az aks get-credentials) or set KUBECONFIG"
    )
