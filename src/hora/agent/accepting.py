"""A listening socket in the loop.  Out of descriptors it stays readable: it is then left alone for a moment,
else the loop would do nothing but try."""

from __future__ import annotations

import sys

from hora.agent.loop import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from hora.agent.loop import Loop

PAUSE = 1.0


class Accepting:
    """`accept` takes who waits and returns; an OSError of it means that nobody can be taken just now."""

    def __init__(self, loop: Loop, server: Any, accept: Callable[[], None], who: str) -> None:
        self._loop = loop
        self._server = server
        self._accept = accept
        self._who = who
        self._said = False
        self._watch()

    def _watch(self) -> None:
        if self._server.fileno() >= 0:  # not closed meanwhile
            self._loop.watch(self._server, READ, lambda _events: self._ready())

    def _ready(self) -> None:
        try:
            self._accept()
            self._said = False
        except OSError as problem:
            self._loop.unwatch(self._server)
            self._loop.after(PAUSE, self._watch)
            self._say(f"{self._who}: nobody new can be let in just now: {problem}")

    def _say(self, text: str) -> None:
        """Once, until it goes better."""
        if not self._said:
            self._said = True
            print(text, file=sys.stderr, flush=True)
