"""Connections to one server, kept open between requests."""

from __future__ import annotations

import threading
import time

from hora.places.kubernetes.api import wire
from hora.places.kubernetes.api.dial import client_context, dial, explain
from hora.places.kubernetes.api.wire import Answer, Wire
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    from hora.places.kubernetes.api.access import Access
    from hora.places.kubernetes.api.credentials import Credential

IDLE_SECONDS = 60.0  # balancers forget quiet connections without a word
MOST_IDLE = 16
LAST_WORDS = 1.0  # seconds


class Call(Record):
    """A request as it will be sent, but for the credentials."""

    method: str
    path: str  # without base and query: for messages
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None

    @property
    def doing(self) -> str:
        return f"{self.method} {self.path}"

    def __repr__(self) -> str:
        return f"Call({self.doing!r})"  # the body may be that of a Secret


class Exchange:
    """An answer whose head is here, on its connection.  It is to be read to the end, or closed."""

    def __init__(self, pool: Pool, call: Call, taken: Wire, answer: Answer, until: float) -> None:
        self.wire = taken
        self.answer = answer
        self.until = until
        self._pool = pool
        self._call = call

    def piece(self, until: float | None) -> bytes:
        """The next part of the body; nothing at its end."""
        try:
            return self.answer.piece(until)
        except OSError as problem:
            raise explain(problem, self._pool.access, self._call.doing) from problem

    def read(self) -> bytes:
        parts = []
        try:
            while data := self.piece(self.until):
                parts.append(data)
        except BaseException:
            self.wire.close()
            raise
        self.done()
        return b"".join(parts)

    def done(self) -> None:
        """The connection can serve others, if the answer has been read to its end."""
        if self.answer.reusable:
            self._pool.give(self.wire)
        else:
            self.wire.close()


class Pool:
    def __init__(self, access: Access) -> None:
        self.access = access
        self._lock = threading.Lock()
        self._idle: list[Wire] = []
        self._shown: tuple[str, str] | None = None  # the certificate and key that `_context` shows
        self._context: ssl.SSLContext | None = None
        self._closed = False

    def exchange(self, call: Call, credential: Credential, until: float) -> Exchange:
        """Sends; returns when the answer's head is here."""
        context = self._context_for(credential)
        data = self._bytes(call, credential)
        used = self._take()
        if used is not None:
            answer = self._on_used(used, call, data, until)
            if answer is not None:
                return Exchange(self, call, used, answer, until)
        fresh = Wire(dial(self.access, context, until))
        try:
            return Exchange(self, call, fresh, _converse(fresh, data, until), until)
        except OSError as problem:
            fresh.close()
            raise explain(problem, self.access, call.doing) from problem
        except BaseException:
            fresh.close()
            raise

    def give(self, returned: Wire) -> None:
        returned.used = time.monotonic()
        with self._lock:
            if not self._closed and len(self._idle) < MOST_IDLE and self._idle_is_of(returned):
                self._idle.append(returned)
                return
        returned.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._drop_idle()

    def _on_used(self, used: Wire, call: Call, data: bytes, until: float) -> Answer | None:
        """None: it turned out to be closed, and the request may be sent again."""
        sent = False
        try:
            used.send(data, until)
            sent = True
            return Answer(used, until)
        except OSError as problem:
            used.close()
            # What was not sent whole can't have been carried out.
            again = not sent or (call.method == "GET" and not used.heard)
            if again and not isinstance(problem, TimeoutError):
                return None
            raise explain(problem, self.access, call.doing) from problem
        except BaseException:
            used.close()
            raise

    def _take(self) -> Wire | None:
        with self._lock:
            while self._idle:
                found = self._idle.pop()
                if time.monotonic() - found.used < IDLE_SECONDS and found.quiet():
                    return found
                found.close()
        return None

    def _context_for(self, credential: Credential) -> ssl.SSLContext | None:
        if self.access.scheme == "http":
            return None
        shown = (credential.certificate, credential.key)
        with self._lock:
            if self._context is None or shown != self._shown:
                self._drop_idle()  # they are somebody else's
                self._context, self._shown = client_context(self.access.tls, credential), shown
            return self._context

    def _idle_is_of(self, returned: Wire) -> bool:
        """A connection that was made with an earlier certificate isn't kept."""
        return self._context is None or getattr(returned.sock, "context", self._context) is self._context

    def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for each in idle:
            each.close()

    def _bytes(self, call: Call, credential: Credential) -> bytes:
        headers = [("Host", self.access.address), ("User-Agent", "hora"), *self.access.headers, *call.headers]
        if credential.authorization:
            headers.append(("Authorization", credential.authorization))
        return wire.request(call.method, call.target, headers, call.body)


def _converse(fresh: Wire, data: bytes, until: float) -> Answer:
    try:
        fresh.send(data, until)
    except TimeoutError:
        raise
    except OSError as problem:
        # A server that hangs up while we speak has often said why: too large, or a certificate it doesn't like.
        try:
            return Answer(fresh, min(until, time.monotonic() + LAST_WORDS))
        except OSError as words:
            raise (words if getattr(words, "reason", None) else problem) from None
    return Answer(fresh, until)
