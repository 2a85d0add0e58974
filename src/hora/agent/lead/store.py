"""What the lead keeps of the output: a copy of each host's journal, and an index that merges them.

The index is the one order of the run: record N says which bytes of which journal came N-th.  A reader's
place is a number, so it can stop and go on, during the run and long after it.
"""

from __future__ import annotations

import os
import struct

from hora.agent import frames
from hora.agent.journal import Journal
from hora.agent.lead.roll import Roll
from hora.record import Record
from hora.scene import LAUNCHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterator, List, Optional, Tuple

OUTPUT = "o"  # the type of a frame with a rank's output
_RECORD = struct.Struct("<dQIHHhH")


class Entry(Record):
    """Some bytes that one rank wrote."""

    time: float
    offset: int  # of the bytes in the host's journal
    length: int
    host: int
    member: int
    rank: int  # in its member
    attempt: int


class Store:
    """The lead writes with `receive`; anybody reads.  `roll` gives the numbers their names."""

    def __init__(self, folder: str, members: Optional[List[str]] = None, output: int = 0) -> None:
        self.folder = folder
        self.output = output
        self.on_problem: Callable[[OSError], None] = lambda problem: None  # nothing more can be kept
        self.on_gap: Callable[[str, int], None] = lambda host, length: None
        self._journals: Dict[int, Journal] = {}
        self._unkept: Dict[int, int] = {}  # where each host's journal is that can't be kept any more
        self._decoders: Dict[int, frames.Decoder] = {}
        os.makedirs(folder, exist_ok=True)
        names = os.path.join(folder, "names")
        self._roll = Roll(names, members or [], lambda problem: self.on_problem(problem))
        self._index = os.open(os.path.join(folder, "index"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.count = os.fstat(self._index).st_size // _RECORD.size

    def journal(self, number: int) -> Journal:
        journal = self._journals.get(number)
        if journal is None:
            path = os.path.join(self.folder, "hosts", str(number))
            journal = self._journals[number] = Journal(path, limit=self.output or None)
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
            os.pwrite(self._index, b"".join(records), self.count * _RECORD.size)
        except OSError as problem:
            self.on_problem(problem)
            return
        self.count += len(records)

    def _record(self, header: frames.Header, host: int, offset: int, length: int) -> bytes:
        member = self._roll.member(header["m"])
        return _RECORD.pack(header["at"], offset, length, host, member, header["r"], header["a"])

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
        os.pwrite(self._index, b"".join(records), self.count * _RECORD.size)
        self.count += len(records)
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
        os.ftruncate(self._index, self.count * _RECORD.size)

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

    def refresh(self) -> int:
        """Number of records, for a reader beside the lead."""
        count = os.fstat(self._index).st_size // _RECORD.size
        if count != self.count:
            self.count = count
            self._roll.load()
        return count

    def entries(self, first: int, most: int = 256) -> List[Entry]:
        most = max(0, min(most, self.count - first))
        data = os.pread(self._index, most * _RECORD.size, first * _RECORD.size)
        return [
            Entry(*fields) for fields in _RECORD.iter_unpack(data[: len(data) // _RECORD.size * _RECORD.size])
        ]

    def body(self, entry: Entry) -> Optional[bytes]:
        """The bytes; None when they were dropped to keep within `output`."""
        return self.journal(entry.host).read_exactly(entry.offset, entry.length)

    def label(self, entry: Entry) -> str:
        number = "launcher" if entry.rank == LAUNCHER else str(entry.rank)
        return f"{self._roll.members[entry.member]}/{number}"

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
        for entry in self.backwards():
            if self.label(entry) != label or (attempt is not None and entry.attempt != attempt):
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

    def since(self, moment: float) -> int:
        """The first record that is not older."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.entries(middle, 1)[0].time < moment:
                low = middle + 1
            else:
                high = middle
        return low

    def close(self) -> None:
        for journal in self._journals.values():
            journal.close()
        os.close(self._index)
