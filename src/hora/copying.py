"""Files from and to the side of a rank: what `Run.copy_from` and `Run.copy_to` do."""

from __future__ import annotations

import os
import select

from hora.agent import copying, frames
from hora.errors import LeadGone, PlaceError
from hora.record import Record
from hora.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hora.places.connection import Connection


class Copied(Record):
    """What has come, whole."""

    files: int  # and links
    bytes: int
    notes: tuple[str, ...] = ()  # what was left out, and why


class _Copy(Session):
    """The stream of one copy; its other end is a child of the rank's agent."""

    def __init__(self, connection: Connection, label: str, kind: str, **told: Any) -> None:
        self._kind, self._told = kind, told
        super().__init__(connection, label, ())
        self._decoder = frames.Decoder()
        self.errors = b""

    def _ask(self, **told: Any) -> int:
        return self._connection.ask(self._kind, label=self.label, **self._told)

    def said(self, timeout: float | None = None) -> list[tuple[frames.Header, bytes]]:
        found: list[tuple[frames.Header, bytes]] = []
        for piece in self.read(timeout):
            if piece.error:
                self.errors += piece.data
            else:
                found += self._decoder.feed(piece.data)
        return found

    def broken(self) -> PlaceError:
        more = self.errors.decode("utf-8", "replace").strip()
        return PlaceError(f"cp: the copy broke off beside {self.label}" + (f": {more}" if more else ""))


def base_of(path: str) -> str:
    """The last part of a source's name, as cp sees it: `data` of data/, `.` of data/."""
    return os.path.basename(path.rstrip("/"))


def fetch(connection: Connection, label: str, source: str, target: str) -> Copied:
    taker = copying.Taker(target, base_of(source))
    try:
        with _Copy(connection, label, "get", path=source) as copy:
            while not taker.whole:
                for header, body in copy.said():
                    taker.frame(header, body)
                if copy.code is not None and not taker.whole:
                    raise copy.broken()
    except copying.CopyError as problem:
        raise PlaceError(f"cp: {problem}") from None
    except frames.FrameError as problem:
        raise PlaceError(f"cp: {label} said what makes no sense: {problem}") from None
    finally:
        taker.drop()  # of what is whole nothing goes
    return Copied(taker.files, taker.bytes, tuple(taker.notes))


def put(connection: Connection, label: str, source: str, target: str) -> Copied:
    source = os.path.expanduser(source)
    with _Copy(connection, label, "put", path=target, base=base_of(source)) as copy:
        try:
            for piece in copying.pieces(source):
                _write(copy, piece)
        except copying.CopyError as problem:
            raise PlaceError(f"cp: {problem}") from None
        except LeadGone:
            _done(copy.said(0.0))  # it may have said why
            raise
        while copy.code is None:
            found = _done(copy.said())
            if found is not None:
                return Copied(found["files"], found["bytes"], tuple(found["notes"]))
        raise copy.broken()


def _write(copy: _Copy, piece: bytes) -> None:
    _done(copy.said(0.0))
    while not copy.takes_more and copy.code is None:
        poll = select.poll()  # what comes may be nothing but the word that it has taken some
        poll.register(copy.fileno(), select.POLLIN)
        poll.poll()
        _done(copy.said(0.0))
    if copy.code is not None:
        raise copy.broken()
    copy.write(piece)


def _done(found: list[tuple[frames.Header, bytes]]) -> frames.Header | None:
    for header, _ in found:
        if header["t"] == "problem":
            raise PlaceError(f"cp: {header['text']}")
        if header["t"] == "done":
            return header
    return None
