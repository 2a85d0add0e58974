"""The client against real servers on this machine: plain, with TLS, behind proxies, and with bad manners."""

from __future__ import annotations

import base64
import datetime
import io
import ipaddress
import json
import socket
import ssl
import stat
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hora.errors import PlaceError
from hora.places.kubernetes.api import (
    Api,
    ApiError,
    Expired,
    Unauthorized,
    Unreachable,
    load_access,
    path,
)

# --- certificates ---


class Issued:
    def __init__(self, name: str, issuer: Issued | None = None, sans: str = "", days: int = 30) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer.subject if issuer else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=60))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), True)
        )
        names = [_san(word) for word in sans.split()]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
        self.subject = subject
        self._key = key
        certificate = builder.sign(issuer._key if issuer else key, hashes.SHA256())
        self.cert = certificate.public_bytes(serialization.Encoding.PEM).decode()
        self.key = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()

    def user(self) -> dict[str, str]:
        return {"client-certificate-data": b64(self.cert), "client-key-data": b64(self.key)}

    def server_context(
        self, folder: Path, trusted: str | None = None, required: bool = False
    ) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        file = folder / "server.pem"
        file.write_text(self.cert + self.key)
        context.load_cert_chain(file)
        if trusted:
            context.load_verify_locations(cadata=trusted)
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        return context


def _san(word: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(word))
    except ValueError:
        return x509.DNSName(word)


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture(scope="module")
def authority() -> Issued:
    return Issued("authority")


@pytest.fixture(scope="module")
def server_certificate(authority: Issued) -> Issued:
    return Issued("server", authority, "127.0.0.1 localhost api.test")


# --- servers ---


class Asked:
    def __init__(self, method: str, target: str, headers: dict[str, str], body: bytes, sock: Any) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
        self.sock = sock


Reply = bytes | Iterator[bytes] | None


