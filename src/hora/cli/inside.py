"""`hora exec`, `shell` and `stacks`."""

from __future__ import annotations

import os

from hora.cli import out
from hora.cli.look import chosen_run
from hora.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.api import Run
    from hora.cli.words import Words


def execute(words: Words) -> int:
    run = chosen_run(words)
    argv = words.many("cmd")
    if words.flag("all"):
        if words.text("rank") is not None:
            raise UsageError("exec: say --rank or --all, not both")
        from hora.cli.relay import everywhere

        return everywhere([run.exec(argv, label) for label in _labels(run)])
    from hora.cli.relay import Relay

    return Relay(run.exec(argv, words.text("rank") or 0)).run()


def shell(words: Words) -> int:
    if not (os.isatty(0) and os.isatty(out.STDOUT)):
        raise UsageError("shell: needs a terminal; `hora exec RUN -- COMMAND` runs a command without one")
    from hora.cli.relay import Relay, window

    run = chosen_run(words)
    session = run.exec((), words.text("rank") or 0, window(), os.environ.get("TERM", "dumb"))
    out.tell(f"hora: a shell beside {session.label} of {run.id}; `exit` leaves it")
    return Relay(session, terminal=True).run()


def _labels(run: Run) -> list[str]:
    status = run.status()
    return [f"{member.name}/{rank.number}" for member in status.members for rank in member.ranks]


def stacks(words: Words) -> int:
    from hora.agent.lead import grouping

    run = chosen_run(words)
    found = run.stacks([run.label_of(rank) for rank in words.many("rank")] or None)
    form = words.text("output")
    if form:
        out.structured([stack.to_json() for stack in found], form)
    else:
        out.result(grouping.render(grouping.group(found)))
    return 0
