"""Runs that were kept long enough are removed by whichever run ends next."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path

import pytest

import hora
from hora.agent.expired import remove_expired
from hora.places.local.place import LocalPlace, is_locked


def make(runs: Path, name: str, keep: float | None, age: float) -> Path:
    folder = runs / name
    (folder / "output").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"id": name, "keep": keep}))
    (folder / "status.json").write_text("{}")
    moment = time.time() - age
    os.utime(folder / "status.json", (moment, moment))
    return folder


def test_only_ended_runs_past_their_time_are_removed(tmp_path: Path) -> None:
    make(tmp_path, "old", keep=100, age=200)
    make(tmp_path, "young", keep=100, age=50)
    make(tmp_path, "for-ever", keep=None, age=1e9)
    alive = make(tmp_path, "alive", keep=1, age=1e6)
    (tmp_path / "no-run").mkdir()
    (tmp_path / "a-file").write_text("")
    with open(alive / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_expired(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["a-file", "alive", "for-ever", "no-run", "young"]


def test_one_broken_folder_does_not_save_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = make(tmp_path, "a-broken", keep=1, age=100)
    (broken / "status.json").unlink()
    (broken / "status.json").mkdir()  # reading it is an error of the system
    make(tmp_path, "b-old", keep=1, age=100)
    remove_expired(str(tmp_path))
    assert os.listdir(tmp_path) == ["a-broken"]
    assert "should be removed" in capsys.readouterr().err


@pytest.mark.leaks
def test_a_run_that_ends_takes_the_expired_ones_with_it() -> None:
    first = hora.submit(hora.Job(command=["true"], keep="1ms"))
    first.wait()
    place = LocalPlace()
    while is_locked(place.folder(first.id)):  # its keeper tidies up
        time.sleep(0.01)
    second = hora.submit(hora.Job(command=["true"]))
    second.wait()
    until = time.monotonic() + 20
    while [status.id for status in hora.list_runs()] != [second.id]:
        assert time.monotonic() < until, hora.list_runs()
        time.sleep(0.05)
