"""Nothing needs root: the same commands as a user without any rights."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import hora
from helpers.places import Place

NOBODY = 65534
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def ordinary(work: Path, place: Place) -> Command:
    """Runs the command line as an ordinary user: oneself, or nobody where the tests run as root."""
    lacks = place.missing()
    if lacks:
        pytest.skip(f"{place.name}: {lacks}")
    source = Path(hora.__file__).parent
    if os.getuid() != 0:
        return _runner(sys.executable, source.parent, work)
    shutil.copytree(source, work / "src" / "hora", ignore=shutil.ignore_patterns("__pycache__"))
    for path in [work.parent, *work.parent.rglob("*")]:
        os.chown(path, NOBODY, NOBODY)
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        run = _runner(python, work / "src", work, user=NOBODY, group=NOBODY, extra_groups=[])
        try:
            if run("--version").returncode == 0:
                return run
        except OSError:
            continue  # in a folder that nobody may enter
    pytest.skip("no Python that another user than root may run")


def _runner(python: str, source: Path, cwd: Path, **identity: object) -> Command:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-m", "hora", *words],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            **identity,  # type: ignore[call-overload]
        )

    return run


def test_an_ordinary_user_runs_looks_stops_and_forgets(ordinary: Command, place: Place) -> None:
    done = ordinary(
        "run", "--on", place.name, *place.run_flags, "-n", "2", "sh", "-c", "echo $HORA_RANK $(id -u)"
    )
    assert done.returncode == 0, done.stderr
    uid = os.getuid() or NOBODY
    assert sorted(done.stdout.splitlines()) == [f"worker-{n}/0 | {n} {uid}" for n in (0, 1)]
    begun = ordinary("run", "--on", place.name, *place.run_flags, "--detach", "--quiet", "sleep", "600")
    assert begun.returncode == 0, begun.stderr
    run = begun.stdout.strip()
    for words in (("stop", run), ("status", run), ("logs", run), ("rm", run), ("ps",)):
        done = ordinary(words[0], "--on", place.name, *words[1:])
        assert done.returncode == 0, f"{words}: {done.stderr}"


def test_an_ordinary_user_looks_into_a_run(ordinary: Command, place: Place) -> None:
    begun = ordinary("run", "--on", place.name, *place.run_flags, "--detach", "--quiet", "sleep", "600")
    run = begun.stdout.strip()
    inside = ordinary("exec", "--on", place.name, run, "--", "id", "-u")
    assert (inside.returncode, inside.stdout.strip()) == (0, str(os.getuid() or NOBODY)), inside.stderr
    assert ordinary("stacks", "--on", place.name, run).returncode == 0
    assert ordinary("stop", "--on", place.name, run, "--kill").returncode == 0
