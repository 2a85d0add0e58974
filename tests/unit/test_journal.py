"""The journal: what was written is read again, whatever happens in between."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hora.agent import frames, pipes
from hora.agent.journal import SMALLEST, Journal
from hora.agent.reading import SUFFIX

SEGMENT = 64  # bytes: every few frames begin a new file


def frame(number: int, body: bytes) -> bytes:
    return frames.encode({"t": "o", "n": number}, body)


class Writing(RuleBasedStateMachine):
    """Appends, forgets, cuts, opens again; `kept` is all that was ever written."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = tempfile.TemporaryDirectory()
        self.journal = Journal(self.scratch.name, segment=SEGMENT)
        self.kept = b""
        self.bounds = [0]  # where frames begin

    @rule(body=st.binary(max_size=100))
    def append(self, body: bytes) -> None:
        data = frame(len(self.bounds), body)
        assert self.journal.append(data) == len(self.kept)
        self.kept += data
        self.bounds.append(len(self.kept))

    @rule(body=st.binary(min_size=1, max_size=100))
    def append_from_a_pipe(self, body: bytes) -> None:
        reader, writer = pipes.make_pipe()
        os.write(writer, body)
        header = frames.head({"t": "o", "n": len(self.bounds)}, len(body))
        self.journal.append_from(reader, header, len(body), pipes.splicer())
        os.close(reader)
        os.close(writer)
        self.kept += header + body
        self.bounds.append(len(self.kept))

    @rule(part=st.floats(0, 1))
    def forget(self, part: float) -> None:
        offset = int(part * len(self.kept))
        before = self.journal.start
        self.journal.forget(offset)
        assert self.journal.start <= max(before, offset)
        assert self.journal.start in self.bounds, "what is kept begins with a frame"

    @precondition(lambda self: any(bound > self.journal.start for bound in self.bounds))
    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from([bound for bound in self.bounds if bound >= self.journal.start]))
        self.journal.cut(offset)
        self.kept = self.kept[:offset]
        self.bounds = [bound for bound in self.bounds if bound <= offset]

    @rule()
    def open_again(self) -> None:
        self.journal.close()
        self.journal = Journal(self.scratch.name, segment=SEGMENT)

    @rule(part=st.floats(0, 1), length=st.integers(1, 300))
    def read_anywhere(self, part: float, length: int) -> None:
        offset = self.journal.start + int(part * (self.journal.end - self.journal.start))
        some = self.journal.read(offset, length)
        assert some == self.kept[offset : offset + len(some)]
        assert some or offset == self.journal.end
        whole = self.journal.read_exactly(offset, length)
        assert whole == (self.kept[offset : offset + length] if offset + length <= len(self.kept) else None)

    @invariant()
    def everything_that_is_kept_can_be_read(self) -> None:
        assert self.journal.end == len(self.kept)
        start = self.journal.start
        assert self.journal.read_exactly(start, len(self.kept) - start) in (self.kept[start:], None)
        found = list(self.journal.frames(start))
        assert [offset for offset, *_ in found] == [b for b in self.bounds if start <= b < len(self.kept)]

    def teardown(self) -> None:
        self.journal.close()
        self.scratch.cleanup()


Writing.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestWriting = Writing.TestCase


@pytest.fixture
def journal(work: Path) -> Iterator[Journal]:
    journal = Journal(str(work / "journal"), segment=SEGMENT)
    yield journal
    journal.close()


