"""`hora sync`."""

from __future__ import annotations

from hora import state
from hora.cli import out, report
from hora.cli.look import chosen_run
from hora.cli.progress import Progress
from hora.cli.stream import Stream
from hora.following import Following

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.api import Run
    from hora.cli.words import Words
    from hora.state import RunStatus
    from hora.syncing import Synced

LOOK = 0.2


def sync(words: Words) -> int:
    run = chosen_run(words)
    done = run.sync(words.text("code"), words.flag("restart"))
    quiet = words.flag("quiet")
    if not quiet:
        for note in done.notes:
            out.tell(f"hora: {note}")
    if not done.attempt:
        if not quiet:
            out.tell(f"hora: {run.id} has {done.summary} already; --restart starts its ranks again")
        return 0
    status = _until_running(run, done, quiet)
    if not quiet or status.phase == state.FAILED:
        out.tell(f"hora: {_sentence(run, done, status)}")
    return report.exit_code(status) if status.ended else 0


def _until_running(run: Run, done: Synced, quiet: bool) -> RunStatus:
    """Until the ranks have the code, or never will."""
    following = Following(run, output=False)
    progress = Progress(Stream(out.STDERR, False, False), shown=not quiet)
    try:
        while True:
            for event in following.events(LOOK):
                if event.status is not None:
                    progress.update(event.status)
            status = following.status
            there = status is not None and status.attempt >= done.attempt and status.phase == state.RUNNING
            if status is not None and (there or status.ended):
                return status
            progress.tick()
    finally:
        progress.clear()
        following.close()


def _sentence(run: Run, done: Synced, status: RunStatus) -> str:
    what = done.summary or "the code as it is now"
    before = f", in the place of {done.before}" if done.changed and done.before else ""
    if status.ended:
        return f"{run.id} got {what}{before}, and {status.phase}: {status.reason}"
    return f"{run.id} runs {what}{before}, as attempt {status.attempt}"
