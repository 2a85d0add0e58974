"""`hora.call`: a function on every rank, its results back.

What travels: to the ranks a file with one line of JSON (the caller's Python and its import path) and the
pickled function; back, by $HORA_RESULT, the pickled result or exception, each in a wrapping that always opens.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
import tempfile

from hora.errors import RemoteError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hora.api import Run
    from hora.state import RunStatus

KEEP = "10m"  # of the run: its results have been handed over
_RETURNED, _RAISED = "returned", "raised"
_CODE = "import sys; sys.path.insert(0, {source!r}); from hora.calling import on_rank; sys.exit(on_rank({file!r}))"


def call(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    workers: int,
    on: str,
    echo: bool,
    keys: dict[str, Any],
) -> list[Any]:
    from hora import api, names

    for key in ("command", "roles"):
        if key in keys:
            raise UsageError(f"hora.call runs a function on equal workers: it takes no `{key}`")
    if not callable(function):
        raise UsageError(f"hora.call takes a function and its arguments, got {type(function).__name__}")
    packed = _pack(function, arguments)
    name = getattr(function, "__name__", "")
    keys = {"name": names.job_name(name if name.isidentifier() else "call"), "keep": KEEP, **keys}
    keys.setdefault("framework", "plain")
    folder = tempfile.mkdtemp(prefix="hora-call-")
    try:
        file = os.path.join(folder, "function")
        with open(file, "wb") as target:
            target.write(packed)
        source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        command = [sys.executable, "-c", _CODE.format(source=source, file=file)]
        with api.submit(api.Job(command=command, workers=workers, **keys), on=on, attached=True) as run:
            for line in run.logs():
                if echo:
                    print(f"{line.label} | {line.text}", file=sys.stderr, flush=True)
            return _results(run, run.wait(check=False))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _pack(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    import cloudpickle

    module = sys.modules.get(getattr(function, "__module__", None) or "")
    by_value = module is not None and not _importable(module.__name__) and hasattr(module, "__file__")
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
    head = {"python": list(sys.version_info[:2]), "path": [entry or os.getcwd() for entry in sys.path]}
    return json.dumps(head).encode() + b"\n" + pickled


def _importable(name: str) -> bool:
    """By a new process with this one's path: not so a module that was loaded from its file."""
    top = name.partition(".")[0]
    return top == "__main__" or any(
        find(top, None) is not None
        for finder in sys.meta_path
        if (find := getattr(finder, "find_spec", None)) is not None
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
        if kind == _RAISED:
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


# --- on the rank -------------------------------------------------------------------------------------


def on_rank(file: str) -> int:
    """Load the function, call it, leave what it gave in $HORA_RESULT."""
    import traceback

    with open(file, "rb") as source:
        head = json.loads(source.readline())
        packed = source.read()
    if tuple(head["python"]) != sys.version_info[:2]:
        theirs, ours = (".".join(map(str, version)) for version in (head["python"], sys.version_info[:2]))
        print(
            f"hora.call: this rank has Python {ours}, its caller {theirs}: functions travel only between equal "
            "minor versions; call from the same one, or give an image that has it",
            file=sys.stderr,
        )
        return 1
    sys.path[:] = head["path"]
    try:
        function, arguments = pickle.loads(packed)
        _leave(_RETURNED, "", function(*arguments))
    except BaseException as problem:  # noqa: BLE001 - whatever it raises goes to the caller
        trace = problem.__traceback__
        text = "".join(traceback.format_exception(type(problem), problem, trace and (trace.tb_next or trace)))
        sys.stderr.write(text)
        _leave(_RAISED, text, problem)
        return 1
    return 0


def _leave(kind: str, text: str, value: Any) -> None:
    import cloudpickle

    try:
        pickled: bytes | None = cloudpickle.dumps(value)
    except Exception as problem:
        if kind == _RETURNED:
            raise RemoteError(f"the function's result can't travel back: {problem}") from problem
        pickled = None  # an exception that can't travel: its text does
    target = os.environ["HORA_RESULT"]
    with open(target + ".new", "wb") as file:
        pickle.dump((int(os.environ["HORA_ATTEMPT"]), kind, text, pickled), file)
    os.replace(target + ".new", target)
