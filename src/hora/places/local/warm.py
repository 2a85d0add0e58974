"""The keeper's process, started before the job is read: its imports overlap with ours."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CODE = (
    # In place of "": modules of the folder where the user is must not hide Python's own.
    "import sys; sys.path[0] = {place!r}; from hora.agent.local import main; sys.exit(main({owner}))"
)


FORGET_LIMIT = 10.0  # seconds for a keeper without a job to go
LOOK_AGAIN = 0.005
_begun: list[int] = []  # keepers of this process that nobody has waited for


def reap() -> None:
    """Long-lived callers start many runs: their keepers must not stay as zombies."""
    for pid in list(_begun):
        if _has_ended(pid):
            _begun.remove(pid)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True  # somebody else has waited, or SIGCHLD is ignored and nobody has to


class Warm:
    """A keeper that waits for its configuration; `forget` when there is none for it."""

    def __init__(self, attached: bool) -> None:
        reap()
        self.attached = attached
        self.owner: socket.socket | None = None
        theirs: socket.socket | None = None
        if attached:
            self.owner, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        reader, self._writer = os.pipe()
        place = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        actions = [(os.POSIX_SPAWN_DUP2, reader, 0)]
        number = -1
        if theirs is not None:  # not made inheritable: other threads may start processes just now
            number = max(reader, theirs.fileno(), 2) + 1
            actions.insert(0, (os.POSIX_SPAWN_DUP2, theirs.fileno(), number))
        code = _CODE.format(place=place, owner=number)
        self.pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-S", "-E", "-c", code],
            os.environ,
            file_actions=actions,
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE],
        )
        os.close(reader)
        if theirs is not None:
            theirs.close()

    def begin(self, config: dict[str, Any]) -> None:
        writer, self._writer = self._writer, -1
        _begun.append(self.pid)
        try:
            with os.fdopen(writer, "wb") as file:
                file.write(json.dumps(config).encode())
        except BrokenPipeError:
            pass  # it has died: that shows where its lead is looked for

    def forget(self) -> None:
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1
            self._wait()
        if self.owner is not None:
            self.owner.close()

    def _wait(self) -> None:
        """It goes by itself once it has found nothing on its standard input."""
        until = time.monotonic() + FORGET_LIMIT
        while not _has_ended(self.pid):
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(LOOK_AGAIN)  # to wait for one child alone there is nothing with a limit


# --- those that were started before a job was there ---

_ready: list[Warm] = []


def warm_up(attached: bool) -> None:
    """A job will be submitted soon."""
    _ready.append(Warm(attached))


def take(attached: bool) -> Warm:
    """The one that was started for it, else a new one."""
    for warm in _ready:
        if warm.attached == attached:
            _ready.remove(warm)
            return warm
    return Warm(attached)


def cool_down() -> None:
    """The job won't be submitted."""
    while _ready:
        _ready.pop().forget()
