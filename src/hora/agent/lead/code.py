"""The job's code, as the lead has it: given with the run or brought by `hora sync`; agents pull it from here."""

from __future__ import annotations

import json
import os
from collections import deque

from hora import state
from hora.agent.archive import Archive
from hora.agent.lead import documents, sentences
from hora.agent.lead.verdict import EXIT_HORA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Deque, Dict, Optional, Set, Tuple

    from hora.agent.frames import Header
    from hora.agent.lead.hosts import HostLink

AT_ONCE = 64  # pieces under way: a thousand hosts must not fill our memory
CURRENT = "current.json"


class Code:
    """`config`: `code` {hash, bytes, parts, told: which code it is, in words}, where the place ships it; without
    parts a client sends it.

    `number` counts what `hora sync` has brought; `running` is the hash that the ranks of this attempt have.
    """

    def __init__(self, lead: Any) -> None:
        self.lead = lead
        self.folder = os.path.join(lead.folder, "code")
        self.number = 0
        self.hash = ""
        self.size = 0
        self.running = ""
        self.in_place = ""  # another folder than at first, where code is used in place
        self.archive: Optional[Archive] = None  # None: there is no code, or it must be had from a host
        self._queue: Deque[Tuple[HostLink, int]] = deque()
        self._serving: Set[str] = set()  # hosts to which a piece is on its way
        self._source: Optional[HostLink] = None  # the host that gives us what a lead before us had
        given = lead.config.get("code")
        if given:
            self.hash, self.size = given["hash"], given["bytes"]
            self.archive = Archive(given["parts"]) if given["parts"] else None
        self._read_kept()

    def begin(self) -> None:
        """The first line of a run that ships code tells which."""
        if self.hash and not self.number and self.lead.config["code"].get("told"):
            self.lead.telling.say(self.lead.config["code"]["told"])

    # --- what there is ---

    def path(self, digest: str) -> str:
        return os.path.join(self.folder, f"{digest}.tar.gz")

    def _read_kept(self) -> None:
        """What `hora sync` brought to the lead before this one, on the same folder."""
        kept: Any = documents.read_json(os.path.join(self.folder, CURRENT))
        if kept is None:
            return
        self.number, self.hash, self.size = kept["number"], kept["hash"], kept["bytes"]
        self.in_place = kept["folder"]
        self.archive = None
        if self.hash and os.path.exists(self.path(self.hash)):
            self.archive = Archive([self.path(self.hash)])

    def replace(self, digest: str, size: int, in_place: str = "") -> None:
        """New code, which lies at `path(digest)`, or in another folder.  OSError: the old stays."""
        before = self.hash
        self._keep(self.number + 1, digest, size, in_place or self.in_place)
        self._queue.clear()
        if before != digest:
            _forget(self.path(before))

    def found(self, size: int) -> None:
        """What nobody here had lies at its path: a client has sent it."""
        self._keep(self.number, self.hash, size)
        for link in self.lead.hosts.values():  # one that waits asks for as much as this archive has
            if link.up and not link.prepared and self.lead.phase == state.CHECKING:
                self.lead.preparing.prepare(link)
        self._serve()

    def _keep(self, number: int, digest: str, size: int, in_place: str = "") -> None:
        os.makedirs(self.folder, exist_ok=True)
        archive = Archive([self.path(digest)]) if digest else None
        kept = {"number": number, "hash": digest, "bytes": size, "folder": in_place}
        documents.write_atomically(os.path.join(self.folder, CURRENT), json.dumps(kept).encode())
        self.number, self.hash, self.size, self.in_place = number, digest, size, in_place
        self.archive, self._source = archive, None

    def tidy(self) -> None:
        """What clients had begun to send to a lead that was killed."""
        if os.path.isdir(self.folder):
            for name in os.listdir(self.folder):
                if name.endswith(".upload"):
                    _forget(os.path.join(self.folder, name))

    @property
    def order(self) -> Optional[Dict[str, Any]]:
        """What a `prepare` says of it."""
        if self.hash:
            return {"number": self.number, "hash": self.hash, "bytes": self.size}
        return {"number": self.number, "folder": self.in_place} if self.number else None

    @property
    def told(self) -> str:
        """For the status: that of the ranks, or before them what they will have."""
        return self.running or self.hash

    # --- giving it to hosts ---

    def wanted(self, link: HostLink, header: Header) -> None:
        """A host asks for its next piece; with that it says that it has the last one."""
        self._serving.discard(link.name)
        if header["hash"] == self.hash:
            self._progress(link, header["at"])
            if header["at"] < self.size:
                self._queue.append((link, header["at"]))
        self._serve()

    def down(self, link: HostLink) -> None:
        """It asks again when it is back."""
        self._serving.discard(link.name)
        self._queue = deque(item for item in self._queue if item[0] is not link)
        if self._source is link:
            self._source = None
            self._look_for_source()
        self._serve()

    def _serve(self) -> None:
        while self.archive is not None and self._queue and len(self._serving) < AT_ONCE:
            link, at = self._queue.popleft()
            try:
                piece = self.archive.read(at)
            except OSError as problem:
                self.lead.fail(f"the code can't be read any more: {problem}", state.ORIGIN_HORA, EXIT_HORA)
                return
            if link.ask({"t": "code", "hash": self.hash, "at": at}, piece):
                self._serving.add(link.name)

    def _progress(self, link: HostLink, at: int) -> None:
        if self.lead.phase != state.CHECKING:
            return
        for member in link.members:
            self.lead.board.note(member, sentences.code_on_its_way(at, self.size))
        self._say()

    def _say(self) -> None:
        left = [other for other in self.lead.hosts.values() if not other.prepared]
        count = len(self.lead.hosts)
        self.lead.set_phase(state.CHECKING, sentences.sending_code(self.hash, count - len(left), count))

    def arrived_at(self, link: HostLink, digest: str) -> None:
        """The host is prepared."""
        for member in link.members:
            self.lead.board.note(member, "")
        link.code = [self.number, digest, self.size] if digest else None
        if self.hash and self.lead.phase == state.CHECKING:
            self._say()

    # --- getting it back from hosts ---

    def hello(self, link: HostLink) -> None:
        """A host that has newer code than we have: the lead before us had it, and is gone with its folder."""
        if link.code is not None and link.code[0] > self.number:
            self.number, self.hash, self.size = link.code
            self.archive = self._source = None
        self._look_for_source()

    def _look_for_source(self) -> None:
        if self.archive is not None or self._source is not None or not self.hash:
            return
        for link in self.lead.hosts.values():
            if link.up and link.code is not None and link.code[1] == self.hash:
                self._source = link
                link.ask({"t": "want", "hash": self.hash, "at": 0})
                return

    def arrived(self, link: HostLink, header: Header, body: bytes) -> None:
        """A piece from a host."""
        if link is not self._source or header["hash"] != self.hash:
            return
        if not body:  # it has the folder, but no archive any more
            link.code, self._source = None, None
            self._look_for_source()
            return
        try:
            end = self._write(header["at"], body)
        except OSError as problem:
            self.lead.cannot_keep(problem)
            return
        if end < self.size:
            link.ask({"t": "want", "hash": self.hash, "at": end})
        self._serve()

    def _write(self, at: int, body: bytes) -> int:
        os.makedirs(self.folder, exist_ok=True)
        path = self.path(self.hash)
        with open(path + ".part", "r+b" if at else "wb") as file:
            file.seek(at)
            file.write(body)
        if at + len(body) >= self.size:
            os.replace(path + ".part", path)
            self._keep(self.number, self.hash, self.size)
        return at + len(body)

    @property
    def missing(self) -> bool:
        """Nobody who is here has it."""
        return bool(self.hash) and self.archive is None


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
