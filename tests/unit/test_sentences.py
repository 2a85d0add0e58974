"""The lead's words: each what, where, why in one sentence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hora.agent.lead import sentences
from hora.agent.lead.sentences import count, duration, few, plain
from hora.state import Failure


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0.0 s"), (3.14, "3.1 s"), (12.4, "12 s"), (119.0, "119 s"), (120.0, "2 min"), (200.0, "3 min 20 s"),
     (7200.0, "2 h 0 min"), (90061.0, "25 h 1 min")],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_counts_and_lists() -> None:
    assert (count(1, "rank"), count(4, "rank")) == ("1 rank", "4 ranks")
    assert few(["a", "b"]) == "a, b"
    assert few([f"w{i}" for i in range(9)]) == "w0, w1, w2, w3 and 5 more"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("\x1b[31mERROR\x1b[0m: no data\r", "ERROR: no data"),
        ("10%\r50%\r100%", "100%"),
        ("a\tb\x07", "a b"),
        ("\x1b]0;title\x07text", "text"),
        ("größe 数字", "größe 数字"),
        ("\x1b[2K\r", ""),
    ],
)
def test_a_ranks_line_is_told_plainly(line: str, shown: str) -> None:
    assert plain(line) == shown


@given(st.text())
def test_nothing_that_moves_a_terminal_is_left(line: str) -> None:
    assert all(letter.isprintable() for letter in plain(line))


def failure(*lines: str, **rest: object) -> Failure:
    values = {"member": "worker-2", "rank": 2, "cause": "exited with code 3", "label": "worker-2/0", **rest}
    return Failure(last_lines=lines, **values)  # type: ignore[arg-type]


def test_a_failure_is_one_sentence_with_its_last_line() -> None:
    told = sentences.failed(failure("epoch 1", "loss is nan", "", "  ", after=12.3, ties=("worker-3/0",)))
    assert told == (
        "worker-2/0 exited with code 3, 12 s after its start; at the same moment also worker-3/0; its last line: loss is nan"
    )
    assert sentences.failed(failure()) == "worker-2/0 exited with code 3"
    assert len(sentences.failed(failure("x" * 10_000))) < 300


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ranks": 1, "seen": 1}, "its rank ended well after 1.0 s"),
        ({"ranks": 4, "seen": 4}, "all 4 ranks ended well after 1.0 s"),
        ({"ranks": 4, "seen": 4, "attempt": 2}, "all 4 ranks ended well after 1.0 s, at attempt 2"),
        ({"ranks": 2, "seen": 2, "roles": ("worker",)}, "all 2 ranks of worker ended well after 1.0 s"),
        (
            {"ranks": 3, "seen": 3, "roles": ("chief", "worker")},
            "all 3 ranks of chief and worker ended well after 1.0 s",
        ),
        ({"ranks": 4, "seen": 0}, "its launcher ended well after 1.0 s"),  # mpirun as written
        ({"ranks": 4, "seen": 1}, "its launcher ended well after 1.0 s"),  # torchrun as written, on one host
        ({"ranks": 4, "seen": 2}, "all 2 launchers ended well after 1.0 s"),  # and on two
        ({"ranks": 0, "seen": 0, "roles": ("launcher",)}, "its launcher ended well after 1.0 s"),
    ],
)
def test_success_counts_only_ranks_that_were_seen(given: dict[str, Any], said: str) -> None:
    assert sentences.succeeded(**{"roles": (), "seconds": 1.0, "attempt": 1, **given}) == said


def test_a_restart_says_what_is_left() -> None:
    assert "start again as attempt 2 (2 restarts left)" in sentences.restarting(1, failure(), 2)
    assert "no restart left after this one" in sentences.restarting(3, failure(), 0)
    assert "not started again" in sentences.not_retried(failure())


def test_gathering_names_who_is_missing() -> None:
    assert sentences.gathering(4, []) == "waiting for the 4 members to come"
    assert sentences.gathering(2, ["worker-1"]) == "1 of 2 members are here; waiting for worker-1"


def test_a_failed_set_up_is_told_with_its_last_line() -> None:
    told = sentences.setup_failed("here", 1, [b"\x1b[31mERROR: no matching distribution\x1b[0m", b""])
    assert (
        told
        == "the set-up command failed on here with code 1; its last line: ERROR: no matching distribution"
    )
    assert sentences.setup_failed("here", 1, []) == "the set-up command failed on here with code 1"


def test_output_that_had_to_go_is_told_in_sizes() -> None:
    assert sentences.dropped("here", 3 << 20).startswith("3Mi of the oldest output of here were dropped")
    assert "`output`" in sentences.dropping("here")


@pytest.mark.parametrize(
    ("why", "code"),
    [("ctrl-c", 130), ("hangup", 129), ("terminated", 143), ("unread", 141), ("", 143), ("x", 143)],
)
def test_who_asks_for_the_end_decides_the_exit_code(why: str, code: int) -> None:
    asked = sentences.asked({"t": "stop", "why": why, "kill": True})
    assert (asked.code, asked.kill) == (code, True)
    assert asked.reason


def test_a_limit_says_what_was_still_missing() -> None:
    def lead(
        missing: list[str],
        prepared: dict[str, str],
        expected: set[str],
        code: str = "",
        missing_code: bool = False,
    ) -> SimpleNamespace:
        return SimpleNamespace(
            board=SimpleNamespace(unhosted=lambda: missing),
            hosts={"here": SimpleNamespace(name="here", prepared=prepared)},
            attempt=SimpleNamespace(expected=expected, began={}, exits={}),
            code=SimpleNamespace(hash=code, missing=missing_code),
        )

    assert sentences.phase_limit(lead(["worker-1"], {}, set()), 60, "schedule") == (
        "worker-1 did not come in time (timeouts.schedule is 60 s)"
    )
    assert "here did not answer the check" in sentences.phase_limit(lead([], {}, set()), 60, "start")
    behind = sentences.phase_limit(lead([], {}, set(), "3f2a9c0b12de"), 60, "start")
    assert "here did not get the code and answer the check in time" in behind
    gone = sentences.phase_limit(lead([], {}, set(), "3f2a9c0b12de", missing_code=True), 60, "start")
    assert "here did not get code 3f2a9c0b12de, which `hora sync` brought" in gone
    late = sentences.phase_limit(lead([], {"a": "b"}, {"worker-0/0"}), 60, "start")
    assert late == "worker-0/0 did not start in time (timeouts.start is 60 s)"
    assert "set-up was not done" in sentences.phase_limit(lead([], {"a": "b"}, set()), 60, "start")
