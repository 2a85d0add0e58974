"""scripts/setup on machines that are not as they should be: one sentence each, nothing half-made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
TOOLS = ("cat", "dirname", "mkdir", "rm", "sh", "env")


@pytest.fixture
def clone(work: Path) -> Path:
    """A checkout under a name with a space, and a PATH with the barest tools in `bin`."""
    root = work / "my clone"
    (root / "scripts").mkdir(parents=True)
    shutil.copy(REPO / "scripts" / "setup", root / "scripts" / "setup")
    shutil.copy(REPO / "pyproject.toml", root / "pyproject.toml")
    (root / "bin").mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found, tool
        (root / "bin" / tool).symlink_to(found)
    return root


def program(clone: Path, name: str, text: str) -> None:
    file = clone / "bin" / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def setup(clone: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(clone / "scripts" / "setup")],
        cwd="/",
        env={"PATH": str(clone / "bin"), "HOME": os.environ["HOME"], **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_without_a_python_it_says_what_to_install(clone: Path) -> None:
    done = setup(clone)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "no Python 3.10 or newer on PATH" in done.stderr
    assert "apt install python3 python3-venv" in done.stderr


def test_a_shim_that_fails_and_a_python_that_is_too_old_are_passed_over(clone: Path) -> None:
    program(clone, "python3", "echo 'pyenv: python3: command not found' >&2; exit 127")
    program(clone, "python3.13", "exit 1")
    program(clone, "python3.11", f'exec "{sys.executable}" "$@"')
    venv = clone / ".venv-test"
    made_by_hand(venv, clone)
    done = setup(clone)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(venv / "bin" / "python")


def made_by_hand(venv: Path, clone: Path) -> None:
    """As if set up before: the stamp is the one that scripts/setup itself computes."""
    text = (clone / "scripts" / "setup").read_text()
    code = text.split('want=$("$python" - "$root" <<\'PYTHON\'\n')[1].split("PYTHON\n")[0]
    real = getattr(sys, "_base_executable", None) or sys.executable
    stamp = subprocess.run(
        [real, "-", str(clone)], input=code, capture_output=True, text=True, check=True
    ).stdout
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    (venv / ".made-from").write_text(stamp)


def test_a_python_without_ensurepip_says_what_to_install(clone: Path) -> None:
    program(clone, "python3", f'case "$2" in *ensurepip*) exit 1;; esac; exec "{sys.executable}" "$@"')
    blocked = clone / "blocked"
    blocked.mkdir()
    (blocked / "ensurepip.py").write_text("raise ImportError('removed by the distribution')\n")
    done = setup(clone, PYTHONPATH=str(blocked))
    assert done.returncode == 1
    assert "can't make virtual environments" in done.stderr
    assert "apt install python3-venv" in done.stderr
    assert not (clone / ".venv-test").exists()


def test_a_python_named_by_hand_must_work(clone: Path) -> None:
    done = setup(clone, HORA_PYTHON="/no/such/python")
    assert done.returncode == 1
    assert "HORA_PYTHON is /no/such/python" in done.stderr


def test_a_failed_installation_is_not_taken_for_a_made_environment(clone: Path) -> None:
    """No README.md and no package here: the build of the package must fail, and fail again."""
    program(clone, "python3", f'exec "{sys.executable}" "$@"')
    for _ in range(2):
        done = setup(clone, PIP_NO_INDEX="1", PIP_FIND_LINKS="", PIP_CONFIG_FILE=os.devnull)
        assert done.returncode == 1
        assert "the packages could not be installed" in done.stderr
        assert done.stdout == ""
