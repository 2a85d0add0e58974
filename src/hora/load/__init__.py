"""From what the user wrote (a job file, command-line flags, Python keys) to a `JobSpec`.

Importing this is cheap; YAML and pydantic are loaded by the first call that needs them.
"""

from __future__ import annotations

from hora.load.overrides import Loaded, Overrides

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any

    from hora.spec import JobSpec

__all__ = ["Loaded", "Overrides", "from_python", "job_file", "json_schema", "load_job", "start_file"]


def load_job(path: str | os.PathLike[str] | None, overrides: Overrides | None = None) -> Loaded:
    """The job in a file, or in the overrides alone where `path` is None.

    Raises JobFileError with every problem at once.
    """
    overrides = overrides or Overrides()
    if path is None:
        from hora.load.fast import load_fast

        quick = load_fast(overrides)
        if quick is not None:
            return quick
    from hora.load.full import load_full

    return load_full(path, overrides)


def from_python(**keys: Any) -> Loaded:
    """The job from Python values: the job file's keys, in snake_case or as the file writes them."""
    from hora.load.full import load_python

    return load_python(keys)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the job file, for editors."""
    from hora.load.schema import json_schema as schema

    return schema()


def job_file(spec: JobSpec) -> str:
    """The job as YAML: loading it gives the equal spec."""
    from hora.load.write import job_file as write

    return write(spec)


def start_file(
    script: str | None = None, workers: int = 2, framework: str | None = None, file: str = "job.yaml"
) -> str:
    """A commented job file to begin with, for `hora init`; `file` is how it will be called."""
    from hora.load.start import start_file as start

    return start(script, workers, framework, file)
