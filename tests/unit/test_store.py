"""The lead's copy of the output: nothing lost, nothing twice, in one order."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hora.agent import frames, journal
from hora.agent.lead.kept import Kept
from hora.agent.lead.store import Store

MEMBERS = ["worker-0", "worker-1"]


def output(member: int, number: int, body: bytes, at: float = 1.0, attempt: int = 1) -> bytes:
    return frames.encode({"t": "o", "m": MEMBERS[member], "r": number, "a": attempt, "at": at}, body)


def told(store: Kept) -> list[tuple[str, bytes | None]]:
    return [(store.label(entry), store.body(entry)) for entry in store.entries(0, store.count)]


OUTPUTS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 2), st.binary(max_size=80), st.booleans()), max_size=20
)


def stream_of(outputs: list[tuple[int, int, bytes, bool]]) -> tuple[bytes, list[Any], int]:
    """(a host's journal, what its ranks wrote, number of events)"""
    stream, expected, events = b"", [], 0
    for member, number, body, event in outputs:
        stream += output(member, number, body)
        expected.append((f"{MEMBERS[member]}/{number}", body))
        if event:
            stream += frames.encode({"t": "exit", "label": "x"}, body)
            events += 1
    return stream, expected, events


@given(OUTPUTS, st.lists(st.integers(1, 200), max_size=30), st.lists(st.booleans(), min_size=30, max_size=30))
@settings(deadline=None, max_examples=80)
def test_a_journal_that_comes_in_pieces_is_told_once_and_whole(
    outputs: list[tuple[int, int, bytes, bool]], cuts: list[int], again: list[bool]
) -> None:
    """After some pieces the link breaks: the host goes on from where the copy ends.  Then the lead is killed."""
    stream, expected, events = stream_of(outputs)
    heard = 0
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder, list(MEMBERS))
        for cut, killed in zip(cuts, again, strict=False):
            at = store.end("a")
            heard += len(store.receive("a", at, stream[at : at + cut]))
            if killed:  # what it had heard it hears again
                store.close()
                store = Store(folder, list(MEMBERS))
                heard = len(store.mend("a"))
        at = store.end("a")
        heard += len(store.receive("a", at, stream[at:]))
        assert told(store) == expected
        assert heard == events
        store.close()
        assert told(Store(folder)) == expected


@given(OUTPUTS, st.integers(0, 30))
@settings(deadline=None, max_examples=60)
def test_an_index_that_is_behind_its_journal_is_mended(
    outputs: list[tuple[int, int, bytes, bool]], lost: int
) -> None:
    """The lead was killed after it had written the journal and before it had written the index."""
    stream, expected, _ = stream_of(outputs)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder, list(MEMBERS))
        store.receive("a", 0, stream)
        store.close()
        index = Path(folder, "index")
        size = index.stat().st_size
        record = size // len(expected) if expected else 1
        kept = max(0, size - lost * record)
        with index.open("r+b") as file:
            file.truncate(kept)
        store = Store(folder, list(MEMBERS))
        store.mend("a")
        assert told(store) == expected
        store.close()


def test_a_piece_from_the_wrong_place_is_refused_and_changes_nothing(work: Path) -> None:
    store = Store(str(work), list(MEMBERS))
    first = output(0, 0, b"one\n")
    store.receive("a", 0, first)
    for at in (0, len(first) - 1, len(first) + 1):
        with pytest.raises(ValueError, match="expected"):
            store.receive("a", at, output(0, 0, b"again\n"))
    store.receive("a", len(first), output(0, 0, b"two\n"))
    assert told(store) == [("worker-0/0", b"one\n"), ("worker-0/0", b"two\n")]
    store.close()


def test_hosts_are_merged_in_the_order_of_arrival(work: Path) -> None:
    store = Store(str(work), list(MEMBERS))
    store.receive("b", 0, output(1, 0, b"b1\n"))
    store.receive("a", 0, output(0, 0, b"a1\n"))
    store.receive("b", store.end("b"), output(1, 0, b"b2\n"))
    assert [body for _, body in told(store)] == [b"b1\n", b"a1\n", b"b2\n"]
    assert store.entries(1, 1)[0].offset > 0
    assert [store.body(entry) for entry in store.backwards()] == [b"b2\n", b"a1\n", b"b1\n"]
    store.close()


