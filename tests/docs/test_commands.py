"""Every console block of the README, the guides and the examples runs, and prints what the page shows.

A page is a story: its blocks run in order, in one empty folder (an example has a copy of its own).  Comments
before a block, which readers do not see, say what the test must know:

    <!-- file: train.py -->       the block is that file's content; later commands find it
    <!-- exit: 3 -->              its last command ends with this code
    <!-- again for: 20 s -->      a command that shows something else is run again for so long: a run needs a moment
    <!-- in: clone -->            it runs in a copy of this repository
    <!-- needs: torch -->         it runs where that is (see tests/helpers/needed.py); elsewhere it is listed
    <!-- not run: why -->         it doesn't run; the reason is listed

`tests/helpers/transcript.py` tells how output is compared.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import ORIGINAL_ENVIRONMENT, needed, transcript
from helpers.markdown import Block, blocks

ROOT = Path(__file__).resolve().parents[2]
PLACES = {"torch": needed.torch(), "mpi": needed.mpi()}
LANGUAGES = ("console", "sh", "bash", "shell")
MARKS = {"again for", "file", "exit", "in", "needs", "not run"}


def pages() -> list[Path]:
    guides = sorted((ROOT / "docs" / "guides").glob("*.md"))
    examples = sorted((ROOT / "examples").glob("*/README.md"))
    return [page for page in (ROOT / "README.md", *guides, *examples) if page.exists()]


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PATH with `hora`, `python` and `python3` of the environment that runs the tests."""
    folder = tmp_path_factory.mktemp("bin")
    commands = {"hora": "-m hora", "python": "", "python3": ""}
    for name, words in commands.items():
        file = folder / name
        file.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        file.chmod(0o755)
    return folder


def copy_of_the_repository(target: Path) -> Path:
    """The files that git knows or would add, as they are now."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listing.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return target


def environment(programs: Path) -> dict[str, str]:
    """The test's own home, and pip as the user has set it up: a page may install Hora."""
    env = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "110"}
    del env["PYTHONPATH"]  # what a page installs must stand on its own
    user = Path(ORIGINAL_ENVIRONMENT.get("HOME", "/"))
    env.setdefault("PIP_CACHE_DIR", str(user / ".cache" / "pip"))
    for config in (user / ".config" / "pip" / "pip.conf", user / ".pip" / "pip.conf"):
        if config.exists():
            env.setdefault("PIP_CONFIG_FILE", str(config))
    return env


def run_block(block: Block, folder: Path, clone: Path, env: dict[str, str]) -> None:
    if "file" in block.marks:
        file = folder / block.marks["file"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text, encoding="utf-8")
        return
    if block.language not in LANGUAGES or "not run" in block.marks:
        return
    if "needs" in block.marks:
        place = PLACES[block.marks["needs"]]
        if place is None:
            return
        env = {**env, "PATH": f"{place}{os.pathsep}{env['PATH']}"}
    if block.marks.get("in") == "clone" and not clone.exists():
        copy_of_the_repository(clone)
    todo = transcript.steps(block)
    for number, step in enumerate(todo, 1):
        code = int(block.marks.get("exit", 0)) if number == len(todo) else 0
        where = clone if block.marks.get("in") == "clone" else folder
        transcript.run_until(step, where, env, code, float(block.marks.get("again for", "0 s").rstrip(" s")))


@pytest.mark.leaks
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_the_page_run_and_print_what_it_shows(page: Path, work: Path, programs: Path) -> None:
    folder = work / page.parent.name
    if page.parent.parent == ROOT / "examples":
        shutil.copytree(page.parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        folder.mkdir()
    env = environment(programs)
    for block in blocks(page):
        run_block(block, folder, work.parent / "clone", env)  # not beside it: this folder may have that name


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_marks_are_known_and_what_does_not_run_says_why(page: Path) -> None:
    for block in blocks(page):
        assert set(block.marks) <= MARKS, f"{block.where}: unknown {sorted(set(block.marks) - MARKS)}"
        assert block.marks.get("in", "clone") == "clone", f"{block.where}: `in` can only be clone"
        assert block.marks.get("needs", "mpi") in PLACES, (
            f"{block.where}: `needs` can only be {', '.join(PLACES)}"
        )
        reason = block.marks.get("not run")
        if reason is not None:
            assert len(reason) > 8, f"{block.where}: say why it isn't run"
        elif block.language in ("console", *LANGUAGES) and "file" not in block.marks:
            assert transcript.steps(block)
