"""Every path of a run on this machine."""

from __future__ import annotations

import errno
import os

from hora.errors import PlaceError

NEEDED = 1 << 20  # bytes that a run without output needs
SOCKET_LIMIT = 100  # bytes that a Unix socket's path may have on every system, with some room


def state_folder() -> str:
    """Where runs are kept: $HORA_STATE, else below the user's state folder."""
    own = os.environ.get("HORA_STATE")
    if own:
        return os.path.abspath(own)
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "hora")


def runs_folder() -> str:
    return os.path.join(state_folder(), "runs")


def make_run_folder(name: str) -> str:
    """A new folder for one run; it must not exist."""
    path = os.path.join(runs_folder(), name)
    try:
        os.makedirs(runs_folder(), mode=0o700, exist_ok=True)
        found = os.statvfs(runs_folder())
        if found.f_blocks and found.f_bavail * found.f_frsize < NEEDED:  # some file systems don't count
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.mkdir(path, 0o700)
    except OSError as problem:
        raise cannot_make(path, problem) from problem
    return path


def cannot_make(path: str, problem: OSError) -> PlaceError:
    return PlaceError(
        f"{path} can't be made: {problem.strerror}. Runs are kept there; set HORA_STATE to a folder that can "
        "be written"
    )


def socket_path(run: str) -> str:
    """Short, and in a folder that only this user can enter."""
    asked = (os.environ.get("XDG_RUNTIME_DIR"), os.environ.get("TMPDIR"))
    base = next((each for each in asked if each and os.access(each, os.W_OK | os.X_OK)), "/tmp")
    folder = os.path.join(base, f"hora-{os.getuid()}")
    if len(os.path.join(folder, f"{run}.sock").encode()) > SOCKET_LIMIT:
        folder = f"/tmp/hora-{os.getuid()}"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as problem:
        raise PlaceError(f"{folder} can't be made for the run's socket: {problem.strerror}") from problem
    found = os.stat(folder)
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PlaceError(f"{folder} must belong to you alone (mode 700): remove it, or set XDG_RUNTIME_DIR")
    return os.path.join(folder, f"{run}.sock")
