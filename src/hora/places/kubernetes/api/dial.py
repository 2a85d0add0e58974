"""From an `Access` to a connected socket: TCP, a proxy if there is one, TLS; and a sentence for each way it fails."""

from __future__ import annotations

import os
import socket
import ssl
import time

from hora.errors import PlaceError
from hora.places.kubernetes.api import wire
from hora.places.kubernetes.api.errors import Unauthorized, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.places.kubernetes.api.access import Access, Tls
    from hora.places.kubernetes.api.credentials import Credential
    from hora.places.kubernetes.api.proxy import Proxy

# OpenSSL's X509_V_ERR_…
NOT_YET_VALID, EXPIRED = 9, 10
WRONG_NAME = (62, 64)
# What servers say in TLS when they don't like the client's certificate.
ALERTS = (
    "CERTIFICATE_EXPIRED", "BAD_CERTIFICATE", "UNKNOWN_CA", "CERTIFICATE_REQUIRED", "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_REVOKED", "ACCESS_DENIED",
)  # fmt: skip


def client_context(tls: Tls, credential: Credential) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif tls.authority:
        # As kubectl: what the file holds is trusted, also where it is not self-signed.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(cadata=tls.authority)
        except ssl.SSLError:
            raise PlaceError("the cluster's certificate-authority holds no certificate in PEM") from None
    else:
        context.load_default_certs()
    if credential.certificate:
        _load_chain(context, f"{credential.certificate}\n{credential.key}".encode())
    return context


def dial(access: Access, context: ssl.SSLContext | None, until: float) -> socket.socket:
    """A connection to the API server; `context` is None where it speaks plain HTTP."""
    try:
        if access.proxy is not None:
            sock = _through(access.proxy, access, until)
        else:
            sock = _connect(access.host, access.port, until)
        return sock if context is None else _secured(sock, context, access.tls.name or access.host, until)
    except OSError as problem:
        raise explain(problem, access, "connecting") from problem


def explain(problem: OSError, access: Access, doing: str) -> PlaceError:
    """One sentence: what happened to which server, and what to check."""
    url = access.url
    through = f" through the proxy {access.proxy.url}" if access.proxy is not None else ""
    if isinstance(problem, ssl.SSLError):
        return _explain_tls(problem, access)
    if isinstance(problem, TimeoutError):
        if doing == "connecting":
            return Unreachable(
                f"{url} can't be reached{through}: no answer in time; is a VPN, a firewall or the network between?"
            )
        return Unreachable(f"{url} has not answered {doing} in time")
    if isinstance(problem, socket.gaierror):
        name = access.proxy.host if access.proxy is not None else access.host
        return Unreachable(
            f"{url} can't be reached{through}: there is no address for {name} ({problem.strerror}); is the name "
            "right, and the network or VPN up?"
        )
    if isinstance(problem, ConnectionRefusedError):
        return Unreachable(
            f"{url} can't be reached{through}: connection refused; does the cluster run, and is the address right?"
        )
    what = problem.strerror or str(problem)
    if doing == "connecting":
        return Unreachable(f"{url} can't be reached{through}: {what}")
    return Unreachable(f"{url}: the connection broke off during {doing}: {what}")


def _explain_tls(problem: ssl.SSLError, access: Access) -> PlaceError:
    url = access.url
    reason = (problem.reason or "").replace(" ", "_").upper()
    if isinstance(problem, ssl.SSLCertVerificationError):
        code = problem.verify_code
        if code == EXPIRED:
            return Unreachable(
                f"{url}: the server's certificate has expired; who runs the cluster must renew it"
            )
        if code == NOT_YET_VALID:
            return Unreachable(f"{url}: the server's certificate is not valid yet; is the clock here right?")
        if code in WRONG_NAME:
            name = access.tls.name or access.host
            return Unreachable(
                f"{url}: the server's certificate is not for {name}; is the address right? If it is, set "
                "tls-server-name in the kubeconfig"
            )
        return Unreachable(
            f"{url}: the server's certificate is not trusted ({problem.verify_message}); is certificate-authority "
            f"of {access.source} that of this cluster?"
        )
    if any(alert in reason for alert in ALERTS):
        return Unauthorized(f"{url} refuses the client certificate ({_plain(reason)})", 401, "Unauthorized")
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"):
        return Unreachable(f"{url} doesn't speak TLS: is it the right port, and should it be http://?")
    if isinstance(problem, ssl.SSLEOFError):
        return Unreachable(f"{url}: the connection was closed in the middle of TLS: is it the right port?")
    return Unreachable(f"{url}: TLS failed: {_plain(reason) or problem.strerror or problem}")


