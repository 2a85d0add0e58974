"""Credentials from a program: exec plugins, client.authentication.k8s.io/v1 and v1beta1."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from hora.errors import PlaceError
from hora.places.kubernetes.api.credentials import (
    Credential,
    bearer,
    certificate_expiry,
    token_expiry,
    utc,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

    from hora.places.kubernetes.api.kubeconfig import Entry

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
MODES = ("Never", "IfAvailable", "Always")
MOST_WORDS = 2000  # of what it writes to its standard error
LAST_WORDS = 1.0  # seconds to wait for them after its end


class Plugin:
    """Runs when a credential is first needed, when it has expired, and once after a refusal."""

    def __init__(self, user: Entry, settings: Entry, env: Mapping[str, str], cluster: dict[str, Any]) -> None:
        self._user = user
        self._settings = settings
        self._env = env
        self._cluster = cluster
        self._lock = threading.Lock()
        self._credential: Credential | None = None
        self._until: float | None = None  # of time.time(); None: as long as the server takes it
        self._version = settings.text("apiVersion")
        self._mode = settings.text("interactiveMode") or (
            "" if self._version == VERSIONS[0] else "IfAvailable"
        )
        self._command = _resolved(settings)
        self._check()

    def current(self) -> Credential:
        with self._lock:
            expired = self._until is not None and time.time() >= self._until
            if self._credential is None or expired:
                return self._renew()
            return self._credential

    def renewed(self, rejected: Credential) -> Credential | None:
        with self._lock:
            # Another thread has been faster, or it is the plugin's turn.
            if self._credential is None or self._credential == rejected:
                return self._renew()
            return self._credential

    def advice(self, rejected: Credential) -> str:
        name = self._settings.text("command")
        expiry = token_expiry(rejected.authorization) or certificate_expiry(rejected.certificate)
        if expiry:
            return f"what {name} gives for {self._user.where} expired {utc(expiry)}: log in again"
        return (
            f"what {name} gives for {self._user.where} is not valid there: log in again, or as another user"
        )

    def _check(self) -> None:
        where = self._user.where
        if self._version not in VERSIONS:
            raise PlaceError(
                f"{where}: exec: apiVersion {self._version!r} is not supported; supported: {', '.join(VERSIONS)}"
            )
        if not self._settings.text("command"):
            raise PlaceError(f"{where}: exec: needs a command")
        if self._mode not in MODES:
            raise PlaceError(f"{where}: exec: interactiveMode must be one of {', '.join(MODES)}")

    def _renew(self) -> Credential:
        interactive = self._mode != "Never" and _at_terminal()
        if self._mode == "Always" and not interactive:
            self._fail("needs a terminal on standard input, and there is none")
        status = self._answer(self._run(interactive))
        self._credential = self._parsed(status)
        self._until = _moment(status.get("expirationTimestamp"))
        return self._credential

    def _run(self, interactive: bool) -> bytes:
        import subprocess

        words = None if interactive else _Words()
        try:
            process = subprocess.Popen(
                [self._command, *self._settings.texts("args")],
                env=self._environment(interactive),
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if words is None else words.end,
            )
        except OSError as problem:
            hint = self._settings.text("installHint")
            self._fail(f"can't be started ({problem.strerror})" + (f":\n{hint.strip()}" if hint else ""))
        finally:
            if words is not None:
                words.listen()
        with process:
            try:
                output, _ = process.communicate()
            except BaseException:
                process.kill()
                raise
        said = words.said() if words is not None else ""
        if process.returncode:
            self._fail(f"ended with {_how(process.returncode)}{f': {said}' if said else ''}")
        return output

    def _environment(self, interactive: bool) -> dict[str, str]:
        spec: dict[str, Any] = {"interactive": interactive}
        if self._settings.flag("provideClusterInfo"):
            spec["cluster"] = self._cluster
        info = {"kind": "ExecCredential", "apiVersion": self._version, "spec": spec}
        own = {entry.text("name"): entry.text("value") for entry in self._settings.entries("env")}
        return {**self._env, **own, "KUBERNETES_EXEC_INFO": json.dumps(info)}

    def _answer(self, output: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(output)
        except ValueError:  # what it has written stays untold: it may hold a token
            self._fail("has not written an ExecCredential in JSON")
        if not isinstance(answer, dict) or answer.get("kind") != "ExecCredential":
            self._fail("has written JSON that is no ExecCredential")
        if answer.get("apiVersion") != self._version:
            self._fail(f"answers in {answer.get('apiVersion')!r}, and was asked for {self._version!r}")
        status = answer.get("status")
        if not isinstance(status, dict):
            self._fail("has given an ExecCredential without a status")
        return status

    def _parsed(self, status: dict[str, Any]) -> Credential:
        names = ("token", "clientCertificateData", "clientKeyData")
        token, certificate, key = (status.get(name) or "" for name in names)
        if not all(isinstance(value, str) for value in (token, certificate, key)):
            self._fail("has given an ExecCredential whose token, certificate or key is no text")
        if not token and not certificate:
            self._fail("has given neither a token nor a client certificate")
        if bool(certificate) != bool(key):
            self._fail("must give clientCertificateData and clientKeyData together")
        return Credential(bearer(token, f"{self._user.where} (from {self._command})"), certificate, key)

    def _fail(self, what: str) -> NoReturn:
        name = self._settings.text("command")
        raise PlaceError(f"{name}, which gives the credentials of {self._user.where}, {what}")

    def __repr__(self) -> str:
        return f"Plugin({self._user.where})"


def _resolved(settings: Entry) -> str:
    """A name without a slash is looked for on PATH; otherwise it is relative to the kubeconfig."""
    command = settings.text("command")
    return settings.path("command") if os.sep in command else command


def _at_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:
        return False


class _Words:
    """What it writes to its standard error: shown as it comes, for it may ask to visit a page; the end is kept.

    Through a pipe of its own: something that it leaves running may hold that open, and is not waited for.
    """

    def __init__(self) -> None:
        self._start, self.end = os.pipe()
        self._kept: list[bytes] = []
        self._thread = threading.Thread(target=self._show, name="hora-plugin", daemon=True)

    def listen(self) -> None:
        """The program has its copy of the pipe's end."""
        os.close(self.end)
        self._thread.start()

    def said(self) -> str:
        self._thread.join(LAST_WORDS)
        return b"".join(self._kept)[-MOST_WORDS:].decode("utf-8", "replace").strip()

    def _show(self) -> None:
        with open(self._start, "rb") as stream:
            for line in stream:
                self._kept.append(line)
                if sys.stderr is not None:
                    sys.stderr.write(line.decode("utf-8", "replace"))
                    sys.stderr.flush()


def _how(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"signal {-code}"


def _moment(text: object) -> float | None:
    """RFC 3339, whose fractions and Z `fromisoformat` doesn't know before Python 3.11."""
    import re
    from datetime import datetime

    if not isinstance(text, str):
        return None
    found = re.fullmatch(
        r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.\d+)?([Zz]|[+-]\d\d:\d\d)", text.strip()
    )
    if found is None:
        return None
    date, clock, zone = found.groups()
    return datetime.fromisoformat(f"{date}T{clock}{'+00:00' if zone in 'Zz' else zone}").timestamp()