def test_a_reader_beside_the_lead_sees_what_is_new(work: Path) -> None:
    store = Store(str(work), list(MEMBERS))
    reader = Kept(str(work))
    assert reader.refresh() == 0
    store.receive("a", 0, output(0, 0, b"one\n"))
    assert reader.refresh() == 1
    assert told(reader) == [("worker-0/0", b"one\n")]
    for each in (store, reader):
        each.close()


def test_a_reader_sees_what_goes_and_what_comes_while_it_reads(work: Path) -> None:
    """The lead drops the oldest files to stay within `output`, and writes into new ones."""
    store = Store(str(work), list(MEMBERS), output=8 * journal.SMALLEST)
    bodies = [b"%03d" % number + b"x" * 500_000 for number in range(52)]
    for body in bodies[:12]:
        store.receive("a", store.end("a"), output(0, 0, body))
    reader = Kept(str(work))
    assert reader.body(reader.entries(0)[0]) == bodies[0]
    for body in bodies[12:]:
        store.receive("a", store.end("a"), output(0, 0, body))
    assert reader.refresh() == 52
    seen = [text for _, text in told(reader)]
    assert all(text in (None, body) for text, body in zip(seen, bodies))
    assert None in seen and seen[-10:] == bodies[-10:]
    for each in (store, reader):
        each.close()