class Server:
    """A thread per connection; `answer` gives the bytes of an answer, parts of one (then hangs up), or None: hangs up."""

    def __init__(self, answer: Callable[[Asked], Reply], context: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.connections = 0
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def hang_up(self) -> None:
        for sock in list(self._open):
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
            except OSError:
                pass

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(sock,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        self._open.add(sock)
        try:
            if self._context is not None:
                self._open.discard(sock)
                try:
                    sock = self._context.wrap_socket(sock, server_side=True)
                finally:
                    self._open.add(sock)
            with sock.makefile("rb") as file:
                while asked := self._read(file, sock):
                    self.asked.append(asked)
                    reply = self.answer(asked)
                    if reply is None:
                        return
                    if not isinstance(reply, bytes):
                        for part in reply:
                            sock.sendall(part)
                        return
                    sock.sendall(reply)
        except OSError:
            pass
        finally:
            self._open.discard(sock)
            sock.close()

    def _read(self, file: io.BufferedReader, sock: socket.socket) -> Asked | None:
        if file.peek(1)[:1] == b"\x16":  # TLS where there should be none: what Go answers
            sock.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            return None
        first = file.readline().decode().split()
        if len(first) != 3:
            return None
        headers = {}
        while line := file.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return Asked(first[0], first[1], headers, file.read(int(headers.get("content-length", 0))), sock)


def reply(content: object = None, status: int = 200, **headers: str) -> bytes:
    body = content if isinstance(content, bytes) else json.dumps(content or {}).encode()
    lines = [f"HTTP/1.1 {status} Word", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def refused(status: int, reason: str, message: str, **headers: str) -> bytes:
    found = {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}
    return reply(found, status, **headers)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def serving(answer: Callable[[Asked], Reply], context: ssl.SSLContext | None = None) -> Iterator[Server]:
    server = Server(answer, context)
    try:
        yield server
    finally:
        server.close()


class To:
    """Makes clients by kubeconfigs of their own, and closes them."""

    def __init__(self, work: Path) -> None:
        self.file = work / "kubeconfig"
        self._opened: list[Api] = []

    def __call__(
        self, url: str, user: dict[str, Any] | None = None, env: dict[str, str] | None = None, **cluster: Any
    ) -> Api:
        settings = {key.replace("_", "-"): value for key, value in cluster.items()}
        content = {
            "current-context": "here",
            "clusters": [{"name": "c", "cluster": {"server": url, **settings}}],
            "users": [{"name": "u", "user": user or {}}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        }
        self.file.write_text(json.dumps(content))
        api = Api(load_access(env={"KUBECONFIG": str(self.file), "PATH": "/usr/bin:/bin", **(env or {})}))
        self._opened.append(api)
        return api

    def close(self) -> None:
        for api in self._opened:
            api.close()


@pytest.fixture
def to(work: Path) -> Iterator[To]:
    found = To(work)
    yield found
    found.close()


def local(server: Server, scheme: str = "http") -> str:
    return f"{scheme}://127.0.0.1:{server.port}"


def echo(asked: Asked) -> bytes:
    body = json.loads(asked.body) if asked.body else None
    return reply({"method": asked.method, "target": asked.target, "headers": asked.headers, "body": body})


# --- requests ---


def test_paths_are_those_of_the_api() -> None:
    assert path("v1", "pods", "me", "p", "log") == "/api/v1/namespaces/me/pods/p/log"
    assert path("batch/v1", "jobs", "me") == "/apis/batch/v1/namespaces/me/jobs"
    assert path("v1", "namespaces", name="me") == "/api/v1/namespaces/me"
    assert path("v1", "pods", "me", "a/../b") == "/api/v1/namespaces/me/pods/a%2F..%2Fb"


def test_a_request_carries_method_query_body_and_credentials_below_the_base_path(to: To) -> None:
    with serving(echo) as server:
        api = to(local(server) + "/k8s/c-1/", {"token": "t", "as": "bob"})
        got = api.request("POST", path("batch/v1", "jobs", "me"), {"a": "ä"}, {"labelSelector": "x=1,y"})
    assert got["method"] == "POST"
    assert got["target"] == "/k8s/c-1/apis/batch/v1/namespaces/me/jobs?labelSelector=x%3D1%2Cy"
    assert got["body"] == {"a": "ä"}
    assert got["headers"]["authorization"] == "Bearer t"
    assert got["headers"]["impersonate-user"] == "bob"
    assert got["headers"]["content-type"] == "application/json"
    assert got["headers"]["host"] == f"127.0.0.1:{server.port}"


def test_requests_are_counted_by_what_they_ask_for(to: To) -> None:
    with serving(echo) as server:
        api = to(local(server))
        api.request("POST", path("batch/v1", "jobs", "me"), {})
        for name in "ab":
            api.text(path("v1", "pods", "me", name, "log"))
        api.request("GET", path("v1", "namespaces", name="me"))
        api.request("PATCH", path("v1", "namespaces", name="me"), {})
        api.request("GET", "/version")
    assert dict(api.counted) == {
        "POST jobs": 1,
        "GET pods/log": 2,
        "GET namespaces": 1,
        "PATCH namespaces": 1,
        "GET version": 1,
    }
    assert server.asked[4].headers["content-type"] == "application/merge-patch+json"


def test_one_connection_serves_request_after_request(to: To) -> None:
    def answer(asked: Asked) -> Reply:
        return (
            CHUNKED + chunk(b'{"a"') + chunk(b":1}") + b"0\r\n\r\n"
            if "chunks" in asked.target
            else echo(asked)
        )

    with serving(answer) as server:
        api = to(local(server))
        for _ in range(5):
            api.request("GET", "/x")
            assert api.request("GET", "/chunks") == {"a": 1}
        assert server.connections == 1


def test_threads_share_an_api(to: To) -> None:
    with serving(echo) as server:
        api = to(local(server))
        wrong: list[object] = []

        def ask(number: int) -> None:
            for turn in range(20):
                got = api.request("POST", f"/api/v1/x{number}", {"n": [number, turn]})
                if got["body"] != {"n": [number, turn]}:
                    wrong.append(got)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert sum(api.counted.values()) == 160
        assert server.connections <= 8


def test_a_connection_that_was_closed_while_idle_is_replaced(to: To) -> None:
    with serving(echo) as server:
        api = to(local(server))
        for method in ("GET", "POST", "DELETE"):
            api.request(method, "/x")
            server.hang_up()
            time.sleep(0.05)
        assert len(server.asked) == 3


def test_a_get_whose_reused_connection_breaks_is_asked_again_and_a_post_is_not(to: To) -> None:
    def answer(asked: Asked) -> Reply:
        return None if len(server.asked) in (2, 5) else echo(asked)

    with serving(answer) as server:
        api = to(local(server))
        api.request("GET", "/first")
        assert api.request("GET", "/again")["target"] == "/again"
        assert [asked.target for asked in server.asked] == ["/first", "/again", "/again"]
        api.request("GET", "/fourth")
        with pytest.raises(Unreachable, match="the connection broke off during POST /once"):
            api.request("POST", "/once", {})
        assert len(server.asked) == 5


def test_the_servers_words_are_the_error(to: To) -> None:
    def answer(asked: Asked) -> Reply:
        return refused(404, "NotFound", 'pods "x" not found')

    with serving(answer) as server:
        api = to(local(server))
        with pytest.raises(ApiError) as caught:
            api.request("GET", path("v1", "pods", "me", "x"))
        assert str(caught.value) == 'pods "x" not found'
        assert (caught.value.status, caught.value.reason) == (404, "NotFound")
        assert server.connections == 1


def test_a_page_of_a_proxy_is_cut_down_to_its_words(to: To) -> None:
    page = b"<html><head><title>no</title></head><body><h1>502 Bad\n Gateway</h1>" + b"x" * 500
    with serving(lambda asked: reply(page, 502)) as server, pytest.raises(ApiError) as caught:
        to(local(server)).request("GET", "/x")
    text = str(caught.value)
    assert text.startswith(f"{local(server)} answered 502 Word: 502 Bad Gateway xxx")
    assert len(text) < 400


def test_what_is_no_kubernetes_api_is_said(to: To) -> None:
    with serving(lambda asked: reply(b"<html>log in</html>")) as server:
        with pytest.raises(ApiError, match="not as a Kubernetes API"):
            to(local(server)).request("GET", "/x")
        server.answer = lambda asked: reply(b"", 302, Location="https://me:pw@login.test/a?secret=1")
        with pytest.raises(ApiError, match=r"sends us to login.test: is the server's URL right\?"):
            to(local(server)).request("GET", "/x")


def test_a_server_under_load_is_asked_again_when_it_says(to: To) -> None:
    def answer(asked: Asked) -> Reply:
        if len(server.asked) < 3:
            return refused(429, "TooManyRequests", "slow down", Retry_After="0")
        return echo(asked)

    with serving(answer) as server:
        assert to(local(server)).request("POST", "/x", {"a": 1})["body"] == {"a": 1}
        server.answer = lambda asked: refused(429, "TooManyRequests", "slow down", Retry_After="60")
        with pytest.raises(ApiError, match="slow down"):
            to(local(server)).request("POST", "/x", {})


def test_an_answer_that_does_not_come_is_given_up_in_time(to: To) -> None:
    done = threading.Event()

    def answer(asked: Asked) -> Reply:
        done.wait(10)
        return None

    with serving(answer) as server:
        api = to(local(server))
        begun = time.monotonic()
        with pytest.raises(Unreachable, match=r"127.0.0.1:\d+ has not answered GET /x in time"):
            api.request("GET", "/x", timeout=0.2)
        assert time.monotonic() - begun < 2
        done.set()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "doesn't speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", "before the answer was whole"),
        (CHUNKED + b"zz\r\n", "a chunk without a length"),
        (CHUNKED + b"2\r\nabcdef\r\n", "a chunk longer than it said"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 500, "headers without end"),
        (b"HTTP/1.1 200 " + b"a" * 200000, "a header without end"),
    ],
)  # fmt: skip
def test_an_answer_that_is_broken_is_told(to: To, answer: bytes, words: str) -> None:
    with serving(lambda asked: iter([answer])) as server, pytest.raises(Unreachable, match=words):
        to(local(server)).request("GET", "/x")


# --- reaching it ---


def test_a_refused_connection_is_told_with_the_url(to: To) -> None:
    with serving(echo) as server:
        pass
    with pytest.raises(Unreachable, match=f"^{local(server)} can't be reached: connection refused"):
        to(local(server)).request("GET", "/x")


def test_a_name_without_address_is_told(to: To) -> None:
    with pytest.raises(Unreachable, match=r"no address for no-such-host.invalid"):
        to("https://no-such-host.invalid:6443").request("GET", "/x")


def test_a_server_that_is_silent_in_the_handshake_is_given_up_in_time(to: To) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(Unreachable, match="no answer in time"):
            to(url, insecure_skip_tls_verify=True).request("GET", "/x", timeout=0.2)


# --- TLS ---


def test_a_server_is_trusted_by_its_authority_alone(
    to: To, work: Path, authority: Issued, server_certificate: Issued
) -> None:
    with serving(echo, server_certificate.server_context(work)) as server:
        url = local(server, "https")
        assert to(url, certificate_authority_data=b64(authority.cert)).request("GET", "/x")["target"] == "/x"
        assert to(url, certificate_authority_data=b64(server_certificate.cert)).request("GET", "/x")
        assert to(url, insecure_skip_tls_verify=True).request("GET", "/x")
        stranger = b64(Issued("stranger").cert)
        with pytest.raises(
            Unreachable, match=r"certificate is not trusted .*is certificate-authority of .*kubeconfig"
        ):
            to(url, certificate_authority_data=stranger).request("GET", "/x")
        with pytest.raises(Unreachable, match="certificate is not trusted"):
            to(url).request("GET", "/x")
        with pytest.raises(PlaceError, match="holds no certificate in PEM"):
            to(url, certificate_authority_data=b64("nonsense")).request("GET", "/x")


def test_a_certificate_for_another_name_is_told_and_can_be_allowed(
    to: To, work: Path, authority: Issued
) -> None:
    certificate = Issued("other", authority, "other.test")
    with serving(echo, certificate.server_context(work)) as server:
        url = local(server, "https")
        trusted = {"certificate_authority_data": b64(authority.cert)}
        with pytest.raises(Unreachable, match=r"is not for 127.0.0.1; .* tls-server-name"):
            to(url, **trusted).request("GET", "/x")
        assert to(url, tls_server_name="other.test", **trusted).request("GET", "/x")


def test_an_expired_server_certificate_is_told(to: To, work: Path, authority: Issued) -> None:
    certificate = Issued("old", authority, "127.0.0.1", days=-1)
    with serving(echo, certificate.server_context(work)) as server:
        api = to(local(server, "https"), certificate_authority_data=b64(authority.cert))
        with pytest.raises(Unreachable, match="the server's certificate has expired"):
            api.request("GET", "/x")


def test_a_server_without_tls_is_told(to: To) -> None:
    with serving(echo) as server, pytest.raises(Unreachable, match="doesn't speak TLS"):
        to(local(server, "https"), insecure_skip_tls_verify=True).request("GET", "/x")


def test_a_client_certificate_is_shown(
    to: To, work: Path, authority: Issued, server_certificate: Issued
) -> None:
    def answer(asked: Asked) -> Reply:
        return reply({"who": asked.sock.getpeercert()["subject"][0][0][1]})

    me = Issued("me", authority)
    context = server_certificate.server_context(work, authority.cert, required=True)
    with serving(answer, context) as server:
        api = to(local(server, "https"), me.user(), certificate_authority_data=b64(authority.cert))
        assert api.request("GET", "/x") == {"who": "me"}
        assert api.request("GET", "/x") == {"who": "me"}
        assert server.connections == 1


@pytest.mark.parametrize("told", ["in TLS", "by 401"])
def test_an_expired_client_certificate_is_told_with_its_end(
    to: To, work: Path, authority: Issued, server_certificate: Issued, told: str
) -> None:
    old = Issued("me", authority, days=-1)
    trusted = authority.cert if told == "in TLS" else None
    context = server_certificate.server_context(work, trusted, required=True)
    with serving(lambda asked: refused(401, "Unauthorized", "Unauthorized"), context) as server:
        api = to(local(server, "https"), old.user(), certificate_authority_data=b64(authority.cert))
        with pytest.raises(
            Unauthorized, match=r'the client certificate of user "u" in .* expired on 20\d\d-'
        ) as caught:
            api.request("GET", "/x")
        assert caught.value.status == 401


def test_a_key_of_another_certificate_is_told(to: To, work: Path, authority: Issued) -> None:
    user = {**Issued("a", authority).user(), "client-key-data": b64(Issued("b").key)}
    with serving(echo) as server, pytest.raises(PlaceError, match="the key belongs to another certificate"):
        to(local(server, "https"), user).request("GET", "/x")


# --- who we are ---


def test_a_token_that_is_refused_is_told_without_being_shown(to: To) -> None:
    with serving(lambda asked: refused(401, "Unauthorized", "Unauthorized")) as server:
        with pytest.raises(
            Unauthorized, match=r'doesn\'t let us in: the credentials of user "u" .* log in again'
        ) as caught:
            to(local(server), {"token": "hush"}).request("GET", "/x")
        assert "hush" not in str(caught.value)
        with pytest.raises(Unauthorized, match="has no credentials: add a token"):
            to(local(server)).request("GET", "/x")


def counting_plugin(work: Path) -> dict[str, Any]:
    """Gives token-1, token-2, …"""
    program = work / "plugin"
    program.write_text(
        f"#!{sys.executable}\n"
        + textwrap.dedent(
            f"""
            import json
            with open({str(work / "runs")!r}, "a+") as file:
                file.write("x")
                number = file.tell()
            print(json.dumps({{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
                               "status": {{"token": f"token-{{number}}"}}}}))
            """
        )
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": str(program), "interactiveMode": "Never"}}


def test_a_plugin_runs_again_once_when_its_token_is_refused(to: To, work: Path) -> None:
    def answer(asked: Asked) -> Reply:
        good = asked.headers["authorization"] == "Bearer token-2"
        return echo(asked) if good else refused(401, "Unauthorized", "Unauthorized")

    with serving(answer) as server:
        api = to(local(server), counting_plugin(work))
        assert api.request("POST", "/x", {"a": 1})["body"] == {"a": 1}
        assert api.request("GET", "/x")
        assert len((work / "runs").read_text()) == 2
        server.answer = lambda asked: refused(401, "Unauthorized", "Unauthorized")
        with pytest.raises(Unauthorized, match="is not valid there: log in again"):
            api.request("GET", "/x")
        assert len((work / "runs").read_text()) == 3


def test_many_threads_run_a_plugin_once(to: To, work: Path) -> None:
    with serving(echo) as server:
        api = to(local(server), counting_plugin(work))
        threads = [threading.Thread(target=api.request, args=("GET", "/x")) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (work / "runs").read_text() == "x"


# --- proxies ---


class ConnectProxy(Server):
    """CONNECT, a few lines of it.  `goes_to` is where it connects, whatever it is asked for."""

    def __init__(self, goes_to: int, authorization: str = "", context: ssl.SSLContext | None = None) -> None:
        super().__init__(self._tunnel, context)
        self._goes_to = goes_to
        self._authorization = authorization

    def _tunnel(self, asked: Asked) -> Reply:
        if asked.headers.get("proxy-authorization", "") != self._authorization:
            return reply(b"", 407)
        with socket.create_connection(("127.0.0.1", self._goes_to)) as beyond:
            asked.sock.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=carry, args=(beyond, asked.sock))
            back.start()
            carry(asked.sock, beyond)
            back.join()
        return None


def carry(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for sock in (source, target):
        try:
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
        except OSError:
            pass


@contextmanager
def proxying(
    goes_to: int, authorization: str = "", context: ssl.SSLContext | None = None
) -> Iterator[Server]:
    server = ConnectProxy(goes_to, authorization, context)
    try:
        yield server
    finally:
        server.close()


def test_a_cluster_is_reached_through_a_proxy_with_a_password(
    to: To, work: Path, authority: Issued, server_certificate: Issued
) -> None:
    expected = "Basic " + b64("me:p@ss")
    with (
        serving(echo, server_certificate.server_context(work)) as server,
        proxying(server.port, expected) as proxy,
    ):
        trusted = {"certificate_authority_data": b64(authority.cert)}
        api = to("https://api.test", proxy_url=f"http://me:p%40ss@127.0.0.1:{proxy.port}", **trusted)
        assert api.request("GET", "/x")["headers"]["host"] == "api.test"
        assert proxy.asked[0].target == "api.test:443"
        env = {"HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}"}
        with pytest.raises(Unreachable, match=r"the proxy http://127.0.0.1:\d+ asks for a user and password"):
            to("https://api.test", env=env, **trusted).request("GET", "/x")
        with pytest.raises(Unreachable, match="refuses the user and password given") as caught:
            to("https://api.test", proxy_url=f"http://hush@127.0.0.1:{proxy.port}").request("GET", "/x")
        assert "hush" not in str(caught.value)
        api.close()


def test_a_cluster_is_reached_through_a_proxy_that_speaks_tls(
    to: To, work: Path, authority: Issued, server_certificate: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "ca.pem").write_text(authority.cert)
    monkeypatch.setenv("SSL_CERT_FILE", str(work / "ca.pem"))
    context = server_certificate.server_context(work)
    with serving(echo, context) as server, proxying(server.port, context=context) as proxy:
        trusted = {"certificate_authority_data": b64(authority.cert)}
        api = to("https://api.test", proxy_url=f"https://localhost:{proxy.port}", **trusted)
        body = {"big": "x" * 1_000_000}
        assert api.request("POST", "/x", body)["body"] == body
        api.close()
    monkeypatch.delenv("SSL_CERT_FILE")
    with proxying(1, context=context) as proxy:
        api = to("https://api.test", proxy_url=f"https://localhost:{proxy.port}")
        with pytest.raises(Unreachable, match="TLS with the proxy https://localhost"):
            api.request("GET", "/x")


def test_a_proxy_that_can_not_be_reached_is_named(to: To) -> None:
    with serving(echo) as gone:
        pass
    env = {"HTTPS_PROXY": f"127.0.0.1:{gone.port}"}
    with pytest.raises(Unreachable, match=f"through the proxy {local(gone)}: connection refused"):
        to("https://api.test", env=env).request("GET", "/x")


# --- lines ---


def test_lines_come_as_they_are_written(to: To) -> None:
    go = threading.Event()

    def answer(asked: Asked) -> Reply:
        def parts() -> Iterator[bytes]:
            yield CHUNKED + chunk(b"one\ntw")
            go.wait(10)
            yield chunk(b"o\n\nlast") + b"0\r\n\r\n"

        return parts()

    with serving(answer) as server, to(local(server)).lines("/log", {"follow": "true"}) as lines:
        assert next(lines) == b"one\n"
        go.set()
        assert list(lines) == [b"two\n", b"\n", b"last"]


def test_a_chunk_is_given_before_its_end_has_come(to: To) -> None:
    go = threading.Event()

    def answer(asked: Asked) -> Reply:
        def parts() -> Iterator[bytes]:
            yield CHUNKED + b"4\r\none\n"
            go.wait(10)
            yield b"\r\n0\r\n\r\n"

        return parts()

    with serving(answer) as server, to(local(server)).lines("/log", timeout=5) as lines:
        assert next(lines) == b"one\n"
        go.set()
        assert list(lines) == []


def test_lines_that_break_off_are_told(to: To) -> None:
    with serving(lambda asked: iter([CHUNKED + chunk(b"one\n")])) as server:
        lines = to(local(server)).lines("/log")
        assert next(lines) == b"one\n"
        with pytest.raises(Unreachable, match="broke off during GET /log"):
            next(lines)


def test_the_connection_of_lines_that_ended_serves_again(to: To) -> None:
    def answer(asked: Asked) -> Reply:
        return CHUNKED + chunk(b"a\n" * 1000) + b"0\r\n\r\n"

    with serving(answer) as server:
        api = to(local(server))
        for _ in range(3):
            assert len(list(api.lines("/log"))) == 1000
        assert server.connections == 1


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("kind", ["lines", "watch"])
def test_a_stream_is_closed_from_another_thread(
    to: To, work: Path, server_certificate: Issued, scheme: str, kind: str
) -> None:
    def answer(asked: Asked) -> Reply:
        def parts() -> Iterator[bytes]:
            yield CHUNKED
            done.wait(10)

        return parts()

    done = threading.Event()
    context = server_certificate.server_context(work) if scheme == "https" else None
    with serving(answer, context) as server:
        api = to(local(server, scheme), insecure_skip_tls_verify=True)
        stream = api.lines("/x") if kind == "lines" else api.watch("/x", version="1")
        got: list[object] = []
        reader = threading.Thread(target=lambda: got.extend(stream))
        reader.start()
        time.sleep(0.2)
        begun = time.monotonic()
        stream.close()
        reader.join(5)
        assert not reader.is_alive()
        assert time.monotonic() - begun < 1
        assert got == []
        stream.close()
        assert list(stream) == []
        done.set()


def test_a_refusal_of_lines_is_raised_at_once(to: To) -> None:
    with serving(lambda asked: refused(400, "BadRequest", "container is waiting to start")) as server:
        api = to(local(server))
        with pytest.raises(ApiError, match="is waiting to start"):
            api.lines("/log")


def test_a_silence_longer_than_allowed_is_told(to: To) -> None:
    done = threading.Event()
    with serving(lambda asked: (done.wait(10) and b"" if turn else CHUNKED for turn in range(2))) as server:
        with pytest.raises(Unreachable, match="in time"):
            next(to(local(server)).lines("/log", timeout=0.1))
        done.set()


# --- watches ---


def event(kind: str, version: int, **more: object) -> bytes:
    found = {"type": kind, "object": {"metadata": {"resourceVersion": str(version)}, **more}}
    return chunk(json.dumps(found).encode() + b"\n")


def version_of(asked: Asked) -> str:
    return asked.target.partition("resourceVersion=")[2].partition("&")[0]


def test_a_watch_goes_on_where_it_was_after_an_end_a_break_and_an_outage(to: To) -> None:
    def answer(asked: Asked) -> Reply:
        number = len(server.asked)
        if number == 1:  # the server's own end, after a bookmark
            return CHUNKED + event("ADDED", 11) + event("BOOKMARK", 15) + b"0\r\n\r\n"
        if number == 2:  # breaks off within an event
            return iter([CHUNKED + event("MODIFIED", 16) + b'40\r\n{"type"'])
        if number == 3:
            return reply(b"not now", 503)
        return iter([CHUNKED + event("DELETED", 17)])

    with (
        serving(answer) as server,
        to(local(server)).watch("/x", {"labelSelector": "a"}, version="10") as watch,
    ):
        got = [next(watch) for _ in range(3)]
        assert [kind for kind, _ in got] == ["ADDED", "MODIFIED", "DELETED"]
        assert [version_of(asked) for asked in server.asked[:4]] == ["10", "15", "16", "16"]
        assert all("allowWatchBookmarks=true" in asked.target for asked in server.asked)
        assert watch.version == "17"


def test_a_watch_whose_version_is_too_old_has_to_list_again(to: To) -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    gone = chunk(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
    with serving(lambda asked: iter([CHUNKED + gone])) as server:
        with pytest.raises(Expired, match="too old resource version"):
            next(to(local(server)).watch("/x", {"resourceVersion": "1"}))
        server.answer = lambda asked: refused(410, "Gone", "too old")
        with pytest.raises(Expired, match="too old"):
            next(to(local(server)).watch("/x", version="1"))


def test_a_watch_without_a_version_can_not_go_on_before_a_bookmark(to: To) -> None:
    def answer(asked: Asked) -> Reply:
        return CHUNKED + event("ADDED", 5) + b"0\r\n\r\n"

    with serving(answer) as server:
        watch = to(local(server)).watch("/x")
        next(watch)
        with pytest.raises(Expired, match="had no version to go on from"):
            next(watch)
        watch.close()


def test_a_watch_loses_patience_with_a_server_that_is_gone(to: To) -> None:
    with serving(echo) as server:
        pass
    begun = time.monotonic()
    with pytest.raises(Unreachable, match="connection refused"):
        next(to(local(server)).watch("/x", version="1", patience=0.4))
    assert 0.4 <= time.monotonic() - begun < 3


def test_a_watch_that_is_forbidden_says_so_at_once(to: To) -> None:
    with serving(lambda asked: refused(403, "Forbidden", "pods is forbidden")) as server:
        with pytest.raises(ApiError, match="pods is forbidden"):
            next(to(local(server)).watch("/x", version="1"))
        assert len(server.asked) == 1
