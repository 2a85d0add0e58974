"""What docs/reference/faults.md promises is what these tests look for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from faults.cases import SINGLES, Case
from faults.page import DEFAULT_COUNT, FALLS, page
from faults.survived import OWN, ROWS, collected
from hora.state import FAILED, STOPPED

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "faults.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run scripts/docs-faults"


def test_every_test_of_these_suites_is_counted_once() -> None:
    for test in collected():
        rows = [what for what, names in ROWS if test.startswith(names)]
        assert len(rows) == (0 if test.startswith(OWN) else 1), f"{test} is counted in {rows}"


def test_the_long_run_has_as_many_faults_as_the_page_says() -> None:
    text = (ROOT / "tests" / "faults" / "long.py").read_text()
    assert f"default={DEFAULT_COUNT}" in text


@pytest.mark.parametrize("row", FALLS, ids=lambda row: row[0])
def test_a_row_of_the_page_is_what_the_tests_expect(row: tuple[str, str, str, str]) -> None:
    killed, run, code, sentence = row
    phase = {"fails": FAILED, "is stopped": STOPPED}.get(run)
    if phase is None:
        assert run == "goes on"
        return
    kinds = tuple(
        killed.split(", ")[0]
        .replace("a rank's descendant", "grandchild")
        .replace("a rank", "rank")
        .split(" and ")
    )
    assert set(kinds) <= set(SINGLES)
    fitting = [one for one in Case(kinds).outcomes() if one[:2] == (phase, int(code))]
    assert any(re.search(one[2], sentence) for one in fitting), fitting
