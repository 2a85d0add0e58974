"""Runs that must survive what programs, disks, readers and surroundings do to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.runs import Runs


@pytest.fixture
def runs(leaks: None, work: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    """Starts runs from the folder `work`, and ends what is left of them."""
    monkeypatch.chdir(work)
    started = Runs(work)
    yield started
    started.close()
