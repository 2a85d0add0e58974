"""Who one is to the cluster: what goes with a request, and what to say when it is refused."""

from __future__ import annotations

import json
import os
import time

from hora.errors import PlaceError
from hora.places.kubernetes.api.kubeconfig import read_text
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from hora.places.kubernetes.api.kubeconfig import Entry

    class Credentials(Protocol):
        """Where credentials come from."""

        def current(self) -> Credential: ...

        def renewed(self, rejected: Credential) -> Credential | None:
            """Another one after a refusal; None when there is no other to be had."""

        def advice(self, rejected: Credential) -> str:
            """Why `rejected` may have been refused, and what to do; a sentence's second half."""


class Credential(Record):
    """What is shown to the server; empty texts when there is nothing to show."""

    authorization: str = ""  # the header's value
    certificate: str = ""  # PEM: the chain
    key: str = ""  # PEM

    def __repr__(self) -> str:
        return "Credential(…)"


class Kept:
    """From the kubeconfig or from files.  Read anew each time: tokens and certificates are rotated in place."""

    def __init__(self, where: str, read: Callable[[], Credential]) -> None:
        self._where = where
        self._read = read

    def current(self) -> Credential:
        return self._read()

    def renewed(self, rejected: Credential) -> Credential | None:
        found = self._read()
        return found if found != rejected else None

    def advice(self, rejected: Credential) -> str:
        if expiry := token_expiry(rejected.authorization):
            return f"the token of {self._where} expired {utc(expiry)}: log in again, or get a new one"
        if expiry := certificate_expiry(rejected.certificate):
            return f"the client certificate of {self._where} expired {utc(expiry)}: get a new one"
        if rejected == Credential():
            return f"{self._where} has no credentials: add a token, a client certificate or an exec plugin"
        return f"the credentials of {self._where} are not valid there, or no longer: log in again"


def from_user(user: Entry, env: Mapping[str, str], cluster: dict[str, Any]) -> Credentials:
    """The credentials of a user of a kubeconfig; `cluster` is for plugins that ask for it."""
    if user.below("auth-provider") is not None:
        raise PlaceError(
            f"{user.where} has an auth-provider, which Kubernetes has given up in 1.26: "
            "use the exec plugin that your provider has put in its place"
        )
    basic = bool(user.text("username") or user.text("password"))
    token = bool(user.text("token") or user.text("tokenFile"))
    if basic and token:
        raise PlaceError(f"{user.where} has a token and a password: only one of them can be sent")
    plugin = user.below("exec")
    if plugin is not None and not basic and not token:
        from hora.places.kubernetes.api.plugin import Plugin

        return Plugin(user, plugin, env, cluster)
    kept = Kept(user.where, lambda: _read_user(user))
    kept.current()  # what is missing is said at once
    return kept


def from_token_file(where: str, path: str) -> Credentials:
    return Kept(where, lambda: Credential(bearer(read_text(path, f"the token of {where}"), where)))


def bearer(token: str, where: str) -> str:
    token = token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise PlaceError(f"the token of {where} is none: it holds characters that no token can hold")
    return f"Bearer {token}" if token else ""


def basic(user: str, password: str) -> str:
    import base64

    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


def impersonation(user: Entry) -> tuple[tuple[str, str], ...]:
    """The headers for `as` and its companions."""
    from urllib.parse import quote

    found = [("Impersonate-User", user.text("as")), ("Impersonate-Uid", user.text("as-uid"))]
    found += [("Impersonate-Group", group) for group in user.texts("as-groups")]
    extra = user.below("as-user-extra")
    for name in extra.values if extra else ():
        found += [(f"Impersonate-Extra-{quote(name, safe='')}", item) for item in extra.texts(name)]  # type: ignore[union-attr]
    return tuple((name, value) for name, value in found if value)


def token_expiry(authorization: str) -> float:
    """When a JWT has expired; 0.0 when it has not, or is none."""
    import base64

    parts = authorization.split(".")
    if not authorization.startswith("Bearer ") or len(parts) != 3:
        return 0.0
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        expiry = float(claims["exp"])
    except (ValueError, KeyError, TypeError):
        return 0.0
    return expiry if expiry < time.time() else 0.0


def certificate_expiry(pem: str) -> float:
    """When a certificate has expired; 0.0 when it has not, or there is none."""
    if not pem:
        return 0.0
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(pem.encode())
    except ValueError:
        return 0.0
    end = getattr(certificate, "not_valid_after_utc", None)
    if end is None:  # cryptography before 42 knows it without a zone
        from datetime import timezone

        end = certificate.not_valid_after.replace(tzinfo=timezone.utc)
    return float(end.timestamp()) if end.timestamp() < time.time() else 0.0


def utc(moment: float) -> str:
    return time.strftime("on %Y-%m-%d at %H:%M UTC", time.gmtime(moment))


def _read_user(user: Entry) -> Credential:
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if bool(certificate) != bool(key):
        raise PlaceError(
            f"{user.where} needs client-certificate and client-key together, and has only one of them"
        )
    if user.text("username") or user.text("password"):
        authorization = basic(user.text("username"), user.text("password"))
    else:
        authorization = bearer(_token(user), user.where)
    return Credential(authorization, certificate, key)


def _token(user: Entry) -> str:
    """The file's if it can be read, else the one in the kubeconfig: kubectl's rule."""
    path = user.path("tokenFile")
    if path and (os.access(path, os.R_OK) or not user.text("token")):
        return read_text(path, f"tokenFile of {user.where}")
    return user.text("token")
