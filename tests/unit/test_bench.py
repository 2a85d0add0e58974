"""The benchmarks work; no test looks at a time."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPO))


def bench(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.runner", "local", *words, "--results", str(folder)],
        cwd=REPO, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["start", "output", "agents", "command", "ranks", "memory", "demo"])
@pytest.mark.leaks
def test_each_benchmark_runs_quickly_and_keeps_its_figures(name: str, work: Path) -> None:
    done = bench(work, name, "--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((work / f"{name}.json").read_text())
    assert result["name"] == name
    assert result["quick"] is True
    assert result["met"] in (True, False, None)
    assert {"what", "goal", "version", "at"} <= set(result)
    assert set(result["machine"]) == {"cpu", "cores", "memory", "python", "system"}
    assert result["rows"]
    assert result["rows"][0]["value"] > 0
    for row in result["rows"]:
        assert {"who", "value", "unit", "rounds", "note"} <= set(row)
        assert row["value"] is not None or row["note"], "a figure that is missing says why"
        assert row["who"] in done.stdout


def test_an_unknown_benchmark_is_refused_with_the_known_ones(work: Path) -> None:
    done = bench(work, "strat")
    assert done.returncode == 2
    assert "no benchmark strat; there are start, output" in done.stderr


def test_a_benchmark_that_gets_wrong_bytes_fails() -> None:
    from benchmarks import output

    lines = [b"%d %08d %s\n" % (rank, number, b"x" * 88) for rank in (0, 1) for number in range(3)]
    whole = b"".join(b"worker-%d/0 | %s" % (line[0] - ord("0"), line) for line in lines)
    hashes = {rank: output.expected(rank, 3) for rank in (0, 1)}
    assert hashes[1] == hashlib.sha256(b"".join(lines[3:])).hexdigest()
    output.check(whole, hashes, 3)
    with pytest.raises(RuntimeError, match="bytes came out"):
        output.check(whole[:-1], hashes, 3)
    with pytest.raises(RuntimeError, match="rank 1"):
        output.check(whole[:-2] + b"y\n", hashes, 3)


def test_what_hangs_is_ended_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import measure

    with pytest.raises(measure.Hung, match=r"had not ended after 0\.2 s"):
        measure.timed(["sleep", "60"], limit=0.2)
    found = measure.in_turn({"sleep": lambda: measure.timed(["sleep", "60"], limit=0.1).seconds}, 2)
    row = measure.row("sleep", found["sleep"])
    assert row["value"] is None
    assert row["note"] == "hung in 2 of 2 rounds"


def test_rounds_of_the_contestants_take_turns() -> None:
    from benchmarks import measure

    told: list[str] = []
    found = measure.in_turn(
        {"a": lambda: told.append("a") or float(len(told)), "b": lambda: told.append("b") or 0.0}, 3
    )
    assert told == ["a", "b"] * 3
    assert measure.row("a", found["a"])["value"] == 3.0


def test_the_page_tells_every_figure_the_machine_and_whether_the_goal_was_met(work: Path) -> None:
    from benchmarks import machine, measure, page

    rows = [measure.row("hora", [0.5, 0.3, None], note="a note"), measure.absent("mpirun", "there is none")]
    result = {"name": "start", "what": "from A to B", "rows": rows, "goal": "at most 1 s", "met": True}
    told = {
        **result,
        "machine": machine.describe(),
        "at": "2026-01-31T12:00:00+00:00",
        "remark": "Slow today.",
    }
    (work / "start.json").write_text(json.dumps(told))
    text = page.page(work, ("start", "not-measured"))
    assert f"Measured 2026-01-31 on: {machine.line()}." in text
    assert "| hora | 0.4 s | 0.3 … 0.5 in 2 | a note; hung in 1 of 3 rounds |" in text
    assert "| mpirun | – | | there is none |" in text
    assert "From A to B.\n" in text and "Goal: at most 1 s: met.\n\nSlow today.\n" in text
