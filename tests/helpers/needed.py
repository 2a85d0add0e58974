"""What some pages of the documentation need, and not every machine has: the folder with its programs, or None.

Ask before a test has its own home.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

_TORCH = Path(__file__).resolve().parents[1] / "torch" / "needs.py"


def torch() -> Path | None:
    """Where scripts/torch-env has put `python` and `torchrun`."""
    spec = importlib.util.spec_from_file_location("torch_needs", _TORCH)
    assert spec is not None
    assert spec.loader is not None
    needs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(needs)
    return None if needs.missing() else Path(needs.environment()) / "bin"


def mpi() -> Path | None:
    """Where this Python is, if it has mpi4py and there is an `mpirun` on the PATH."""
    good = shutil.which("mpirun") is not None and importlib.util.find_spec("mpi4py") is not None
    return Path(sys.executable).parent if good else None
