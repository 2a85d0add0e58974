"""Who failed first: pure judgement over how the ranks of one attempt ended."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hora.agent.lead import verdict
from hora.agent.lead.verdict import Exit, address_taken, first_failure, looks_like_reset, user_error


def ended(number: int, time: float = 10.0, code: int | None = 0, **rest: object) -> Exit:
    return Exit(
        f"worker-{number}/0",
        f"worker-{number}",
        number,
        rest.pop("host", "here"),
        time,
        exit_code=code,
        **rest,
    )  # type: ignore[arg-type]


def test_nothing_failed_gives_no_verdict() -> None:
    assert first_failure([]) is None
    assert first_failure([ended(0), ended(1)]) is None
    assert first_failure([ended(0, code=None, signal=15, stopped=True)]) is None


def test_the_earliest_failure_wins_and_the_others_are_its_echo() -> None:
    found = first_failure([ended(0, 12.0, 1), ended(1, 11.0, 3), ended(2, 13.0, 1), ended(3, 9.0)])
    assert found is not None
    assert (found.first.label, found.exit_code, found.origin) == ("worker-1/0", 3, "job")
    assert [one.label for one in found.echoes] == ["worker-0/0", "worker-2/0"] and found.ties == ()


def test_a_broken_connection_is_an_echo_even_when_it_comes_first() -> None:
    found = first_failure([ended(0, 10.0, 1, reset=True), ended(1, 12.0, 3)])
    assert found is not None and found.first.label == "worker-1/0"


def test_where_all_lost_their_connection_the_first_of_them_is_named() -> None:
    found = first_failure([ended(0, 12.0, 1, reset=True), ended(1, 11.0, 1, reset=True)])
    assert found is not None and found.first.label == "worker-1/0"


def test_what_was_stopped_never_is_the_cause() -> None:
    found = first_failure([ended(0, 1.0, None, signal=9, stopped=True), ended(1, 2.0, 4)])
    assert found is not None and found.first.label == "worker-1/0"
    assert [one.label for one in found.echoes] == ["worker-0/0"]


def test_deaths_on_one_host_within_two_milliseconds_are_ties() -> None:
    found = first_failure([ended(0, 10.0, 1), ended(1, 10.0015, 1), ended(2, 10.1, 1)])
    assert found is not None
    assert [one.label for one in found.ties] == ["worker-1/0"]
    assert "at the same moment, as far as the clocks tell, also worker-1/0" in found.sentence


def test_on_two_hosts_the_errors_of_both_clocks_count() -> None:
    one, other = ended(0, 10.0, 1, host="a", error=0.02), ended(1, 10.05, 1, host="b", error=0.04)
    found = first_failure([one, other])
    assert found is not None and found.ties == (other,)
    found = first_failure([ended(0, 10.0, 1, host="a"), ended(1, 10.05, 1, host="b")])
    assert found is not None and found.ties == ()
    found = first_failure([ended(0, 10.0, 1, host="a"), ended(1, 10.05, 1, host="b")], {"a": 0.1})
    assert found is not None and len(found.ties) == 1


def test_a_reset_never_ties_with_a_failure_of_its_own() -> None:
    found = first_failure([ended(0, 10.0, 1), ended(1, 10.0, 1, reset=True)])
    assert found is not None and found.ties == ()


@given(st.permutations([ended(0, 12.0, 1), ended(1, 11.0, 3), ended(2, 11.5, 1, reset=True), ended(3)]))
def test_the_order_in_which_ends_are_heard_changes_nothing(exits: list[Exit]) -> None:
    found = first_failure(exits)
    assert found is not None
    assert (found.first.label, {one.label for one in found.echoes}) == (
        "worker-1/0",
        {"worker-0/0", "worker-2/0"},
    )


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        (ended(0, code=3), 3, "exited with code 3"),
        (ended(0, code=None, signal=11), 139, "was killed by signal 11 (SIGSEGV): a crash in native code"),
        (ended(0, code=None, signal=9), 137, "was killed by signal 9 (SIGKILL): somebody or the OOM killer"),
        (ended(0, code=None, signal=9, oom=True), 137, "(SIGKILL): out of memory"),
        (
            ended(0, code=None, signal=9, oom=True, memory_limit=3 << 30),
            137,
            "memory limit of 3Gi was reached",
        ),
        (ended(0, code=137, oom=True), 137, "exited with code 137 after a process was killed: out of memory"),
        (ended(0, code=127), 127, "exited with code 127 (by a shell's custom: a command was not found)"),
        (
            ended(0, code=None, signal=int(signal.SIGRTMIN) + 3),
            128 + int(signal.SIGRTMIN) + 3,
            "(SIGRTMIN+3)",
        ),
        (ended(0, code=None, signal=200), 328, "signal 200 (signal 200)"),
        (ended(0, code=None, lost=True), 125, ""),
    ],
)
def test_causes_and_codes(end: Exit, code: int, words: str) -> None:
    found = first_failure([end])
    assert found is not None
    assert found.exit_code == code and words in found.cause


def test_what_was_lost_or_never_began_is_told_with_its_reason() -> None:
    found = first_failure([verdict.not_started("worker-0/0", "worker-0", 0, "here", 1.0, "no such file")])
    assert found is not None
    assert (found.exit_code, found.origin, found.cause) == (127, "job", "could not be started: no such file")
    found = first_failure([verdict.lost("worker-0/0", "worker-0", 0, "there", 1.0, "its link is down")])
    assert found is not None
    assert (found.exit_code, found.origin) == (125, "hora")
    assert "was lost" in found.cause and "its link is down" in found.cause


def test_the_report_holds_at_most_fifty_lines_and_the_time_since_the_start() -> None:
    found = first_failure([ended(0, 12.5, 1, started_at=10.0), ended(1, 12.5, 1), ended(2, 20.0, 1)])
    assert found is not None
    report = verdict.failure(found, 2, [f"line {i}" for i in range(80)])
    assert (report.attempt, report.after, report.label) == (2, 2.5, "worker-0/0")
    assert len(report.last_lines) == 50 and report.last_lines[-1] == "line 79"
    assert (report.ties, report.echoes) == (("worker-1/0",), ("worker-2/0",))


@pytest.mark.parametrize(
    "line",
    [
        b"ConnectionResetError: [Errno 104] Connection reset by peer",
        b"BrokenPipeError: [Errno 32] Broken pipe",
        b"RuntimeError: [/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:3456",
        b"torch.distributed.DistBackendError: NCCL error: ncclRemoteError: a remote process exited",
        b"tensorflow.python.framework.errors_impl.UnavailableError: Socket closed",
    ],
)
def test_lines_that_tell_of_a_lost_peer(line: bytes) -> None:
    assert looks_like_reset(b"Traceback (most recent call last):\n  ...\n" + line + b"\n")


@pytest.mark.parametrize(
    "line", [b"", b"ValueError: bad learning rate", b"loss 0.3, reset optimizer", b"MemoryError"]
)
def test_lines_that_tell_of_no_lost_peer(line: bytes) -> None:
    assert not looks_like_reset(line)


def test_only_the_end_of_the_output_counts_for_a_reset() -> None:
    assert not looks_like_reset(b"Connection reset by peer\n" + b"epoch\n" * 4000)


def test_a_taken_address_is_seen() -> None:
    assert address_taken(b"OSError: [Errno 98] Address already in use\n")
    assert address_taken(b"EADDRINUSE\n")
    assert not address_taken(b"OSError: [Errno 99] Cannot assign requested address\n")


TRACEBACK = b'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\nValueError: no\n'


@pytest.mark.parametrize(
    ("end", "after", "output", "expected"),
    [
        (ended(0, code=1), 0.5, TRACEBACK, True),
        (ended(0, code=1), 0.5, b"", True),
        (ended(0, code=2), 0.5, b"usage: t.py [-h]\n", True),
        (ended(0, code=127), 0.5, b"sh: 1: nope: not found\n", True),
        (ended(0, code=1), 0.5, b"epoch 1\n" + TRACEBACK, False),  # progress before it
        (ended(0, code=1), 5.0, TRACEBACK, False),  # not at once
        (ended(0, code=None, signal=11), 0.5, b"", False),
        (ended(0, code=1, oom=True), 0.5, TRACEBACK, False),
        (ended(0, code=1, reset=True), 0.5, TRACEBACK, False),
        (ended(0, code=None, lost=True), 0.5, b"", False),
        (
            ended(0, code=1),
            0.5,
            TRACEBACK + b"ConnectionRefusedError: [Errno 111] Connection refused\n",
            False,
        ),
        (ended(0, code=1), 0.5, b"OSError: [Errno 98] Address already in use\n", False),
        (
            ended(0, code=1),
            0.5,
            b"python: can't open file 't.py': [Errno 2] No such file or directory\n",
            True,
        ),
        (
            ended(0, code=1),
            0.5,
            b'  File "t.py", line 1\n    def x(:\n          ^\nSyntaxError: invalid syntax\n',
            True,
        ),
        (ended(0, code=0), 0.5, b"", False),
    ],
)
def test_what_counts_as_a_mistake_of_the_user(end: Exit, after: float, output: bytes, expected: bool) -> None:
    assert user_error(end, after, output) is expected


@pytest.mark.parametrize(
    ("count", "text"), [(10, "10 bytes"), (1024, "1Ki"), (1536, "1.5Ki"), (3 << 20, "3Mi"), (5 << 30, "5Gi")]
)
def test_sizes_as_people_write_them(count: int, text: str) -> None:
    assert verdict.size(count) == text
