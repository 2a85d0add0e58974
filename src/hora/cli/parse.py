"""Words of a command line to `Words`; every refusal says what is allowed."""

from __future__ import annotations

import os

from hora.cli.words import Words
from hora.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from hora.cli.words import Argument, Command, Option

JOB_FILES = (".yaml", ".yml", ".json")


class WantsHelp(Exception):
    """-h or --help was among the options."""


def parse(command: Command, words: list[str]) -> Words:
    return _Parser(command, words).parse()


class _Parser:
    def __init__(self, command: Command, words: list[str]) -> None:
        self.command = command
        self.left = list(words)
        self.found = Words(command)
        self.open = list(command.arguments)  # places that still take a word

    def parse(self) -> Words:
        while self.left:
            word = self.left.pop(0)
            if word == "--":
                self._only_arguments()
            elif word.startswith("--"):
                self._long(word)
            elif word.startswith("-") and word != "-":
                self._short(word)
            else:
                self._argument(word)
        missing = [one for one in self.open if one.needed and one.key not in self.found.given]
        if missing:
            raise self._wrong(f"{missing[0].name} is missing")
        return self.found

    # --- arguments ---

    def _only_arguments(self) -> None:
        """After `--`: no word is an option, none is a job file."""
        self.open = [one for one in self.open if not one.job_file]
        words, self.left = self.left, []
        while words:
            word = words.pop(0)
            if self.open and self.open[0].rest:
                self.left, words = words, []
            self._argument(word)

    def _argument(self, word: str) -> None:
        place = self._place(word)
        if place is None:
            raise self._wrong(f"the word {word!r} is one too many")
        if place.rest:
            self.found.given[place.key] = (word, *self.left)
            self.left = []
        elif place.many:
            self.found.given[place.key] = (*self.found.many(place.key), word)
            return
        else:
            self.found.given[place.key] = word
        self.open.remove(place)

    def _place(self, word: str) -> Argument | None:
        for place in list(self.open):
            if not place.job_file or looks_like_job_file(word):
                return place
            self.open.remove(place)
        return None

    # --- options ---

    def _long(self, word: str) -> None:
        name, equals, value = word.partition("=")
        option = self._option(name)
        if option.value:
            self._set(option, name, value if equals else self._value(option, name))
        elif equals:
            raise self._wrong(f"{name} takes no value, got {value!r}")
        else:
            self.found.given[option.key] = True

    def _short(self, word: str) -> None:
        """-n 4, -n4, and switches together: -fd."""
        at = 1
        while at < len(word):
            name = "-" + word[at]
            option = self._option(name, word)
            at += 1
            if option.value:
                value = word[at:].removeprefix("=")
                self._set(option, name, value if at < len(word) else self._value(option, name))
                return
            self.found.given[option.key] = True

    def _option(self, name: str, word: str = "") -> Option:
        if name in ("-h", "--help"):
            raise WantsHelp
        option = self.command.option(name)
        if option is None:
            known = [each for option in self.command.options for each in option.names]
            raise self._wrong(f"there is no option {word or name}{did_you_mean(word or name, known)}")
        return option

    def _value(self, option: Option, name: str) -> str:
        if not self.left:
            raise self._wrong(f"{name} needs a value: {name} {option.value}")
        return self.left.pop(0)

    def _set(self, option: Option, name: str, value: str) -> None:
        if option.allowed and value not in option.allowed:
            allowed = ", ".join(option.allowed)
            meant = did_you_mean(value, option.allowed)
            raise self._wrong(f"{name}: must be one of {allowed}, got {value!r}{meant}")
        if option.many:
            self.found.given[option.key] = (*self.found.many(option.key), value)
        else:
            self.found.given[option.key] = value

    def _wrong(self, message: str) -> UsageError:
        name = self.command.name
        return UsageError(f"{name}: {message}\nusage: {self.command.usage}\nmore: hora {name} --help")


def looks_like_job_file(word: str) -> bool:
    """A job file by its ending; a program that exists and can be run is a command all the same."""
    if not word.endswith(JOB_FILES):
        return False
    return not (os.path.isfile(word) and os.access(word, os.X_OK))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""
