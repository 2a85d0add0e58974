"""Answers that go on: lines of a log, events of a watch.  Both can be closed from any thread."""

from __future__ import annotations

import json
import os
import threading
import time

from hora.places.kubernetes.api.errors import ApiError, Expired, Unreachable, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from hora.places.kubernetes.api.client import Api
    from hora.places.kubernetes.api.pool import Exchange

SERVER_ENDS_AFTER = 240  # seconds, and up to a minute more: many clients don't come back at once
GRACE = 20.0  # seconds after which a watch that has not been ended is dead
PAUSES = (0.1, 5.0)  # before the next attempt: the first and the longest


class Lines:
    """Lines with their end, as a file has them; the last one may lack it."""

    def __init__(self, exchange: Exchange, timeout: float | None) -> None:
        self._exchange = exchange
        self._timeout = timeout
        self._ready: list[bytes] = []  # last first
        self._begun: list[bytes] = []  # parts of the line that has not ended
        self._over = False
        self._closed = False
        self._inside = threading.RLock()  # held while reading: who closes waits for the reader to leave

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> bytes:
        with self._inside:
            while not self._ready and not self._over:
                self._read()
            if self._closed or not self._ready:
                raise StopIteration
            return self._ready.pop()

    def close(self) -> None:
        self._closed = True
        if not self._over:
            self._exchange.wire.wake()
        with self._inside:
            if not self._over:
                self._over = True
                self._exchange.wire.close()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        try:
            data = self._exchange.piece(None if self._timeout is None else time.monotonic() + self._timeout)
        except BaseException as problem:
            self._over = True
            self._exchange.wire.close()
            if self._closed and isinstance(problem, Unreachable):
                return
            raise
        if not data:
            self._over = True
            self._exchange.done()
            self._ready = [line for line in [b"".join(self._begun)] if line]
            return
        first, *others = data.split(b"\n")
        self._begun.append(first)
        if others:
            lines = [b"".join(self._begun), *others[:-1]]
            self._ready = [line + b"\n" for line in reversed(lines)]
            self._begun = [others[-1]]


class Watch:
    """(type, object) pairs: ADDED, MODIFIED, DELETED.

    The server ends every watch after some minutes, and connections break: it is then taken up again where it
    was, for up to `patience` seconds without an answer.  Where it was is the last resourceVersion seen.
    `Expired` says that the server knows that one no longer: list, and watch from there.  Without a version to
    start from nothing can be taken up: the end of the first connection is `Expired` too.
    """

    def __init__(
        self, api: Api, path: str, query: Mapping[str, str | int], version: str, patience: float
    ) -> None:
        self.version = version or str(query.get("resourceVersion", ""))
        self._api = api
        self._path = path
        self._query = query
        self._patience = patience
        self._resumable = bool(self.version)
        self._begun = False
        self._lines: Lines | None = None
        self._failing_since: float | None = None
        self._pause = 0.0
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> tuple[str, dict[str, Any]]:
        while not self._closed.is_set():
            try:
                line = self._next_line()
            except Unreachable as problem:
                self._lose(problem)
                continue
            event = None if line is None else self._event(line)
            if event is not None:
                return event
        raise StopIteration

    def close(self) -> None:
        self._closed.set()
        self._drop()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next_line(self) -> bytes | None:
        lines = self._lines
        if lines is None:
            lines = self._open()
        line = next(lines, None)
        if line is None:
            self._drop()
            # A server that ends watches at once, again and again, is not to be asked without a pause.
            self._rest()
            return None
        self._failing_since, self._pause = None, 0.0
        return line

    def _open(self) -> Lines:
        if self._begun and not self._resumable:
            raise Expired(
                f"the watch of {self._path} ended, and had no version to go on from", 410, "Expired"
            )
        seconds = SERVER_ENDS_AFTER + os.urandom(1)[0] // 4
        query = {**self._query, "watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": seconds}
        if self.version:
            query["resourceVersion"] = self.version
        try:
            lines = self._api.lines(self._path, query, timeout=seconds + GRACE)
        except ApiError as problem:
            if problem.status == 429 or problem.status >= 500:
                raise Unreachable(str(problem)) from problem
            raise
        self._begun = True
        with self._lock:
            self._lines = lines
        if self._closed.is_set():
            self._drop()
        return lines

    def _event(self, line: bytes) -> tuple[str, dict[str, Any]] | None:
        """None for what only says where we are."""
        try:
            event = json.loads(line)
            kind, found = str(event["type"]), event["object"]
        except (ValueError, KeyError, TypeError):  # the connection ended within a line
            self._drop()
            self._rest()
            return None
        if kind == "ERROR":
            self._drop()
            raise refusal(int(found.get("code") or 500), "", json.dumps(found).encode(), self._api.access.url)
        version = (found.get("metadata") or {}).get("resourceVersion")
        if kind == "BOOKMARK":
            self._resumable = True
        if version and self._resumable:
            self.version = version
        return None if kind == "BOOKMARK" else (kind, found)

    def _lose(self, problem: Unreachable) -> None:
        self._drop()
        if self._closed.is_set():
            return
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since >= self._patience:
            raise problem
        if self._patience <= 0:
            raise problem
        self._rest()

    def _rest(self) -> None:
        """Longer each time, until a line comes.  None before the first attempt to go on."""
        self._closed.wait(self._pause)
        first, longest = PAUSES
        self._pause = min(longest, max(first, self._pause * 2))

    def _drop(self) -> None:
        with self._lock:
            lines, self._lines = self._lines, None
        if lines is not None:
            lines.close()
