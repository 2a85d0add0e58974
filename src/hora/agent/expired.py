"""Runs that have ended longer ago than their `keep`: removed by whichever run ends next.

No daemon watches over them, and nobody waits while this looks.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

RUN, STATUS, LOCK = "run.json", "status.json", "lock"


def remove_expired(runs_folder: str) -> None:
    if not os.path.isdir(runs_folder):
        return
    for name in sorted(os.listdir(runs_folder)):
        folder = os.path.join(runs_folder, name)
        try:
            if _is_expired(folder):
                from shutil import rmtree  # rarely needed, and it loads every compressor there is

                rmtree(folder)
        except OSError as problem:
            print(f"keeper: {folder} should be removed: {problem}", file=sys.stderr, flush=True)


def _is_expired(folder: str) -> bool:
    info = _read(os.path.join(folder, RUN))
    status = _read(os.path.join(folder, STATUS))
    if info is None or status is None or info.get("keep") is None:
        return False
    if time.time() - os.stat(os.path.join(folder, STATUS)).st_mtime < info["keep"]:
        return False
    return not _lives(folder)


def _lives(folder: str) -> bool:
    """Its keeper holds the lock as long as it lives."""
    try:
        with open(os.path.join(folder, LOCK), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


def _read(path: str) -> Optional[Dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            data = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return data if isinstance(data, dict) else None
