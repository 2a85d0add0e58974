"""Single values: quantities and durations as Kubernetes and people write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hora.load import quantities, values
from hora.load.values import Plain


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4Gi", 4 * 2**30), ("4G", 4 * 10**9), ("1e9", 10**9), ("1E7", 10**7), ("512Mi", 2**29), ("1.5Gi", 3 * 2**29),
        (".5Gi", 2**29), ("1048576", 2**20), (2**20, 2**20), (2.5e6, 2_500_000), ("2000000000m", 2_000_000),
        ("1048576.1", 2**20 + 1), ("1Ti", 2**40), ("1P", 10**15), ("2Ei", 2**61), ("1500k", 1_500_000),
        (Plain("1e9", 1e9), 10**9),
    ],
)  # fmt: skip
def test_sizes_are_exact(text: Any, number: int) -> None:
    assert quantities.size(2**20)(text) == number


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4GB", "did you mean 4Gi"), ("4", "did you mean 4Gi"), ("400m", "did you mean 400Mi"), ("4 Gi", "did you mean 4Gi"),
        ("4gib", "did you mean 4Gi"), ("x", "must be a size"), ("", "must be a size"), (True, "must be a size"),
        (None, "got nothing"), ([], "got a list"), ({}, "got a map"), ("-1Gi", "must be a size"), ("9Ei", "less than 8Ei"),
        ("1e99", "less than 8Ei"), (float("nan"), "must be a size"), (float("inf"), "must be a size"), ("4X", "must be"),
        ("1e", "must be a size"), ("x" * 100, r"\.\.\."),
    ],
)  # fmt: skip
def test_bad_sizes_say_what_is_allowed(text: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        quantities.size(2**20)(text)


@given(st.integers(0, 2**63 - 1))
def test_a_size_written_is_the_size_read(number: int) -> None:
    assert quantities.size(0)(quantities.size_text(number)) == number


@pytest.mark.parametrize(
    ("text", "number"), [("2", 2.0), (2, 2.0), ("500m", 0.5), (0.1, 0.1), ("1e1", 10.0), ("1m", 0.001)]
)
def test_cpus_are_read_in_thousandths(text: Any, number: float) -> None:
    assert quantities.cpu(text) == number


@pytest.mark.parametrize("text", ["0", "x", "-1", True, None, "1e9", "0.5m", "2 cores"])
def test_bad_cpus_are_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        quantities.cpu(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("24h", 86400), ("1h30m", 5400), ("1.5h", 5400), ("500ms", 0.5), ("2d", 172800),
     ("1m500ms", 60.5), ("1d2h3m4s5ms", 93784.005), (90, 90), (0.25, 0.25)],
)  # fmt: skip
def test_durations_are_seconds(text: Any, seconds: float) -> None:
    assert quantities.duration()(text) == seconds


@pytest.mark.parametrize(
    ("text", "words"),
    [("10", "did you mean 10s"), (Plain("10", 10), "did you mean 10s"), ("", "must be a duration"), ("1:30", "must be"),
     ("-1s", "must be"), ("s", "must be"), ("1s1m", "must be"), ("0s", "1ms or more"), ("none", "must be"), (-1, "must be"),
     (True, "must be"), (None, "must be"), ("999999999h", "31 years"), (float("nan"), "must be"), ("1 h", "must be")],
)  # fmt: skip
def test_bad_durations_say_what_is_allowed(text: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        quantities.duration()(text)


def test_none_is_no_limit_only_where_that_is_allowed() -> None:
    assert quantities.limit()("none") is None
    with pytest.raises(ValueError, match="or none"):
        quantities.limit()("never")


@given(st.none() | st.integers(1, 10**12).map(lambda milliseconds: milliseconds / 1000))
def test_a_duration_written_is_the_duration_read(seconds: float | None) -> None:
    assert quantities.limit()(quantities.duration_text(seconds)) == seconds


@pytest.mark.parametrize(
    "text", ["010", "0x10", "1_000", "1:30", "1.0", "1e3", "", " ", "x", "99999999999999999999"]
)
def test_numbers_that_yaml_readers_disagree_on_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a whole number"):
        quantities.whole(0)(Plain(text, 1))


def test_a_number_in_quotes_is_text() -> None:
    with pytest.raises(ValueError, match="without quotes"):
        quantities.whole(0)("4")
    with pytest.raises(ValueError, match="whole number, got True"):
        quantities.whole(0)(True)


def test_numbers_keep_their_limits() -> None:
    count = quantities.whole(1, 10)
    assert count(Plain("10", 10)) == 10
    with pytest.raises(ValueError, match="must be 1 or more, got 0"):
        count(0)
    with pytest.raises(ValueError, match="must be 10 or less, got 11"):
        count(11)


@pytest.mark.parametrize("ports", ["30000-30063", "30000 - 30063", (30000, 30063)])
def test_ports_are_a_range(ports: Any) -> None:
    assert quantities.ports(ports) == (30000, 30063)
    assert quantities.ports(80) == (80, 80)


@pytest.mark.parametrize("ports", ["0-10", "10-9", "1-70000", "a-b", "", True, None, "1-2-3", (1, 2, 3)])
def test_bad_ports_are_refused(ports: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        quantities.ports(ports)


@pytest.mark.parametrize(
    ("value", "reads"),
    [(Plain("no", False), "reads no as false"), (Plain("on", True), "reads on as true"), (Plain("1.10", 1.1), "the number 1.1"),
     (Plain("~", None), "as nothing"), (Plain("2026-11-18", object()), "as a date"), (5, "got 5"), (None, "got nothing")],
)  # fmt: skip
def test_text_that_yaml_reads_as_something_else_is_explained(value: Any, reads: str) -> None:
    with pytest.raises(ValueError, match=reads):
        values.text(value)


def test_what_is_kept_as_written_keeps_its_zeros() -> None:
    assert values.as_written(Plain("0.10", 0.1)) == "0.10"
    assert values.as_written(Plain("yes", True)) == "yes"
    assert values.as_written(0.5) == "0.5"
    for nothing in (None, Plain("", None), Plain("~", None)):
        with pytest.raises(ValueError, match="has no value"):
            values.as_written(nothing)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ('python \'a b\' "c\\"d" $X', ("python", "a b", 'c"d', "$X")),
        (["a", "", Plain("0.10", 0.1), 3], ("a", "", "0.10", "3")),
        (("a",), ("a",)),
        (Plain("1e3", 1000.0), ("1e3",)),
    ],
)
def test_commands_are_words(command: Any, words: tuple[str, ...]) -> None:
    assert values.command(command) == words


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo 'a", "quote is opened"), ("a \\", "backslash"), ("", "must not be empty"), ([], "must not be empty"),
        ([""], "must not be empty"), (["a", None], "word 2 has no value"), (["a", ["b"]], "word 2 is a list"),
        ({"a": 1}, "got a map"), (3, "got 3"), (None, "got nothing"), ("a\0b", "NUL"), (["a", "\0"], "word 2 .*NUL"),
        ("   ", "must not be empty"), (["a", True], "word 2 must be text"),
    ],
)  # fmt: skip
def test_bad_commands_are_explained(command: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        values.command(command)


@given(st.text())
def test_any_line_splits_or_says_why(line: str) -> None:
    try:
        assert values.command(line)
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("read", "good", "bad"),
    [
        (values.interface, ["auto", "eth0", "ib0.8001"], ["", "a b", "eth0,eth1", "x" * 16]),
        (values.peer, ["10.0.0.0/8", "fe80::/10", "team-a"], ["10.0.0.0/99", "Team", ""]),
        (values.absolute_path, ["/ckpt", "/"], ["ckpt", "~/x", ""]),
        (
            values.label_key,
            ["team", "example.org/team", "rdma/hca"],
            ["", "/x", "a b", "a/b/c", "x" * 64, "A/b"],
        ),
        (values.label_value, ["", "a", "A.b_c-d"], ["a b", "-a", "x" * 64, "a\n"]),
        (values.some_text, ["x"], [""]),
        (quantities.flag, [True, False], ["true", 1, "yes"]),
        (values.framework, ["mpi", "dask"], ["mpj", "", None, ["mpi"]]),
        (values.choice("report", "kill"), ["kill"], ["KILL", None, [], {}]),
        (values.variable, ["LR"], ["a b", ""]),
    ],
)
def test_readers_take_the_good_and_refuse_the_bad(read, good, bad) -> None:  # type: ignore[no-untyped-def]
    for value in good:
        assert read(value) == value
    for value in bad:
        with pytest.raises(ValueError, match="must"):
            read(value)


def test_addresses_lose_their_host_bits() -> None:
    assert values.peer("10.1.2.3/8") == "10.0.0.0/8"


def test_one_of_reads_like_a_sentence() -> None:
    assert values.one_of(("a",)) == "a"
    assert values.one_of(("a", "b", "c")) == "a, b or c"
