"""As much of JSON Schema as the job file's schema uses; a word that it doesn't know is an error here."""

from __future__ import annotations

import re
from typing import Any

_SAYS_NOTHING = {"$schema", "$defs", "title", "description", "default", "examples"}
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def problems(value: Any, schema: Any, root: dict[str, Any], path: str = "") -> list[str]:
    """Why the value doesn't fit the schema; empty when it does."""
    if isinstance(schema, bool):
        return [] if schema else [f"{path}: nothing is allowed here"]
    found: list[str] = []
    for word, rule in schema.items():
        if word not in _SAYS_NOTHING and word not in ("properties", "patternProperties"):
            found += _WORDS[word](value, rule, root, path, schema)
    for name, rule in schema.get("properties", {}).items():
        if isinstance(value, dict) and name in value:
            found += problems(value[name], rule, root, f"{path}.{name}")
    for pattern, rule in schema.get("patternProperties", {}).items():
        for name in value if isinstance(value, dict) else ():
            if re.search(pattern, name):
                found += problems(value[name], rule, root, f"{path}.{name}")
    return found


def _type(value: Any, name: str, _root: Any, path: str, _schema: Any) -> list[str]:
    good = isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))
    return [] if good else [f"{path}: {value!r} is no {name}"]


def _any_of(value: Any, rules: list[Any], root: Any, path: str, _schema: Any) -> list[str]:
    each = [problems(value, rule, root, path) for rule in rules]
    return [] if [] in each else [text for texts in each for text in texts]


def _reference(value: Any, target: str, root: Any, path: str, _schema: Any) -> list[str]:
    return problems(value, root["$defs"][target.removeprefix("#/$defs/")], root, path)


def _required(value: Any, names: list[str], _root: Any, path: str, _schema: Any) -> list[str]:
    return [f"{path}: lacks {name}" for name in names if isinstance(value, dict) and name not in value]


def _others(value: Any, rule: Any, root: Any, path: str, schema: Any) -> list[str]:
    found: list[str] = []
    for name in value if isinstance(value, dict) else ():
        patterns = schema.get("patternProperties", {})
        if name not in schema.get("properties", {}) and not any(re.search(each, name) for each in patterns):
            found += problems(value[name], rule, root, f"{path}.{name}")
    return found


def _names(value: Any, rule: Any, root: Any, path: str, _schema: Any) -> list[str]:
    names = value if isinstance(value, dict) else ()
    return [text for name in names for text in problems(name, rule, root, f"{path}.{name}")]


def _items(value: Any, rule: Any, root: Any, path: str, _schema: Any) -> list[str]:
    items = enumerate(value) if isinstance(value, list) else ()
    return [text for number, item in items for text in problems(item, rule, root, f"{path}[{number}]")]


def _check(kind: type, good: Any) -> Any:
    """A word that says something about values of one type."""

    def check(value: Any, rule: Any, _root: Any, path: str, schema: Any) -> list[str]:
        applies = isinstance(value, kind) and not isinstance(value, bool)
        return [] if not applies or good(value, rule) else [f"{path}: {value!r} breaks {rule!r}"]

    return check


_WORDS: dict[str, Any] = {
    "type": _type,
    "anyOf": _any_of,
    "$ref": _reference,
    "required": _required,
    "additionalProperties": _others,
    "propertyNames": _names,
    "items": _items,
    "enum": _check(object, lambda value, rule: value in rule),
    "const": _check(object, lambda value, rule: value == rule),
    "minimum": _check(int, lambda value, rule: value >= rule),
    "maximum": _check(int, lambda value, rule: value <= rule),
    "minLength": _check(str, lambda value, rule: len(value) >= rule),
    "maxLength": _check(str, lambda value, rule: len(value) <= rule),
    "minItems": _check(list, lambda value, rule: len(value) >= rule),
    "pattern": _check(str, lambda value, rule: re.search(rule, value) is not None),
}
