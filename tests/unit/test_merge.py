"""However the bytes of the ranks come in pieces, whole lines come out, each with its prefix."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hora.agent import merge
from hora.agent.merge import HOLD, LONGEST_HELD, Merger

LABELS = ("worker-0/0", "worker-1/0", "ps-0/0")
TEXTS = st.binary(max_size=60).map(lambda data: data.replace(b"\r", b"").replace(b"\0", b"\n"))
PIECES = st.lists(st.tuples(st.sampled_from(LABELS), TEXTS), max_size=30)


def merged(pieces: list[tuple[str, bytes]], merger: Merger | None = None) -> bytes:
    merger = merger or Merger()
    return b"".join([merger.feed(label, data, 0.0) for label, data in pieces] + [merger.end()])


def taken_apart(stream: bytes) -> dict[str, bytes]:
    """What each rank wrote, by the prefixes."""
    found: dict[str, bytes] = {}
    for line in stream.split(b"\n")[:-1]:
        label, bar, text = line.partition(b" | ")
        assert bar, f"a line without a prefix: {line!r}"
        found[label.decode()] = found.get(label.decode(), b"") + text + b"\n"
    return found


def written(pieces: list[tuple[str, bytes]]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for label, data in pieces:
        if data:
            found[label] = found.get(label, b"") + data
    return {label: data if data.endswith(b"\n") else data + b"\n" for label, data in found.items()}


@given(PIECES)
@example([("worker-0/0", b"half"), ("worker-1/0", b"whole\n"), ("worker-0/0", b" a line\nmore")])
def test_every_byte_comes_out_under_its_rank_in_its_order(pieces: list[tuple[str, bytes]]) -> None:
    assert taken_apart(merged(pieces)) == written(pieces)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=10))
def test_any_cut_of_one_ranks_bytes_shows_the_same(data: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [("worker-0/0", data[a:b]) for a, b in itertools.pairwise(edges)]
    assert merged(pieces) == merged([("worker-0/0", data)] if data else [])


@given(PIECES, st.lists(st.booleans(), min_size=30, max_size=30))
def test_lines_that_were_shown_half_lose_nothing(pieces: list[tuple[str, bytes]], ticks: list[bool]) -> None:
    """A tick shows begun lines; what comes between two halves starts a line of its own."""
    merger, now, shown = Merger(), 0.0, []
    for (label, data), tick in zip(pieces, ticks, strict=False):
        shown.append(merger.feed(label, data, now))
        if tick:
            now += HOLD
            shown.append(merger.tick(now))
    stream = b"".join([*shown, merger.end()])
    assert stream == b"" or stream.endswith(b"\n")
    for label, text in taken_apart(stream).items():
        assert text.replace(b"\n", b"") == written(pieces)[label].replace(b"\n", b"")


@given(PIECES)
def test_without_prefix_the_bytes_pass_as_they_are(pieces: list[tuple[str, bytes]]) -> None:
    assert merged(pieces, Merger(prefix=False)) == b"".join(data for _, data in pieces)


def test_a_progress_bar_is_shown_as_a_terminal_would_show_it_in_the_end() -> None:
    assert merged([("w/0", b"10 %\r20 %\r30 %\ndone\r\n")]) == b"w/0 | 30 %\nw/0 | done\n"
    assert merged([("w/0", b"10 %\r2"), ("w/0", b"0 %\r30 %"), ("w/0", b"\r\r")]) == b"w/0 | 30 %\n"
    assert merged([("w/0", b"\r\n")]) == b"w/0 | \n"


def test_a_progress_bar_that_goes_on_is_shown_from_time_to_time() -> None:
    merger = Merger()
    assert merger.feed("w/0", b"10 %\r20 %\r", 0.0) == b""
    assert merger.waiting
    assert merger.tick(HOLD / 2) == b""
    assert merger.tick(HOLD) == b"w/0 | 20 %\n"
    assert merger.feed("w/0", b"30 %\n", HOLD) == b"w/0 | 30 %\n"
    assert not merger.waiting


def test_a_prompt_is_shown_after_a_while_and_its_line_goes_on() -> None:
    merger = Merger()
    assert merger.feed("w/0", b"name? ", 0.0) == b""
    assert merger.tick(HOLD) == b"w/0 | name? "
    assert merger.feed("w/0", b"Ann\nnext\n", HOLD) == b"Ann\nw/0 | next\n"


def test_another_ranks_line_ends_an_open_one_first() -> None:
    merger = Merger()
    merger.feed("w/0", b"name? ", 0.0)
    merger.tick(HOLD)
    assert merger.feed("w/1", b"hello\n", HOLD) == b"\nw/1 | hello\n"
    assert merger.feed("w/0", b"Ann\n", HOLD) == b"w/0 | Ann\n"


def test_a_monster_line_is_passed_on_in_pieces_and_not_held_in_memory() -> None:
    merger, block = Merger(), b"x" * (1 << 20)
    shown = [merger.feed("w/0", block, 0.0) for _ in range(20)]
    assert sum(map(len, shown)) >= 20 * len(block) - LONGEST_HELD - len(block)
    stream = b"".join([*shown, merger.feed("w/0", b"\n", 0.0), merger.end()])
    assert stream == b"w/0 | " + block * 20 + b"\n"


def test_many_lines_at_once_are_not_slower_than_their_size_says() -> None:
    """Ends within the limit of any test only if no step is quadratic."""
    data = b"y" * 99 + b"\n"
    shown = Merger().feed("worker-0/0", data * 300_000, 0.0)
    assert shown == (b"worker-0/0 | " + data) * 300_000


@pytest.mark.parametrize("prefix", [True, False])
def test_timestamps_are_those_of_the_writing(prefix: bool) -> None:
    merger = Merger(prefix=prefix, timestamps=True)
    shown = merger.feed("w/0", b"one\ntwo\n", 0.0, 1_700_000_000.25)
    head = "2023-11-14T22:13:20.250Z " + ("w/0 | " if prefix else "")
    assert shown.decode() == f"{head}one\n{head}two\n"


@given(st.floats(0, 4e9))
def test_a_stamp_has_one_form(time: float) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", merge.stamp(time))
