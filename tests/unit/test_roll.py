"""The names behind the numbers of the index."""

from __future__ import annotations

from pathlib import Path

from hora.agent.lead.roll import Roll


def a_roll(path: Path, *members: str, problems: list[OSError] | None = None) -> Roll:
    return Roll(str(path / "names"), list(members), [].append if problems is None else problems.append)


def test_numbers_are_the_same_for_whoever_reads_the_file(tmp_path: Path) -> None:
    roll = a_roll(tmp_path, "worker-0", "worker-1")
    assert [roll.host("b"), roll.host("a"), roll.host("b")] == [0, 1, 0]
    assert [roll.member("setup"), roll.member("worker-1")] == [2, 1]
    for other in (a_roll(tmp_path), a_roll(tmp_path, "worker-0", "worker-1")):
        assert (other.hosts, other.members) == (["b", "a"], ["worker-0", "worker-1", "setup"])
        assert [other.host("a"), other.member("setup")] == [1, 2]


def test_a_reader_beside_the_writer_takes_up_what_was_added(tmp_path: Path) -> None:
    roll, reader = a_roll(tmp_path, "worker-0"), a_roll(tmp_path)
    assert (reader.hosts, reader.members) == ([], [])
    for number in range(3):
        roll.host(f"host-{number}")
        reader.load()
        assert reader.hosts == roll.hosts
    assert reader.members == ["worker-0"]


def test_a_host_with_another_journal_gets_another_number_and_keeps_its_name(tmp_path: Path) -> None:
    roll = a_roll(tmp_path)
    assert [roll.settle("h", "first"), roll.settle("h", "first"), roll.host("h")] == [False, True, 0]
    assert [roll.settle("h", "second"), roll.host("h")] == [False, 1]
    again = a_roll(tmp_path)
    assert again.hosts == ["h", "h"]
    assert again.settle("h", "second")


def test_a_line_that_was_left_half_is_written_over(tmp_path: Path) -> None:
    a_roll(tmp_path).host("first")
    names = tmp_path / "names"
    names.write_bytes(names.read_bytes() + b'["host", "half')
    roll = a_roll(tmp_path)
    assert roll.hosts == ["first"]
    assert roll.host("second") == 1
    assert a_roll(tmp_path).hosts == ["first", "second"]


def test_what_could_not_be_written_is_told_and_written_with_the_next(tmp_path: Path) -> None:
    problems: list[OSError] = []
    roll = a_roll(tmp_path / "later", "worker-0", problems=problems)
    assert roll.host("first") == 0
    assert len(problems) == 1
    (tmp_path / "later").mkdir()
    assert roll.host("second") == 1
    other = a_roll(tmp_path / "later")
    assert (other.members, other.hosts) == (["worker-0"], ["first", "second"])
