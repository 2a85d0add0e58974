"""Where runs are kept, and what is said when that can't be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hora.errors import PlaceError
from hora.places.local import paths


def test_runs_are_kept_where_hora_state_says(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORA_STATE", str(work / "mine"))
    assert paths.runs_folder() == str(work / "mine" / "runs")


def test_a_relative_hora_state_is_made_absolute(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    monkeypatch.setenv("HORA_STATE", "mine")
    assert paths.state_folder() == str(work / "mine")


def test_runs_are_kept_in_the_users_state_folder(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    assert paths.state_folder() == "/somewhere/hora"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert paths.state_folder() == str(home / ".local" / "state" / "hora")


def test_a_run_folder_is_for_its_owner_alone() -> None:
    made = paths.make_run_folder("digits-ab2cd")
    assert os.stat(made).st_mode & 0o777 == 0o700


def test_a_state_folder_that_can_not_be_made_is_one_sentence(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "file").write_text("")
    monkeypatch.setenv("HORA_STATE", str(work / "file"))
    with pytest.raises(PlaceError, match=r"file/runs.* can't be made: .*HORA_STATE to a folder") as caught:
        paths.make_run_folder("digits-ab2cd")
    assert "\n" not in str(caught.value)


def test_a_name_that_is_taken_is_refused() -> None:
    paths.make_run_folder("digits-ab2cd")
    with pytest.raises(PlaceError, match="exists"):
        paths.make_run_folder("digits-ab2cd")


def test_sockets_are_in_a_folder_that_only_the_user_can_enter() -> None:
    path = paths.socket_path("ab2cd")
    assert path.endswith("/ab2cd.sock")
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700


def test_a_socket_path_stays_short_whatever_the_runtime_folder_is(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = work / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    assert len(paths.socket_path("ab2cd").encode()) <= paths.SOCKET_LIMIT


def test_without_a_runtime_folder_the_temporary_one_serves(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(work / "absent"))
    monkeypatch.setenv("TMPDIR", str(work))
    assert paths.socket_path("ab2cd").startswith(str(work))


def test_a_socket_folder_that_others_may_enter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = os.path.dirname(paths.socket_path("ab2cd"))
    os.chmod(folder, 0o755)
    with pytest.raises(PlaceError, match=r"must belong to you alone \(mode 700\): remove it"):
        paths.socket_path("ab2cd")
