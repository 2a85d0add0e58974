"""Which launcher a command begins with: itself, behind `env`, in `sh -c`, or as `python -m module`."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PYTHON = re.compile(r"(python|pypy)[\d.]*$")
_PREFIXES = ("exec", "time", "nohup", "command", "then", "do", "else")
_PYTHON_TAKES_WORD = ("-W", "-X", "--check-hash-based-pycs")


def begins_with(command: tuple[str, ...], names: Mapping[str, str]) -> tuple[str, int] | None:
    """What `names` says of the launcher, and the position of its first argument in `command`.

    Keys of `names` are programs ("torchrun"), modules ("-m torch.distributed.run"), or either with a first
    argument ("accelerate launch").  In `sh -c` any command of the script counts; then the position is 0.
    """
    start = _skip(command)
    if start < len(command) and _base(command[start]) in _SHELLS:
        script = _script(command[start + 1 :])
        found = (begins_with(words, names) for words in _simple_commands(script))
        return next(((match[0], 0) for match in found if match), None)
    for key, value in names.items():
        end = _matches(command, start, key)
        if end:
            return value, end
    return None


def _matches(command: tuple[str, ...], start: int, key: str) -> int:
    """Position behind `key`, or 0."""
    if start >= len(command):
        return 0
    first, *rest = key.split()
    if first == "-m":
        position = _module(command, start)
        first = rest.pop(0)
        if not position or command[position] != first:
            return 0
    else:
        position = start
        if _base(command[position]) != first:
            return 0
    end = position + 1 + len(rest)
    return end if list(command[position + 1 : end]) == rest else 0


def _module(command: tuple[str, ...], start: int) -> int:
    """Position of the module in `python [options] -m module`, or 0."""
    if not _PYTHON.match(_base(command[start])):
        return 0
    position = start + 1
    while position < len(command) and command[position].startswith("-"):
        if command[position] == "-m":
            return position + 1 if position + 1 < len(command) else 0
        position += 2 if command[position] in _PYTHON_TAKES_WORD else 1
    return 0


def _skip(words: tuple[str, ...]) -> int:
    """Position of the program: behind assignments, `exec` and the like, and `env` with its assignments."""
    position = 0
    while position < len(words):
        word = words[position]
        if not (_ASSIGNMENT.match(word) or word in _PREFIXES or _base(word) == "env"):
            break
        position += 1
    return position


def _base(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def _script(words: tuple[str, ...]) -> str:
    """The text behind `-c`, also in `-lc` and `-e -c`."""
    for position, word in enumerate(words[:-1]):
        if not word.startswith(("-", "+")):
            return ""
        if not word.startswith("--") and word.endswith("c"):
            return words[position + 1]
    return ""


def _simple_commands(script: str) -> Iterator[tuple[str, ...]]:
    import shlex

    lexer = shlex.shlex(script, posix=True, punctuation_chars="();|&\n")
    lexer.whitespace = " \t\r"  # a new line ends a command
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        for token in lexer:
            if token in ("{", "}", "!") or set(token) <= set("();|&\n"):
                yield tuple(words)
                words = []
            else:
                words.append(token)
    except ValueError:  # an open quote: what came before it still counts
        pass
    yield tuple(words)
