"""When the disk is full: room for the last words, kept from the start and given up when it is needed."""

from __future__ import annotations

import errno
import os

SIZE = 128 << 10
FULL = (errno.ENOSPC, errno.EDQUOT)
EXIT_FULL = 74  # of a part of Hora that a full disk ended; EX_IOERR of sysexits.h


class Room:
    """A file below `folder` that holds nothing."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "room")
        try:
            with open(self._path, "wb", buffering=0) as file:
                file.write(bytes(SIZE))
        except OSError:
            self.give()  # a part of it would not do

    def give(self) -> None:
        try:
            os.unlink(self._path)
        except OSError:
            pass  # given already


def cannot_keep(folder: str, problem: OSError) -> str:
    """One sentence: why nothing more can be written below `folder`."""
    if problem.errno in FULL:
        return f"the disk that holds {folder} is full: free some space, or lower `output` in the job file"
    why = problem.strerror or str(problem)
    if problem.errno == errno.EFBIG:
        why += " (the limit is that of ulimit -f)"
    return f"{folder} can't be written: {why}"
