"""The places that the conformance suite runs on, and a person who uses one of them by the command line alone.

A new place is one line in PLACES.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.cli import Cli, Result
from helpers.reader import Reader
from helpers.runs import wait_until


@dataclass(frozen=True)
class Place:
    name: str
    run_flags: tuple[str, ...] = ()  # what every `hora run` needs there, such as an image
    python: str = sys.executable  # the ranks' Python
    missing: Callable[[], str | None] = lambda: None  # what this machine lacks to use it, in words
    same_disk: bool = False  # ranks see this machine's files
    owns_attached: bool = False  # a run ends with the `hora run` that it belongs to
    fixture: str = ""  # what makes the place ready for a test
    only_asked: bool = False  # takes minutes: only with --place
    mpi: bool = False  # ranks meet under mpirun, however many hosts they are on

    @property
    def keys(self) -> dict[str, str]:
        """`run_flags` for the Python API."""
        return {
            flag[2:]: value for flag, value in zip(self.run_flags[::2], self.run_flags[1::2], strict=True)
        }


def _no_cluster() -> str | None:
    from cluster import needs

    return needs.missing()


PLACES = {
    place.name: place
    for place in (
        Place("local", same_disk=True, owns_attached=True, mpi=True),
        Place(
            "kubernetes",
            run_flags=("--image", "localhost/hora/base:1"),
            python="python3",
            missing=_no_cluster,
            fixture="team",
            only_asked=True,
        ),
    )
}


class User:
    """`user("status", run)`: like the fixture `hora`, with the flags of the place."""

    def __init__(self, hora: Cli, place: Place) -> None:
        self.hora = hora
        self.place = place

    def __call__(self, command: str, *args: str | Path, **options: Any) -> Result:
        return self.hora(*self._words(command), *args, **options)

    def start(self, command: str, *args: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        return self.hora.start(*self._words(command), *args, **options)

    def _words(self, command: str) -> tuple[str, ...]:
        flags = self.place.run_flags if command in ("run", "render") else ()
        return (command, "--on", self.place.name, *flags)

    @property
    def here(self) -> tuple[str, ...]:
        """What makes ranks start in the folder where the person is."""
        return () if self.place.same_disk else ("--code", ".")

    def python(self, code: str, *arguments: str) -> tuple[str, ...]:
        """The command of ranks that run some lines of Python."""
        return (self.place.python, "-u", "-c", textwrap.dedent(code).strip(), *arguments)

    def detached(self, *args: str | Path, **options: Any) -> str:
        """Start a run and leave it; its id."""
        return self("run", "--detach", "--quiet", *args, **options).check().stdout.strip()

    def status(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = self("status", run, "-o", "json").check().json
        return found

    def ranks(self, run: str) -> list[dict[str, Any]]:
        return [rank for member in self.status(run)["members"] for rank in member["ranks"]]

    def written(self, run: str, text: str) -> None:
        """Wait until a rank has written a line with this text."""
        follower = self.start("logs", "-f", run)
        Reader(follower.stdout).until(text)
        follower.kill()
        follower.wait()

    def until_phase(self, run: str, *phases: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            status = self.status(run)
            return status if status["phase"] in phases else None

        found = wait_until(look, f"{run} is {' or '.join(phases)}")
        assert found is not None
        return found

    def ended(self, run: str) -> dict[str, Any]:
        self("wait", run, "--timeout", "60s")
        return self.status(run)
