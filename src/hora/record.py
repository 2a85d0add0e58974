"""Frozen records: what `@dataclass(frozen=True)` gives, at a fiftieth of its import time.

Every `hora` command and every agent imports the plan and the state; with dataclasses that alone takes
longer than `mpirun` needs to start a job (see docs/decisions/0003-records.md).  Type checkers see a
frozen dataclass.  Standard library only, Python 3.8.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Iterator, TypeVar

    from typing_extensions import dataclass_transform

    R = TypeVar("R", bound="Record")
else:

    def dataclass_transform(**_options):
        return lambda cls: cls


@dataclass_transform(frozen_default=True)
class Record:
    """Subclasses declare fields as annotations, with or without a default; defaults must be immutable."""

    _fields: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        # Before 3.10 a class without annotations shows its base's, which changes nothing here.
        own = [name for name in getattr(cls, "__annotations__", {}) if not name.startswith("_")]
        cls._fields = cls._fields + tuple(name for name in own if name not in cls._fields)
        cls._defaults = {
            **cls._defaults,
            **{name: cls.__dict__[name] for name in own if name in cls.__dict__},
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls = type(self)
        if len(args) > len(cls._fields):
            raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, got {len(args)}")
        values = self.__dict__
        values.update(cls._defaults)
        values.update(zip(cls._fields, args))
        for name, value in kwargs.items():
            if name not in cls._fields:
                raise TypeError(f"{cls.__name__} has no field {name!r}")
            if name in cls._fields[: len(args)]:
                raise TypeError(f"{cls.__name__} got {name!r} twice")
            values[name] = value
        if len(values) != len(cls._fields):
            missing = [name for name in cls._fields if name not in values]
            raise TypeError(f"{cls.__name__} needs {', '.join(missing)}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: use replace()")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *(self.__dict__[name] for name in self._fields)))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self._fields)
        return f"{type(self).__name__}({inside})"


def fields(record: Record | type[Record]) -> Iterator[str]:
    """Names of a record's fields, as declared."""
    return iter(record._fields)


def replace(record: R, **changes: Any) -> R:
    """The record with some fields changed."""
    return type(record)(**{**record.__dict__, **changes})
