"""What reaches the terminal of what the ranks write."""

from __future__ import annotations

import hashlib

from helpers.places import User


def test_every_line_begins_with_its_rank(user: User) -> None:
    done = user("run", "-n", "3", "sh", "-c", "echo out $HORA_RANK; echo err $HORA_RANK >&2").check()
    assert done.ranks() == {f"worker-{n}/0": [f"out {n}", f"err {n}"] for n in range(3)}


def test_stdout_has_the_ranks_lines_and_nothing_else(user: User) -> None:
    done = user("run", "-n", "2", "echo", "hello").check()
    assert sorted(done.lines) == ["worker-0/0 | hello", "worker-1/0 | hello"]
    assert done.stderr != ""


def test_quiet_says_nothing_about_a_success(user: User) -> None:
    assert user("run", "--quiet", "true").check().stderr == ""


def test_lines_of_one_rank_keep_their_order(user: User) -> None:
    script = 'for number in range(20000): print(number, "x" * (number % 90))'
    done = user("run", "-n", "2", *user.python(script)).check()
    wanted = [f"{number} {'x' * (number % 90)}" for number in range(20000)]
    assert done.ranks() == {"worker-0/0": wanted, "worker-1/0": wanted}


def test_bytes_come_unchanged_without_the_prefix(user: User) -> None:
    script = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)"
    process = user.start("run", "--no-prefix", "--quiet", *user.python(script))
    out, _ = process.communicate(timeout=60)
    assert hashlib.sha256(out).digest() == hashlib.sha256(bytes(range(256)) * 1000).digest()


def test_bytes_that_are_not_text_do_not_break_the_stream(user: User) -> None:
    script = r'import sys; sys.stdout.buffer.write(b"\xff\xfe\x00\n\xc3\xa9\n")'
    process = user.start("run", "--quiet", *user.python(script))
    out, _ = process.communicate(timeout=60)
    assert out == b"worker-0/0 | \xff\xfe\x00\nworker-0/0 | \xc3\xa9\n"


def test_a_last_line_without_its_end_is_shown(user: User) -> None:
    done = user("run", "-n", "2", "printf", "almost there").check()
    assert sorted(done.lines) == ["worker-0/0 | almost there", "worker-1/0 | almost there"]


def test_a_line_of_some_megabytes_comes_whole(user: User) -> None:
    script = 'print("a" * 3_000_000); print("after")'
    done = user("run", *user.python(script)).check()
    assert done.ranks() == {"worker-0/0": ["a" * 3_000_000, "after"]}


def test_a_progress_bar_does_not_fill_the_screen(user: User) -> None:
    script = r"""
        import sys
        for percent in range(101):
            sys.stdout.write(f"\r{percent}%")
        print()
    """
    done = user("run", *user.python(script)).check()
    assert done.ranks() == {"worker-0/0": ["100%"]}


def test_what_is_written_just_before_a_kill_is_not_lost(user: User) -> None:
    script = """
        import os, signal
        for number in range(3000):
            print("line", number)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = user("run", *user.python(script)).check(137)
    assert done.ranks() == {"worker-0/0": [f"line {number}" for number in range(3000)]}


def test_a_rank_that_closes_its_stdout_goes_on(user: User) -> None:
    script = """
        import os, sys
        print("bye")
        os.close(1)
        sys.stderr.write("still here\\n")
        sys.stderr.flush()
        os._exit(0)
    """
    done = user("run", *user.python(script)).check()
    assert done.ranks() == {"worker-0/0": ["bye", "still here"]}


def test_ranks_have_no_input(user: User) -> None:
    done = user("run", "sh", "-c", "cat; echo end of input", input="not for you\n").check()
    assert done.ranks() == {"worker-0/0": ["end of input"]}
