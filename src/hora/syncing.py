"""New code for a run that goes on: what `Run.sync` does."""

from __future__ import annotations

import os

from hora.errors import LeadGone, PlaceError, UsageError
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hora.agent.frames import Header
    from hora.places.code import Packed
    from hora.places.connection import Connection

PIECE = 256 << 10
LIMIT = 60.0  # seconds for the lead to answer


class Synced(Record):
    """What `Run.sync` has done."""

    attempt: int  # that has the code
    changed: bool  # False: it was the code that the run had already
    code: str = ""  # hash; empty where the folder is used in place
    before: str = ""  # that of the code until now
    summary: str = ""  # in words: code 3f2a9c0b12de (12 files, 34 KiB)
    notes: tuple[str, ...] = ()  # what was left out, and why


def existing(folder: str | os.PathLike[str] | None) -> str | None:
    """The folder that somebody named, as this computer knows it."""
    if folder is None:
        return None
    path = os.path.abspath(os.path.expanduser(os.fspath(folder)))
    if not os.path.isdir(path):
        what = "is no folder" if os.path.exists(path) else "is not there"
        raise UsageError(f"sync: {path} {what}; --code names the folder with the new code")
    return path


def sync(connection: Connection, fresh: Packed | str, restart: bool) -> Synced:
    """`fresh`: the archive, or where code is used in place the folder (empty: the one that is used already)."""
    try:
        if isinstance(fresh, str):
            return _in_place(connection, fresh, restart)
        return _send(connection, fresh, restart)
    finally:
        connection.close()


def _in_place(connection: Connection, folder: str, restart: bool) -> Synced:
    header, _ = connection.answer("sync", LIMIT, folder=folder, restart=restart)
    return Synced(header["attempt"], not restart)


def _send(connection: Connection, packed: Packed, restart: bool) -> Synced:
    size = len(packed.data)
    number = connection.ask("sync", hash=packed.hash, bytes=size, restart=restart)
    header = _answer(connection, number)
    if header["t"] == "send":
        for at in range(0, size, PIECE):
            connection.send({"t": "code", "id": number, "at": at}, packed.data[at : at + PIECE])
        header = _answer(connection, number)
    told: dict[str, Any] = {"code": packed.hash, "summary": packed.summary, "notes": packed.notes}
    if header["t"] == "unchanged":
        return Synced(0, False, before=packed.hash, **told)
    return Synced(header["attempt"], header["before"] != packed.hash, before=header["before"], **told)


def _answer(connection: Connection, number: int) -> Header:
    while True:
        found = connection.frames(LIMIT)
        for header, _ in found:
            if header.get("id") == number:
                if header["t"] == "error":
                    raise PlaceError(f"sync: {header['message']}")
                return header
        if not found:
            raise LeadGone(
                "the connection to the lead broke before it had all of the code: the run goes on with what it had; "
                "sync again"
            )
