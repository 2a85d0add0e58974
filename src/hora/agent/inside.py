"""Streams between clients and this host, over the link: commands and shells beside a rank, copies, connections."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from contextlib import ExitStack

from hora.agent import proc, process
from hora.agent.stream import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Tuple

    from hora.agent.frames import Header
    from hora.agent.loop import Loop
    from hora.agent.ranks import Rank, Ranks

HANGUP_PAUSE = 2.0


class Inside:
    def __init__(self, loop: Loop, reply: Callable[..., bool], ranks: Ranks, address: str) -> None:
        self._loop = loop
        self._reply = reply
        self._ranks = ranks
        self._address = address  # of this host, where the place knows it
        self._streams: Dict[int, Stream] = {}

    def pids(self) -> List[int]:
        return [stream.pid for stream in self._streams.values() if stream.pid]

    def frame(self, header: Header, body: bytes) -> None:
        """What a client has said, unread by the lead: whatever it is, it ends at most its own stream."""
        number = header.get("id", 0)
        try:
            self._frame(number, header, body)
        except Exception as problem:  # noqa: BLE001
            text = f"{header['t']!r} can't be done like that: {problem!r}"
            self._reply({"t": "error", "id": number, "message": text})
            stream = self._streams.get(number)
            if stream is not None:  # for its client it has ended
                self._hang_up(stream)

    def _frame(self, number: int, header: Header, body: bytes) -> None:
        kind = header["t"]
        if kind in ("exec", "get", "put"):
            self._beside_a_rank(number, header)
            return
        if kind == "dial":
            self._dial(number, header)
            return
        stream = self._streams.get(number)
        if stream is None:
            return  # it has ended meanwhile
        if kind == "stdin":
            stream.input(body, bool(header.get("end")))
        elif kind == "took":
            stream.took(header["bytes"])
        elif kind == "resize" and stream.tty:
            _set_size(stream.stdin, header["rows"], header["cols"])
        elif kind == "signal" and stream.pid:
            process.signal_group(stream.pid, header["signal"])
        elif kind == "signal":  # of a client that has left
            self._forget(number)

    # --- starting ---

    def _beside_a_rank(self, number: int, header: Header) -> None:
        rank = self._ranks.by_label.get(header["label"])
        if rank is None:
            self._reply({"t": "error", "id": number, "message": f"{header['label']} has not started yet"})
            return
        start = self._exec if header["t"] == "exec" else self._copy
        try:
            stream = start(number, rank, header)
        except (process.CannotStart, OSError) as problem:
            code = getattr(problem, "code", process.NOT_EXECUTABLE)
            self._reply({"t": "error", "id": number, "message": str(problem), "code": code})
            return
        self._streams[number] = stream
        stream.watch()

    def _exec(self, number: int, rank: Rank, header: Header) -> Stream:
        env, cwd = dict(rank.env), rank.cwd
        env["TERM"] = header.get("term") or env.get("TERM", "dumb")
        argv = header.get("argv") or _shell(env)
        path = process.find(argv[0], env, cwd)
        if not header.get("tty"):
            return self._piped(
                number,
                lambda ends: process.spawn(path, argv, env, cwd, ends[1], stdin=ends[0], errors=ends[2]),
            )
        with ExitStack() as theirs, ExitStack() as ours:  # ours: unless it can't be started
            master, slave = _closed_by(ours, theirs, os.openpty())
            _set_size(master, header.get("rows") or 24, header.get("cols") or 80)
            pid = process.spawn(path, argv, env, cwd, slave, stdin=slave, terminal=True)
            ours.pop_all()
        return Stream(self._loop, self._reply, number, pid, master, {master: False})

    def _copy(self, number: int, rank: Rank, header: Header) -> Stream:
        """`get` and `put`: a child of ours reads and writes files, so no image needs a tool for it."""
        path = header["path"]
        if path == "~" or path.startswith("~/"):
            path = rank.env.get("HOME", "/") + path[1:]

        def work() -> int:
            from hora.agent import copying

            if header["t"] == "get":
                return copying.give(path)
            return copying.take(path, header["base"])

        return self._piped(number, lambda ends: process.spawn_work("hora-copy", work, rank.cwd, *ends))

    def _piped(self, number: int, start: Callable[[List[int]], int]) -> Stream:
        """`start` gets stdin, stdout and stderr of the process to be, and returns its number."""
        with ExitStack() as theirs, ExitStack() as ours:
            stdin, in_reader = _closed_by(ours, theirs, os.pipe()[::-1])
            out, out_writer = _closed_by(ours, theirs, os.pipe())
            err, err_writer = _closed_by(ours, theirs, os.pipe())
            pid = start([in_reader, out_writer, err_writer])
            ours.pop_all()
        return Stream(self._loop, self._reply, number, pid, stdin, {out: False, err: True})

    def _dial(self, number: int, header: Header) -> None:
        from hora.agent.dial import Dial
        from hora.agent.stream import Dialled

        def done(sock: object, problem: str) -> None:
            if problem:
                message = f"nothing answers at port {header['port']} beside {header['label']}: {problem}"
                self._reply({"t": "error", "id": number, "message": message})
                return
            stream = Dialled(self._loop, self._reply, number, sock, lambda: self._hung_up(number))  # type: ignore[arg-type]
            self._streams[number] = stream
            self._reply({"t": "dialled", "id": number})
            stream.watch()

        Dial(self._loop, int(header["port"]), self._address, done)

    # --- ending ---

    def reaped(self, pid: int, status: int) -> bool:
        stream = next((stream for stream in self._streams.values() if stream.pid == pid), None)
        if stream is None:
            return False
        stream.status = status
        self._loop.after(0.0, lambda: self._finish(stream))
        return True

    def _finish(self, stream: Stream) -> None:
        stream.close()
        del self._streams[stream.number]
        code, number = process.exit_of(stream.status or 0)
        self._reply({"t": "exited", "id": stream.number, "code": code, "signal": number})

    def _hung_up(self, number: int) -> None:
        if number in self._streams:
            self._forget(number)
            self._reply({"t": "exited", "id": number, "code": 0, "signal": None})

    def _forget(self, number: int) -> None:
        self._streams.pop(number).close()

    def close_all(self) -> None:
        """The link or the run has ended: nobody looks any more."""
        for stream in list(self._streams.values()):
            self._hang_up(stream)

    def _hang_up(self, stream: Stream) -> None:
        if not stream.pid:
            self._forget(stream.number)
            return
        process.signal_group(stream.pid, signal.SIGHUP)
        self._loop.after(HANGUP_PAUSE, lambda: self._kill(stream))

    def _kill(self, stream: Stream) -> None:
        if stream.status is None:  # else its number may be another's by now
            _kill_tree(stream.pid)


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
