"""Golden files: generated text that a person has read.

`pytest tests/golden --renew-golden` writes them anew; the diff is to be reviewed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--renew-golden", action="store_true", help="write the golden files anew; review the diff"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares text with a file of this folder."""
    # Where pytest meets this file only while collecting, the option isn't there.
    renew = request.config.getoption("--renew-golden", default=False)

    def compare(name: str, text: str) -> None:
        path = FOLDER / name
        if renew:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        kept = path.read_text(encoding="utf-8") if path.exists() else ""
        assert text == kept, f"{name} differs; if that is meant: pytest tests/golden --renew-golden"

    return compare
