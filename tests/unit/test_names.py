"""Names: whatever the text, what comes out is a name that Kubernetes takes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hora import names

LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?\Z")
HOSTILE = [
    "", " ", "-", "--", "..", "/", "\0", "\n", "a\n", "A B", "ÄÖÜ", "北京", "train.py", "7", "7up", "-x-", "x" * 300,
    "x-" * 100, "é" * 60, "‮evil", "$(rm -rf)", "a_b.c", "İstanbul", "ﬁ", "1" * 50, "a" * 39 + "-b",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_job_name_from_hostile_text_is_a_label(text: str) -> None:
    assert names.check_job_name(names.job_name(text))


@given(st.text())
def test_a_job_name_from_any_text_is_a_label_and_stays_as_it_is(text: str) -> None:
    name = names.job_name(text)
    assert LABEL.match(name)
    assert len(name) <= names.JOB_MAX
    assert names.job_name(name) == name


@given(st.text(max_size=80))
def test_what_the_check_takes_is_a_label(text: str) -> None:
    try:
        names.check_dns_label(text)
    except ValueError as error:
        assert str(error)
    else:
        assert LABEL.match(text)
        assert len(text) <= 63


@given(st.binary(min_size=5, max_size=16))
def test_a_run_id_is_five_harmless_characters(random: bytes) -> None:
    run = names.run_id(random)
    assert names.is_run_id(run)
    assert re.fullmatch(r"[bcdfghjkmnpqrstvwxz][bcdfghjkmnpqrstvwxz2456789]{4}", run)
    assert names.run_id(random) == run


def test_run_ids_use_all_characters_and_differ() -> None:
    runs = {names.run_id((n * 2654435761 % 2**64).to_bytes(8, "big")) for n in range(5000)}
    assert len(runs) > 4900
    assert {char for run in runs for char in run} == set("bcdfghjkmnpqrstvwxz2456789")


def test_a_run_id_from_too_few_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="5 random bytes"):
        names.run_id(b"abcd")


@pytest.mark.parametrize("text", ["", "abc", "abcdef", "2bcde", "aeiou", "BCDFG"])
def test_other_text_is_no_run_id(text: str) -> None:
    assert not names.is_run_id(text)


def longest(limit: int) -> st.SearchStrategy[str]:
    return st.text("abz09-", min_size=1, max_size=limit).map(lambda text: names.label(text, limit, "x"))


@given(
    longest(names.JOB_MAX),
    st.binary(min_size=5, max_size=5),
    longest(names.ROLE_MAX),
    st.integers(0, names.INDEX_MAX),
)
def test_every_generated_name_fits_into_a_label(job: str, random: bytes, role: str, index: int) -> None:
    run = names.run_id(random)
    for name in (
        names.object_name(job, run),
        names.object_name(job, run, role),
        names.object_name(job, run, role, index),
    ):
        assert LABEL.match(name)
        assert len(name) <= 63


def test_the_longest_name_is_found_and_a_longer_one_refused() -> None:
    assert names.longest_name("a" * 40, "bcdfg", {"worker": 10, "ps": 1}) == "a" * 40 + "-bcdfg-worker-9"
    assert names.longest_name("a", "bcdfg", {}) == "a-bcdfg-lead"
    with pytest.raises(names.NameTooLong, match="shorten the job's name by 3"):
        names.longest_name("a" * 40, "bcdfg", {"r" * 11: 1_000_001})


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.check_job_name, ["digits", "a", "a-1", "a" * 40], ["", "A", "a-", "-a", "1a", "a.b", "a" * 41, "ä", "a\n"]),
        (names.check_role_name, ["worker", "ps", "a" * 11], ["lead", "a" * 12, "Worker", ""]),
        (names.check_variable, ["LR", "_x", "a1"], ["", "1a", "A B", "A=B", "A\n", "A" * 300, "Ä"]),
        (names.check_object, ["my-secret", "a.b", "1a", "kube-root-ca.crt"], ["", "A", "a..b", ".a", "a" * 254, "a\n"]),
        (names.check_namespace, ["default", "7b"], ["a.b", "a" * 64, "", "-"]),
    ],
)  # fmt: skip
def test_checks_take_the_good_and_name_the_bad(check, good, bad) -> None:  # type: ignore[no-untyped-def]
    for text in good:
        assert check(text) == text
    for text in bad:
        with pytest.raises(ValueError, match=r"must|lead"):
            check(text)


def test_a_refused_label_comes_with_a_proposal() -> None:
    with pytest.raises(ValueError, match="try my-job"):
        names.check_job_name("My Job")


def test_letters_of_other_alphabets_become_the_nearest_and_none_is_lost() -> None:
    assert names.job_name("Größe") == "grosse"
    assert names.job_name("Čeština") == "cestina"
    assert names.job_name("STRASSE-ẞ") == "strasse-ss"
