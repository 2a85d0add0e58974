"""Places: where runs live.  A built-in place is one line here; it is imported when it is asked for."""

from __future__ import annotations

from hora.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hora.places.base import Place

DEFAULT = "local"
PLACES = {
    "local": "hora.places.local.place:LocalPlace",
    "kubernetes": "hora.places.kubernetes.place:KubernetesPlace",
}
COMING = ("ssh",)
# What can begin before a job is read: `warm_up(attached)`, and `cool_down()` when none comes.
WARM = {"local": "hora.places.local.warm"}


def names() -> list[str]:
    return list(PLACES)


def get(name: str, **options: str | None) -> Place:
    """The place of that name; `options` are what it is made with, such as a cluster's namespace."""
    from importlib import import_module

    if name not in PLACES:
        later = "it comes with a later version of Hora" if name in COMING else "there is no such place"
        raise UsageError(f"place {name!r}: {later}; allowed: {', '.join(PLACES)}")
    module, _, cls = PLACES[name].partition(":")
    make = getattr(import_module(module), cls)
    given = {key: value for key, value in options.items() if value is not None}
    foreign = [key for key in given if key not in make.options]
    if foreign:
        raise UsageError(f"--{foreign[0]} has no meaning --on {name}: leave it out, or say --on kubernetes")
    place: Place = make(**given)
    return place


def warm_up(name: str, attached: bool) -> Callable[[], None]:
    """A job will be submitted there soon; returns what to call when it is not."""
    from importlib import import_module

    if name not in WARM:
        return lambda: None
    module = import_module(WARM[name])
    module.warm_up(attached)
    cool_down: Callable[[], None] = module.cool_down
    return cool_down
