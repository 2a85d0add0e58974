"""The short way for `hora run -n 4 python train.py`: no file, simple flags, so neither YAML nor pydantic.

Those two take longer to import than a whole mpirun takes to start.  Whatever is not simple, or wrong, is left
to the full way, which gives the equal spec and knows how to complain; a test holds the two together.
"""

from __future__ import annotations

import os

from hora import names
from hora.load import quantities, values
from hora.load.detect import PLAIN, default_name, detect
from hora.load.here import here
from hora.load.overrides import Loaded, Overrides
from hora.spec import COMING, FRAMEWORKS, JobSpec, RoleSpec, Timeouts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SIMPLE = {
    "command", "ranks", "workers", "ranks_per_worker", "name", "framework", "env", "setup", "restarts",
    "output", "keep", "timeouts", "stall",
}  # fmt: skip


def load_fast(overrides: Overrides) -> Loaded | None:
    """The job, or None where the full way has to look at it."""
    given = overrides.given()
    if "command" not in given or not _SIMPLE.issuperset(given):
        return None
    try:
        return _load(given)
    except (ValueError, KeyError):
        return None


def _load(given: dict[str, Any]) -> Loaded:
    command = values.command(given["command"])
    folder = here()
    framework: str | None = given.get("framework")
    notes: tuple[str, ...] = ()
    if framework is None:
        framework, notes = found_framework(command, folder)
    elif framework not in FRAMEWORKS:
        raise ValueError("may be a third party's")
    name = given["name"] if "name" in given else names.job_name(default_name(command, folder))
    replicas, ranks = _members(given)
    role = RoleSpec("worker", replicas, ranks, command, env=_env(given.get("env", ())))
    changes: dict[str, Any] = {}
    if "setup" in given:
        changes["setup"] = values.text(given["setup"])
    if "restarts" in given:
        changes["restarts"] = quantities.whole(0, 2**31 - 1)(_number(given["restarts"]))
    if "output" in given:
        changes["output"] = quantities.size(2**20)(given["output"])
    if "keep" in given:
        changes["keep"] = quantities.limit()(given["keep"])
    if "stall" in given:
        changes["stall"] = values.choice("report", "kill")(given["stall"])
    if "timeouts" in given:
        changes["timeouts"] = _timeouts(given["timeouts"])
    return Loaded(JobSpec(names.check_job_name(name), framework, (role,), **changes), notes)


def found_framework(command: tuple[str, ...], folder: str) -> tuple[str, tuple[str, ...]]:
    """The framework of a command, and the note that says why it is this one."""
    found = detect(command, folder)
    if not found.why:
        return found.framework, ()
    if found.framework in COMING and found.framework not in values.third_party_frameworks():
        later = f"{found.why}, and {found.framework!r} comes with a later version of Hora"
        until = "until then each rank finds its number, the world size and its peers' addresses in HORA_* variables"
        return PLAIN, (f"framework {PLAIN}: {later}; {until}",)
    advice = "" if found.read else "; name another with --framework"
    return found.framework, (f"framework {found.framework}: {found.why}{advice}",)


def _members(given: dict[str, Any]) -> tuple[int, int]:
    count = quantities.whole(1, names.INDEX_MAX + 1)
    ranks = count(_number(given.get("ranks_per_worker", 1)))
    if "ranks" in given:
        replicas, rest = divmod(quantities.whole(1)(_number(given["ranks"])), ranks)
        if rest or ("workers" in given and count(_number(given["workers"])) != replicas):
            raise ValueError("the full way says what doesn't agree")
        return count(replicas), ranks
    return count(_number(given.get("workers", 1))), ranks


def _number(value: int | str) -> Any:
    """A flag's number: text there, but meant without quotes."""
    return values.Plain(value, value) if isinstance(value, str) else value


def _env(assignments: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    env: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        env[values.variable(name)] = values.as_written(value if equals else os.environ[name])
    return tuple(env.items())


def _timeouts(assignments: tuple[str, ...]) -> Timeouts:
    limits: dict[str, float | None] = {}
    for assignment in assignments:
        name, _, value = assignment.partition("=")
        limits[name] = quantities.duration(0)(value) if name == "grace" else quantities.limit()(value)
    if not set(limits) <= set(Timeouts._fields):
        raise ValueError("an unknown limit")
    return Timeouts(**limits)  # type: ignore[arg-type]
