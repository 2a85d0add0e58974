"""`hora sync`: new code comes from a client in pieces, and all ranks start again with it as the next attempt."""

from __future__ import annotations

import hashlib
import os
import zlib

from hora import state
from hora.agent.lead import sentences

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple

    from hora.agent.frames import Header
    from hora.agent.lead.control import Client

LARGEST = 64 << 20  # bytes; the client has its own, smaller limit


class Syncing:
    """`due`: the ranks are being stopped so that they start again."""

    def __init__(self, lead: Any) -> None:
        self.lead = lead
        self.due = False
        self._uploads: Dict[Tuple[Client, int], Upload] = {}
        lead.control.handlers.update(sync=self._sync, code=self._piece)
        lead.code.tidy()

    # --- requests ---

    def _sync(self, client: Client, number: int, header: Header, body: bytes) -> None:
        problem = self._refusal(header)
        if problem:
            client.reply(number, "error", message=problem)
            return
        code, digest = self.lead.code, header.get("hash", "")
        known = digest in (code.hash, code.running) and not code.missing
        if digest and known and code.hash == (code.running or code.hash):
            if not header.get("restart"):
                client.reply(number, "unchanged", code=digest)
                return
            self._begin_again(client, number, code.hash)
        elif digest:
            try:
                self._uploads[client, number] = Upload(code.folder, digest, int(header["bytes"]))
            except OSError as error:
                client.reply(number, "error", message=f"the lead can't keep the code: {error}")
                return
            client.reply(number, "send")
        else:
            self._in_place(client, number, header)

    def _refusal(self, header: Header) -> str:
        lead = self.lead
        ending = lead.asked_to_stop is not None or lead.exit_code is not None
        if lead.phase in state.ENDED or ending or lead.ranks_decided:
            return f"it is too late for new code: the run {lead.phase}: {lead.reason}"
        if header.get("hash") and lead.config.get("one_machine"):
            return "this run uses its code in place: there is nothing to send"
        if int(header.get("bytes", 0)) > LARGEST:
            return f"the code is too large: {LARGEST >> 20} MiB are the most"
        return ""

    def _in_place(self, client: Client, number: int, header: Header) -> None:
        code, before = self.lead.code, self.lead.code.hash
        if not code.hash and not header.get("restart"):
            try:
                code.replace("", 0, header.get("folder", ""))
            except OSError as error:
                client.reply(number, "error", message=f"the lead can't keep that there is new code: {error}")
                return
        self._begin_again(client, number, before)

    def _piece(self, client: Client, number: int, header: Header, body: bytes) -> None:
        upload = self._uploads.get((client, number))
        if upload is None:
            return  # refused before
        try:
            whole = upload.take(header["at"], body)
        except (OSError, ValueError, zlib.error) as problem:
            self._drop(client, number)
            client.reply(number, "error", message=f"the code did not arrive well: {problem}")
            return
        if whole:
            del self._uploads[client, number]
            self._arrived(client, number, upload)

    def _arrived(self, client: Client, number: int, upload: Upload) -> None:
        problem = self._refusal({})  # the run may have begun to end meanwhile
        if problem:
            upload.drop()
            client.reply(number, "error", message=problem)
            return
        code = self.lead.code
        before, found = code.running or code.hash, code.missing and code.hash == upload.hash
        try:
            upload.keep(code.path(upload.hash))
            if found:  # the hosts that wait for it go on
                code.found(upload.size)
                attempt = self.lead.attempt.number or 1
                client.reply(number, "synced", code=code.hash, before=before, attempt=attempt)
                return
            code.replace(upload.hash, upload.size)
        except OSError as error:
            upload.drop()
            client.reply(number, "error", message=f"the lead can't keep the code: {error}")
            return
        self._begin_again(client, number, before)

    def left(self, client: Client) -> None:
        for owner, number in list(self._uploads):
            if owner is client:
                self._drop(owner, number)

    def _drop(self, client: Client, number: int) -> None:
        self._uploads.pop((client, number)).drop()

    # --- all ranks again ---

    def _begin_again(self, client: Client, number: int, before: str) -> None:
        lead = self.lead
        attempt = lead.attempt.number + 1
        client.reply(number, "synced", code=lead.code.hash, before=before, attempt=attempt)
        if lead.phase not in (state.QUEUED, state.GATHERING):  # else the first attempt has it
            self.begin()

    def begin(self) -> None:
        """Not charged to `restarts`: nothing has failed."""
        lead = self.lead
        if lead.phase == state.CHECKING and not all(link.prepared for link in lead.hosts.values()):
            self._again()
            return
        self.due = True  # a check of the hosts, or a new lead's questions, come to their end first
        if lead.phase in (state.STARTING, state.RUNNING) and not lead.rebuild.going_on:
            lead.stop_ranks(sentences.new_code(lead.code.hash), lead.plan.limits.grace)

    @property
    def stale(self) -> bool:
        """The ranks that a new lead has found have other code than the one before it had been brought."""
        code = self.lead.code
        return self.due or (bool(code.hash) and code.hash != code.running)

    def take_over(self) -> bool:
        """Nothing is left of the ranks, or they never started; whether they are to start again."""
        if self.due:
            self._again()
            return True
        return False

    def _again(self) -> None:
        self.due = False
        self.lead.telling.say(sentences.again_with(self.lead.code.hash, self.lead.attempt.number + 1))
        self.lead.next_attempt()


class Upload:
    """An archive that a client sends.  What is not whole, or has another hash, never gets its name."""

    def __init__(self, folder: str, digest: str, size: int) -> None:
        if not digest.isalnum() or size <= 0:
            raise ValueError("a sync names a hash and a size")
        os.makedirs(folder, exist_ok=True)
        self.hash = digest
        self.size = size
        self.at = 0
        self._path = os.path.join(folder, f"{digest}.{os.urandom(4).hex()}.upload")
        self._file = open(self._path, "wb")  # noqa: SIM115 - open as long as it comes
        self._unpacking = zlib.decompressobj(wbits=31)
        self._digest = hashlib.sha256()

    def take(self, at: int, body: bytes) -> bool:
        """Whether it is all here; ValueError when it isn't what was announced."""
        if at != self.at or at + len(body) > self.size:
            raise ValueError(f"{len(body)} bytes at {at} don't follow {self.at} of {self.size}")
        self._file.write(body)
        self.at += len(body)
        while body:  # in pieces: what is packed may be a thousand times as long
            self._digest.update(self._unpacking.decompress(body, 1 << 20))
            body = self._unpacking.unconsumed_tail
        if self.at < self.size:
            return False
        found = self._digest.hexdigest()[: len(self.hash)]
        if found != self.hash:
            raise ValueError(f"its hash is {found}, not {self.hash}")
        return True

    def keep(self, path: str) -> None:
        self._file.close()
        os.replace(self._path, path)

    def drop(self) -> None:
        self._file.close()
        try:
            os.unlink(self._path)
        except OSError:
            pass
