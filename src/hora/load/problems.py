"""Everything that is wrong with a job, each thing in one line that begins with where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hora.errors import JobFileError
from hora.load.source import Path, dotted
from hora.load.unknown import unknown_key

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_INTERNAL = "DOMAIN/NAME"  # resources with a domain stand there in the model, and beside cpu in the file


class Origins:
    """Where each value came from: a line of the file, a flag, or a call from Python."""

    def __init__(self, file: str | None = None, lines: dict[Path, int] | None = None, call: str = "") -> None:
        self.file = file
        self.lines = dict(lines or {})
        self.call = call
        self.flags: dict[
            Path, tuple[str, Path]
        ] = {}  # path: the flag, and how much of the path it says itself

    def from_flag(self, path: Path, flag: str, says: Path | None = None) -> None:
        """The value at this path, and all below it, came from a flag.  Later flags win."""
        for known in [known for known in self.flags if known[: len(path)] == path]:
            del self.flags[known]
        self.flags[path] = (flag, path if says is None else says)

    def label(self, path: Path, message: str, line: int | None = None) -> tuple[int, str]:
        """The line to sort by, and the whole text."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.flags and line is None:
                flag, says = self.flags[path[:end]]
                rest = dotted(path[len(says) :])
                return 10**9, f"{flag}: {rest}: {message}" if rest else f"{flag}: {message}"
            if path[:end] in self.lines:
                line = self.lines[path[:end]] if line is None else line
                break
        where = self.call if self.file is None else f"{self.file}:{line}" if line else self.file
        return line or 0, ": ".join(part for part in (where, dotted(path), message) if part)


class Problems:
    """Collects; `end()` raises them all, the file's in the order of its lines."""

    def __init__(self, origins: Origins) -> None:
        self.origins = origins
        self._found: list[tuple[int, str]] = []

    def add(self, path: Path, message: str, line: int | None = None) -> None:
        self._found.append(self.origins.label(path, message, line))

    def add_flag(self, flag: str, message: str) -> None:
        self._found.append((10**9, f"{flag}: {message}"))

    def add_validation(self, error: ValidationError) -> None:
        for detail in error.errors(include_url=False):
            path = tuple(part for part in detail["loc"] if part not in ("[key]", _INTERNAL))
            self.add(path, _sentence(detail, path))

    def end(self) -> None:
        if self._found:
            texts = [text for _, text in sorted(self._found, key=lambda found: found[0])]
            raise JobFileError(list(dict.fromkeys(texts)))


def _sentence(detail: ErrorDetails, path: Path) -> str:
    from hora.load.values import shown

    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return unknown_key(path)
    if kind == "missing":
        return "is needed"
    if kind == "dict_type":
        return f"must be a map (key: value), got {shown(value)}"
    if kind == "tuple_type":
        return f"must be a list, got {shown(value)}"
    error = detail.get("ctx", {}).get("error")
    return str(error) if error is not None else detail["msg"]
