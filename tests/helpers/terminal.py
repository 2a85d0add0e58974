"""A program on a real terminal: a pty with a window, keys to send, and what it shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from helpers.cli import changed

CTRL_C = b"\x03"
CTRL_D = b"\x04"
CTRL_Z = b"\x1a"
CTRL_BACKSLASH = b"\x1c"
ENTER = b"\r"

# Takes the pty as controlling terminal, then becomes the program.  A preexec_fn would do the same, but is
# unsafe (and warned about) where the test process has threads.
_TRAMPOLINE = (
    "import fcntl, os, signal, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "signal.signal(signal.SIGPIPE, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])"
)
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class Terminal:
    """`with Terminal([...]) as term: term.expect("ready"); term.send(CTRL_C); assert term.wait() == 130`."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        rows: int = 24,
        columns: int = 100,
        cwd: Path | None = None,
        env: Mapping[str, str | None] | None = None,
    ) -> None:
        self.master, slave = pty.openpty()
        self.seen = bytearray()
        self._expected = 0
        self.resize(rows, columns)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _TRAMPOLINE, *argv],
                stdin=slave,
                stdout=slave,
                stderr=slave,
                cwd=cwd,
                env=changed({"TERM": "xterm-256color", **(env or {})}),
                start_new_session=True,
            )
        finally:
            os.close(slave)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def text(self) -> str:
        """All that was shown so far, colours and cursor movements removed."""
        return _ESCAPES.sub(b"", bytes(self.seen)).decode("utf-8", "backslashreplace").replace("\r\n", "\n")

    def send(self, keys: bytes | str) -> None:
        data = keys.encode() if isinstance(keys, str) else keys
        while data:
            data = data[os.write(self.master, data) :]

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def expect(self, pattern: str, timeout: float = 20.0) -> re.Match[str]:
        """Wait until the regular expression matches in what came after the last match."""
        end = time.monotonic() + timeout
        while True:
            text = self.text
            found = re.compile(pattern, re.MULTILINE).search(text, self._expected)
            if found:
                self._expected = found.end()
                return found
            if not self._read(end):
                problem = (
                    "the program closed the terminal" if time.monotonic() < end else f"{timeout:g} s passed"
                )
                raise AssertionError(f"{problem}, {pattern!r} was not shown; shown was:\n{text}")

    def wait(self, timeout: float = 20.0) -> int:
        """Read until the program has ended; its exit code, negative for a signal."""
        end = time.monotonic() + timeout
        while self.process.poll() is None:
            if time.monotonic() > end:
                raise AssertionError(f"still running after {timeout:g} s; shown was:\n{self.text}")
            if not self._read(min(end, time.monotonic() + 0.05)) and self.master < 0:
                self.process.wait(max(0.0, end - time.monotonic()))
        while self._read(time.monotonic()):
            pass
        return self.process.returncode

    def hang_up(self) -> None:
        """Close the terminal, as closing its window does: the session gets SIGHUP."""
        if self.master >= 0:
            os.close(self.master)
            self.master = -1

    def _read(self, end: float) -> bool:
        """Read what is there, waiting until `end`; False when nothing came."""
        if self.master < 0:
            return False
        ready, _, _ = select.select([self.master], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:  # EIO: nobody holds the other side any more
            data = b""
        if not data:
            self.hang_up()
        self.seen += data
        return bool(data)

    def close(self) -> None:
        self.hang_up()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
