"""What a command line may say, declared, and what one said.

One table (`commands.py`) of these serves the parser, the help, the reference page and the shell completion.
Why there is no parser library: docs/decisions/0004-command-line.md.
"""

from __future__ import annotations

from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Option(Record):
    """`names`: as typed, the long one last.  Without `value` it is a switch."""

    names: tuple[str, ...]
    help: str
    value: str = ""  # what stands for its value in help texts
    many: bool = False  # may be given again and again
    allowed: tuple[str, ...] = ()
    complete: str = ""  # what shells complete it with: files, folders, places, runs

    @property
    def key(self) -> str:
        return key_of(self.names[-1])


class Argument(Record):
    """A word by its place."""

    name: str  # as help texts show it
    help: str = ""
    needed: bool = True
    many: bool = False
    complete: str = ""
    job_file: bool = False  # taken only by a word that looks like one
    rest: bool = False  # takes its first word and whatever follows, options too

    @property
    def key(self) -> str:
        return key_of(self.name)

    def __str__(self) -> str:
        shown = f"{self.name}..." if self.many or self.rest else self.name
        return shown if self.needed else f"[{shown}]"


class Command(Record):
    name: str
    group: str
    summary: str  # one line
    run: str  # module:function
    about: str = ""
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    examples: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    def option(self, name: str) -> Option | None:
        return next((option for option in self.options if name in option.names), None)

    @property
    def usage(self) -> str:
        shown = ["-- " + str(one) if one.rest and one.needed else str(one) for one in self.arguments]
        return " ".join(["hora", self.name, *(["[OPTIONS]"] if self.options else []), *shown])


class Words:
    """What the words of one command line say: options and arguments by key."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.given: dict[str, Any] = {}

    def flag(self, key: str) -> bool:
        return bool(self.given.get(key))

    def text(self, key: str) -> str | None:
        value = self.given.get(key)
        return None if value is None else str(value)

    def many(self, key: str) -> tuple[str, ...]:
        return tuple(self.given.get(key, ()))

    @property
    def where(self) -> dict[str, str]:
        """Of which place they speak, for the API; nothing where they don't say."""
        keys = ("on", "context", "namespace")
        return {key: value for key in keys if (value := self.text(key)) is not None}


def key_of(name: str) -> str:
    return name.lstrip("-").lower().replace("-", "_").replace(".", "_")
