"""Help texts, from the table alone; the reference page is made of them."""

from __future__ import annotations

import textwrap

from hora.cli.commands import COMMANDS, GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.cli.words import Command, Option

COLUMNS = 100
LEFT = 30  # where the explanations begin

HEAD = """\
Hora starts, watches and ends distributed training from one job file,
and says in one sentence why when something doesn't run.

  hora demo                             see it work, no cluster or GPU
  hora run -n 4 python train.py         4 ranks on this machine
  hora run job.yaml                     the job that a file describes
"""
FOOT = """\
  hora COMMAND --help                   what a command can do, with examples
  hora --version
"""


def overview() -> str:
    """What `hora --help` prints."""
    width = max(len(command.name) for command in COMMANDS) + 2
    parts = [HEAD]
    for group in GROUPS:
        rows = [
            f"  {command.name.ljust(width)}{command.summary}"
            for command in COMMANDS
            if command.group == group
        ]
        if rows:
            parts.append("\n".join([group, *rows, ""]))
    return "\n".join([*parts, FOOT])


def of(command: Command) -> str:
    """What `hora COMMAND --help` prints."""
    parts = [f"usage: {command.usage}", "", f"{command.summary}."]
    if command.about:
        parts += ["", *(filled for line in command.about.split("\n") for filled in _filled(line, 0))]
    if command.aliases:
        parts += ["", f"also called: {', '.join(command.aliases)}"]
    rows = [(str(argument), argument.help) for argument in command.arguments]
    if rows:
        parts += ["", *(line for row in rows for line in _row(*row))]
    parts += ["", "options"]
    for option in command.options:
        parts += _row(shown(option), option.help)
    parts += _row("-h, --help", "Show this.")
    parts += ["", "examples", *(f"  {example}" for example in command.examples)]
    return "\n".join(parts) + "\n"


def shown(option: Option) -> str:
    """-n, --ranks N"""
    names = ", ".join(option.names)
    if not option.names[0].startswith("--") or len(option.names) > 1:
        return f"{names} {option.value}".rstrip()
    return f"    {names} {option.value}".rstrip()


def _row(left: str, right: str) -> list[str]:
    lines = _filled(right, LEFT)
    if len(left) + 4 > LEFT:
        return [f"  {left}", *lines]
    return [f"  {left}".ljust(LEFT) + lines[0][LEFT:], *lines[1:]]


def _filled(text: str, indent: int) -> list[str]:
    pad = " " * indent
    return textwrap.wrap(text, COLUMNS, initial_indent=pad, subsequent_indent=pad) or [""]
