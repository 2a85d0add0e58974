"""The agent's side of hora-rank: ranks that mpirun started come in and are told what to become.

    door = RankDoor(path)
    caller = door.accept()            # when `door` is readable; None: it was nobody
    hello = door.read(caller)         # when `caller` is readable; None: not all there yet
    done = door.answer(caller, {...}, fd)   # False: call door.flush(caller) when `caller` is writable

No call blocks.  Standard library only, Python 3.8.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import struct

from hora.agent.rank_shim import HEAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

LONGEST_HELLO = 4096
_UCRED = struct.Struct("3i")  # pid, uid, gid
_SO_PEERPIDFD = 77  # Linux 6.5
_PIDFD_GET_INFO = 0xC040FF0B  # _IOWR(0xFF, 11, 64 bytes), Linux 6.13
_EXIT_CODE = 49  # of the fields in /proc/PID/stat that follow the name
_INFO = struct.Struct("QQ11Ii")  # mask, cgroup, ids, exit status
_INFO_EXIT = 1 << 3  # Linux 6.15


class DoorError(Exception):
    """A caller that is not let in, or went away.  One sentence; its connection is closed."""


class Caller:
    """One connection.  `pid` is the kernel's word, not the caller's."""

    def __init__(self, link: socket.socket, pid: int) -> None:
        self.link = link
        self.pid = pid
        self.heard = b""
        self.unsent = memoryview(b"")
        self.fd = -1  # our copy of the descriptor, until it has been sent

    def fileno(self) -> int:
        return self.link.fileno()

    def close(self) -> None:
        self.link.close()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class RankDoor:
    """A listening Unix socket, for this user's processes alone."""

    def __init__(self, path: str, backlog: int = 512) -> None:
        self.path = path
        self._link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._link.setblocking(False)
            self._link.bind(path)
            os.chmod(path, 0o600)
            self._link.listen(backlog)
        except OSError:
            self._link.close()
            raise

    def fileno(self) -> int:
        return self._link.fileno()

    def close(self) -> None:
        self._link.close()
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass  # its folder was removed first

    def accept(self) -> Caller | None:
        """The next caller; None when there is none (any more), or when it is another user's."""
        try:
            link, _ = self._link.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        link.setblocking(False)
        pid, uid = _peer(link)
        if uid != os.geteuid():
            link.close()
            return None
        return Caller(link, pid)

    def read(self, caller: Caller) -> dict[str, Any] | None:
        """The hello, once it is all there; `pid` in it is true."""
        try:
            data = caller.link.recv(LONGEST_HELLO)
        except BlockingIOError:
            return None
        except OSError as error:
            raise _closed(caller, f"went away: {error.strerror}") from error
        if not data:
            raise _closed(caller, "hung up before it said which rank it is")
        caller.heard += data
        line, end, _ = caller.heard.partition(b"\n")
        if not end:
            if len(caller.heard) > LONGEST_HELLO:
                raise _closed(caller, "says too much")
            return None
        return self._understood(caller, line)

    def _understood(self, caller: Caller, line: bytes) -> dict[str, Any]:
        try:
            hello = json.loads(line)
        except ValueError:
            hello = None
        if not isinstance(hello, dict) or hello.get("t") != "rank" or not isinstance(hello.get("rank"), int):
            raise _closed(caller, f"is no hora-rank of this version: it said {line[:80]!r}")
        hello["pid"] = caller.pid or hello.get("pid")
        return hello

    def answer(self, caller: Caller, message: Mapping[str, Any], fd: int = -1) -> bool:
        """Sends {"argv", "env", "cwd"} with the rank's output pipe, or {"error": text}.

        True: all sent and hung up.  False: `flush` when the caller is writable.  `fd` stays the caller's own.
        """
        body = json.dumps(message).encode()
        caller.unsent = memoryview(HEAD.pack(len(body)) + body)
        caller.fd = os.dup(fd) if fd >= 0 else -1
        return self.flush(caller)

    def flush(self, caller: Caller) -> bool:
        """Sends what the socket takes; True when all is sent and the connection closed."""
        try:
            while caller.unsent:
                caller.unsent = caller.unsent[self._send(caller) :]
        except BlockingIOError:
            return False
        except OSError as error:
            raise _closed(caller, f"went away: {error.strerror}") from error
        caller.close()
        return True

    def _send(self, caller: Caller) -> int:
        if caller.fd < 0:
            return caller.link.send(caller.unsent)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", caller.fd))]
        sent = caller.link.sendmsg([caller.unsent], rights)
        os.close(caller.fd)
        caller.fd = -1
        return sent


def _closed(caller: Caller, why: str) -> DoorError:
    caller.close()
    return DoorError(f"process {caller.pid} {why}")


def _peer(link: socket.socket) -> tuple[int, int]:
    """Process and user at the other end, as the kernel knows them."""
    if hasattr(socket, "SO_PEERCRED"):
        pid, uid, _ = _UCRED.unpack(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        return pid, uid
    # macOS: the user from xucred (LOCAL_PEERCRED), the process from LOCAL_PEERPID.
    cred = link.getsockopt(0, 0x001, 76)
    pid = struct.unpack("i", link.getsockopt(0, 0x002, 4))[0]
    return pid, struct.unpack_from("2I", cred)[1]


# --- a rank's end, though it is mpirun's child -------------------------------------------------------


def watch(caller: Caller) -> int | None:
    """A descriptor that becomes readable when the rank has ended; None where the kernel has none."""
    try:
        raw = caller.link.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, struct.calcsize("i"))
        return int(struct.unpack("i", raw)[0])
    except OSError:
        pass  # Linux before 6.5, macOS
    try:
        return os.pidfd_open(caller.pid)  # novm  # type: ignore[attr-defined,unused-ignore]
    except (AttributeError, OSError):
        return None


def ended(pidfd: int) -> int | None:
    """The wait status of an ended rank, from Linux 6.15 on.

    None: not reaped by mpirun yet (the descriptor hangs up when it is), or the kernel doesn't say; then
    mpirun's own verdict has to do.
    """
    info = bytearray(_INFO.pack(_INFO_EXIT, 0, *([0] * 12)))
    try:
        fcntl.ioctl(pidfd, _PIDFD_GET_INFO, info)
    except OSError:
        return None
    values = _INFO.unpack(bytes(info))
    return int(values[-1]) if values[0] & _INFO_EXIT else None


def ended_as_zombie(pid: int) -> int | None:
    """The wait status of a process that its parent has not looked at yet; None if it is no zombie (any more).

    Older kernels tell nothing else.  mpirun may be quicker: then its own verdict has to do.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[_EXIT_CODE]) if fields[0] == b"Z" else None


def reaped(pidfd: int) -> bool:
    """Whether the rank is gone and its launcher knows."""
    poller = select.poll()
    poller.register(pidfd, select.POLLHUP)
    return any(events & select.POLLHUP for _, events in poller.poll(0))
