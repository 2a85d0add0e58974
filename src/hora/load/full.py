"""The whole way from a job file, flags or Python values to a spec: read, override, validate, check, build."""

from __future__ import annotations

import os
from typing import Any

from pydantic import ValidationError

from hora.load.apply import Overlay
from hora.load.build import build
from hora.load.checks import check, only_services
from hora.load.here import here
from hora.load.models import JobKeys, is_nothing
from hora.load.overrides import Loaded, Overrides
from hora.load.problems import Origins, Problems
from hora.load.quantities import duration_text
from hora.load.source import Source, SourceError, parse, read_file
from hora.load.values import shown


def load_full(path: str | os.PathLike[str] | None, overrides: Overrides) -> Loaded:
    file = None if path is None else os.fsdecode(path)
    source = Source() if file is None else _read(file)
    problems = Problems(Origins(file, source.lines))
    for where, line, message in source.problems:
        problems.add(where, message, line)
    data = source.data
    if is_nothing(data):
        if file is not None and not overrides.given():
            problems.add((), "is empty: write at least command: [python, train.py]")
            problems.end()
        data = {}
    if not isinstance(data, dict):
        problems.add((), f"must be a map (key: value) at the top, got {shown(data)}")
        problems.end()
    Overlay(data, problems, os.environ).apply(overrides)
    folder = here() if file is None else os.path.dirname(os.path.abspath(file))
    return _load(data, folder, file, problems)


def load_python(keys: dict[str, Any]) -> Loaded:
    """Keys as Python has them: snake_case too, bare numbers as seconds, None where a limit is none."""
    data = {key: value for key, value in keys.items() if value is not None}
    for name in ("timeouts", "keep"):
        if name in keys:
            data[name] = _without_none(keys[name])
    if isinstance(data.get("code"), os.PathLike):
        data["code"] = os.fsdecode(data["code"])
    return _load(data, here(), None, Problems(Origins(call="Job")), by_name=True)


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: duration_text(None) if part is None else part for key, part in value.items()}
    return duration_text(None) if value is None else value


def _read(file: str) -> Source:
    try:
        return parse(read_file(file))
    except SourceError as error:
        problems = Problems(Origins(file))
        problems.add((), str(error), error.line)
        problems.end()
        raise  # end() has raised


def _load(
    data: dict[str, Any], folder: str, file: str | None, problems: Problems, by_name: bool = False
) -> Loaded:
    job = None
    try:
        job = JobKeys.model_validate(data, by_alias=True, by_name=by_name)
    except ValidationError as error:
        problems.add_validation(error)
    check(data, folder, problems)
    problems.end()
    assert job is not None  # without problems it is valid
    return build(job, folder, file, has_ranks=not only_services(data))
