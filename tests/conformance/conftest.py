"""Every case runs on every place: `scripts/test tests/conformance --place=kubernetes`; absent, on this machine."""

from __future__ import annotations

import pytest

from cluster import fixtures
from cluster.fixtures import cluster, namespace, team
from helpers.cli import Cli
from helpers.places import PLACES, Place, User

__all__ = ["cluster", "namespace", "team"]


def pytest_addoption(parser: pytest.Parser) -> None:
    fixtures.pytest_addoption(parser)
    parser.addoption(
        "--place",
        action="append",
        choices=list(PLACES),
        help="only this place; may be repeated. Absent: all that take no cluster",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames:
        # Where pytest meets this file only while collecting, the option isn't there.
        chosen = metafunc.config.getoption("--place", default=None)
        chosen = chosen or [name for name, place in PLACES.items() if not place.only_asked]
        if "mpi" in metafunc.fixturenames:
            chosen = [name for name in chosen if PLACES[name].mpi]
        if "ordinary" in metafunc.fixturenames:  # root on this machine
            chosen = [name for name in chosen if PLACES[name].same_disk]
        metafunc.parametrize("place", [PLACES[name] for name in chosen], ids=list(chosen))


@pytest.fixture
def user(hora: Cli, place: Place, request: pytest.FixtureRequest) -> User:
    """A person who uses the place by the command line."""
    lacks = place.missing()
    if lacks:
        pytest.skip(f"{place.name}: {lacks}")
    if place.fixture:
        request.getfixturevalue(place.fixture)
    return User(hora, place)
