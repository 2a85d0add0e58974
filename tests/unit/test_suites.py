"""scripts/test: what its last line says, and when it fails.  A small copy of the repository, real runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]

CONFIG = """
[tool.pytest.ini_options]
testpaths = ["tests"]
[tool.coverage.run]
parallel = true
source = ["src"]
[tool.coverage.report]
fail_under = 95
"""


@pytest.fixture
def repo(work: Path) -> Path:
    """A checkout with the suites alpha and unit."""
    (work / "scripts").mkdir()
    for name in ("suites.py", "test"):
        shutil.copy(REPO / "scripts" / name, work / "scripts" / name)
    (work / "pyproject.toml").write_text(CONFIG)
    (work / "src").mkdir()
    (work / "src" / "core.py").write_text("def half(n):\n    return n // 2\n")
    write(work, "unit", "import core\ndef test_half(): assert core.half(4) == 2\ndef test_two(): pass\n")
    write(work, "alpha", "def test_three(): pass\n")
    return work


def write(repo: Path, suite: str, text: str) -> None:
    folder = repo / "tests" / suite
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"test_{suite}.py").write_text(text)


def run(repo: Path, *words: str, cwd: Path | None = None) -> tuple[int, str, str]:
    """Exit code, last line, everything."""
    done = subprocess.run(
        [sys.executable, str(repo / "scripts" / "suites.py"), *words],
        cwd=cwd or repo,
        env={**os.environ, "PYTHONPATH": str(repo / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, (done.stdout.splitlines() or [""])[-1], done.stdout + done.stderr


def test_the_last_line_names_every_suite_and_what_it_counted(repo: Path) -> None:
    code, last, everything = run(repo)
    assert code == 0, everything
    assert last.startswith("test: ok: ran unit (2 passed), alpha (1 passed) in ")
    assert last.endswith("; every suite ran; coverage of the pure core 100 %")


def test_a_failed_test_fails_the_whole_and_the_other_suites_still_run(repo: Path) -> None:
    write(repo, "unit", "import core\ndef test_half(): assert core.half(4) == 3\n")
    code, last, _ = run(repo)
    assert code == 1
    assert "FAILED: ran unit (1 failed)" in last or "FAILED: ran unit (0 passed, 1 failed)" in last
    assert "alpha (1 passed)" in last


def test_a_file_that_can_not_be_imported_fails_the_whole(repo: Path) -> None:
    write(repo, "alpha", "import nothing_of_that_name\n")
    code, last, _ = run(repo)
    assert code == 1
    assert "FAILED" in last


def test_code_of_the_core_without_a_test_fails_the_whole(repo: Path) -> None:
    with open(repo / "src" / "core.py", "a") as file:
        file.write("def more(n):\n" + "    n += 1\n" * 20)
    code, last, everything = run(repo)
    assert code == 1
    assert "FAILED" in last
    assert "coverage of the pure core" in last
    assert "core.py" in everything, "says where"


def test_a_skipped_test_is_named_and_fails_only_the_strict_run(repo: Path) -> None:
    write(repo, "alpha", "import pytest\n@pytest.mark.skip('no such disk')\ndef test_three(): pass\n")
    code, last, everything = run(repo)
    assert code == 0
    assert "alpha (0 passed, 1 skipped)" in last
    assert "skipped in alpha: test_three: no such disk" in everything
    code, last, _ = run(repo, "--strict")
    assert code == 1
    assert "FAILED" in last


def test_a_suite_that_lacks_something_says_what_and_fails_only_the_strict_run(repo: Path) -> None:
    (repo / "tests" / "alpha" / "needs.py").write_text("def missing():\n    return 'no mpirun on PATH'\n")
    code, last, _ = run(repo)
    assert code == 0
    assert "did not run alpha (no mpirun on PATH)" in last
    assert run(repo, "--strict")[0] == 1
    (repo / "tests" / "alpha" / "needs.py").write_text("def missing():\n    return None\n")
    assert run(repo, "--strict")[0] == 0


def test_paths_choose_the_suites_and_words_go_to_pytest(repo: Path) -> None:
    code, last, _ = run(repo, "tests/unit", "-k", "two")
    assert code == 0
    assert "ran unit (1 passed) in" in last
    assert "did not run alpha (not asked for)" in last
    code, last, _ = run(repo, "-k", "three")
    assert code == 0
    assert "ran alpha (1 passed)" in last
    assert "unit (no test matches)" in last


def test_a_single_test_can_be_named_from_any_folder(repo: Path, tmp_path: Path) -> None:
    code, last, _ = run(repo, "tests/unit/test_unit.py::test_two", cwd=tmp_path)
    assert code == 0
    assert "ran unit (1 passed) in" in last


def test_words_that_match_nothing_fail(repo: Path) -> None:
    code, last, _ = run(repo, "-k", "nothing_of_that_name")
    assert code == 1
    assert "ran nothing" in last


def test_help_says_how_to_use_it(repo: Path) -> None:
    code, _, everything = run(repo, "--help")
    assert code == 0
    assert "--strict" in everything
