"""Which journal is it?  By that a lead knows whether its copy can go on."""

from __future__ import annotations

from pathlib import Path

from hora.agent.journal import Journal


def test_a_journal_keeps_its_name_and_another_has_another(tmp_path: Path) -> None:
    first, other = Journal(str(tmp_path / "a")), Journal(str(tmp_path / "b"))
    home = first.home
    assert home
    assert first.home == home
    assert other.home != home
    first.close()
    other.close()
    again = Journal(str(tmp_path / "a"))
    assert again.home == home
    again.close()


def test_without_room_for_its_name_a_journal_has_one_for_its_lifetime(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "a"))
    (tmp_path / "a" / "home.new").mkdir()  # so that it can't be written, whoever runs this test
    home = journal.home
    assert home
    assert journal.home == home
    assert not (tmp_path / "a" / "home").exists()
    journal.close()
