"""The Kubernetes API: requests, logs, watches.  Any number of threads may use one `Api`."""

from __future__ import annotations

import json
import threading
import time
import weakref
from collections import Counter
from urllib.parse import quote, urlencode, urlsplit

from hora.places.kubernetes.api.errors import ApiError, Unauthorized, refusal
from hora.places.kubernetes.api.pool import Call, Pool
from hora.places.kubernetes.api.streams import Lines, Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from hora.places.kubernetes.api.access import Access
    from hora.places.kubernetes.api.credentials import Credential
    from hora.places.kubernetes.api.pool import Exchange
    from hora.places.kubernetes.api.wire import Answer

    Query = Mapping[str, str | int]

TIMEOUT = 30.0
MERGE = "application/merge-patch+json"  # what a PATCH is unless it says otherwise


def path(
    version: str, plural: str, namespace: str | None = None, name: str | None = None, sub: str | None = None
) -> str:
    """`path("batch/v1", "jobs", "me", "train")` is /apis/batch/v1/namespaces/me/jobs/train."""
    parts = ["apis" if "/" in version else "api", *version.split("/")]
    if namespace is not None:
        parts += ["namespaces", namespace]
    parts += [part for part in (plural, name) if part is not None]
    if sub is not None:
        parts += sub.split("/")
    return "/" + "/".join(quote(part, safe="") for part in parts)


class Api:
    def __init__(self, access: Access) -> None:
        self.access = access
        self.counted: Counter[str] = Counter()  # "POST jobs", "GET pods/log", "WATCH pods", …
        self._counting = threading.Lock()
        self._pool = Pool(access)
        weakref.finalize(
            self, self._pool.close
        )  # whoever uses Hora as a library needn't close what it can't see

    def request(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        query: Query | None = None,
        timeout: float = TIMEOUT,
        content_type: str | None = None,
    ) -> dict[str, Any]:
        """The object that comes back; ApiError when the server refuses."""
        headers = [("Accept", "application/json")]
        data = None
        if body is not None:
            kind = content_type or (MERGE if method == "PATCH" else "application/json")
            headers.append(("Content-Type", kind))
            data = json.dumps(body, separators=(",", ":")).encode()
        call = self._call(method, path, query, headers, data)
        answer = self._whole(call, timeout)
        try:
            found = json.loads(answer or b"{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            url = self.access.url
            raise ApiError(f"{url} answers, but not as a Kubernetes API: is the server's URL right?", 200)
        return found

    def text(self, path: str, query: Query | None = None, timeout: float = TIMEOUT) -> bytes:
        """An answer that is no object, as a log."""
        return self._whole(self._call("GET", path, query, [("Accept", "*/*")]), timeout)

    def lines(self, path: str, query: Query | None = None, timeout: float | None = None) -> Lines:
        """An answer line by line, as it comes.  `timeout` limits how long it may be silent."""
        exchange = self._ask(self._call("GET", path, query, [("Accept", "*/*")]), TIMEOUT)
        if exchange.answer.status >= 300:
            raise self._refusal(exchange.answer, exchange.read())
        return Lines(exchange, timeout)

    def watch(
        self, path: str, query: Query | None = None, version: str = "", patience: float = 30.0
    ) -> Watch:
        """Events from `version` on: the resourceVersion of a list.  See `Watch`."""
        return Watch(self, path, query or {}, version, patience)

    def upgrade(self, path: str, query: Query | None, headers: Mapping[str, str], timeout: float) -> Exchange:
        """A connection that speaks another protocol from here on; it is the caller's to close."""
        exchange = self._ask(self._call("GET", path, query, [*headers.items()]), timeout)
        if exchange.answer.status == 101:
            return exchange
        body = exchange.read()
        if exchange.answer.status >= 300:
            raise self._refusal(exchange.answer, body)
        raise ApiError(
            f"{self.access.url} doesn't change to WebSocket: does a proxy between prevent it?",
            exchange.answer.status,
        )

    def close(self) -> None:
        """Closes what is idle.  A request or stream in another thread ends by itself."""
        self._pool.close()

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(
        self,
        method: str,
        path: str,
        query: Query | None,
        headers: list[tuple[str, str]],
        body: bytes | None = None,
    ) -> Call:
        target = self.access.base + path + (f"?{urlencode(query)}" if query else "")
        verb = "WATCH" if query and "watch" in query else method
        with self._counting:
            self.counted[f"{verb} {_resource(path)}"] += 1
        return Call(method, path, target, tuple(headers), body)

    def _whole(self, call: Call, timeout: float) -> bytes:
        until = 0.0
        while True:
            exchange = self._ask(call, timeout)
            body = exchange.read()
            if exchange.answer.status < 300:
                return body
            until = until or exchange.until
            pause = _pause(exchange.answer)
            # With a pause the server says that it has done nothing: too many requests, or it is just starting.
            if pause is None or time.monotonic() + pause >= until:
                raise self._refusal(exchange.answer, body)
            time.sleep(pause)

    def _ask(self, call: Call, timeout: float) -> Exchange:
        """The head of the answer.  A credential that is refused is renewed once."""
        credentials = self.access.credentials
        shown = credentials.current()
        exchange = self._try(call, shown, timeout)
        if exchange is None:
            better = credentials.renewed(shown)
            if better is not None:
                shown = better
                exchange = self._try(call, shown, timeout)
        if exchange is None:
            message = f"{self.access.url} doesn't let us in: {credentials.advice(shown)}"
            raise Unauthorized(message, 401, "Unauthorized")
        return exchange

    def _try(self, call: Call, credential: Credential, timeout: float) -> Exchange | None:
        """None: the server doesn't take the credential.  The clock starts here: a person may have logged in before."""
        try:
            exchange = self._pool.exchange(call, credential, time.monotonic() + timeout)
        except Unauthorized:  # said in TLS
            return None
        if exchange.answer.status != 401:
            return exchange
        exchange.read()
        return None

    def _refusal(self, answer: Answer, body: bytes) -> ApiError:
        url = self.access.url
        if 300 <= answer.status < 400:
            host = urlsplit(answer.headers.get("location", "")).netloc.rpartition("@")[2]
            return ApiError(
                f"{url} sends us to {host or 'another page'}: is the server's URL right?", answer.status
            )
        return refusal(answer.status, answer.phrase, body, url)


def _pause(answer: Answer) -> float | None:
    """Seconds to wait before the same request can be sent again; None when that is no use."""
    after = answer.headers.get("retry-after", "")
    if after.isdecimal() and (answer.status == 429 or answer.status >= 500):
        return max(0.1, float(after))
    return None


def _resource(path: str) -> str:
    """`pods/log` from /api/v1/namespaces/me/pods/train-0/log."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else parts[:1]
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    return "/".join([*rest[:1], *rest[2:]])