@given(st.integers(0, 2000))
@settings(deadline=None, max_examples=40)
def test_a_torn_tail_is_no_frame_and_the_rest_is_whole(size: int) -> None:
    """As a kill in the middle of a write leaves it."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(folder)
        bounds = [journal.append(frame(number, b"x" * number * 7)) for number in range(16)]
        end = journal.end
        journal.close()
        path = Path(folder, f"{0:020d}{SUFFIX}")
        os.truncate(path, min(size, end))
        journal = Journal(folder)
        found = [offset for offset, *_ in journal.frames(0)]
        expected = [b for b, after in zip(bounds, [*bounds[1:], end], strict=True) if after <= size]
        assert found == expected
        journal.close()


def test_past_its_limit_the_oldest_goes_and_its_size_is_told(work: Path) -> None:
    journal = Journal(str(work / "journal"), limit=4 * SMALLEST)
    dropped: list[tuple[int, int]] = []
    journal.on_drop = lambda start, end: dropped.append((start, end))
    block = frames.encode({"t": "o"}, b"x" * (SMALLEST // 4))
    for _ in range(40):
        journal.append(block)
    assert (dropped[0][0], dropped[-1][1]) == (0, journal.start)
    assert [end for _, end in dropped[:-1]] == [start for start, _ in dropped[1:]]
    assert journal.end == 40 * len(block)
    assert journal.end - journal.start >= 4 * SMALLEST - 2 * len(block)
    assert len(os.listdir(journal.folder)) <= 6
    assert journal.read(0, 10) == b""
    assert len(list(journal.frames(journal.start))) == (journal.end - journal.start) // len(block)
    journal.close()


def test_after_a_jump_both_sides_are_read_and_what_lies_between_is_not(journal: Journal) -> None:
    first = frame(1, b"before")
    journal.append(first)
    journal.jump(1000)
    assert journal.append(frame(2, b"after")) == 1000
    assert journal.read(500, 10) == b""
    assert journal.read_exactly(0, 1001) is None
    assert journal.stretches() == [(0, len(first)), (1000, journal.end)]
    found = [each for start, end in journal.stretches() for each in journal.frames(start, end)]
    assert [(offset, header["n"]) for offset, header, *_ in found] == [(0, 1), (1000, 2)]


def test_a_jump_in_an_empty_journal_leaves_no_empty_file(journal: Journal) -> None:
    journal.jump(5000)
    assert (journal.start, journal.end) == (5000, 5000)
    assert os.listdir(journal.folder) == [f"{5000:020d}{SUFFIX}"]


def test_a_write_that_fails_leaves_no_half_frame(work: Path) -> None:
    """With a limit on the size of files as a disk that is full."""
    program = """if True:
        import resource, signal, sys
        from hora.agent import frames
        from hora.agent.journal import Journal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        journal = Journal(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        whole = 0
        try:
            while True:
                journal.append(frames.encode({"t": "o"}, b"x" * 300))
                whole += 1
        except OSError:
            print(whole, len(list(journal.frames(0))), journal.end == journal.append(b""))
    """
    done = subprocess.run(
        [sys.executable, "-c", program, str(work / "journal")], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["3", "3", "True"]


def test_a_journal_has_a_home_of_its_own_that_stays(work: Path) -> None:
    first, other = Journal(str(work / "one")), Journal(str(work / "two"))
    again = Journal(str(work / "one"))
    assert first.home == again.home != other.home
    for journal in (first, other, again):
        journal.close()


def test_a_segment_that_cannot_be_begun_makes_the_last_one_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system may have room in a file and none for another file; a process may be out of descriptors."""
    journal = Journal(str(tmp_path / "journal"), segment=SEGMENT)
    real = journal._open

    def refuse(start: int) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(journal, "_open", refuse)
    data = [frame(number, b"x" * 50) for number in range(4)]
    assert journal.append(data[0]) == 0
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)  # would get the number of a closed one
    os.write(other, b"precious")
    assert journal.append(data[1]) == len(data[0])
    assert os.pread(other, 100, 0) == b"precious"
    os.close(other)
    monkeypatch.setattr(journal, "_open", real)
    journal.append(data[2])
    journal.append(data[3])
    assert journal.end == sum(map(len, data))
    journal.close()
    again = Journal(str(tmp_path / "journal"), segment=SEGMENT)
    assert again.read_exactly(0, again.end) == b"".join(data)
    assert len(list((tmp_path / "journal").glob("*" + SUFFIX))) > 1
    again.close()
