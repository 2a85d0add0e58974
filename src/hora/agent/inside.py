"""exec and shell: a process beside a rank, with the rank's environment and folder, over the link."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios

from hora.agent import proc, process
from hora.agent.loop import READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Optional

    from hora.agent.frames import Header
    from hora.agent.loop import Loop
    from hora.agent.ranks import Ranks

CHUNK = 64 << 10
HANGUP_PAUSE = 2.0


class Session:
    """One exec or shell."""

    def __init__(self, number: int, pid: int, stdin: int, stdout: int, tty: bool) -> None:
        self.number = number
        self.pid = pid
        self.stdin = stdin  # -1 once closed
        self.stdout = stdout  # -1 once at its end
        self.tty = tty
        self.unwritten = b""
        self.end_of_input = False
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
        kind, number = header["t"], header.get("id", 0)
        if kind == "exec":
            self._exec(number, header)
            return
        session = self._sessions.get(number)
        if session is None:
            return  # it has ended meanwhile
        if kind == "stdin":
            self._input(session, body, bool(header.get("end")))
        elif kind == "resize" and session.tty:
            _set_size(session.stdout, header["rows"], header["cols"])
        elif kind == "signal":
            _signal_group(session.pid, header["signal"])

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
        self._loop.watch(session.stdout, READ, lambda _events: self._output(session))

    def _start(self, number: int, path: str, argv: List[str], env: Dict[str, str], header: Header) -> Session:
        if header.get("tty"):
            master, slave = os.openpty()
            _set_size(master, header.get("rows") or 24, header.get("cols") or 80)
            pid = process.spawn(path, argv, env, self._cwd, slave, stdin=slave, terminal=True)
            os.close(slave)
            os.set_blocking(master, False)
            return Session(number, pid, master, master, True)
        in_reader, in_writer = os.pipe()
        out_reader, out_writer = os.pipe()
        pid = process.spawn(path, argv, env, self._cwd, out_writer, stdin=in_reader)
        os.close(in_reader)
        os.close(out_writer)
        for end in (in_writer, out_reader):
            os.set_blocking(end, False)
        return Session(number, pid, in_writer, out_reader, False)

    # --- streams ---

    def _output(self, session: Session) -> None:
        try:
            data = os.read(session.stdout, CHUNK)
        except BlockingIOError:
            return
        except OSError:  # the other end of a terminal is gone
            data = b""
        if data:
            self._reply({"t": "data", "id": session.number}, data)
            return
        self._loop.unwatch(session.stdout)
        if not session.tty:
            os.close(session.stdout)
        session.stdout = -1 if not session.tty else session.stdout
        session.end_of_input = True
        self._finish(session, output_ended=True)

    def _input(self, session: Session, data: bytes, end: bool) -> None:
        session.unwritten += data
        session.end_of_input = session.end_of_input or end
        self._write(session)

    def _write(self, session: Session) -> None:
        if session.stdin < 0:
            return
        try:
            while session.unwritten:
                session.unwritten = session.unwritten[os.write(session.stdin, session.unwritten) :]
        except BlockingIOError:
            self._wait_to_write(session)
            return
        except OSError:
            session.unwritten = b""  # it reads no more
        if session.tty:
            self._loop.watch(session.stdin, READ, lambda _events: self._output(session))
        elif session.end_of_input:
            self._loop.unwatch(session.stdin)
            os.close(session.stdin)
            session.stdin = -1

    def _wait_to_write(self, session: Session) -> None:
        def ready(events: int) -> None:
            if events & WRITE:
                self._write(session)
            if events & READ and session.tty:
                self._output(session)

        self._loop.watch(session.stdin, (READ | WRITE) if session.tty else WRITE, ready)

    # --- ending ---

    def reaped(self, pid: int, status: int) -> bool:
        for session in self._sessions.values():
            if session.pid == pid:
                session.status = status
                self._later(session)
                return True
        return False

    def _later(self, session: Session) -> None:
        self._loop.after(0.0, lambda: self._drain(session))

    def _drain(self, session: Session) -> None:
        """It has ended: what it wrote is still in the pipe; a child that keeps the pipe is not waited for."""
        if session.number not in self._sessions:
            return
        while session.stdout >= 0:
            try:
                data = os.read(session.stdout, CHUNK)
            except OSError:
                break
            if not data:
                break
            self._reply({"t": "data", "id": session.number}, data)
        self._finish(session, output_ended=True)

    def _finish(self, session: Session, output_ended: bool) -> None:
        if session.status is None or not output_ended or session.number not in self._sessions:
            return
        del self._sessions[session.number]
        for fd in {session.stdin, session.stdout} - {-1}:
            self._loop.unwatch(fd)
            os.close(fd)
        code, number = process.exit_of(session.status)
        self._reply({"t": "exited", "id": session.number, "code": code, "signal": number})

    def close_all(self) -> None:
        """The link or the run has ended: nobody looks any more."""
        for session in list(self._sessions.values()):
            _signal_group(session.pid, signal.SIGHUP)
            self._loop.after(HANGUP_PAUSE, lambda pid=session.pid: _kill_tree(pid))  # type: ignore[misc]


def _shell(env: Dict[str, str]) -> List[str]:
    for path in (env.get("SHELL", ""), "/bin/bash", "/bin/sh"):
        if path and os.access(path, os.X_OK):
            return [path, "-i"]
    return ["sh", "-i"]


def _set_size(fd: int, rows: int, cols: int) -> None:
    if fd >= 0:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _kill_tree(pid: int) -> None:
    for one in [*proc.descendants(pid), pid]:
        try:
            os.kill(one, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
