"""The keys of a job for editors and type checkers.  Nothing reads this at run time; a test holds it to the models."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

Number = int | float | str  # as the job file takes it: 2, 0.5, "500m", "4Gi"
Duration = int | float | str | None  # seconds, "90s", "10m"; None is no limit


class CallKeys(TypedDict, total=False):
    """What `hora.call` takes: all but the command and the number of workers."""

    version: int
    name: str
    framework: str
    image: str
    code: str | os.PathLike[str] | Mapping[str, str]
    setup: str
    ranks_per_worker: int
    resources: Mapping[str, Number]
    env: Mapping[str, Number]
    secrets: Mapping[str, Mapping[str, str]]
    volumes: Sequence[Mapping[str, Any]]
    network: Mapping[str, Any]
    placement: Mapping[str, Any]
    timeouts: Mapping[str, Duration]
    restarts: int
    keep: Duration
    output: Number
    stall: Literal["report", "kill"]
    services: Mapping[str, Any]
    kubernetes: Mapping[str, Any]


class JobKeys(CallKeys, total=False):
    """What `hora.Job` takes."""

    command: str | Sequence[str]
    workers: int
    roles: Mapping[str, Mapping[str, Any]]
