"""Hora starts, watches and ends distributed training from one job file.

    import hora
    run = hora.submit(hora.Job(command=["python", "train.py"], workers=4))
    run.wait()

Everything here is loaded when it is first used: `import hora` costs nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hora.api import Job, Line, Overrides, Run, call, get_run, list_runs, submit
    from hora.errors import (
        HoraError,
        JobFailed,
        JobFileError,
        PlaceError,
        RemoteError,
        RunNotFound,
        UsageError,
        WaitTimeout,
    )
    from hora.spec import JobSpec
    from hora.state import RunStatus

_HOMES = {
    "hora.api": ("Job", "Line", "Overrides", "Run", "call", "get_run", "list_runs", "submit"),
    "hora.errors": (
        "HoraError", "JobFailed", "JobFileError", "PlaceError", "RemoteError", "RunNotFound", "UsageError",
        "WaitTimeout",
    ),
    "hora.spec": ("JobSpec",),
    "hora.state": ("RunStatus",),
}  # fmt: skip

__all__ = [
    "HoraError", "Job", "JobFailed", "JobFileError", "JobSpec", "Line", "Overrides", "PlaceError", "RemoteError",
    "Run", "RunNotFound", "RunStatus", "UsageError", "WaitTimeout", "__version__", "call", "get_run", "list_runs",
    "submit",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(module), name)
    raise AttributeError(f"module 'hora' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