def test_a_reader_makes_nothing(work: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Kept(str(work))
    store = Store(str(work), list(MEMBERS))
    store.receive("a", 0, output(0, 0, b"one\n"))
    store.close()
    shutil.rmtree(work / "hosts")  # as when a disk gave way
    before = sorted(work.rglob("*"))
    reader = Kept(str(work))
    assert told(reader) == [("worker-0/0", None)]
    reader.close()
    assert sorted(work.rglob("*")) == before


def test_nothing_is_told_before_all_of_it_is_here(work: Path) -> None:
    store = Store(str(work), list(MEMBERS))
    whole = output(0, 0, b"x" * 1000)
    store.receive("a", 0, whole[:500])
    assert store.count == 0
    store.receive("a", 500, whole[500:])
    assert told(store) == [("worker-0/0", b"x" * 1000)]
    store.close()


def test_what_a_host_had_to_drop_is_told_and_the_rest_goes_on(work: Path) -> None:
    store = Store(str(work), list(MEMBERS))
    gaps: list[tuple[str, int]] = []
    store.on_gap = lambda host, length: gaps.append((host, length))
    first = output(0, 0, b"before\n")
    store.receive("a", 0, first + output(0, 0, b"half of this is lost\n")[:-5])
    end = store.end("a")
    store.gap("a", end + 1000)
    store.receive("a", end + 1000, output(0, 0, b"after\n"))
    assert gaps == [("a", 1000)]
    expected = [("worker-0/0", b"before\n"), ("worker-0/0", b"after\n")]
    assert told(store) == expected
    store.close()
    store = Store(str(work), list(MEMBERS))  # the lead was killed, and comes back
    store.mend("a")
    assert told(store) == expected
    store.receive("a", store.end("a"), output(0, 0, b"later\n"))
    assert told(store) == [*expected, ("worker-0/0", b"later\n")]
    store.close()


def test_past_the_limit_bodies_are_gone_and_a_new_lead_still_goes_on(work: Path) -> None:
    """The oldest file of the copy goes; what is left then begins in the middle of a frame."""
    store = Store(str(work), list(MEMBERS), output=4 * journal.SMALLEST)
    body = b"x" * 50_000
    whole = b"".join(output(0, 0, body) for _ in range(200))
    for at in range(0, len(whole), 30_001):
        store.receive("a", at, whole[at : at + 30_001])
    bodies = [text for _, text in told(store)]
    assert len(bodies) == 200
    gone = bodies.index(body)
    assert 0 < gone < 200
    assert bodies == [None] * gone + [body] * (200 - gone)
    store.close()
    store = Store(str(work), list(MEMBERS), output=4 * journal.SMALLEST)
    store.mend("a")
    assert store.count == 200
    store.receive("a", store.end("a"), output(0, 0, b"on\n"))
    assert told(store)[-1] == ("worker-0/0", b"on\n")
    store.close()


def test_the_last_lines_are_those_of_one_rank_in_one_attempt(work: Path) -> None:
    store = Store(str(work), list(MEMBERS))
    pieces = [
        output(0, 0, b"old\n", attempt=1),
        output(0, 0, b"1\n2\n3", attempt=2),
        output(1, 0, b"other\n", attempt=2),
        output(0, 0, b"3\n4\n", attempt=2),
    ]
    store.receive("a", 0, b"".join(pieces))
    assert store.last_lines("worker-0/0", 2) == [b"33", b"4"]
    assert store.last_lines("worker-0/0", 50, attempt=2) == [b"1", b"2", b"33", b"4"]
    assert store.last_lines("worker-0/1", 5) == []
    assert store.last_lines("worker-0/0", 5, limit=4) == [b"3", b"4"]
    store.close()


def test_the_last_lines_of_a_thousand_ranks_take_no_longer_for_all_that_others_wrote(work: Path) -> None:
    store = Store(str(work), list(MEMBERS))
    store.receive("a", 0, output(1, 0, b"early\n"))
    much = b"".join(output(0, number % 3, b"x\n") for number in range(20_000))
    for _ in range(5):
        store.receive("a", store.end("a"), much)
    store.receive("a", store.end("a"), output(0, 7, b"late\n"))
    began = time.process_time()
    for _ in range(500):
        assert store.last_lines("worker-1/0", 20, 1) == [b"early"]
        assert store.last_lines("worker-1/5", 20, 1) == []
        assert store.last_lines("worker-0/7", 20, 1) == [b"late"]
    assert time.process_time() - began < 3.0
    store.close()


def test_the_last_lines_are_found_also_where_they_came_in_many_pieces(work: Path) -> None:
    store = Store(str(work), list(MEMBERS))
    store.receive("a", 0, output(0, 0, b"first\n"))
    for letter in range(3000):
        piece = b"." if letter % 300 else b"\n"
        store.receive("a", store.end("a"), output(0, 0, piece) + output(1, 0, b"x\n"))
    expected = [b"", *[b"." * 299] * 10][-5:]
    assert store.last_lines("worker-0/0", 5) == expected
    assert store.last_lines("worker-0/0", 50)[0] == b"first"
    store.close()
    store = Store(str(work), list(MEMBERS))  # of another lead, or of who writes an end in its place
    store.mend("a")
    assert store.last_lines("worker-0/0", 5) == expected
    store.receive("a", store.end("a"), output(0, 0, b"\nlast\n"))
    assert store.last_lines("worker-0/0", 2) == [b"." * 299, b"last"]
    store.close()


def test_a_moment_finds_its_first_record(work: Path) -> None:
    store = Store(str(work), list(MEMBERS))
    store.receive("a", 0, b"".join(output(0, 0, b"x\n", at=float(time)) for time in range(10, 20)))
    assert [store.since(moment) for moment in (0, 10, 12.5, 19, 20)] == [0, 0, 3, 9, 10]
    store.close()


def test_another_journal_of_the_same_host_begins_a_new_copy(work: Path) -> None:
    store = Store(str(work), list(MEMBERS))
    store.settle("a", "home-1")
    store.receive("a", 0, output(0, 0, b"first life\n"))
    store.settle("a", "home-1")
    assert store.end("a") > 0
    store.settle("a", "home-2")
    assert store.end("a") == 0
    store.receive("a", 0, output(0, 0, b"second life\n"))
    assert [body for _, body in told(store)] == [b"first life\n", b"second life\n"]
    store.close()
