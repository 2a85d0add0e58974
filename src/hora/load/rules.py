"""What kinds of values the job file's keys take: how each is read, documented and told to editors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from hora import names
from hora.load import quantities, values
from hora.load.source import resolved
from hora.spec import FRAMEWORKS


class Rule:
    """Marks a field's type: `read` turns what was written into the value, or raises ValueError in words."""

    def __init__(
        self, read: Callable[[Any], Any], kind: str, schema: dict[str, Any], allowed: str = ""
    ) -> None:
        self.read = read
        self.kind = kind  # one or two words for the reference
        self.allowed = allowed
        self.schema = schema

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, _core: CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return dict(self.schema)


def _json_map(value: Any) -> dict[str, Any]:
    """Kubernetes' own words, passed on as they are."""
    plain = resolved(value)
    if not isinstance(plain, dict):
        raise ValueError(f"must be a map (key: value), got {values.shown(value)}")
    import json

    try:
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError("must hold only what JSON can: maps, lists, text, finite numbers, flags") from None
    return plain


def _version(value: Any) -> int:
    number: int = quantities.whole(1)(value)
    if number != 1:
        raise ValueError(f"this Hora reads version 1, got {number}: install a newer one")
    return number


def _whole(low: int, high: int | None = None) -> Rule:
    allowed = f"{low} or more" if high is None else f"{low} to {high}"
    schema = {"type": "integer", "minimum": low} | ({} if high is None else {"maximum": high})
    return Rule(quantities.whole(low, high), "whole number", schema, allowed)


def _choice(*allowed: str) -> Rule:
    return Rule(values.choice(*allowed), "word", {"enum": list(allowed)}, values.one_of(allowed))


def _text(read: Callable[[Any], Any], allowed: str = "", **schema: Any) -> Rule:
    return Rule(read, "text", {"type": "string", **schema}, allowed)


def _size(low: int) -> Rule:
    either = {"anyOf": [{"type": "string"}, {"type": "number"}]}
    return Rule(quantities.size(low), "size", either, f"{quantities.size_text(low)} or more")


LIST_OR_TEXT = "list or text"
_LABEL_PATTERN = "^[a-z]([a-z0-9-]*[a-z0-9])?$"
_DURATION = {"type": "string", "examples": ["90s", "10m", "24h"]}
_SCALAR = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]}
_WORDS = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": _SCALAR, "minItems": 1}]}

_JOB_NAME_WORDS = f"DNS label, begins with a letter, at most {names.JOB_MAX} characters"
_ROLE_NAME_WORDS = f"DNS label, begins with a letter, at most {names.ROLE_MAX} characters, not lead"

JobName = Annotated[
    str, _text(values.job_name, _JOB_NAME_WORDS, pattern=_LABEL_PATTERN, maxLength=names.JOB_MAX)
]
RoleName = Annotated[
    str, _text(values.role_name, _ROLE_NAME_WORDS, pattern=_LABEL_PATTERN, maxLength=names.ROLE_MAX)
]
Object = Annotated[str, _text(values.kubernetes_object, "name of an object", maxLength=names.SUBDOMAIN_MAX)]
Namespace = Annotated[str, _text(values.namespace, "name of a namespace", maxLength=names.LABEL_MAX)]
Framework = Annotated[
    str,
    Rule(
        values.framework,
        "word",
        {"anyOf": [{"enum": list(FRAMEWORKS)}, {"type": "string"}]},
        f"{values.one_of(FRAMEWORKS)}, or one that an installed package adds",
    ),
]
Version = Annotated[int, Rule(_version, "whole number", {"const": 1}, "1")]

Text = Annotated[str, _text(values.text)]
SomeText = Annotated[str, _text(values.some_text, "not empty", minLength=1)]
Path = Annotated[str, _text(values.absolute_path, "absolute path", pattern="^/")]
Written = Annotated[
    str, Rule(values.as_written, "text", _SCALAR, "text; a number or flag is kept as written")
]
Variable = Annotated[str, _text(values.variable, "letters, digits and _", pattern="^[A-Za-z_][A-Za-z0-9_]*$")]
LabelKey = Annotated[str, _text(values.label_key, "name, or domain/name")]
LabelValue = Annotated[str, Rule(values.label_value, "text", _SCALAR, "a Kubernetes label's value")]
Command = Annotated[
    tuple[str, ...],
    Rule(values.command, LIST_OR_TEXT, _WORDS, "a list of words, or one line split as a shell would"),
]
InterfaceName = Annotated[str, _text(values.interface, "auto, or the name of an interface")]
Peer = Annotated[str, _text(values.peer, "addresses (10.0.0.0/8), or a namespace")]

Flag = Annotated[bool, Rule(quantities.flag, "flag", {"type": "boolean"}, "true or false")]
Count = Annotated[int, _whole(1, names.INDEX_MAX + 1)]
Natural = Annotated[int, _whole(0, 2**31 - 1)]
PortNumber = Annotated[int, _whole(1, 65535)]
Cpu = Annotated[
    float,
    Rule(
        quantities.cpu,
        "CPUs",
        {"anyOf": [{"type": "string"}, {"type": "number"}]},
        "1m or more, as 2, 0.5 or 500m",
    ),
]
Size = Annotated[int, _size(2**20)]
Output = Annotated[int, _size(2**20)]  # output is dropped in pieces of about that size
PortRange = Annotated[
    tuple[int, int],
    Rule(
        quantities.ports,
        "range",
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "1-65535, the lower port first",
    ),
]

Limit = Annotated[
    float | None, Rule(quantities.limit(), "duration", _DURATION, "90s, 10m, 24h, 1h30m or none")
]
Span = Annotated[float, Rule(quantities.duration(0), "duration", _DURATION, "0s or more, as 90s or 10m")]

StallAction = Annotated[str, _choice("report", "kill")]
PullPolicy = Annotated[str, _choice("Always", "IfNotPresent", "Never")]
TolerationOperator = Annotated[str, _choice("Equal", "Exists")]
TolerationEffect = Annotated[str, _choice("NoSchedule", "PreferNoSchedule", "NoExecute")]
JsonMap = Annotated[dict[str, Any], Rule(_json_map, "map", {"type": "object"}, "as Kubernetes reads it")]
