"""Whether a proxy stands between here and the cluster.  Go's rules, as kubectl has them."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from hora.errors import PlaceError
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PORTS = {"http": 80, "https": 443}


class Proxy(Record):
    """Reached by CONNECT."""

    host: str
    port: int
    secure: bool  # TLS to the proxy itself
    authorization: str = ""  # the header's value

    @property
    def url(self) -> str:
        """For messages: without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"

    def __repr__(self) -> str:
        return f"Proxy({self.url!r})"


def from_url(url: str, where: str) -> Proxy:
    """`where` says who wants it: an error shows that and not the URL, which may hold a password."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise PlaceError(
            f"{where} is no URL of a proxy: it must be like http://proxy.example.com:3128"
        ) from None
    if parts.scheme not in PORTS:
        raise PlaceError(
            f"{where} wants a proxy of the kind {parts.scheme!r}, which is not supported: "
            "give one that speaks http or https"
        )
    if not host:
        raise PlaceError(f"{where} names no host: it must be like http://proxy.example.com:3128")
    authorization = ""
    if parts.username is not None:
        from hora.places.kubernetes.api.credentials import basic

        authorization = basic(unquote(parts.username), unquote(parts.password or ""))
    return Proxy(host, port or PORTS[parts.scheme], parts.scheme == "https", authorization)


def from_environment(scheme: str, host: str, port: int, env: Mapping[str, str]) -> Proxy | None:
    for name in (f"{scheme.upper()}_PROXY", f"{scheme}_proxy"):
        if url := env.get(name):
            excepted = env.get("NO_PROXY") or env.get("no_proxy") or ""
            return None if passes_by(host, port, excepted) else from_url(url, f"the variable {name}")
    return None


def passes_by(host: str, port: int, excepted: str) -> bool:
    """Whether NO_PROXY excepts a host; this machine is always excepted."""
    import ipaddress

    host = host.lower().rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for word in excepted.lower().replace(",", " ").split():
        if word == "*":
            return True
        name, wanted_port = _split_port(word)
        if wanted_port and wanted_port != port:
            continue
        if _network_has(name, address) if address is not None else _domain_has(name, host):
            return True
    return False


def _split_port(word: str) -> tuple[str, int]:
    if word.startswith("["):
        name, _, port = word[1:].partition("]")
        port = port.removeprefix(":")
    elif word.count(":") == 1:
        name, _, port = word.partition(":")
    else:
        name, port = word, ""
    return name, int(port) if port.isdecimal() else 0


def _network_has(name: str, address: object) -> bool:
    import ipaddress

    try:
        return address in ipaddress.ip_network(name, strict=False)
    except ValueError:
        return False


def _domain_has(name: str, host: str) -> bool:
    """`example.com` means itself and all below; `.example.com` and `*.example.com` only what is below."""
    below = name.removeprefix("*")
    return host.endswith(below) if below.startswith(".") else host == name or host.endswith(f".{name}")
