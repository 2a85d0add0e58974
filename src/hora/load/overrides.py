"""What the command line asks for on top of the job file, and what loading gives back."""

from __future__ import annotations

from hora.record import Record
from hora.spec import JobSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Overrides(Record):
    """Values as the user typed them; None or () where nothing was said.  `flags.py` says what each means."""

    command: tuple[str, ...] = ()  # the words after the options: they replace the file's command
    ranks: int | str | None = None  # -n: all ranks
    workers: int | str | None = None
    ranks_per_worker: int | str | None = None
    name: str | None = None
    framework: str | None = None
    image: str | None = None
    cpu: str | None = None
    memory: str | None = None
    gpu: int | str | None = None
    shm: str | None = None
    env: tuple[str, ...] = ()  # K=V, or K: its value from the caller's environment
    secrets: tuple[str, ...] = ()  # NAME=env:VAR, NAME=file:PATH, NAME=secret:SECRET/KEY
    code: str | None = None
    setup: str | None = None
    restarts: int | str | None = None
    output: str | None = None
    keep: str | None = None
    timeouts: tuple[str, ...] = ()  # KEY=DURATION
    stall: str | None = None
    services: tuple[str, ...] = ()  # NAME, or NAME:KEY=VALUE,KEY=VALUE
    sets: tuple[str, ...] = ()  # any key: placement.nodeSelector.disk=nvme

    def given(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if value is not None and value != ()}


class Loaded(Record):
    spec: JobSpec
    notes: tuple[str, ...] = ()  # what the loader found out by itself and the user should know
    path: str | None = None
