"""The lead's copy of a journal whose oldest parts, or parts in the middle, are gone."""

from __future__ import annotations

import os
from pathlib import Path

from hora.agent import frames
from hora.agent.journal import Journal
from hora.agent.lead.store import Store

LIMIT = 2 << 20
PIECE = 700_001  # no frame ends where a piece does


def written(number: int) -> bytes:
    return b"%06d" % number + bytes([number % 256]) * 50_000


def stream(count: int) -> bytes:
    """Output, with an event after every tenth frame."""
    parts = []
    for number in range(count):
        parts.append(
            frames.encode({"t": "o", "m": "worker-0", "r": 0, "a": 1, "at": float(number)}, written(number))
        )
        if number % 10 == 9:
            parts.append(frames.encode({"t": "exit", "n": number}))
    return b"".join(parts)


def received(store: Store, data: bytes) -> list[int]:
    """What was told while the data came in pieces; by number."""
    told = []
    for at in range(0, len(data), PIECE):
        told += [header["n"] for header, _ in store.receive("here", at, data[at : at + PIECE])]
    return told


def kept(store: Store) -> dict[int, bytes | None]:
    entries = [entry for first in range(0, store.count, 256) for entry in store.entries(first)]
    return {int(entry.time): store.body(entry) for entry in entries}


def test_the_oldest_output_goes_and_every_event_is_heard(tmp_path: Path) -> None:
    store = Store(str(tmp_path), ["worker-0"], LIMIT)
    gone: list[int] = []
    store.on_gap = lambda host, length: gone.append(length)
    data = stream(200)
    assert received(store, data) == list(range(9, 200, 10))
    found = kept(store)
    assert list(found) == list(range(200))
    there = [number for number, body in found.items() if body is not None]
    assert there == list(range(there[0], 200)), "what is there is the newest, without holes"
    assert all(found[number] == written(number) for number in there)
    assert LIMIT <= len(data) - sum(gone) <= LIMIT + 3 * PIECE
    store.close()


def test_a_copy_whose_beginning_was_dropped_is_taken_up_where_its_lead_was_killed(tmp_path: Path) -> None:
    store = Store(str(tmp_path), ["worker-0"], LIMIT)
    data = stream(200)
    received(store, data[: PIECE * 12])
    before = store.count
    store.close()
    record = os.stat(tmp_path / "index").st_size // before
    os.truncate(tmp_path / "index", record * (before - 5))  # the last records had not been written

    again = Store(str(tmp_path), ["worker-0"], LIMIT)
    again.mend("here")
    assert again.count == before
    told = []
    while again.end("here") < len(data):
        at = again.end("here")
        told += [header["n"] for header, _ in again.receive("here", at, data[at : at + PIECE])]
    found = kept(again)
    assert list(found) == list(range(200))
    assert told[-1] == 199
    assert all(body in (None, written(number)) for number, body in found.items())
    assert found[199] == written(199)
    again.close()


def test_a_copy_with_a_gap_is_taken_up_on_both_sides_of_it(tmp_path: Path) -> None:
    data = stream(40)
    middle = len(stream(20))
    store = Store(str(tmp_path), ["worker-0"])
    store.receive("here", 0, data[: middle - 70_000])  # ends within a frame
    store.gap("here", middle)
    store.receive("here", middle, data[middle : middle + 520_000])
    before = store.count
    store.close()

    again = Store(str(tmp_path), ["worker-0"])
    events = again.mend("here")
    assert again.count == before
    assert [event["n"] for event in events] == [9, 29]
    at = again.end("here")
    assert at == middle + 520_000
    assert [header["n"] for header, _ in again.receive("here", at, data[at:])] == [39]
    found = kept(again)
    assert [number for number in found if found[number] != written(number)] == []
    assert list(found) == [*range(18), *range(20, 40)]
    again.close()


def test_what_goes_from_a_journal_can_be_read_before(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal"), segment=1000, limit=3000)
    seen: list[int] = []
    journal.on_drop = lambda start, end: seen.extend(
        header["n"] for _at, header, _body, _length in journal.frames(start, end)
    )
    for number in range(100):
        journal.append(frames.encode({"t": "event", "n": number}, b"x" * 90))
    left = [header["n"] for _at, header, _body, _length in journal.frames(journal.start)]
    assert seen + left == list(range(100)) and seen and left
    journal.close()


def test_the_stretches_of_a_journal_are_what_is_there_without_a_gap(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal"), segment=100)
    for _ in range(5):
        journal.append(bytes(60))
    journal.jump(1000)
    journal.append(bytes(30))
    assert journal.stretches() == [(0, 300), (1000, 1030)]
    journal.close()
