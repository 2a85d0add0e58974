"""Every case runs on every place that this machine can use: `pytest tests/conformance --place local`."""

from __future__ import annotations

import pytest

from helpers.cli import Cli
from helpers.places import PLACES, Place, User


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--place",
        action="append",
        choices=list(PLACES),
        help="only this place; may be repeated. Absent: all that this machine can use",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames:
        # Where pytest meets this file only while collecting, the option isn't there.
        chosen = metafunc.config.getoption("--place", default=None) or list(PLACES)
        metafunc.parametrize("place", [PLACES[name] for name in chosen], ids=list(chosen))


@pytest.fixture
def user(hora: Cli, place: Place) -> User:
    """A person who uses the place by the command line."""
    lacks = place.missing()
    if lacks:
        pytest.skip(f"{place.name}: {lacks}")
    return User(hora, place)
