"""The names that the numbers in the index stand for: a file of lines that only grows, so that a thousand hosts
cost a thousand lines and not a thousand files."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List


class Roll:
    """Written by the lead; a reader beside it calls `load` again when it meets a number that it doesn't know."""

    def __init__(self, path: str, members: List[str], on_problem: Callable[[OSError], None]) -> None:
        self.hosts: List[str] = []  # one that came back with another journal is there twice
        self.members: List[str] = []
        self._path = path
        self._on_problem = on_problem
        self._read = 0  # bytes
        self._host_numbers: Dict[str, int] = {}
        self._member_numbers: Dict[str, int] = {}
        self._homes: Dict[str, str] = {}
        self.load()
        self._unwritten = [["member", name] for name in members if name not in self._member_numbers]
        for line in self._unwritten:
            self._take(line)

    def load(self) -> None:
        """What was added since the last time; a line that a killed lead left half is none."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._read)
                lines = file.read()
        except FileNotFoundError:
            return
        whole = lines[: lines.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line))

    def _take(self, line: List[Any]) -> None:
        kind, name = line[0], line[1]
        if kind == "host":
            self._host_numbers[name] = len(self.hosts)
            self._homes[name] = line[2]
            self.hosts.append(name)
        else:
            self._member_numbers[name] = len(self.members)
            self.members.append(name)

    def _add(self, line: List[Any]) -> None:
        self._take(line)
        self._unwritten.append(line)
        text = b"".join(json.dumps(each).encode() + b"\n" for each in self._unwritten)
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(fd, text, self._read)  # over what a killed lead left half
            finally:
                os.close(fd)
        except OSError as problem:
            self._on_problem(problem)
            return
        self._read += len(text)
        self._unwritten = []

    # --- numbers ---

    def host(self, name: str) -> int:
        if name not in self._host_numbers:
            self._add(["host", name, ""])
        return self._host_numbers[name]

    def settle(self, name: str, home: str) -> bool:
        """Whether the host is known with this journal; from now on it is."""
        known = name in self._host_numbers and self._homes[name] == home
        if not known:
            self._add(["host", name, home])
        return known

    def member(self, name: str) -> int:
        if name not in self._member_numbers:  # set-up, or a role that came later
            self._add(["member", name])
        return self._member_numbers[name]
