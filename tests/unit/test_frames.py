"""Frames survive any cut of the stream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hora.agent import frames

NAMES = st.text(max_size=8)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), NAMES)
HEADERS = st.builds(
    lambda kind, rest: {**rest, "t": kind},
    st.sampled_from(["o", "ack", "exit"]),
    st.dictionaries(NAMES, VALUES),
)
FRAMES = st.lists(st.tuples(HEADERS, st.binary(max_size=300)), max_size=8)
CUTS = st.lists(st.integers(1, 400), max_size=60)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    parts, at = [], 0
    for cut in cuts:
        parts.append(data[at : at + cut])
        at += cut
    return [*parts, data[at:]]


def decoded(decoder: frames.Decoder, parts: list[bytes]) -> list[tuple[dict[str, Any], bytes, int, int]]:
    return [found for part in parts for found in decoder.feed_at(part)]


@given(FRAMES, CUTS, st.integers(0, 2**40))
def test_any_cut_gives_the_same_frames_and_says_where_each_body_lies(
    sent: list[tuple[dict[str, Any], bytes]], cuts: list[int], begin: int
) -> None:
    stream = b"".join(frames.encode(header, body) for header, body in sent)
    decoder = frames.Decoder(begin)
    found = decoded(decoder, pieces(stream, cuts))
    assert [(header, body) for header, body, _, _ in found] == sent
    for _, body, start, length in found:
        assert stream[start - begin : start - begin + length] == body
    assert len(decoder) == 0
    assert decoder.at == begin + len(stream)


@given(FRAMES, CUTS)
def test_bodies_that_nobody_wants_go_by_and_their_places_are_known(
    sent: list[tuple[dict[str, Any], bytes]], cuts: list[int]
) -> None:
    stream = b"".join(frames.encode(header, body) for header, body in sent)
    decoder = frames.Decoder(passed="o")
    seen = 0
    found = []
    for part in pieces(stream, cuts):
        seen += len(part)
        for header, body, start, length in decoder.feed_at(part):
            assert start + length <= seen, "a frame was told before all of it had come"
            found.append((header, body if header["t"] != "o" else stream[start : start + length]))
    assert found == sent


@given(FRAMES, st.integers(0, 3000))
def test_half_a_frame_waits(sent: list[tuple[dict[str, Any], bytes]], cut: int) -> None:
    stream = b"".join(frames.encode(header, body) for header, body in sent)
    decoder = frames.Decoder()
    whole = decoded(decoder, [stream[:cut]])
    assert decoder.at + len(decoder) == min(cut, len(stream))
    assert whole + decoded(decoder, [stream[cut:]]) == decoded(frames.Decoder(), [stream])


def test_a_reader_that_stops_in_the_middle_finds_the_rest_next_time() -> None:
    decoder = frames.Decoder()
    stream = b"".join(frames.encode({"t": "x", "n": number}) for number in range(3))
    assert next(decoder.feed(stream))[0]["n"] == 0
    assert [header["n"] for header, _ in decoder.feed(b"")] == [1, 2]


@pytest.mark.parametrize(
    "broken",
    [
        frames.LENGTHS.pack(frames.MAX_HEADER + 1, 0),
        frames.LENGTHS.pack(2, frames.MAX_BODY + 1),
        frames.LENGTHS.pack(5, 0) + b"hello",
        frames.LENGTHS.pack(2, 0) + b"[]",
        frames.LENGTHS.pack(7, 0) + b'{"t":1}',
        frames.LENGTHS.pack(2, 0) + b"{}",
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    ],
)
def test_what_is_no_frame_is_an_error_at_once(broken: bytes) -> None:
    with pytest.raises(frames.FrameError):
        list(frames.Decoder().feed(broken))


def test_a_header_is_ascii_whatever_is_in_it() -> None:
    header = {"t": "say", "text": "čárka \udc80 \n"}
    text = frames.encode(header)[frames.LENGTHS.size :]
    assert text.isascii()
    assert json.loads(text) == header
    assert list(frames.Decoder().feed(frames.encode(header))) == [(header, b"")]
