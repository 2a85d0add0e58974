"""The page docs/reference/cli.md, from the table."""

from __future__ import annotations

from hora.cli import help as texts
from hora.cli.commands import COMMANDS, GROUPS

HEAD = """\
# The command line

<!-- written by scripts/docs-cli from the help texts; don't edit -->

Results go to stdout, everything else to stderr. Colours and redrawn progress appear on terminals only; `NO_COLOR`
switches colours off. `RUN` is a run's id, the beginning of one, or a job's name, which means its newest run.

"""
CODES = """\
## Exit codes

| code | of `hora run` and `hora wait` |
|---|---|
| 0 | every rank succeeded |
| the job's own | of the first rank that failed; 128 + number if a signal ended it |
| 2 | the command line or the job file is wrong; nothing was started |
| 124 | a time-out, of the job file or of `hora wait --timeout` |
| 125 | Hora or the place failed |
| 126 | the command can't be run: no right to, a folder, for another machine |
| 127 | the command was not found |
| 129 | the terminal was closed, or the `hora run` that an attached run belonged to went away |
| 130 | Ctrl-C |
| 141 | nobody reads the output any more (`hora run ... \\| head -1`): the run is stopped |
| 143 | `hora stop`, or SIGTERM to `hora run` |

With `-o json` the object's `origin` tells whose code it is: `job` or `hora`.
"""


def reference() -> str:
    parts = [HEAD + "```text\n" + texts.overview() + "```\n"]
    for group in GROUPS:
        parts.append(f"## {group}\n")
        own = [command for command in COMMANDS if command.group == group]
        parts += [f"### hora {command.name}\n\n```text\n{texts.of(command)}```\n" for command in own]
    return "\n".join([*parts, CODES])
