"""`hora.call`: a function on every rank, its results back.

What travels: to the ranks one line of JSON (the caller's Python and its import path) and the pickled function,
in a file on this disk or, where ranks don't see it, as a file of the plan; back, by $HORA_RESULT, the pickled
result or exception, each in a wrapping that always opens (on_rank.py).
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
import tempfile

from hora import on_rank
from hora.errors import RemoteError, UsageError
from hora.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hora.api import Run
    from hora.places.base import Submission
    from hora.state import RunStatus

KEEP = "10m"  # of the run: its results have been handed over
PROGRAM = (
    "hora-call.py"  # where there is no common disk: the word in the command that becomes the file's path
)
_CODE = "import sys; sys.path.insert(0, {source!r}); from hora.on_rank import from_file; sys.exit(from_file({file!r}))"


def call(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    workers: int,
    on: str,
    echo: bool,
    keys: dict[str, Any],
    where: dict[str, str | None],
) -> list[Any]:
    from hora import api, names, places

    for key in ("command", "roles"):
        if key in keys:
            raise UsageError(f"hora.call runs a function on equal workers: it takes no `{key}`")
    if not callable(function):
        raise UsageError(f"hora.call takes a function and its arguments, got {type(function).__name__}")
    name = getattr(function, "__name__", "")
    keys = {"name": names.job_name(name if name.isidentifier() else "call"), "keep": KEEP, **keys}
    keys.setdefault("framework", "plain")
    place = places.get(on, **where)
    with tempfile.TemporaryDirectory(prefix="hora-call-") as folder:
        if place.same_disk:
            packed = _pack(function, arguments, [entry or os.getcwd() for entry in sys.path])
            submission = _by_file(packed, folder, workers, keys)
        else:
            submission = _by_plan(_pack(function, arguments, None), workers, keys)
        with api.begin(submission, place) as run, run.held():
            for line in run.logs():
                if echo:
                    print(f"{line.label} | {line.text}", file=sys.stderr, flush=True)
            return _results(run, run.wait(check=False))


def _by_file(packed: bytes, folder: str, workers: int, keys: dict[str, Any]) -> Submission:
    from hora import api

    file = os.path.join(folder, "function")
    with open(file, "wb") as target:
        target.write(packed)
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    command = [sys.executable, "-c", _CODE.format(source=source, file=file)]
    return api.Job(command=command, workers=workers, **keys).submission()


def _by_plan(packed: bytes, workers: int, keys: dict[str, Any]) -> Submission:
    """The program with all that it needs, as a file that agents write before the ranks start."""
    from hora import api, plan

    with open(on_rank.__file__, encoding="utf-8") as file:
        text = file.read()
    data = (base64.b64encode(each).decode("ascii") for each in (_cloudpickle(), packed))
    program = plan.File(PROGRAM, f"{text}\n\nsys.exit(from_text({', '.join(map(repr, data))}))\n")
    submission = api.Job(command=["python3", PROGRAM], workers=workers, **keys).submission()
    roles = tuple(
        replace(
            role,
            files=(*role.files, program),
            command=tuple(plan.FilePath(PROGRAM) if word == PROGRAM else word for word in role.command),
        )
        for role in submission.plan.roles
    )
    return replace(submission, plan=replace(submission.plan, roles=roles))


def _cloudpickle() -> bytes:
    """The package as a zip file, from which Python imports as from a folder."""
    import io
    import zipfile

    import cloudpickle

    folder = os.path.dirname(os.path.abspath(cloudpickle.__file__))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(os.listdir(folder)):
            if name.endswith(".py"):
                archive.write(os.path.join(folder, name), f"cloudpickle/{name}")
    return buffer.getvalue()


def _pack(function: Callable[..., Any], arguments: tuple[Any, ...], path: list[str] | None) -> bytes:
    """`path`: from which the ranks import; their own where absent."""
    import cloudpickle

    module = sys.modules.get(getattr(function, "__module__", None) or "")
    known = _importable if path is not None else _installed
    by_value = module is not None and hasattr(module, "__file__") and not known(module.__name__)
    try:
        if by_value:
            cloudpickle.register_pickle_by_value(module)
        pickled: bytes = cloudpickle.dumps((function, arguments))
    except Exception as problem:
        raise UsageError(
            f"the function or its arguments can't travel to the ranks: {problem}. What only this process has "
            "(open files, locks, generators) must be made inside the function"
        ) from problem
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)
    head = {"python": list(sys.version_info[:2]), "path": path}
    return json.dumps(head).encode() + b"\n" + pickled


def _importable(name: str) -> bool:
    """By a new process with this one's path: not so a module that was loaded from its file."""
    top = name.partition(".")[0]
    return top == "__main__" or any(
        find(top, None) is not None
        for finder in sys.meta_path
        if (find := getattr(finder, "find_spec", None)) is not None
    )


def _installed(name: str) -> bool:
    """Whether ranks elsewhere may have the module, too: Python's own, or a package's, but not the caller's."""
    import sysconfig

    file = getattr(sys.modules.get(name), "__file__", None)
    folders = (sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))
    return name != "__main__" and (
        file is None or any(file.startswith(folder + os.sep) for folder in folders)
    )


# --- back at the caller ------------------------------------------------------------------------------


def _results(run: Run, status: RunStatus) -> list[Any]:
    from hora import api

    found = {}
    for label, data in run.results().items():
        attempt, kind, text, value = pickle.loads(data)
        if attempt == status.attempt:
            found[label] = (kind, text, value)
    if status.phase != "succeeded":
        label = status.first_failure.label if status.first_failure is not None else ""
        kind, text, value = found.get(label, ("", "", None))
        if kind == on_rank.UNFIT:
            raise RemoteError(text, status)
        if kind == on_rank.RAISED:
            told = RemoteError(f"{label} raised:\n{text}", status)
            remote = _exception(value)
            if remote is None:
                raise told
            raise remote from told
        raise RemoteError(api.ended(status), status)
    order = sorted(
        (rank.rank, f"{member.name}/{rank.number}") for member in status.members for rank in member.ranks
    )
    missing = [label for _, label in order if label not in found]
    if missing:
        text = f"no result came from {', '.join(missing)}: it ended before the function returned"
        raise RemoteError(text, status)
    return [_value(label, found[label][2]) for _, label in order]


def _value(label: str, pickled: bytes) -> Any:
    try:
        return pickle.loads(pickled)
    except Exception as problem:
        raise RemoteError(f"the result of {label} can't be read here: {problem}") from problem


def _exception(pickled: bytes | None) -> Exception | None:
    """The remote exception; None where its class can't be made here, and where raising it would end the caller."""
    try:
        found = pickle.loads(pickled) if pickled else None
    except Exception:  # noqa: BLE001 - unpickling runs whatever code the class has; its text was told
        return None
    return found if isinstance(found, Exception) else None  # neither SystemExit nor KeyboardInterrupt
