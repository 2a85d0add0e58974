"""The output of a run as it is kept, for whoever reads it beside the lead or after it.

The index is the one order of the run: record N says which bytes of which journal came N-th.  A reader's
place is a number, so it can stop and go on, during the run and long after it.
"""

from __future__ import annotations

import os
import struct

from hora.agent.lead.roll import Roll
from hora.agent.reading import Beside
from hora.record import Record
from hora.scene import LAUNCHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional

    from hora.agent.reading import Reading

RECORD = struct.Struct("<dQIHHhH")


class Entry(Record):
    """Some bytes that one rank wrote."""

    time: float
    offset: int  # of the bytes in the host's journal
    length: int
    host: int
    member: int
    rank: int  # in its member
    attempt: int


class Kept:
    """Only reads: nothing is made, nothing is changed.  `roll` gives the numbers their names.

    FileNotFoundError where there is nothing yet.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._copies: Dict[int, Beside] = {}
        self._index = self._open_index()
        self.count = os.fstat(self._index).st_size // RECORD.size
        self._roll = self._open_roll()  # after the count: a name stands there before it is used

    def _open_index(self) -> int:
        return os.open(os.path.join(self.folder, "index"), os.O_RDONLY | os.O_CLOEXEC)

    def _open_roll(self) -> Roll:
        return Roll(os.path.join(self.folder, "names"), [], lambda problem: None)

    def _copy(self, number: int) -> Reading:
        """What is kept of a host's journal."""
        if number not in self._copies:
            self._copies[number] = Beside(self.place(number))
        return self._copies[number]

    def place(self, number: int) -> str:
        return os.path.join(self.folder, "hosts", str(number))

    def refresh(self) -> int:
        """Number of records, when there may be new ones."""
        count = os.fstat(self._index).st_size // RECORD.size
        if count != self.count:
            self.count = count
            self._roll.load()
        return count

    def entries(self, first: int, most: int = 256) -> List[Entry]:
        most = max(0, min(most, self.count - first))
        data = os.pread(self._index, most * RECORD.size, first * RECORD.size)
        return [
            Entry(*fields) for fields in RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size])
        ]

    def body(self, entry: Entry) -> Optional[bytes]:
        """The bytes; None when they were dropped to keep within `output`."""
        return self._copy(entry.host).read_exactly(entry.offset, entry.length)

    def label(self, entry: Entry) -> str:
        number = "launcher" if entry.rank == LAUNCHER else str(entry.rank)
        return f"{self._roll.members[entry.member]}/{number}"

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
        for copy in self._copies.values():
            copy.close()
        os.close(self._index)
