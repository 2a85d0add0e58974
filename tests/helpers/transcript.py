"""Run the console blocks of a page as a reader would, and compare what they print with what the page shows.

A line `$ command` runs; `> ` lines, and those after a backslash, continue it; all others are what is shown.
Shown output is compared loosely:

- a line `...` (or `…`) stands for any lines, `...` within a line for any text;
- durations, times, sizes measured, run ids, process ids and host names are equal to any other;
- what Hora says of a wait (`hora: starting: ...`) may come where the page doesn't show it, on slow machines;
- lines of ranks (`worker-0/0 | text`) are in order within each rank, but ranks may mix in any way;
- nothing shown: anything may be printed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from helpers.markdown import Block

TIMEOUT = 180.0
ANY_LINES = ("...", "…")


@dataclass(frozen=True)
class Step:
    where: str
    command: str
    shown: tuple[str, ...]


def steps(block: Block) -> list[Step]:
    """The commands of a block.  An `sh` block without `$ ` is one script."""
    lines = block.text.rstrip("\n").split("\n")
    if not any(line.startswith("$ ") for line in lines):
        return [Step(block.where, block.text, ())]
    found: list[Step] = []
    for offset, line in enumerate(lines):
        continued = bool(found) and not found[-1].shown and found[-1].command.endswith("\\")
        if line.startswith("$ "):
            found.append(Step(f"{block.page.name}:{block.line + offset}", line[2:], ()))
        elif not found:
            raise ValueError(f"{block.where}: a console block begins with a line `$ command`, not {line!r}")
        elif continued or (line.startswith("> ") and not found[-1].shown):
            more = line[2:] if line.startswith("> ") else line
            found[-1] = Step(found[-1].where, f"{found[-1].command}\n{more}", ())
        else:
            found[-1] = Step(found[-1].where, found[-1].command, (*found[-1].shown, line))
    return found


def run(step: Step, cwd: Path, env: Mapping[str, str], exit_code: int = 0) -> None:
    """Run one step and compare; an AssertionError tells where the page and the truth part."""
    process = subprocess.Popen(
        ["bash", "-c", step.command],
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="backslashreplace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        raise AssertionError(
            f"{step.where}: not over after {TIMEOUT:g} s: {step.command}\n{output}"
        ) from None
    told = f"{step.where}: $ {step.command}\n{output}"
    assert process.returncode == exit_code, f"exit code {process.returncode}, not {exit_code}\n{told}"
    difference = compare(list(step.shown), output.rstrip("\n").split("\n"))
    assert difference is None, f"{difference}\n{told}"


def run_until(step: Step, cwd: Path, env: Mapping[str, str], exit_code: int, patience: float) -> None:
    """Run it again, for at most `patience` seconds, until it shows what the page shows."""
    end = time.monotonic() + patience
    while True:
        try:
            return run(step, cwd, env, exit_code)
        except AssertionError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)  # between two looks


# --- comparison --------------------------------------------------------------------------------------

_LABEL = re.compile(r"^([a-z][a-z0-9-]*-\d+/\w+) *\| ?(.*)$")
_PROGRESS = re.compile(r"hora: (queued|gathering|checking|starting|stopping): ")
_RUN_ID = "[bcdfghjkmnpqrstvwxz][bcdfghjkmnpqrstvwxz2456789]{4}"  # no vowels, so no words
_LOOSE = (
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), ""),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(\.\d+)?"), "<time>"),
    (re.compile(r"\b(\d+(\.\d+)? ?(ms|s|min|m|h|d)(?=\b|\d) ?)+(?<! )"), "<duration>"),
    (re.compile(r"\bpid[ :=]*\d+", re.IGNORECASE), "pid <n>"),
    (re.compile(r"\bprocess \d+, (\w+): \S*python\S*"), r"process <n>, \1: python"),
    (re.compile(r"\b\d+(\.\d+)? ?[KMG]i?B\b"), "<size>"),
    (re.compile(rf"\b{_RUN_ID}\b"), "<id>"),
    (re.compile(r"^([a-z][a-z0-9-]*-\d+/\w+) +\S+ +(\d+) +(\d+) +\d+ +"), r"\1 <host> \2 \3 <pid> "),
    (re.compile(r"^(first failure: .*) on [\w.-]+$"), r"\1 on <host>"),
    (re.compile(r"/(?:tmp|var|private|home|root|Users)/[^\s:'\"]+"), "<path>"),
    (re.compile(r"\s+"), " "),
)


def loosened(line: str) -> str:
    for pattern, instead in _LOOSE:
        line = pattern.sub(instead, line)
    return line.rstrip()


def streams(lines: list[str], any_lines: bool) -> dict[str, list[str]]:
    """The lines of each rank, and under "" the others.  Lines left out are left out of every stream."""
    labels = {match[1] for match in map(_LABEL.match, lines) if match} | {""}
    parted: dict[str, list[str]] = {label: [] for label in labels}
    for line in lines:
        if any_lines and line.strip() in ANY_LINES:
            for stream in parted.values():
                stream.append("...")
            continue
        match = _LABEL.match(line)
        parted[match[1] if match else ""].append(loosened(match[2] if match else line))
    return parted


def compare(shown: list[str], printed: list[str]) -> str | None:
    """None if what was printed is what is shown; else one sentence."""
    if not any(line.strip() for line in shown):
        return None
    printed = [line for line in printed if line in shown or not _PROGRESS.match(line)]
    expected, actual = streams(shown, True), streams(printed, False)
    if any(line.strip() in ANY_LINES for line in shown):
        actual = {label: lines for label, lines in actual.items() if label in expected}
    for label in sorted(set(expected) | set(actual)):
        wanted = [line for line in expected.get(label, []) if line]
        got = [line for line in actual.get(label, []) if line]
        if not _fits(wanted, got):
            return f"{label or 'output'}: the page shows {wanted}, printed was {got}"
    return None


def _fits(wanted: list[str], got: list[str]) -> bool:
    """Whether the lines fit the pattern, where a line `...` stands for any number of lines."""
    rows = {0}  # how many lines may have been used so far
    for pattern in wanted:
        if pattern in ANY_LINES:
            rows = set(range(min(rows), len(got) + 1)) if rows else set()
        else:
            rows = {row + 1 for row in rows if row < len(got) and _line_fits(pattern, got[row])}
    return len(got) in rows


def _line_fits(pattern: str, line: str) -> bool:
    parts = re.split(r"\.\.\.|…", pattern)
    return re.fullmatch(".*".join(map(re.escape, parts)), line) is not None
