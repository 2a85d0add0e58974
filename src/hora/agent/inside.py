"""exec and shell: a process beside a rank, with the rank's environment and folder, over the link."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from contextlib import ExitStack

from hora.agent import pipes, proc, process
from hora.agent.loop import READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Optional, Tuple

    from hora.agent.frames import Header
    from hora.agent.loop import Loop
    from hora.agent.ranks import Ranks

CHUNK = 64 << 10
WINDOW = 1 << 20  # bytes on the way to a client; one that reads no more must not fill our memory
HANGUP_PAUSE = 2.0


class Session:
    """One exec or shell."""

    def __init__(self, number: int, pid: int, stdin: int, outputs: Dict[int, bool]) -> None:
        self.number = number
        self.pid = pid
        self.stdin = stdin  # -1 once closed
        self.outputs = outputs  # each with whether it is stderr; a terminal is its own only output
        self.tty = stdin in outputs
        self.unwritten = bytearray()
        self.end_of_input = False
        self.unread = 0  # bytes that the client has not read yet
        self.status: Optional[int] = None


class Inside:
    def __init__(self, loop: Loop, reply: Callable[..., bool], ranks: Ranks, cwd: str) -> None:
        self._loop = loop
        self._reply = reply
        self._ranks = ranks
        self._cwd = cwd
        self._sessions: Dict[int, Session] = {}

    def pids(self) -> List[int]:
        return [session.pid for session in self._sessions.values()]

    def frame(self, header: Header, body: bytes) -> None:
        """What a client has said, unread by the lead: whatever it is, it ends at most its own session."""
        number = header.get("id", 0)
        try:
            self._frame(number, header, body)
        except Exception as problem:  # noqa: BLE001
            text = f"{header['t']!r} can't be done like that: {problem!r}"
            self._reply({"t": "error", "id": number, "message": text})
            session = self._sessions.get(number)
            if session is not None:  # for its client the stream has ended
                self._hang_up(session)

    def _frame(self, number: int, header: Header, body: bytes) -> None:
        kind = header["t"]
        if kind == "exec":
            self._exec(number, header)
            return
        session = self._sessions.get(number)
        if session is None:
            return  # it has ended meanwhile
        if kind == "stdin":
            self._input(session, body, bool(header.get("end")))
        elif kind == "took":
            session.unread -= header["bytes"]
            self._watch(session)
        elif kind == "resize" and session.tty:
            _set_size(session.stdin, header["rows"], header["cols"])
        elif kind == "signal":
            process.signal_group(session.pid, header["signal"])

    # --- starting ---

    def _exec(self, number: int, header: Header) -> None:
        rank = self._ranks.by_label.get(header["label"])
        if rank is None:
            self._reply({"t": "error", "id": number, "message": f"{header['label']} has not started yet"})
            return
        env = dict(rank.env)
        env["TERM"] = header.get("term") or env.get("TERM", "dumb")
        argv = header["argv"] or _shell(env)
        try:
            path = process.find(argv[0], env, self._cwd)
            session = self._start(number, path, argv, env, header)
        except (process.CannotStart, OSError) as problem:
            code = getattr(problem, "code", process.NOT_EXECUTABLE)
            self._reply({"t": "error", "id": number, "message": str(problem), "code": code})
            return
        self._sessions[number] = session
        self._watch(session)

    def _start(self, number: int, path: str, argv: List[str], env: Dict[str, str], header: Header) -> Session:
        with ExitStack() as theirs, ExitStack() as ours:  # ours: unless it can't be started
            if header.get("tty"):
                master, slave = _closed_by(ours, theirs, os.openpty())
                _set_size(master, header.get("rows") or 24, header.get("cols") or 80)
                pid = process.spawn(path, argv, env, self._cwd, slave, stdin=slave, terminal=True)
                session = Session(number, pid, master, {master: False})
            else:
                stdin, in_reader = _closed_by(ours, theirs, os.pipe()[::-1])
                out, out_writer = _closed_by(ours, theirs, os.pipe())
                err, err_writer = _closed_by(ours, theirs, os.pipe())
                pid = process.spawn(
                    path, argv, env, self._cwd, out_writer, stdin=in_reader, errors=err_writer
                )
                session = Session(number, pid, stdin, {out: False, err: True})
            ours.pop_all()
        for end in {session.stdin, *session.outputs}:
            os.set_blocking(end, False)
        return session

    # --- streams ---

    def _watch(self, session: Session) -> None:
        """What can go on: reading while the client does, writing while there is something to write."""
        reads = READ if session.unread < WINDOW else 0
        for fd in {*session.outputs, session.stdin} - {-1}:
            writes = WRITE if fd == session.stdin and session.unwritten else 0
            events = (reads if fd in session.outputs else 0) | writes
            self._loop.watch(fd, events, lambda events, fd=fd: self._ready(session, fd, events))  # type: ignore[misc]

    def _ready(self, session: Session, fd: int, events: int) -> None:
        if events & WRITE:
            self._write(session)
        if events & READ and fd in session.outputs:
            self._output(session, fd)

    def _output(self, session: Session, fd: int) -> int:
        """Pass on what is there; how many bytes that were, at most CHUNK."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return 0
        except OSError:  # the other end of a terminal is gone
            data = b""
        if data:
            self._reply({"t": "data", "id": session.number, "error": session.outputs[fd]}, data)
            session.unread += len(data)
            if session.unread >= WINDOW:
                self._watch(session)
            return len(data)
        del session.outputs[fd]
        self._loop.unwatch(fd)
        if fd != session.stdin:
            os.close(fd)
        return 0

    def _input(self, session: Session, data: bytes, end: bool) -> None:
        session.unwritten += data
        session.end_of_input = session.end_of_input or end
        self._write(session)

    def _write(self, session: Session) -> None:
        if session.stdin < 0:
            return
        before = len(session.unwritten)
        try:
            while session.unwritten:
                del session.unwritten[: os.write(session.stdin, session.unwritten)]
        except BlockingIOError:
            pass
        except OSError:
            session.unwritten.clear()  # it reads no more
        if before != len(session.unwritten):
            self._reply({"t": "took", "id": session.number, "bytes": before - len(session.unwritten)})
        if session.end_of_input and not session.unwritten and not session.tty:
            self._loop.unwatch(session.stdin)
            os.close(session.stdin)
            session.stdin = -1
        self._watch(session)

    # --- ending ---

    def reaped(self, pid: int, status: int) -> bool:
        for session in self._sessions.values():
            if session.pid == pid:
                session.status = status
                self._finish_soon(session)
                return True
        return False

    def _finish_soon(self, session: Session) -> None:
        self._loop.after(0.0, lambda: self._finish(session))

    def _finish(self, session: Session) -> None:
        """It has ended: what it wrote is still in the pipes; a child that keeps one is not waited for."""
        for fd in list(session.outputs):
            left = pipes.waiting(fd)  # what that child goes on writing must not keep us here
            while left > 0 and fd in session.outputs:
                left -= self._output(session, fd)
        del self._sessions[session.number]
        for fd in {*session.outputs, session.stdin} - {-1}:
            self._loop.unwatch(fd)
            os.close(fd)
        code, number = process.exit_of(session.status or 0)
        self._reply({"t": "exited", "id": session.number, "code": code, "signal": number})

    def close_all(self) -> None:
        """The link or the run has ended: nobody looks any more."""
        for session in list(self._sessions.values()):
            self._hang_up(session)

    def _hang_up(self, session: Session) -> None:
        process.signal_group(session.pid, signal.SIGHUP)
        self._loop.after(HANGUP_PAUSE, lambda: self._kill(session))

    def _kill(self, session: Session) -> None:
        if session.status is None:  # else its number may be another's by now
            _kill_tree(session.pid)


def _shell(env: Dict[str, str]) -> List[str]:
    for path in (env.get("SHELL", ""), "/bin/bash", "/bin/sh"):
        if path and os.access(path, os.X_OK):
            return [path, "-i"]
    return ["sh", "-i"]


def _closed_by(ours: ExitStack, theirs: ExitStack, ends: Tuple[int, int]) -> Tuple[int, int]:
    """Both ends of a pipe or terminal, each to be closed by one of the two."""
    ours.callback(os.close, ends[0])
    theirs.callback(os.close, ends[1])
    return ends


def _set_size(fd: int, rows: int, cols: int) -> None:
    if fd >= 0:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def _kill_tree(pid: int) -> None:
    for one in [*proc.descendants(pid), pid]:
        process.signal_one(one, signal.SIGKILL)
