"""Ranks for the tests of the command line, small enough to read."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.cli import Cli
from helpers.runs import wait_until


class Rank:
    """`rank("print(rank)")`: the words of a command; a rank that runs these lines of Python."""

    HEAD = "import os, signal, sys, time\nrank = int(os.environ['HORA_RANK'])\n"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def __call__(self, code: str, *arguments: str) -> list[str]:
        self.count += 1
        file = self.folder / f"rank{self.count}.py"
        file.write_text(self.HEAD + code)
        return [sys.executable, str(file), *arguments]

    @property
    def sleeps(self) -> list[str]:
        """Says so, then waits to be ended."""
        return self("print('here', flush=True)\ntime.sleep(600)")


@pytest.fixture
def rank(work: Path) -> Rank:
    return Rank(work)


@pytest.fixture
def alive(hora: Cli, rank: Rank) -> Iterator[Callable[..., str]]:
    """`alive("-n", "2", *command)`: the id of a detached run whose ranks all run; it is killed at the end."""

    def start(*words: str, until: Callable[[Any], bool] | None = None) -> str:
        run = hora("run", "--detach", "--quiet", *(words or ("-n", "2", *rank.sleeps))).check().stdout.strip()

        def runs() -> bool:
            return bool(hora("status", run, "-o", "json").json["phase"] == "running")

        wait_until(runs, f"run {run} runs")
        return run

    yield start
    hora("stop", "--all", "--kill", "--quiet")


def status_of(hora: Cli, run: str = "") -> Any:
    return json.loads(hora("status", *filter(None, [run]), "-o", "json").check().stdout)
