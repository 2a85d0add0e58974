"""This terminal's streams, joined to those of commands beside ranks."""

from __future__ import annotations

import os
import select
import signal

from hora.cli import out
from hora.cli.stream import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from hora.session import Piece, Session

CHUNK = 64 << 10
TICK = 0.2  # seconds between looks at lines that wait for their end


def window() -> tuple[int, int]:
    """Columns and rows of this terminal."""
    size = os.get_terminal_size(out.STDOUT)
    return size.columns or 80, size.lines or 24


class Relay:
    """One session: stdin there, stdout and stderr here, signals and window too."""

    def __init__(self, session: Session, terminal: bool = False) -> None:
        self.session = session
        self.terminal = terminal
        self.input_open = True
        self.interrupts = 0
        self.signals: list[int] = []
        self.wake, self._wake_writer = os.pipe()

    def run(self) -> int:
        """Until the command has ended; its exit code."""
        self._take_signals()
        before = self._raw() if self.terminal else None
        try:
            while self.session.code is None:
                self._step()
            return self.session.code
        finally:
            if before is not None:
                import termios

                termios.tcsetattr(0, termios.TCSADRAIN, before)
            self.session.close()

    def _step(self) -> None:
        poll = select.poll()
        poll.register(self.session.fileno(), select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        if self.input_open and self.session.takes_more:
            poll.register(0, select.POLLIN)
        ready = {fd for fd, _ in poll.poll()}
        if self.wake in ready:
            os.read(self.wake, CHUNK)
            self._pass_on_signals()
        if self.session.fileno() in ready:
            show(self.session.read(0.0))
        if 0 in ready and self.session.code is None:
            self._pass_on_input()

    def _pass_on_input(self) -> None:
        try:
            data = os.read(0, CHUNK)
        except OSError:
            data = b""  # the terminal is gone
        if data:
            self.session.write(data)
        else:
            self.input_open = False
            self.session.end_input()

    # --- signals ---

    def _take_signals(self) -> None:
        """They come between two steps: in the middle of one they would break a frame in two."""
        os.set_blocking(self._wake_writer, False)
        signal.set_wakeup_fd(self._wake_writer)
        for number in (signal.SIGWINCH,) if self.terminal else (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: Any) -> None:
        self.signals.append(number)

    def _pass_on_signals(self) -> None:
        while self.signals:
            number = self.signals.pop(0)
            if number == signal.SIGWINCH:
                self.session.resize(*window())
                continue
            self.interrupts += number == signal.SIGINT
            if self.interrupts > 1:
                raise KeyboardInterrupt  # it doesn't want to end: leave it, it gets SIGHUP
            self.session.signal(number)

    @staticmethod
    def _raw() -> Any:
        import termios
        import tty

        before = termios.tcgetattr(0)
        tty.setraw(0, termios.TCSADRAIN)  # what was typed ahead is kept
        return before


def show(pieces: Sequence[Piece]) -> None:
    for piece in pieces:
        out.write(out.STDERR if piece.error else out.STDOUT, piece.data)


def everywhere(sessions: Sequence[Session]) -> int:
    """The same command beside every rank, lines marked with their rank; the exit code of the first failure."""
    streams = {False: Stream(out.STDOUT, True, False), True: Stream(out.STDERR, True, False)}
    poll = select.poll()
    for session in sessions:
        session.end_input()
        poll.register(session.fileno(), select.POLLIN)
    by_fd = {session.fileno(): session for session in sessions}
    first_failure = 0
    while by_fd:
        for fd, _ in poll.poll(TICK * 1000):
            session = by_fd[fd]
            for piece in session.read(0.0):
                streams[piece.error].feed(session.label, piece.data)
            if session.code is not None:
                first_failure = first_failure or session.code
                poll.unregister(fd)
                by_fd.pop(fd).close()
        if not all(stream.flush() and stream.tick() for stream in streams.values()):
            raise BrokenPipeError
    for stream in streams.values():
        stream.end()
    return first_failure
