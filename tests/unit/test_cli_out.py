"""What the command line prints: widths, tables, times, what is kept from the terminal."""

from __future__ import annotations

import pytest

from hora.cli import out, report
from hora.cli.logs import _last, time_of
from hora.cli.look import short
from hora.errors import UsageError
from hora.places.base import Chunk
from hora.state import RunStatus


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("short", 10, "short"),
        ("exactly ten", 11, "exactly ten"),
        ("one word too many", 10, "one wor..."),
        ("line\nbreaks  and\ttabs", 40, "line breaks and tabs"),
        ("数字数字", 8, "数字数字"),
        ("数字数字", 7, "数字..."),
        ("e\u0301" * 5, 5, "e\u0301" * 5),
    ],
)
def test_a_text_is_cut_to_columns_not_to_characters(text: str, columns: int, shown: str) -> None:
    assert out.cut(text, columns) == shown


def test_the_last_column_of_a_table_takes_what_is_left() -> None:
    lines = out.table(("ID", "WHY"), [("a", "x" * 50), ("long-id", "")], 24)
    assert lines == ["ID       WHY", "a        xxxxxxxxxxxx...", "long-id"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, äöü, 数字, 🎡", "plain, äöü, 数字, 🎡"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("bell\x07 and\rreturn", "bell? and?return"),
        ("a\tb", "a\tb"),
        ("\x1b", "?"),
    ],
)
def test_nothing_that_steers_a_terminal_gets_through(text: str, shown: str) -> None:
    assert out.plain(text) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0.0s"), (0.04, "0.0s"), (9.94, "9.9s"), (12, "12s"), (60, "1m"), (310, "5m10s"), (1510, "25m"),
        (3600, "1h"), (12000, "3h20m"), (187200, "2d4h"), (86400 * 30, "30d"),
    ],
)  # fmt: skip
def test_times_are_short(seconds: float, shown: str) -> None:
    assert short(seconds) == shown


def test_a_moment_is_a_span_ago_or_a_date() -> None:
    assert time_of("10m", 1000.0) == 400.0
    assert time_of("1970-01-01T00:10:00Z", 0.0) == 600.0
    assert time_of("1970-01-01T00:10:00", 0.0) == 600.0
    assert time_of("1970-01-01T01:10:00+01:00", 0.0) == 600.0
    for wrong in ("", "10", "yesterday", "-5m", "2026-13-01"):
        with pytest.raises(UsageError, match="--since: must be a time span"):
            time_of(wrong, 0.0)


def lines(chunks: list[Chunk], count: int) -> list[tuple[str, bytes]]:
    return [(chunk.label, chunk.data) for chunk in _last(chunks, count)]


def test_the_last_lines_of_each_rank_stay_in_order() -> None:
    chunks = [
        Chunk(0, "a", 0.0, 1, b"1\n2\n"),
        Chunk(1, "b", 0.0, 1, b"x\n"),
        Chunk(2, "a", 0.0, 1, b"3\n4\n5"),
    ]
    assert lines(chunks, 0) == []
    assert lines(chunks, 1) == [("b", b"x\n"), ("a", b"5")]
    assert lines(chunks, 2) == [("b", b"x\n"), ("a", b"4\n5")]
    assert lines(chunks, 4) == [("a", b"2\n"), ("b", b"x\n"), ("a", b"3\n4\n5")]
    assert lines(chunks, 100) == [("a", b"1\n2\n"), ("b", b"x\n"), ("a", b"3\n4\n5")]


def test_a_sentence_says_the_phase_once() -> None:
    def said(phase: str, reason: str) -> str:
        return report.sentence(RunStatus("k3f9x", "digits", "local", phase, reason), -1)

    assert (
        said("failed", "worker-0/0 exited with code 3")
        == "digits k3f9x failed: worker-0/0 exited with code 3"
    )
    assert said("stopped", "stopped by Ctrl-C") == "digits k3f9x stopped by Ctrl-C"
    assert said("failed", "failed") == "digits k3f9x failed: failed"
