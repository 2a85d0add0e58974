"""These tests need a real torch, which is too large to install unasked."""

from __future__ import annotations

import os
from pathlib import Path


def environment() -> Path:
    """Where `scripts/torch-env` puts it.  Read before a test gets its own home."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("HORA_TEST_TORCH") or cache / "hora" / "torch")


def missing() -> str | None:
    if (environment() / ".done").exists():
        return None
    return "no torch in the cache folder: scripts/torch-env installs it, 0.8 GB"
