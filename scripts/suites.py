"""The suites behind `scripts/test`: one pytest for each folder of tests/, one after the other.

A suite that needs more than Python says so in tests/SUITE/needs.py: its `missing()` returns what the machine
lacks, in words, or None.  It may import what tests may.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
ORDER = ("unit", "golden")  # the quick ones first; the others follow by name
CORE = ("unit", "golden")  # suites whose coverage of the pure core counts
NOTHING_COLLECTED = 5  # pytest's exit code


@dataclass
class Outcome:
    suite: str
    code: int = 0
    passed: int = 0
    failed: int = 0
    skipped: list[str] = field(default_factory=list)  # "test: reason"
    not_run: str = ""  # the reason
    seconds: float = 0.0

    def __str__(self) -> str:
        counts = [f"{self.passed} passed"]
        counts += [f"{self.failed} failed"] if self.failed else []
        counts += [f"{len(self.skipped)} skipped"] if self.skipped else []
        counts += [f"ended with code {self.code}"] if self.code not in (0, 1) else []
        return f"{self.suite} ({', '.join(counts)})"


def suites() -> list[str]:
    """Folders of tests/ that hold tests."""
    found = sorted(
        folder.name for folder in TESTS.iterdir() if folder.is_dir() and any(folder.rglob("test_*.py"))
    )
    return [name for name in ORDER if name in found] + [name for name in found if name not in ORDER]


def only_asked(suite: str) -> str:
    """Why the suite runs only when it is named; empty for those that always run."""
    return getattr(_needs(suite), "ONLY_ASKED", "")


def missing(suite: str) -> str | None:
    """What the machine lacks for the suite."""
    needs = _needs(suite)
    return None if needs is None else needs.missing()


def _needs(suite: str) -> Any:
    file = TESTS / suite / "needs.py"
    if not file.exists():
        return None
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    spec = importlib.util.spec_from_file_location(f"needs_{suite}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} can not be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(suite: str, paths: list[str], options: list[str], measure: bool, scratch: Path) -> Outcome:
    outcome = Outcome(suite)
    reason = missing(suite)
    if reason:
        outcome.not_run = reason
        return outcome
    report = scratch / f"{suite}.xml"
    python = [sys.executable, *(["-m", "coverage", "run", "-m"] if measure else ["-m"])]
    command = [
        *python,
        "pytest",
        "-q",
        f"--junit-xml={report}",
        "-o",
        "junit_family=xunit2",
        *options,
        *paths,
    ]
    print(f"── {suite}", flush=True)
    began = time.monotonic()
    outcome.code = subprocess.call(command, cwd=ROOT, stdin=subprocess.DEVNULL)
    outcome.seconds = time.monotonic() - began
    if outcome.code == NOTHING_COLLECTED:
        outcome.code, outcome.not_run = 0, "no test matches"
    elif report.exists():
        count(report, outcome)
    return outcome


def count(report: Path, outcome: Outcome) -> None:
    for case in ElementTree.parse(report).iter("testcase"):
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed += 1
        elif skip is not None and skip.get("type") != "pytest.xfail":
            outcome.skipped.append(f"{case.get('name')}: {skip.get('message', '')}")
        else:
            outcome.passed += 1


def core_coverage() -> tuple[bool, str]:
    """Whether the pure core is covered as pyproject.toml asks, and what to say about it."""
    coverage = [sys.executable, "-m", "coverage"]
    subprocess.call([*coverage, "combine", "--quiet"], cwd=ROOT)
    total = subprocess.run([*coverage, "report", "--format=total"], cwd=ROOT, capture_output=True, text=True)
    good = total.returncode == 0
    if not good:
        subprocess.call([*coverage, "report"], cwd=ROOT)
    percent = (total.stdout.split() or ["unknown"])[0]  # a line on the failure follows it
    return good, f"coverage of the pure core {percent} %"


def split(words: list[str]) -> tuple[bool, dict[str, list[str]], list[str]]:
    """--strict or not; paths by suite (none named: all suites); what is left goes to pytest."""
    chosen: dict[str, list[str]] = {}
    options: list[str] = []
    for word in words:
        path = Path(word.partition("::")[0]).absolute()
        path = path if path.exists() else ROOT / word.partition("::")[0]
        if word != "--strict" and path.exists() and path.is_relative_to(TESTS) and path != TESTS:
            suite = path.relative_to(TESTS).parts[0]
            chosen.setdefault(suite, []).append(f"{path}{''.join(word.partition('::')[1:])}")
        elif word != "--strict" and path != TESTS:
            options.append(word)
    return "--strict" in words, chosen, options


def main() -> int:
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(
            (ROOT / "scripts" / "test").read_text().split("set -eu")[0].partition("\n")[2].replace("# ", "")
        )
        return 0
    strict, chosen, options = split(sys.argv[1:])
    unknown = set(chosen) - set(suites())
    if unknown:
        print(
            f"test: no suite {', '.join(sorted(unknown))} in tests/; there are {', '.join(suites())}",
            file=sys.stderr,
        )
        return 2
    whole = not chosen and not options
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="hora-test-") as scratch:
        os.environ["COVERAGE_FILE"] = f"{scratch}/coverage"
        for suite in suites():
            if suite not in chosen and (chosen or only_asked(suite)):
                continue
            paths = chosen.get(suite, [str(TESTS / suite)])
            outcomes.append(run(suite, paths, options, whole and suite in CORE, Path(scratch)))
        covered, remark = core_coverage() if whole else (True, "")
    return verdict(outcomes, strict, covered, remark, filtered=bool(options))


def verdict(outcomes: list[Outcome], strict: bool, covered: bool, remark: str, filtered: bool) -> int:
    """Say what happened; the last line alone tells the whole."""
    for outcome in outcomes:
        for skip in outcome.skipped:
            print(f"skipped in {outcome.suite}: {skip}")
    ran = [outcome for outcome in outcomes if not outcome.not_run]
    left_out = [outcome for outcome in outcomes if outcome.not_run]
    failed = any(outcome.code for outcome in ran) or not covered or not ran
    if strict:
        failed = failed or bool(left_out and not filtered) or any(outcome.skipped for outcome in ran)
    parts = [f"ran {', '.join(map(str, ran)) or 'nothing'} in {sum(o.seconds for o in ran):.0f} s"]
    left_out += [
        Outcome(name, not_run=only_asked(name) or "not asked for")
        for name in suites()
        if name not in {o.suite for o in outcomes}
    ]
    reasons = [f"{outcome.suite} ({outcome.not_run})" for outcome in left_out]
    parts.append(f"did not run {', '.join(reasons)}" if reasons else "every suite ran")
    parts += [remark] if remark else []
    print(f"test: {'FAILED' if failed else 'ok'}: {'; '.join(parts)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
