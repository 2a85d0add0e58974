"""What the lead keeps of the output: a copy of each host's journal, and an index that merges them.

How it is read is told in `kept`.
"""

from __future__ import annotations

import os
from collections import deque
from operator import itemgetter

from hora.agent import frames
from hora.agent.journal import Journal
from hora.agent.lead.kept import RECORD, Entry, Kept
from hora.agent.lead.roll import Roll
from hora.scene import LAUNCHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Deque, Dict, Iterator, List, Optional, Sequence, Tuple

OUTPUT = "o"  # the type of a frame with a rank's output
NEWEST = 128  # records of each rank that are known by number
FURTHER = 1 << 18  # records to look through behind those, where a rank's lines come in many pieces
_WHO = itemgetter(4, 5)  # member and rank of a record


class Store(Kept):
    """The lead writes with `receive`."""

    def __init__(self, folder: str, members: Optional[List[str]] = None, output: int = 0) -> None:
        self.output = output
        self.on_problem: Callable[[OSError], None] = lambda problem: None  # nothing more can be kept
        self.on_gap: Callable[[str, int], None] = lambda host, length: None
        self._journals: Dict[int, Journal] = {}
        self._unkept: Dict[int, int] = {}  # where each host's journal is that can't be kept any more
        self._decoders: Dict[int, frames.Decoder] = {}
        self._members = members or []
        self._newest: Dict[Tuple[int, int], Deque[int]] = {}  # by member and rank
        os.makedirs(folder, exist_ok=True)
        super().__init__(folder)
        self._begun = self.count  # those before are not known by number

    def _open_index(self) -> int:
        return os.open(os.path.join(self.folder, "index"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _open_roll(self) -> Roll:
        names = os.path.join(self.folder, "names")
        return Roll(names, self._members, lambda problem: self.on_problem(problem))

    def _copy(self, number: int) -> Journal:
        return self.journal(number)

    def journal(self, number: int) -> Journal:
        journal = self._journals.get(number)
        if journal is None:
            journal = self._journals[number] = Journal(self.place(number), limit=self.output or None)
            journal.on_drop = lambda start, end: self.on_gap(self._roll.hosts[number], end - start)
        return journal

    # --- writing ---

    def settle(self, host: str, home: str) -> None:
        """Before a host's journal comes: go on with the copy of it, or begin one if it is another journal."""
        known = self._roll.settle(host, home)
        number = self._roll.host(host)
        if known and number not in self._decoders and self.journal(number).end > self.journal(number).start:
            self.mend(host)

    def end(self, host: str) -> int:
        """How much of the host's journal is here."""
        number = self._roll.host(host)
        return max(self.journal(number).end, self._unkept.get(number, 0))

    def receive(self, host: str, at: int, data: bytes) -> List[Tuple[frames.Header, bytes]]:
        """Append a piece of a host's journal; returns its events, the output goes into the index."""
        number = self._roll.host(host)
        if at != self.end(host):
            raise ValueError(f"{host} sent its journal from {at}, expected {self.end(host)}")
        kept = self._keep(number, data)
        decoder = self._decoders.setdefault(number, frames.Decoder(at, OUTPUT))
        events: List[Tuple[frames.Header, bytes]] = []
        records: List[bytes] = []
        for header, body, start, length in decoder.feed_at(data):
            if header["t"] != OUTPUT:
                events.append((header, body))
            elif kept:
                records.append(self._record(header, number, start, length))
        if records:
            self._add(records)
        return events

    def _keep(self, number: int, data: bytes) -> bool:
        """Whether it could be written.  If not, this copy ends here; events are heard all the same."""
        journal = self.journal(number)
        if number not in self._unkept:
            try:
                journal.append(data)
                return True
            except OSError as problem:
                self._unkept[number] = journal.end
                self.on_problem(problem)
        self._unkept[number] += len(data)
        return False

    def _add(self, records: List[bytes]) -> None:
        try:
            os.pwrite(self._index, b"".join(records), self.count * RECORD.size)
        except OSError as problem:
            self.on_problem(problem)
            return
        self._counted(records)

    def _counted(self, records: List[bytes]) -> None:
        for fields in RECORD.iter_unpack(b"".join(records)):
            who = _WHO(fields)
            known = self._newest.get(who)
            if known is None:
                known = self._newest[who] = deque(maxlen=NEWEST)
            known.append(self.count)
            self.count += 1

    def _record(self, header: frames.Header, host: int, offset: int, length: int) -> bytes:
        member = self._roll.member(header["m"])
        return RECORD.pack(header["at"], offset, length, host, member, header["r"], header["a"])

    def mend(self, host: str) -> List[frames.Header]:
        """Take up the copy of a host's journal where a killed lead left it: index what it had received but
        not indexed, keep what is half a frame.  Returns all events of that journal."""
        number = self._roll.host(host)
        journal = self.journal(number)
        self._drop_unwritten()
        indexed = -1
        for entry in self.backwards():
            if entry.host == number:
                indexed = entry.offset
                break
        records, events, end = [], [], journal.start
        for start, until in journal.stretches():
            end = self._first_frame(number, start)
            for _offset, header, body, length in journal.frames(end, until):
                end = body + length
                if header["t"] != OUTPUT:
                    events.append(header)
                elif body > indexed:
                    records.append(self._record(header, number, body, length))
        os.pwrite(self._index, b"".join(records), self.count * RECORD.size)
        self._counted(records)
        self._decoders[number] = self._at_half_a_frame(journal, end)
        return events

    def _drop_unwritten(self) -> None:
        """What a power cut has filled the end of the index with: no record is of no bytes or of nobody."""
        hosts, members = len(self._roll.hosts), len(self._roll.members)
        while self.count:
            last = self.entries(self.count - 1, 1)[0]
            if last.length and last.host < hosts and last.member < members:
                break
            self.count -= 1
        os.ftruncate(self._index, self.count * RECORD.size)

    def _at_half_a_frame(self, journal: Journal, end: int) -> frames.Decoder:
        """A decoder that has what is there of the frame at `end`; what can't become one is cut off."""
        decoder = frames.Decoder(end, OUTPUT)
        try:
            for _ in decoder.feed(journal.read_exactly(end, journal.end - end) or b""):
                raise frames.FrameError(f"{journal.folder} holds a frame after its last one")
        except frames.FrameError:
            journal.cut(end)
            return frames.Decoder(end, OUTPUT)
        return decoder

    def _first_frame(self, number: int, start: int) -> int:
        """Our copy is cut into segments where its pieces came, not between frames: once the first segments
        are dropped, the index has to say where a frame ends."""
        if start != self.journal(number).start or start == 0:
            return start
        at = 0
        while at < self.count:
            entries = self.entries(at)
            for entry in entries:
                if entry.host == number and entry.offset + entry.length >= start:
                    return entry.offset + entry.length
            at += len(entries)
        return start

    def gap(self, host: str, to: int) -> None:
        """Bytes that the host had to drop before they could be sent."""
        number = self._roll.host(host)
        journal = self.journal(number)
        self.on_gap(host, to - journal.end)
        journal.jump(to)
        self._decoders[number] = frames.Decoder(to, OUTPUT)

    # --- reading ---

    def backwards(self) -> Iterator[Entry]:
        """From the newest to the oldest."""
        end = self.count
        while end > 0:
            first = max(0, end - 256)
            yield from reversed(self.entries(first, end - first))
            end = first

    def last_lines(
        self, label: str, most: int, attempt: Optional[int] = None, limit: int = 1 << 20
    ) -> List[bytes]:
        """The last lines of one rank, newest last; a monster line is cut to its end."""
        parts: List[bytes] = []
        size = lines = 0
        for entry in self._of(label):
            if attempt is not None and entry.attempt != attempt:
                continue
            body = self.body(entry)
            if body is None:
                break
            parts.append(body)
            size += len(body)
            lines += body.count(b"\n")
            if lines > most or size > limit:
                break
        text = b"".join(reversed(parts))[-limit:]
        return text.splitlines()[-most:] if text else []

    def _of(self, label: str) -> Iterator[Entry]:
        """The records of one rank, from the newest on, as far as can be looked: when a thousand ranks fail
        together, each of them is asked for."""
        member, _, number = label.rpartition("/")
        if member not in self._roll.members:
            return
        key = self._roll.member(member), LAUNCHER if number == "launcher" else int(number)
        known: Sequence[int] = self._newest.get(key, ())
        for at in reversed(known):
            yield from self.entries(at, 1)
        yield from self._before(known[0] if len(known) == NEWEST else self._begun, key)

    def _before(self, end: int, key: Tuple[int, int]) -> Iterator[Entry]:
        """What is not known by number: records of a rank that has many, and those of an earlier lead."""
        first, step = max(0, end - FURTHER), 4096
        for upper in range(end, first, -step):
            lower = max(first, upper - step)
            data = os.pread(self._index, (upper - lower) * RECORD.size, lower * RECORD.size)
            records = [Entry(*fields) for fields in RECORD.iter_unpack(data) if _WHO(fields) == key]
            yield from reversed(records)

    def close(self) -> None:
        for journal in self._journals.values():
            journal.close()
        super().close()
