"""Places: where runs live.  A built-in place is one line here; it is imported when it is asked for."""

from __future__ import annotations

from hora.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.places.base import Place

PLACES = {"local": "hora.places.local.place:LocalPlace"}


def names() -> list[str]:
    return list(PLACES)


def get(name: str) -> Place:
    """The place of that name."""
    import importlib

    if name not in PLACES:
        raise UsageError(f"--on {name}: there is no such place; allowed: {', '.join(PLACES)}")
    module, _, cls = PLACES[name].partition(":")
    place: Place = getattr(importlib.import_module(module), cls)()
    return place
