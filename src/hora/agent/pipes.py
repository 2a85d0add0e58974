"""Moving bytes from a rank's pipe into the journal without holding them in memory."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import struct
import sys
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Tuple

PIPE_SIZE = 1 << 20
_F_SETPIPE_SZ = 1031
_COPY = 256 << 10


def make_pipe() -> Tuple[int, int]:
    """A pipe with a non-blocking, roomy read end."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    if sys.platform == "linux":
        try:
            fcntl.fcntl(writer, _F_SETPIPE_SZ, PIPE_SIZE)
        except OSError:
            pass  # the user's share of pipe memory is used up: 64 KiB do, too
    return reader, writer


def waiting(fd: int) -> int:
    """Bytes that can be read now."""
    return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0])


def hung_up(fd: int) -> bool:
    """Whether all who could write are gone.  Reading would tell, too, but could take bytes out of the pipe that
    nobody else can find should this process be killed before it has kept them."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(events & (select.POLLHUP | select.POLLNVAL | select.POLLERR) for _, events in poll.poll(0))


def copy(source: int, target: int, length: int) -> int:
    """Read and write; `target` is at its file offset."""
    data = os.read(source, min(length, _COPY))
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]
    return len(data)


def splicer() -> Callable[[int, int, int], int]:
    """Linux moves the pages themselves (splice); elsewhere, and where the file system refuses, copy."""
    if sys.platform != "linux":
        return copy
    if hasattr(os, "splice"):
        native: Any = os.splice
    else:
        native = _splice_by_ctypes()
    refused: List[bool] = []

    def move(source: int, target: int, length: int) -> int:
        if not refused:
            try:
                return int(native(source, target, length))
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOSYS):
                    raise
                refused.append(True)
        return copy(source, target, length)

    return move


def _splice_by_ctypes() -> Callable[[int, int, int], int]:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.splice.restype = ctypes.c_ssize_t
    size = ctypes.c_size_t

    def native(source: int, target: int, length: int) -> int:
        moved = libc.splice(source, None, target, None, size(length), 0)
        if moved < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return int(moved)

    return native
