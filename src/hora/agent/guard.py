"""What agent and keeper say to each other.

The agent hands the keeper a copy of every rank's pipe.  Should the agent be killed, the keeper ends all that
it had started, moves what still waits in the pipes into the journal, and starts a new agent: no line that a
rank wrote before is lost.
"""

from __future__ import annotations

import array
import json
import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple

    from hora.agent.frames import Header

_LONGEST = 4096


def pair() -> Tuple[socket.socket, socket.socket]:
    kind = getattr(socket, "SOCK_SEQPACKET", socket.SOCK_DGRAM)
    return socket.socketpair(socket.AF_UNIX, kind)


class Ward:
    """The agent's end."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def opened(self, key: str, header: Header, fd: int) -> None:
        text = json.dumps({"key": key, "header": header}).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        try:
            self.sock.sendmsg([b"o" + text], rights)
        except OSError:
            pass  # the keeper is gone; the agent hears of that by itself and ends the ranks

    def closed(self, key: str) -> None:
        try:
            self.sock.send(b"c" + key.encode())
        except OSError:
            pass


class Watcher:
    """The keeper's end: the pipes that are open now."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.pipes: Dict[str, Tuple[Header, int]] = {}

    def read(self) -> bool:
        """Take one message; False when the agent has gone."""
        ancillary = socket.CMSG_SPACE(array.array("i").itemsize)
        data, messages, _flags, _address = self.sock.recvmsg(_LONGEST, ancillary)
        if not data:
            return False
        if data[:1] == b"o":
            told = json.loads(data[1:].decode())
            self.pipes[told["key"]] = (told["header"], _descriptors(messages)[0])
        else:
            _header, fd = self.pipes.pop(data[1:].decode(), ({}, -1))
            if fd >= 0:
                os.close(fd)
        return True

    def read_all(self) -> None:
        """What was said before the agent died."""
        self.sock.setblocking(False)
        try:
            while self.read():
                pass
        except (BlockingIOError, ConnectionError):
            pass

    def close(self) -> None:
        for _header, fd in self.pipes.values():
            os.close(fd)
        self.pipes.clear()
        self.sock.close()


def _descriptors(messages: List[Tuple[int, int, bytes]]) -> List[int]:
    found = array.array("i")
    for level, kind, data in messages:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    for fd in found:
        os.set_inheritable(fd, False)
    return list(found)
