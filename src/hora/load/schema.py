"""The JSON Schema of the job file, from the models, as editors want it."""

from __future__ import annotations

from typing import Any

from hora.load.models import JobKeys

_NOISE = ("x-example", "x-default")


def json_schema() -> dict[str, Any]:
    schema = JobKeys.model_json_schema(by_alias=True)
    _clean(schema)
    _domain_keys(schema["$defs"]["ResourcesKeys"])
    folder = {"type": "string", "minLength": 1}
    schema["$defs"]["CodeKeys"] = {"anyOf": [folder, schema["$defs"]["CodeKeys"]]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Hora job file"}


def _clean(node: Any) -> None:
    """Drops what only the reference uses, and titles that repeat the keys; closes maps with ruled names."""
    if isinstance(node, list):
        for item in node:
            _clean(item)
    if not isinstance(node, dict):
        return
    for name in _NOISE:
        node.pop(name, None)
    if isinstance(node.get("title"), str):
        del node["title"]
    if "patternProperties" in node:
        node["additionalProperties"] = False  # pydantic leaves them open
    for value in node.values():
        _clean(value)


def _domain_keys(resources: dict[str, Any]) -> None:
    """Resources with a domain stand beside cpu and memory."""
    other = resources["properties"].pop("DOMAIN/NAME")
    resources["patternProperties"] = {"/": other["additionalProperties"]}
