"""A full disk or a folder that can't be written ends in one sentence, never in a hang or a leftover."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hora as api
from helpers.cli import Cli
from helpers.runs import PATIENCE, Runs, is_running, lines_of, python, wait_until
from hora.errors import PlaceError

pytestmark = pytest.mark.leaks

NOBODY = 65534
FULL = "is full: free some space"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do that")


@pytest.fixture
def small_disk(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """A file system of that size as the state folder."""
    place = home.parent / "disk"

    def mount(size: str) -> Path:
        place.mkdir()
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(place)],
            capture_output=True,
            check=False,
            text=True,
        )
        if made.returncode:
            pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
        monkeypatch.setenv("HORA_STATE", str(place / "state"))
        return place

    yield mount
    if os.path.ismount(place):
        ctypes.CDLL(None).umount2(os.fsencode(place), 2)  # lazily, should something still hold it


WRITES_MUCH = r"""
    import os, sys
    for i in range(64 << 10):
        os.write(1, b"%06d" % i + b"x" * 1017 + b"\n")
"""


@AS_ROOT
def test_a_disk_that_fills_up_ends_the_run_with_one_sentence(
    small_disk: Callable[[str], Path], runs: Runs
) -> None:
    small_disk("8m")
    run, status = runs.ended(python(WRITES_MUCH), workers=2, timeouts={"grace": "1s"})
    assert (status.phase, status.exit_code, status.origin) == ("failed", 125, "hora"), status
    assert FULL in status.reason and "`output`" in status.reason, status.reason
    kept = lines_of(run)
    assert kept and all(line.endswith("x" * 1017) for lines in kept.values() for line in lines[:-1])


@AS_ROOT
def test_a_full_disk_and_a_silent_run_do_no_harm_to_one_another(
    small_disk: Callable[[str], Path], runs: Runs, work: Path
) -> None:
    disk = small_disk("8m")
    code = """
        import os, time
        while not os.path.exists("go"):
            time.sleep(0.02)
    """
    run = runs.start(python(code), workers=2, timeouts={"grace": "1s"})
    wait_until(lambda: run.status().phase == "running", "the run runs")
    fill(disk)
    (work / "go").touch()
    status = run.wait(PATIENCE, check=False)
    assert status.phase in ("succeeded", "failed"), status
    assert status.exit_code == 0 or FULL in status.reason, status.reason


@AS_ROOT
def test_a_disk_that_is_full_from_the_start_is_told_at_once(
    hora: Cli, small_disk: Callable[[str], Path]
) -> None:
    fill(small_disk("1m"))
    result = hora("run", "-n", "2", "true").check(125)
    told = result.stderr.strip().splitlines()
    assert len(told) == 1 and "No space left on device" in told[0] and "HORA_STATE" in told[0], result


@AS_ROOT
@pytest.mark.parametrize("room", [4, 16, 64, 200])
def test_a_disk_with_hardly_any_room_is_told_and_nothing_hangs(
    hora: Cli, small_disk: Callable[[str], Path], room: int
) -> None:
    fill(small_disk("4m"), leave=room << 10)
    result = hora("run", "-n", "2", "sh", "-c", "seq 100000", timeout=40)
    assert result.code == 125, result
    told = [line for line in result.stderr.splitlines() if "full" in line or "No space left" in line]
    assert told and "Traceback" not in result.stderr, result


def fill(disk: Path, leave: int = 0) -> None:
    """Use up the disk but for some bytes."""
    with open(disk / "filling", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            file.truncate(max(0, file.tell() - leave))


# --- folders that can't be used ----------------------------------------------------------------------


# Root whom file modes bind as they bind everybody.
BOUND = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)
WITH_MODES = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can do that, and with setpriv"
)


@WITH_MODES
@pytest.mark.parametrize("closed", ["state", "state/runs"])
def test_a_state_folder_that_cannot_be_written_is_one_sentence(hora: Cli, work: Path, closed: str) -> None:
    (work / closed).mkdir(parents=True)
    os.chown(work / closed, NOBODY, NOBODY)
    result = hora("run", "-n", "1", "true", env={"HORA_STATE": str(work / "state")}, prefix=BOUND).check(125)
    assert len(result.stderr.strip().splitlines()) == 1, result
    assert "Permission denied" in result.stderr and "HORA_STATE" in result.stderr


@WITH_MODES
def test_a_state_folder_that_cannot_be_read_is_one_sentence(hora: Cli, work: Path) -> None:
    (work / "state" / "runs").mkdir(parents=True)
    (work / "state" / "runs").chmod(0o700)
    os.chown(work / "state" / "runs", NOBODY, NOBODY)
    result = hora("ps", env={"HORA_STATE": str(work / "state")}, prefix=BOUND).check(125)
    assert len(result.stderr.strip().splitlines()) == 1 and "can't be read" in result.stderr, result


def test_a_state_folder_that_is_a_file_is_one_sentence(hora: Cli, work: Path) -> None:
    (work / "file").write_text("not a folder")
    for state in ("file", "file/below"):
        result = hora("run", "-n", "1", "true", env={"HORA_STATE": str(work / state)}).check(125)
        assert len(result.stderr.strip().splitlines()) == 1, result
        assert "HORA_STATE" in result.stderr and "can't be made" in result.stderr


def test_a_state_folder_with_a_hostile_name_is_as_good_as_any(
    runs: Runs, hostile_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORA_STATE", str(hostile_folder))
    run, status = runs.ended(["echo", "hello"])
    assert (status.phase, lines_of(run)) == ("succeeded", {"worker-0/0": ["hello"]})


def test_a_state_folder_with_a_long_path_is_as_good_as_any(
    runs: Runs, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORA_STATE", str(work / ("a" * 200) / ("b" * 200)))
    monkeypatch.setenv("TMPDIR", str(work / ("t" * 200)))
    (work / ("t" * 200)).mkdir()
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    run, status = runs.ended(["echo", "hello"])
    assert (status.phase, lines_of(run)) == ("succeeded", {"worker-0/0": ["hello"]})


def test_a_run_whose_folder_was_removed_ends(runs: Runs, home: Path) -> None:
    code = """
        import time
        while True:
            print("tick", flush=True)
            time.sleep(0.05)
    """
    run = runs.start(python(code), timeouts={"grace": "1s"})
    wait_until(lambda: run.status().phase == "running", "the run runs")
    pids = [rank.pid for member in run.status().members for rank in member.ranks]
    shutil.rmtree(home.parent / "state" / "hora" / "runs")
    runs.started.remove(run)
    wait_until(lambda: not any(is_running(pid) for pid in pids if pid), "its ranks end", 15.0)


def test_the_api_raises_what_the_command_line_says(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "file").write_text("not a folder")
    monkeypatch.setenv("HORA_STATE", str(work / "file"))
    with pytest.raises(PlaceError, match=r"can.t be made: .*HORA_STATE"):
        api.submit(api.Job(command=["true"], name="job"))
