"""`hora run` and `hora render`."""

from __future__ import annotations

from hora import places
from hora.cli import out
from hora.errors import UsageError
from hora.load.flags import FLAGS
from hora.load.overrides import Overrides

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hora.api import Job, Run
    from hora.cli.words import Words
    from hora.places.base import Place


def run(words: Words) -> int:
    attached = not words.flag("detach")
    _refuse_what_has_no_meaning(words)
    if words.flag("dry_run"):
        return render(words)
    on = words.text("on") or places.DEFAULT
    cool_down = places.warm_up(on, attached)  # its processes begin while we read the job
    try:
        job = job_of(words)
        place = _place(words)
        if not words.flag("quiet"):
            for note in (*job.notes, *place.remarks(job.loaded.spec)):
                out.tell(f"hora: {note}")
        from hora import api

        started = api.start(job, place, attached)
    except BaseException:
        cool_down()
        raise
    if not attached:
        return _detached(started, words)
    from hora.cli.attached import Attached

    return Attached(started, job.loaded.spec, words).follow()


def _refuse_what_has_no_meaning(words: Words) -> None:
    """Options that would be passed over."""
    if words.flag("dry_run") and words.text("output"):
        raise UsageError("run: --dry-run prints what the place would be given, as it is: leave out --output")
    for key in ("timestamps", "no_prefix"):
        if words.flag("detach") and words.flag(key):
            option = "--" + key.replace("_", "-")
            raise UsageError(f"run: a run that is detached shows no output: hora logs RUN {option}")


def _detached(started: Run, words: Words) -> int:
    if words.text("output"):
        out.structured(started.status().to_json(), words.text("output") or "json")
    else:
        out.result(started.id)
    if not words.flag("quiet"):
        out.tell(f"hora: run {started.id} goes on: hora logs -f {started.id}; hora stop {started.id}")
    return 0


def render(words: Words) -> int:
    """The very thing that would be submitted."""
    job = job_of(words)
    for note in job.notes:
        out.tell(f"hora: {note}")
    out.result(_place(words).render(job.submission(), words.flag("with_identity")))
    return 0


def _place(words: Words) -> Place:
    options = words.where
    return places.get(options.pop("on", places.DEFAULT), **options)


def job_of(words: Words) -> Job:
    from hora import api, load

    file = words.text("job_yaml")
    overrides = overrides_of(words)
    if file is None and not overrides.command and not overrides.sets:
        raise _nothing_to_run(words)
    if overrides.command:
        from hora.cli.hints import refuse_what_is_no_command

        refuse_what_is_no_command(overrides.command, file, words.command.name)
    return api.Job.of(load.load_job(file, overrides))


def overrides_of(words: Words) -> Overrides:
    from hora.cli.words import key_of

    values: dict[str, Any] = {"command": words.many("command"), "sets": words.many("set")}
    values["ranks"] = words.text("ranks")
    for flag in FLAGS:
        given = words.given.get(key_of(flag.option))
        if given is not None:
            values[flag.field] = given
    return Overrides(**values)


def _nothing_to_run(words: Words) -> Exception:
    import os

    name = words.command.name
    here = next((file for file in ("job.yaml", "job.yml") if os.path.isfile(file)), None)
    if here:
        return UsageError(f"{name}: there is neither a command nor a job file: `hora {name} {here}`?")
    return UsageError(
        f"{name}: there is neither a command nor a job file\n"
        f"allowed: hora {name} -n 4 python train.py; hora {name} job.yaml; `hora init` writes a job file"
    )
