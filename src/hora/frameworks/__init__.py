"""Frameworks turn a JobSpec into a LaunchPlan.  Built-in ones are a line here; others come by entry point."""

from __future__ import annotations

from importlib import import_module

from hora.errors import HoraError, UsageError
from hora.spec import COMING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from typing import Any, Protocol

    from hora.plan import LaunchPlan
    from hora.spec import JobSpec

    class Framework(Protocol):
        """What a framework is: a name and one pure function.  A module will do."""

        @property
        def name(self) -> str: ...

        def plan(self, spec: JobSpec) -> LaunchPlan: ...


GROUP = "hora.frameworks"  # entry point group: `name = package.module[:object]`

_BUILT_IN = {
    "plain": "hora.frameworks.plain",
    "mpi": "hora.frameworks.mpi",
    "torch": "hora.frameworks.torch",
}


def get(name: str) -> Framework:
    """The framework of that name."""
    if name in _BUILT_IN:
        framework: Any = import_module(_BUILT_IN[name])
        return framework  # type: ignore[no-any-return]
    for entry in _entry_points():
        if entry.name == name:
            return _load(entry)
    if name in COMING:
        raise UsageError(
            f"framework: {name!r} comes with a later version of Hora; until then use 'plain' (--framework "
            "plain), which gives each rank its number, the world size and its peers' addresses in HORA_* variables"
        )
    raise UsageError(f"framework: {name!r} is unknown{_nearest(name)}; allowed: {', '.join(names())}")


def plan(spec: JobSpec) -> LaunchPlan:
    """The plan of a job, made by its framework and checked."""
    from hora.frameworks.base import checked

    if not spec.roles:
        services = " and ".join(service.name for service in spec.services)
        raise UsageError(
            f"the job has no ranks, only services ({services}), and this version starts none: give it a command"
        )
    framework = get(spec.framework)
    if spec.framework in _BUILT_IN:
        return checked(framework.plan(spec), f"the framework {spec.framework!r}")
    whose = _whose(next(entry for entry in _entry_points() if entry.name == spec.framework))
    try:
        made = framework.plan(spec)
    except HoraError:
        raise  # in words
    except Exception as error:  # somebody else's code, as in _load
        raise UsageError(f"{whose} can't plan this job: {type(error).__name__}: {error}") from error
    return checked(made, whose)


def is_built_in(name: str) -> bool:
    return name in _BUILT_IN


def names() -> list[str]:
    """Every framework that can be asked for: the built-in ones first."""
    return [*_BUILT_IN, *sorted({entry.name for entry in _entry_points()})]


def notes() -> list[str]:
    """What a person should know about third-party frameworks: which of them are not used, and why."""
    return [
        f"the package {_package(entry)} offers a framework {entry.name!r}: not used, since Hora has its own"
        for entry in _entry_points(all_of_them=True)
        if entry.name in _BUILT_IN
    ]


def _entry_points(*, all_of_them: bool = False) -> list[EntryPoint]:
    from importlib.metadata import entry_points  # slow, so only where built-in names don't suffice

    found = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    return [entry for entry in found if all_of_them or entry.name not in _BUILT_IN]


def _whose(entry: EntryPoint) -> str:
    return f"framework: {entry.name!r}, from the package {_package(entry)},"


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value


def _load(entry: EntryPoint) -> Framework:
    whose = _whose(entry)
    try:
        framework: Any = entry.load()
    except Exception as error:  # somebody else's code: whatever it raises, the person gets one sentence
        raise UsageError(f"{whose} can't be loaded: {type(error).__name__}: {error}") from error
    if not callable(getattr(framework, "plan", None)):
        raise UsageError(
            f"{whose} has no function plan(spec): its entry point must name a module or object with one"
        )
    return framework  # type: ignore[no-any-return]


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), [*names(), *COMING], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
