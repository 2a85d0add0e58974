"""The job's code on this host: a folder that is used in place, or what the lead's archive holds.

The agent pulls the archive in pieces at its own pace: a link that breaks costs the piece under way, and a slow
host nobody but itself.  It keeps the archive, too, for a lead that has lost it.
"""

from __future__ import annotations

import json
import os

from hora.agent import archive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any, Callable, Dict, List, Optional

    from hora.agent.errands import Errands
    from hora.agent.frames import Header

    Done = Callable[[str], None]

CURRENT = "current"


class Code:
    """`folder` is where ranks start, empty where the job has no code; `number` counts what `hora sync` brought."""

    def __init__(self, errands: Errands, send: Callable[..., bool], base: str, in_place: str) -> None:
        self.folder = in_place
        self.number = 0
        self.hash = ""
        self._size = 0
        self._errands = errands
        self._send = send
        self._base = base
        self._fetch: Optional[Fetch] = None
        self._unpacking = False
        self._read_current()

    def _read_current(self) -> None:
        """What the agent before this one had, if it was killed."""
        try:
            with open(os.path.join(self._base, CURRENT), encoding="ascii") as file:
                known = json.load(file)
        except (OSError, ValueError):
            return
        folder = os.path.join(self._base, known["hash"])
        if os.path.isdir(folder):
            self.number, self.hash, self._size = known["number"], known["hash"], known["bytes"]
            self.folder = folder

    @property
    def known(self) -> Optional[List[Any]]:
        """For the hello."""
        return [self.number, self.hash, self._size] if self.hash else None

    # --- getting it ---

    def prepare(self, wanted: Optional[Dict[str, Any]], done: Done) -> None:
        """Have what the lead wants; `done` gets a sentence when that can't be."""
        if wanted is None or "hash" not in wanted:
            self._in_place(wanted or {})
            done("")
        elif wanted["hash"] == self.hash:
            self._forget_fetch()
            done(self._keep(wanted))
        elif self._fetch is not None and self._fetch.same_as(wanted):
            self._fetch.wanted, self._fetch.done = wanted, done
        else:
            self._begin(wanted, done)

    def _in_place(self, wanted: Dict[str, Any]) -> None:
        self.number = wanted.get("number", self.number)
        self.folder = wanted.get("folder") or self.folder

    def _begin(self, wanted: Dict[str, Any], done: Done) -> None:
        self._forget_fetch()
        try:
            os.makedirs(self._base, exist_ok=True)
            self._fetch = Fetch(self._base, wanted, done)
        except OSError as problem:
            done(f"code {wanted['hash']} can't be kept: {problem}")
            return
        self.ask()

    def _forget_fetch(self) -> None:
        if self._fetch is not None and not self._fetch.whole:
            self._fetch.drop()
        self._fetch = None

    def ask(self) -> None:
        """For the next piece; also when the link is there again."""
        fetch = self._fetch
        if fetch is not None and not fetch.whole:
            self._send({"t": "want", "hash": fetch.wanted["hash"], "at": fetch.at})

    def piece(self, header: Header, body: bytes) -> None:
        fetch = self._fetch
        if fetch is None or (header["hash"], header["at"]) != (fetch.wanted["hash"], fetch.at) or not body:
            return  # of an archive that nobody wants any more, or asked for twice around a break
        try:
            fetch.write(body)
        except OSError as problem:
            self._fetch = None
            fetch.drop()
            fetch.done(f"code {fetch.wanted['hash']} can't be kept: {problem}")
            return
        if not fetch.whole:
            self.ask()
            return
        self._send({"t": "want", "hash": header["hash"], "at": fetch.at})  # it may serve others
        if not self._unpacking:
            self._unpack(fetch)

    def _unpack(self, fetch: Fetch) -> None:
        base, digest, before = self._base, fetch.wanted["hash"], self.hash

        def work() -> Dict[str, Any]:
            from hora.agent import unpack

            return unpack.settle(base, digest, before)

        def done(found: Optional[Dict[str, Any]]) -> None:
            self._unpacking = False
            problem = "the process that unpacked the code was killed"
            if found is not None:
                problem = found.get("problem", "") or self._keep(fetch.wanted)
            if self._fetch is fetch:
                self._fetch = None
                fetch.done(problem)
            elif self._fetch is not None and self._fetch.whole:  # newer code came meanwhile
                self._unpack(self._fetch)

        self._unpacking = True
        self._errands.run("hora-unpack", work, done)

    def _keep(self, wanted: Dict[str, Any]) -> str:
        """It is here from now on, also for an agent that comes after this one; a sentence if it can't be."""
        self.number, self.hash, self._size = wanted["number"], wanted["hash"], wanted["bytes"]
        self.folder = os.path.join(self._base, self.hash)
        path = os.path.join(self._base, CURRENT)
        try:
            with open(path + ".new", "w", encoding="ascii") as file:
                json.dump({key: wanted[key] for key in ("number", "hash", "bytes")}, file)
            os.replace(path + ".new", path)
        except OSError as problem:
            return f"code {self.hash} can't be kept: {problem}"
        return ""

    # --- giving it back ---

    def give(self, header: Header) -> None:
        """A lead that was started anew has not the code that `hora sync` has brought."""
        try:
            kept = archive.Archive([os.path.join(self._base, f"{header['hash']}.tar.gz")])
            body = kept.read(header["at"])
        except OSError:
            body = b""
        self._send({"t": "code", "hash": header["hash"], "at": header["at"]}, body)


class Fetch:
    """An archive on its way here."""

    def __init__(self, base: str, wanted: Dict[str, Any], done: Done) -> None:
        self.wanted = wanted
        self.done = done
        self.at = 0
        self._path = os.path.join(base, f"{wanted['hash']}.tar.gz")
        self._file: IO[bytes] = open(self._path + ".part", "wb")  # noqa: SIM115 - open as long as it comes

    def same_as(self, wanted: Dict[str, Any]) -> bool:
        """The same code may have been packed another way."""
        return bool(all(self.wanted[key] == wanted[key] for key in ("hash", "bytes")))

    @property
    def whole(self) -> bool:
        return bool(self.at >= self.wanted["bytes"])

    def write(self, body: bytes) -> None:
        self._file.write(body)
        self.at += len(body)
        if self.whole:
            self._file.close()
            os.replace(self._path + ".part", self._path)

    def drop(self) -> None:
        self._file.close()
        try:
            os.unlink(self._path + ".part")
        except OSError:
            pass
