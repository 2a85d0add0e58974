"""Preparing ranks for questions after their stacks: the sitecustomize in `hooks/`, and what leads to it."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping

# For the main thread; the next number is for all threads (see hooks/sitecustomize.py).
# High and off the ends: other libraries take SIGRTMIN and up, or SIGRTMAX (valgrind) and down.
SIGNAL = int(signal.SIGRTMAX) - 5 if hasattr(signal, "SIGRTMAX") else 0


def hook_source() -> bytes:
    """The text of the sitecustomize, also out of a .pyz."""
    path = os.path.join(os.path.dirname(__file__), "hooks", "sitecustomize.py")
    data: bytes = globals()["__loader__"].get_data(path)
    return data


def install(folder: str) -> None:
    """Write the hook below `folder`, for `environment`."""
    hooks = os.path.join(folder, "hooks")
    os.makedirs(hooks, exist_ok=True)
    os.makedirs(os.path.join(folder, "stacks"), mode=0o700, exist_ok=True)
    path = os.path.join(hooks, "sitecustomize.py")
    with open(path + ".new", "wb") as file:
        file.write(hook_source())
    os.replace(path + ".new", path)


def stack_folder(folder: str) -> str:
    """Where the ranks' stack files are opened: what `stacks.ask` wants."""
    return os.path.join(folder, "stacks")


def environment(folder: str, env: Mapping[str, str], signum: int = SIGNAL) -> dict[str, str]:
    """What a rank's environment needs on top of `env`, after `install(folder)`."""
    if signum <= 0:
        return {}
    folder = os.path.abspath(folder)
    old = env.get("PYTHONPATH")
    return {
        "HORA_STACK_SIGNAL": str(int(signum)),
        "HORA_STACK_FOLDER": stack_folder(folder),
        "PYTHONPATH": os.path.join(folder, "hooks") + (os.pathsep + old if old else ""),
    }