def _plain(reason: str) -> str:
    return reason.replace("_", " ").lower()


def _connect(host: str, port: int, until: float) -> socket.socket:
    """The first address that answers; one that is silent must not use up the time of the others."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    last: OSError = socket.gaierror(socket.EAI_NONAME, "no address")
    for number, (family, kind, protocol, _, address) in enumerate(found):
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(left / (len(found) - number))
            sock.connect(address)
        except OSError as problem:
            sock.close()
            last = problem
            continue
        except BaseException:
            sock.close()
            raise
        _tune(sock)
        return sock
    raise last


def _tune(sock: socket.socket) -> None:
    """Small requests leave at once; a peer that has vanished behind a silent stream is noticed in a minute."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 20),
        ("TCP_KEEPALIVE", 20),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 4),
    ):
        option = getattr(socket, name, None)  # macOS calls the first one by the second name
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _secured(sock: socket.socket, context: ssl.SSLContext, name: str, until: float) -> socket.socket:
    try:
        sock.settimeout(max(0.001, until - time.monotonic()))
        return context.wrap_socket(sock, server_hostname=name)
    except BaseException:
        sock.close()
        raise


def _through(proxy: Proxy, access: Access, until: float) -> socket.socket:
    """A tunnel to the server."""
    sock = _connect(proxy.host, proxy.port, until)
    if proxy.secure:
        from hora.places.kubernetes.api.access import Tls
        from hora.places.kubernetes.api.credentials import Credential

        context = client_context(Tls(), Credential())
        try:
            sock = _secured(sock, context, proxy.host, until)
        except ssl.SSLError as problem:
            raise Unreachable(
                f"{access.url} can't be reached: TLS with the proxy {proxy.url} failed ({problem})"
            ) from problem
    try:
        _ask_for_tunnel(wire.Wire(sock), proxy, access, until)
    except BaseException:
        sock.close()
        raise
    if not proxy.secure or access.scheme == "http":
        return sock
    # Python can't put TLS around a socket that has TLS already: a thread carries between the two.
    from hora.places.kubernetes.api.pump import relay

    return relay(sock)


def _ask_for_tunnel(tunnel: wire.Wire, proxy: Proxy, access: Access, until: float) -> None:
    host = f"[{access.host}]" if ":" in access.host else access.host
    target = f"{host}:{access.port}"
    headers = [("Host", target)]
    if proxy.authorization:
        headers.append(("Proxy-Authorization", proxy.authorization))
    tunnel.send(wire.request("CONNECT", target, headers), until)
    answer = wire.Answer(tunnel, until)
    if answer.status == 407:
        what = (
            "refuses the user and password given" if proxy.authorization else "asks for a user and password"
        )
        raise Unreachable(
            f"{access.url} can't be reached: the proxy {proxy.url} {what}; they belong into its URL, like "
            "http://user:password@host:port"
        )
    if not 200 <= answer.status < 300:
        raise Unreachable(
            f"{access.url} can't be reached: the proxy {proxy.url} answered {answer.status} {answer.phrase}; "
            "if it isn't needed for this cluster, add the host to NO_PROXY"
        )


def _load_chain(context: ssl.SSLContext, pem: bytes) -> None:
    """Python takes a private key from a path only: give it one that nobody else can open."""
    try:
        if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
            fd = os.memfd_create("client")
            try:
                os.write(fd, pem)
                context.load_cert_chain(f"/proc/self/fd/{fd}", password="")
            finally:
                os.close(fd)
            return
        import tempfile

        with tempfile.NamedTemporaryFile(prefix="hora-") as file:  # mode 600
            file.write(pem)
            file.flush()
            context.load_cert_chain(file.name, password="")  # "" or OpenSSL would ask on the terminal
    except ssl.SSLError as problem:
        raise PlaceError(f"the client certificate and its key can't be used ({_why_not(problem)})") from None


def _why_not(problem: ssl.SSLError) -> str:
    if problem.reason == "KEY_VALUES_MISMATCH":
        return "the key belongs to another certificate"
    if problem.reason in ("BAD_DECRYPT", "BAD_PASSWORD_READ", "PROBLEMS_GETTING_PASSWORD"):
        return "the key is encrypted, which kubectl doesn't take either"
    return "they must be PEM"
