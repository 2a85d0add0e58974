"""`hora stop`, `rm` and `wait`."""

from __future__ import annotations

from hora import api
from hora.cli import out, report
from hora.cli.look import chosen_run, listed
from hora.errors import LeadGone, UsageError, WaitTimeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.api import Run
    from hora.cli.words import Words


def stop(words: Words) -> int:
    runs = _to_stop(words)
    kill = words.flag("kill")
    for run in runs:
        try:
            run.stop(kill=kill)
        except LeadGone:
            pass  # it has ended, or is just ending: what comes next waits for that
    for run in runs:
        status = run.wait(check=False)
        if not words.flag("quiet"):
            out.tell(report.sentence(status, out.STDERR, "hora: "))
    return 0


def _to_stop(words: Words) -> list[Run]:
    place = words.where
    if words.many("run") and words.flag("all"):
        raise UsageError("stop: name runs or say --all, not both")
    if words.many("run"):
        named = [api.get_run(name, **place) for name in words.many("run")]
        return list({run.id: run for run in named}.values())
    alive = [status for status in listed(words) if not status.ended]
    if len(alive) > 1 and not words.flag("all"):
        names = report.few(tuple(f"{status.id} ({status.name})" for status in alive))
        raise UsageError(f"stop: {len(alive)} runs go on: {names}; name one, or say --all")
    if not alive and not words.flag("quiet"):
        out.tell("hora: no run goes on")
    return [api.get_run(status.id, **place) for status in alive]


def rm(words: Words) -> int:
    place = words.where
    names = words.many("run")
    if bool(names) == words.flag("ended"):
        raise UsageError("rm: name runs, or say --ended for all that have ended")
    if words.flag("ended"):
        names = tuple(status.id for status in listed(words) if status.ended)
    problems = []
    runs: dict[str, Run] = {}
    for name in names:  # all before any is gone: a name then means an older run
        try:
            run = api.get_run(name, **place)
            runs[run.id] = run
        except UsageError as problem:
            problems.append(str(problem))
    for run in runs.values():
        try:
            run.delete()
        except UsageError as problem:
            problems.append(str(problem))
            continue
        if not words.flag("quiet"):
            out.tell(f"hora: {run.id} is gone")
    if problems:
        raise UsageError("\n".join(problems))
    return 0


def wait(words: Words) -> int:
    run = chosen_run(words)
    try:
        status = run.wait(_timeout(words), check=False)
    except WaitTimeout as problem:
        raise WaitTimeout(f"{problem}; it goes on: hora status {run.id}") from problem
    if words.text("output"):
        out.structured(status.to_json(), words.text("output") or "json")
    if not words.flag("quiet"):
        out.tell(report.sentence(status, out.STDERR, "hora: "))
    return report.exit_code(status)


def _timeout(words: Words) -> float | None:
    from hora.load import quantities

    text = words.text("timeout")
    try:
        return None if text is None else quantities.duration(0)(text)
    except ValueError as problem:
        raise UsageError(f"wait: --timeout: {problem}") from problem
