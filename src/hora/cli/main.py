"""The command line.  `hora --version` must be quick: nothing is imported before it is needed."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hora.cli.words import Command

BROKEN_PIPE = 141  # what a shell shows for a program that SIGPIPE ended
INTERRUPTED = 130


def main(words: list[str] | None = None) -> int:
    """Exit code of one command line."""
    from hora.cli import out
    from hora.errors import EXIT_HORA, HoraError

    out.open_standard_files()
    try:
        return _run(sys.argv[1:] if words is None else words)
    except HoraError as problem:
        out.tell(out.paint("hora: ", out.RED, out.STDERR) + str(problem))
        return problem.exit_code
    except BrokenPipeError:
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except out.CannotWrite as problem:
        out.tell(f"hora: the output can't be written: {problem}")
        return EXIT_HORA
    except Exception as problem:  # noqa: BLE001 - a defect: one sentence, and where the rest is
        return _defect(problem)


def _run(words: list[str]) -> int:
    from hora.cli import out

    if words[:1] in (["--version"], ["-V"]):
        from hora import __version__

        out.result(f"hora {__version__}")
        return 0
    if not words or words[0] in ("-h", "--help", "help"):
        return _help(words[1:])
    if words[0] == "__complete":
        from hora.cli.completion import complete

        return complete(words[1:])
    command = _command(words[0])
    from hora.cli.parse import WantsHelp, parse

    try:
        parsed = parse(command, words[1:])
    except WantsHelp:
        return _help([command.name])
    module, _, name = command.run.partition(":")
    from importlib import import_module

    function: Callable[..., int] = getattr(import_module(module), name)
    return function(parsed)


def _command(name: str) -> Command:
    from hora.cli import commands
    from hora.errors import UsageError

    command = commands.find(name)
    if command is not None:
        return command
    from hora.cli.parse import did_you_mean

    known = [each for command in commands.COMMANDS for each in (command.name, *command.aliases)]
    what = "option" if name.startswith("-") else "command"
    if _is_of_run(name):
        raise UsageError(f"{name} is an option of `hora run`: hora run {name} ...\nmore: hora --help")
    hint = did_you_mean(name, [*known, "--help", "--version"])
    hint = hint or f"; hora run {name} ... runs a program" * (what == "command")
    raise UsageError(f"there is no {what} {name}{hint}\nmore: hora --help")


def _is_of_run(word: str) -> bool:
    """-n, -n4, --name=x: the command was left out."""
    from hora.cli.commands import COMMANDS

    names = [name for option in COMMANDS[0].options for name in option.names]
    return word.partition("=")[0] in names or (word[:2] in names and not word.startswith("--"))


def _help(words: list[str]) -> int:
    from hora.cli import help as texts
    from hora.cli import out

    names = [word for word in words if not word.startswith("-")]
    out.result(texts.of(_command(names[0])) if names else texts.overview())
    return 0


def _defect(problem: Exception) -> int:
    """Something that should not happen has happened."""
    import traceback

    from hora.cli import out
    from hora.errors import EXIT_HORA

    text = "".join(traceback.format_exception(problem))
    if os.environ.get("HORA_DEBUG"):
        out.tell(text)
        return EXIT_HORA
    import tempfile

    said = f"hora: a defect in Hora, not in your job: {type(problem).__name__}: {problem}"
    try:
        fd, path = tempfile.mkstemp(prefix="hora-defect-", suffix=".txt", text=True)
        with os.fdopen(fd, "w", errors="backslashreplace") as file:
            file.write(text)
        out.tell(f"{said}\nplease report it with {path}; HORA_DEBUG=1 shows all of it here")
    except OSError:
        out.tell(f"{said}\nHORA_DEBUG=1 shows where")
    return EXIT_HORA
