"""How a cluster is found: kubeconfig files, service accounts, exec plugins, proxies.  Real files, real programs."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from hora.errors import PlaceError, UsageError
from hora.places.kubernetes.api import Access, access, load_access
from hora.places.kubernetes.api.credentials import Credential

PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
DATA = base64.b64encode(PEM.encode()).decode()

SIMPLE = """
    apiVersion: v1
    kind: Config
    current-context: here
    clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443"}}]
    users: [{name: u, user: {token: secret-token}}]
    contexts: [{name: here, context: {cluster: c, user: u, namespace: team}}]
    """


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def load(*files: Path, context: str | None = None, namespace: str | None = None, **env: str) -> Access:
    variables = {"PATH": os.environ["PATH"], "HOME": "/nowhere", **env}
    if files:
        variables["KUBECONFIG"] = os.pathsep.join(map(str, files))
    return load_access(context, namespace, variables)


def config(work: Path, user: str = "{}", cluster: str = "", context: str = "") -> Path:
    """A kubeconfig with one context whose parts are given as YAML in one line."""
    return write(
        work / "config",
        f"""
        current-context: here
        clusters: [{{name: c, cluster: {{server: "https://10.0.0.1:6443", {cluster}}}}}]
        users: [{{name: u, user: {user}}}]
        contexts: [{{name: here, context: {{cluster: c, user: u, {context}}}}}]
        """,
    )


def plugin(work: Path, body: str, name: str = "plugin") -> Path:
    """A program that gives credentials; `body` is Python with `give(status, version)` at hand."""
    path = work / name
    path.write_text(
        f"#!{sys.executable}\n"
        + textwrap.dedent(
            """
            import json, os, sys
            def give(status, version="client.authentication.k8s.io/v1"):
                print(json.dumps({"kind": "ExecCredential", "apiVersion": version, "status": status}))
            """
        )
        + textwrap.dedent(body)
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def exec_user(command: object, more: str = "", version: str = "v1", mode: str = "IfAvailable") -> str:
    return (
        f'{{exec: {{apiVersion: client.authentication.k8s.io/{version}, command: "{command}", '
        f"interactiveMode: {mode}, {more}}}}}"
    )


# --- files ---


def test_the_file_in_the_home_is_read_when_kubeconfig_is_not_set(home: Path) -> None:
    write(home / ".kube" / "config", SIMPLE)
    found = load(HOME=str(home))
    assert (found.url, found.namespace, found.context) == ("https://10.0.0.1:6443", "team", "here")
    assert found.credentials.current() == Credential("Bearer secret-token")


def test_the_first_file_wins_entry_by_entry_and_with_its_current_context(work: Path) -> None:
    first = write(
        work / "a",
        """
        clusters: [{name: c, cluster: {server: "https://first"}}]
        contexts: [{name: one, context: {cluster: c, user: u}}]
        """,
    )
    second = write(
        work / "b",
        """
        current-context: one
        clusters: [{name: c, cluster: {server: "https://second", tls-server-name: never}}]
        users: [{name: u, user: {token: t}}]
        """,
    )
    third = write(work / "c", "current-context: other")
    found = load(first, work / "missing", second, third)
    assert found.url == "https://first"
    assert found.tls.name == ""  # an entry is taken whole or not at all
    assert found.context == "one"


def test_paths_are_relative_to_the_file_that_has_them(work: Path) -> None:
    write(work / "x" / "ca.pem", "the authority")
    write(work / "y" / "me.pem", "certificate")
    write(work / "y" / "me.key", "key")
    a = write(
        work / "x" / "config",
        """
        current-context: here
        clusters: [{name: c, cluster: {server: "https://h", certificate-authority: ca.pem}}]
        contexts: [{name: here, context: {cluster: c, user: u}}]
        """,
    )
    b = write(
        work / "y" / "config",
        "users: [{name: u, user: {client-certificate: me.pem, client-key: ./me.key}}]",
    )
    found = load(a, b)
    assert found.tls.authority == "the authority"
    assert found.credentials.current() == Credential("", "certificate", "key")


def test_data_in_the_file_goes_before_a_path(work: Path) -> None:
    cluster = f"certificate-authority: missing.pem, certificate-authority-data: {DATA}"
    assert load(config(work, cluster=cluster)).tls.authority == PEM


def test_a_namespace_that_is_asked_for_goes_before_the_contexts(work: Path) -> None:
    file = config(work, context="namespace: its")
    assert load(file).namespace == "its"
    assert load(file, namespace="mine").namespace == "mine"
    assert load(config(work)).namespace == "default"


def test_a_base_path_and_default_ports_are_understood(work: Path) -> None:
    def server(url: str) -> Access:
        return load(write(work / "c", SIMPLE.replace("https://10.0.0.1:6443", url)))

    rancher = server("https://rancher.example.com/k8s/clusters/c-1/")
    assert (rancher.base, rancher.port) == ("/k8s/clusters/c-1", 443)
    assert rancher.url == "https://rancher.example.com/k8s/clusters/c-1"
    assert server("http://localhost:8001").scheme == "http"
    assert server("https://[fd00::1]:6443").address == "[fd00::1]:6443"
    assert server("10.0.0.1:6443").url == "http://10.0.0.1:6443"  # as kubectl: nothing speaks of TLS


def test_impersonation_becomes_headers(work: Path) -> None:
    user = "{as: bob, as-groups: [a, b], as-user-extra: {Why/x: [because]}}"
    assert load(config(work, user)).headers == (
        ("Impersonate-User", "bob"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-Why%2Fx", "because"),
    )


def test_an_unknown_context_names_the_known_ones_and_what_was_meant(work: Path) -> None:
    file = write(work / "c", SIMPLE)
    with pytest.raises(UsageError) as caught:
        load(file, context="hree")
    assert str(caught.value) == f'there is no context "hree" in {file}; did you mean here? (known: here)'


def test_a_current_context_that_is_not_there_is_said(work: Path) -> None:
    file = write(work / "c", SIMPLE.replace("current-context: here", "current-context: gone"))
    with pytest.raises(PlaceError, match=r'the current context is "gone" in .*, which is not there'):
        load(file)


def test_no_current_context_says_which_there_are(work: Path) -> None:
    file = write(work / "c", SIMPLE.replace("current-context: here", ""))
    with pytest.raises(PlaceError, match="has no current-context: choose one of here"):
        load(file)


def test_nothing_at_all_says_what_was_looked_for_and_what_to_do(work: Path) -> None:
    with pytest.raises(PlaceError) as caught:
        load(HOME=str(work))
    text = str(caught.value)
    assert f"{work}/.kube/config (KUBECONFIG is not set) does not exist" in text
    assert "no pod with a service account" in text and "set KUBECONFIG" in text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("clusters:\n  - name: [unclosed\nusers: {", ":3: is not YAML: "),
        ("just a word", "is no kubeconfig"),
        ("clusters: {a: b}", "clusters must be a list"),
        ("users: [{user: {}}]", "users: number 1 must have a name"),
        ("a: \x00", "is not YAML"),
    ],
)
def test_a_broken_file_is_named_in_one_sentence(work: Path, content: str, words: str) -> None:
    file = work / "broken"
    file.write_text(content)
    with pytest.raises(PlaceError) as caught:
        load(file)
    assert str(caught.value).startswith(str(file)) and words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("{token: 12345}", "token must be a text; put it in quotes"),
        ("{client-certificate-data: '%%%', client-key-data: eA==}", "client-certificate-data must be PEM in base64"),
        ("{client-certificate: no.pem, client-key: no.key}", "no.pem .* can't be read: No such file"),
        (f"{{client-certificate-data: {DATA}}}", "needs client-certificate and client-key together"),
        ("{tokenFile: none}", "none .* can't be read"),
        ("{token: a, username: b}", "has a token and a password"),
        ("{auth-provider: {name: gcp}}", "has an auth-provider, which Kubernetes has given up"),
        ("{exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}}", "v1alpha1' is not supported"),
        ("{exec: {apiVersion: client.authentication.k8s.io/v1, command: x}}", "interactiveMode must be one of"),
        ("{exec: {apiVersion: client.authentication.k8s.io/v1beta1}}", "needs a command"),
        ("[a]", "users: number 1 must have a name and a mapping user"),
    ],
)  # fmt: skip
def test_a_user_that_can_not_serve_is_told_with_its_name(work: Path, user: str, words: str) -> None:
    with pytest.raises(PlaceError, match=words) as caught:
        load(config(work, user))
    assert str(work) in str(caught.value)


def test_a_context_whose_cluster_is_missing_is_told(work: Path) -> None:
    file = write(work / "c", SIMPLE.replace("cluster: c, user", "cluster: d, user"))
    with pytest.raises(PlaceError, match=r'context "here" in .* names the cluster "d", which is not in'):
        load(file)


def test_no_secret_is_shown(work: Path) -> None:
    found = load(config(work, "{token: hush-hush}", "proxy-url: 'http://me:hush-hush@proxy:3128'"))
    shown = f"{found!r} {found.credentials!r} {found.credentials.current()!r} {found.proxy!r}"
    assert "hush" not in shown
    assert base64.b64encode(b"me:hush-hush").decode() not in shown


# --- tokens and passwords ---


def test_a_token_file_goes_before_the_token_and_is_read_anew(work: Path) -> None:
    token = write(work / "token", "one\n")
    found = load(config(work, "{token: old, tokenFile: token}")).credentials
    first = found.current()
    assert first == Credential("Bearer one")
    assert found.renewed(first) is None
    token.write_text("two")
    assert found.current() == Credential("Bearer two") == found.renewed(first)


def test_a_password_becomes_basic_authorization(work: Path) -> None:
    found = load(config(work, "{username: me, password: 'pä:ss'}")).credentials.current()
    assert base64.b64decode(found.authorization.removeprefix("Basic ")).decode() == "me:pä:ss"


def test_a_token_with_a_line_break_is_refused_without_being_shown(work: Path) -> None:
    with pytest.raises(PlaceError, match="is none") as caught:
        load(config(work, '{token: "a\\nhush"}'))
    assert "hush" not in str(caught.value)


def test_an_expired_token_is_recognised_by_its_own_words(work: Path) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 1700000000}).encode()).decode().rstrip("=")
    found = load(config(work, f"{{token: head.{claims}.tail}}")).credentials
    assert "expired on 2023-11-14 at 22:13 UTC" in found.advice(found.current())


# --- in a pod ---


@pytest.fixture
def account(work: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = work / "account"
    write(folder / "token", "pod-token")
    write(folder / "ca.crt", PEM)
    write(folder / "namespace", "pods-own")
    monkeypatch.setattr(access, "SERVICE_ACCOUNT", str(folder))
    return folder


IN_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_in_a_pod_the_service_account_serves(account: Path) -> None:
    found = load(**IN_POD)
    assert (found.url, found.namespace, found.context) == ("https://10.96.0.1", "pods-own", "")
    assert found.tls.authority == PEM
    assert found.credentials.current() == Credential("Bearer pod-token")
    (account / "token").write_text("rotated")
    assert found.credentials.current() == Credential("Bearer rotated")


def test_a_kubeconfig_goes_before_the_service_account(account: Path, work: Path) -> None:
    assert load(write(work / "c", SIMPLE), **IN_POD).context == "here"
    assert load(write(work / "c", ""), **IN_POD).context == ""  # an empty one does not


# --- exec plugins ---


def test_a_plugin_is_told_what_it_may_know_and_its_token_is_kept(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin(
        work,
        """
        open("asked", "a").write(os.environ["KUBERNETES_EXEC_INFO"] + "\\n")
        give({"token": "-".join([os.environ["WHO"], *sys.argv[1:], str(sys.stdin.read() == "")])})
        """,
    )
    more = "args: [a, b], env: [{name: WHO, value: me}], provideClusterInfo: true"
    file = config(work, exec_user("./plugin", more), "tls-server-name: other")
    monkeypatch.chdir(work)
    found = load(file).credentials
    assert found.current() == found.current() == Credential("Bearer me-a-b-True")
    (asked,) = (work / "asked").read_text().splitlines()
    assert json.loads(asked) == {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "spec": {
            "interactive": False,
            "cluster": {"server": "https://10.0.0.1:6443", "tls-server-name": "other"},
        },
    }


def test_a_plugin_without_a_slash_is_looked_for_on_the_path(work: Path) -> None:
    plugin(work, 'give({"token": "found"}, "client.authentication.k8s.io/v1beta1")', "login-helper")
    file = config(work, exec_user("login-helper", version="v1beta1"))
    path = f"{work}{os.pathsep}{os.environ['PATH']}"
    assert load(file, PATH=path).credentials.current() == Credential("Bearer found")


def test_a_plugin_can_give_a_client_certificate(work: Path) -> None:
    plugin(work, 'give({"clientCertificateData": "c", "clientKeyData": "k"})')
    assert load(config(work, exec_user("./plugin"))).credentials.current() == Credential("", "c", "k")


@pytest.mark.parametrize(("seconds", "runs"), [(-10, 2), (3600, 1)])
def test_a_plugin_runs_again_when_its_credential_has_expired(work: Path, seconds: int, runs: int) -> None:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S.123456789Z", time.gmtime(time.time() + seconds))
    plugin(
        work,
        f"""
        open({str(work / "runs")!r}, "a").write("x")
        give({{"token": "t", "expirationTimestamp": "{moment}"}})
        """,
    )
    found = load(config(work, exec_user("./plugin"))).credentials
    found.current()
    found.current()
    assert len((work / "runs").read_text()) == runs


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("sys.exit('please log in')", "ended with exit code 1: please log in"),
        ("print('hush')", "has not written an ExecCredential in JSON"),
        ("print('{}')", "is no ExecCredential"),
        ("give({'token': 't'}, 'client.authentication.k8s.io/v1beta1')", "answers in .*v1beta1.*asked for .*v1"),
        ("give({})", "neither a token nor a client certificate"),
        ("give(None)", "without a status"),
        ("give({'clientCertificateData': 'x'})", "together"),
        ("os.kill(os.getpid(), 9)", "ended with signal 9"),
    ],
)  # fmt: skip
def test_a_plugin_that_fails_is_named_with_its_user(work: Path, body: str, words: str) -> None:
    plugin(work, body)
    found = load(config(work, exec_user("./plugin"))).credentials
    with pytest.raises(PlaceError, match=words) as caught:
        found.current()
    assert str(caught.value).startswith('./plugin, which gives the credentials of user "u" in ')
    assert "hush" not in str(caught.value)


def test_a_missing_plugin_shows_how_to_install_it(work: Path) -> None:
    found = load(config(work, exec_user("no-such-helper", "installHint: 'apt install helper'"))).credentials
    with pytest.raises(
        PlaceError, match=r"(?s)can't be started \(No such file or directory\):\napt install helper"
    ):
        found.current()


def test_a_plugin_that_needs_a_terminal_says_so_without_one(work: Path) -> None:
    plugin(work, "give({'token': 't'})")
    program = "from hora.places.kubernetes.api import load_access; load_access().credentials.current()"
    file = config(work, exec_user("./plugin", mode="Always"))
    ran = subprocess.run(
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "KUBECONFIG": str(file)},
        check=False,
    )
    assert "needs a terminal on standard input, and there is none" in ran.stderr


def test_what_a_plugin_says_is_shown(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin(work, "print('visit https://login', file=sys.stderr); give({'token': 't'})")
    load(config(work, exec_user("./plugin"))).credentials.current()
    assert capsys.readouterr().err == "visit https://login\n"


@pytest.mark.leaks
def test_what_a_plugin_leaves_running_is_not_waited_for(work: Path) -> None:
    plugin(
        work,
        """
        import subprocess
        subprocess.Popen(["sleep", "5"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        give({"token": "t"})
        """,
    )
    begun = time.monotonic()
    assert load(config(work, exec_user("./plugin"))).credentials.current() == Credential("Bearer t")
    assert time.monotonic() - begun < 4


def test_importing_the_client_loads_nothing_that_is_slow() -> None:
    program = (
        "import sys; before = set(sys.modules); import hora.places.kubernetes.api, "
        "hora.places.kubernetes.api.forward; print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    slow = {
        "http.client",
        "email",
        "urllib.request",
        "subprocess",
        "yaml",
        "typing",
        "cryptography",
        "tempfile",
    }
    assert slow & set(loaded.stdout.split()) == set()


# --- proxies ---


def test_a_clusters_own_proxy_goes_before_the_environments(work: Path) -> None:
    file = config(work, cluster="proxy-url: 'https://me:p%40ss@proxy.corp'")
    found = load(file, HTTPS_PROXY="http://other:1", NO_PROXY="*").proxy
    assert found is not None
    assert (found.url, found.secure) == ("https://proxy.corp:443", True)
    assert base64.b64decode(found.authorization.removeprefix("Basic ")) == b"me:p@ss"


@pytest.mark.parametrize("url", ["socks5://p:1080", "ftp://p", "http://", "http://p:x"])
def test_a_proxy_that_can_not_be_used_is_refused_in_a_sentence(work: Path, url: str) -> None:
    with pytest.raises(PlaceError, match=r'proxy-url of cluster "c" in .*(not supported|must be like)'):
        load(config(work, cluster=f"proxy-url: '{url}'"))


@pytest.mark.parametrize(
    ("server", "excepted", "used"),
    [
        ("https://api.example.com", "", True),
        ("https://api.example.com", "example.com", False),
        ("https://api.example.com", "*.example.com", False),
        ("https://api.example.com", ".example.com", False),
        ("https://example.com", ".example.com", True),
        ("https://badexample.com", "example.com", True),
        ("https://api.example.com:6443", "example.com:443", True),
        ("https://api.example.com:6443", "other, example.com:6443", False),
        ("https://10.1.2.3", "10.0.0.0/8", False),
        ("https://10.1.2.3", "11.0.0.0/8,10.1.2.3", False),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", False),
        ("https://[fd00::1]:6443", "fd00::/8", False),
        ("https://a.b", "*", False),
        ("https://localhost:6443", "", False),
        ("https://127.0.0.1:6443", "", False),
        ("http://a.b", "", False),  # HTTPS_PROXY is not for http://
    ],
)  # fmt: skip
def test_no_proxy_is_understood_as_kubectl_does(work: Path, server: str, excepted: str, used: bool) -> None:
    file = write(work / "c", SIMPLE.replace("https://10.0.0.1:6443", server))
    found: Any = load(file, HTTPS_PROXY="proxy:3128", NO_PROXY=excepted).proxy
    assert (found is not None) == used
    if used:
        assert found.url == "http://proxy:3128"
