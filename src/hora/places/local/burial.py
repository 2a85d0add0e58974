"""A run of which nobody is left: whoever looks at it next ends its leftovers and writes its end."""

from __future__ import annotations

import fcntl
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WHY = "its processes are gone without a verdict: all were killed, or the machine was restarted"


def bury(folder: str, info: dict[str, Any]) -> None:
    """Once; whoever comes second sees the end.  Raises OSError where the folder can't be written."""
    from hora.agent import keeper
    from hora.agent.lead.recovery import recover

    lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        keeper.sweep_run(info["id"])
        recover(folder, info["host"], info, WHY)
        remove_socket(info)
    finally:
        os.close(lock)


def remove_socket(info: dict[str, Any]) -> None:
    try:
        os.unlink(info["socket"])
    except FileNotFoundError:
        pass
