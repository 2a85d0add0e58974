"""Ends the suite with what of the documentation did not run, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import needed
from helpers.markdown import blocks

ROOT = Path(__file__).resolve().parents[2]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for page in sorted(
        [ROOT / "README.md", *ROOT.glob("docs/guides/*.md"), *ROOT.glob("examples/*/README.md")]
    ):
        for block in blocks(page) if page.exists() else []:
            if "not run" in block.marks:
                terminalreporter.write_line(f"not run: {block.where}: {block.marks['not run']}")
            elif "needs" in block.marks and getattr(needed, block.marks["needs"])() is None:
                terminalreporter.write_line(f"not run: {block.where}: no {block.marks['needs']} here")
