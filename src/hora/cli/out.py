"""Results to stdout, all else to stderr, as bytes: no buffer that could burst when the reader has gone."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

STDOUT, STDERR = 1, 2
BOLD, RED, GREEN, YELLOW, DIM = "1", "31", "32", "33", "2"


def open_standard_files() -> None:
    """A closed stdin, stdout or stderr would be taken by the next file that is opened."""
    for fd in (0, STDOUT, STDERR):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number: this one


class CannotWrite(Exception):
    """A result has no place to go: a full disk."""


def write(fd: int, data: bytes) -> None:
    """All of it, waiting for a slow reader; BrokenPipeError or OSError when there is none."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def result(text: str) -> None:
    """What the command was asked for."""
    if text and not text.endswith("\n"):
        text += "\n"
    try:
        write(STDOUT, text.encode("utf-8", "surrogateescape"))
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise CannotWrite(problem.strerror) from problem


def tell(text: str) -> None:
    """A sentence to the person at the terminal; nobody there is no problem."""
    try:
        write(STDERR, f"{text}\n".encode("utf-8", "surrogateescape"))
    except OSError:
        pass


def structured(data: Any, form: str) -> None:
    """As JSON or YAML."""
    if form == "yaml":
        import yaml

        result(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
        return
    import json

    text = json.dumps(data, indent=2, ensure_ascii=False)
    if not text.isascii():
        import re

        # Bytes of arguments that are no UTF-8 are lone surrogates here: as they are they would spoil the document.
        text = re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)
    result(text)


def coloured(fd: int) -> bool:
    """Colours: on a terminal that can show them, unless NO_COLOR asks for none."""
    return os.isatty(fd) and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def paint(text: str, colour: str, fd: int) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if colour and coloured(fd) else text


def width(fd: int) -> int:
    """Columns of the terminal; without one, as wide as needed."""
    try:
        return int(os.environ.get("COLUMNS", "")) or 1000
    except ValueError:
        pass
    try:
        return os.get_terminal_size(fd).columns or 80
    except OSError:
        return 1000


def plain(text: str) -> str:
    """Without what would change the terminal: what a rank wrote last may end in the middle of a colour."""
    if text.isprintable():
        return text
    import re

    text = re.sub(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|.)", "", text)
    return "".join(char if char.isprintable() or char == "\t" else "?" for char in text)


def filled(text: str, fd: int, indent: str = "  ") -> str:
    """Broken between words where a terminal is too narrow for it."""
    columns = width(fd)
    if not os.isatty(fd) or len(text) <= columns:
        return text
    from textwrap import fill

    return fill(text, columns - 1, subsequent_indent=indent, break_on_hyphens=False)


def cut(text: str, columns: int) -> str:
    """On one line of at most that many columns."""
    text = plain(text if text.isprintable() else " ".join(text.split()))
    if not text.isascii():
        return _cut_wide(text, columns)
    return text if len(text) <= columns else text[: max(0, columns - 3)] + "..."


def _cut_wide(text: str, columns: int) -> str:
    """The same where a character may take two columns or none."""
    from unicodedata import combining, east_asian_width

    sizes = [0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text]
    if sum(sizes) <= columns:
        return text
    used, end = 0, 0
    while end < len(text) and used + sizes[end] <= columns - 3:
        used += sizes[end]
        end += 1
    return text[:end] + "..."


def table(head: Sequence[str], rows: Sequence[Sequence[str]], columns: int) -> list[str]:
    """Columns two spaces apart; the last one is cut to fit.  Only the last may hold what isn't ASCII."""
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head) - 1)]
    room = max(10, columns - sum(widths) - 2 * len(widths))
    lines = []
    for row in [head, *rows]:
        cells = [text.ljust(size) for text, size in zip(row, widths)]
        lines.append("  ".join([*cells, cut(row[-1], room)]).rstrip())
    return lines
