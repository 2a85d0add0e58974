"""Walks the models: which keys exist where.  For "did you mean", the schema and the reference."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from hora.load.models import JobKeys, Keys
from hora.load.rules import LIST_OR_TEXT, Rule
from hora.load.source import Path
from hora.record import Record

ONE, LIST, MAP = "", "list", "map"


class Key(Record):
    """One key of a model: a value by `rule` or keys of their own by `model`, once or in a list or a map."""

    name: str
    field: str
    info: FieldInfo
    rule: Rule | None
    model: type[Keys] | None
    shape: str


def keys_of(model: type[Keys]) -> dict[str, Key]:
    return {info.alias or field: _key(field, info) for field, info in model.model_fields.items()}


def _key(field: str, info: FieldInfo) -> Key:
    kind: Any = info.annotation
    rule = next((mark for mark in info.metadata if isinstance(mark, Rule)), None)
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    shape = ONE
    if rule is None and get_origin(kind) is dict:
        shape, kind = MAP, get_args(kind)[1]
    elif rule is None and get_origin(kind) is tuple:
        shape, kind = LIST, get_args(kind)[0]
    if hasattr(kind, "__metadata__"):
        rule = rule or next((mark for mark in kind.__metadata__ if isinstance(mark, Rule)), None)
    model = kind if isinstance(kind, type) and issubclass(kind, Keys) else None
    return Key(info.alias or field, field, info, rule, model, shape)


def model_at(path: Path, top: type[Keys] = JobKeys) -> type[Keys] | None:
    """The model whose keys stand at a path of a job file; None where none does."""
    model: type[Keys] | None = top
    inside = False  # of a list or a map: the next part is an index or a name
    for part in path:
        if model is None:
            return None
        if inside:
            inside = False
            continue
        key = keys_of(model).get(str(part))
        if key is None:
            return None
        model, inside = key.model, key.shape != ONE
    return None if inside else model


def is_list(path: Path) -> bool:
    """Whether a list stands at a path of a job file, or can."""
    model = model_at(path[:-1])
    key = keys_of(model).get(str(path[-1])) if model is not None else None
    return key is not None and (key.shape == LIST or (key.rule is not None and key.rule.kind == LIST_OR_TEXT))


def walk(model: type[Keys] = JobKeys, path: str = "") -> Iterator[tuple[str, Key]]:
    """Every key below a model, depth first, as the reference lists them."""
    for name, key in keys_of(model).items():
        here = f"{path}.{name}" if path else name
        yield here, key
        if key.model is not None:
            yield from walk(key.model, here + {ONE: "", LIST: "[]", MAP: ".NAME"}[key.shape])
