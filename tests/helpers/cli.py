"""Run the command line as a user does: as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-m", "hora")


@dataclass(frozen=True)
class Result:
    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()

    def ranks(self) -> dict[str, list[str]]:
        """The merged stream taken apart: label to lines."""
        parted: dict[str, list[str]] = {}
        for line in self.stdout.split("\n"):
            label, bar, text = line.partition(" | ")
            if bar:
                parted.setdefault(label.strip(), []).append(text)
        return parted

    def check(self, code: int = 0) -> Result:
        assert self.code == code, f"expected exit code {code}\n{self}"
        return self

    def __str__(self) -> str:
        head = f"$ {' '.join(self.argv)}\nexit code {self.code}"
        return f"{head}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


class Cli:
    """`hora("run", "-n", "2", "true")` runs it to its end; `hora.start(...)` leaves it running."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.started: list[subprocess.Popen[bytes]] = []

    def __call__(
        self,
        *args: str | Path,
        timeout: float = 60.0,
        cwd: Path | None = None,
        env: Mapping[str, str | None] | None = None,
        input: str | None = None,  # noqa: A002  (the name that subprocess.run has)
        prefix: Sequence[str] = (),
    ) -> Result:
        """A variable that `env` maps to None is removed.  Output is read as UTF-8, bad bytes kept visible."""
        argv = [*prefix, *COMMAND, *map(str, args)]
        process = self._spawn(argv, cwd, env, subprocess.PIPE if input is not None else subprocess.DEVNULL)
        try:
            out, err = process.communicate(None if input is None else input.encode(), timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            result = _result(args, -9, out, err)
            raise AssertionError(f"not over after {timeout:g} s\n{result}") from None
        return _result(args, process.returncode, out, err)

    def start(
        self,
        *args: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: Any = subprocess.PIPE,
        stderr: Any = subprocess.PIPE,
        **popen: Any,
    ) -> subprocess.Popen[bytes]:
        """The running process; it is killed at the end of the test if it still lives."""
        return self._spawn([*COMMAND, *map(str, args)], cwd, env, stdin, stdout, stderr, **popen)

    def _spawn(
        self,
        argv: list[str],
        cwd: Path | None,
        env: Mapping[str, str | None] | None,
        stdin: int,
        stdout: Any = subprocess.PIPE,
        stderr: Any = subprocess.PIPE,
        **popen: Any,
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            argv, cwd=cwd or self.cwd, env=changed(env), stdin=stdin, stdout=stdout, stderr=stderr, **popen
        )
        self.started.append(process)
        return process

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    try:
                        stream.close()
                    except BrokenPipeError:
                        pass


def changed(env: Mapping[str, str | None] | None) -> dict[str, str]:
    """This process's environment with some variables set and, where the value is None, removed."""
    merged: dict[str, str | None] = {**os.environ, **(env or {})}
    return {name: value for name, value in merged.items() if value is not None}


def _result(args: Sequence[str | Path], code: int, out: bytes, err: bytes) -> Result:
    return Result(
        ("hora", *map(str, args)),
        code,
        out.decode("utf-8", "backslashreplace"),
        err.decode("utf-8", "backslashreplace"),
    )
