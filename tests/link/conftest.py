from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from link.mesh import Mesh


@pytest.fixture
def mesh(leaks: None, work: Path) -> Iterator[Mesh]:
    mesh = Mesh(work)
    yield mesh
    mesh.close()
