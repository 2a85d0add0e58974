"""`hora.call`: a function on every rank, its results back."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile

from hora.errors import HoraError, RemoteError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hora.api import Run

_CODE = "import sys; sys.path[:] = {path!r}; from hora.calling import on_rank; sys.exit(on_rank({payload!r}))"


def call(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    workers: int,
    on: str,
    echo: bool,
    keys: dict[str, Any],
) -> list[Any]:
    import cloudpickle

    from hora import api

    if "command" in keys:
        raise UsageError("hora.call runs a function: it takes no `command`")
    try:
        payload = cloudpickle.dumps((sys.version_info[:2], function, arguments))
    except Exception as problem:
        raise UsageError(f"the function can't travel to the ranks: {problem}") from problem
    folder = tempfile.mkdtemp(prefix="hora-call-")
    try:
        path = os.path.join(folder, "function")
        with open(path, "wb") as file:
            file.write(payload)
        keys.setdefault("name", "call")
        keys.setdefault("framework", "plain")
        code = _CODE.format(path=[entry or os.getcwd() for entry in sys.path], payload=path)
        job = api.Job(command=[sys.executable, "-c", code], workers=workers, **keys)
        run = api.submit(job, on=on, attached=True)
        _echo(run, echo)
        return _results(run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _echo(run: Run, echo: bool) -> None:
    for chunk in run.chunks():
        if echo:
            sys.stderr.buffer.write(chunk.data)
            sys.stderr.flush()


def _results(run: Run) -> list[Any]:
    import pickle

    status = run.wait(check=False)
    found = {label: pickle.loads(data) for label, data in run.results().items()}
    failure = status.first_failure
    if status.phase != "succeeded":
        told = found.get(failure.label) if failure is not None else None
        error = RemoteError(f"run {run.id} {status.phase}: {status.reason}", status)
        if told is not None and told[0] == "raised":
            error = RemoteError(f"{failure.label if failure else 'a rank'} raised:\n{told[2]}", status)
            raise error from told[1]
        raise error
    order = sorted(
        (rank.rank, f"{member.name}/{rank.number}") for member in status.members for rank in member.ranks
    )
    missing = [label for _, label in order if label not in found]
    if missing:
        raise HoraError(f"no result came from {', '.join(missing)}: it ended before the function returned")
    return [found[label][1] for _, label in order]


# --- on the rank -------------------------------------------------------------------------------------


def on_rank(path: str) -> int:
    """Load the function, call it, leave what it gave in $HORA_RESULT."""
    import traceback

    import cloudpickle

    with open(path, "rb") as file:
        version, function, arguments = cloudpickle.load(file)
    if tuple(version) != sys.version_info[:2]:
        ours = ".".join(map(str, sys.version_info[:2]))
        theirs = ".".join(map(str, version))
        print(
            f"hora.call: this rank has Python {ours}, the caller {theirs}; they must be equal",
            file=sys.stderr,
        )
        return 1
    try:
        value = function(*arguments)
        _leave(("returned", value))
    except BaseException as problem:  # noqa: BLE001 - whatever it raises goes to the caller
        text = traceback.format_exc()
        sys.stderr.write(text)
        _leave(("raised", problem, text))
        return 1
    return 0


def _leave(result: tuple[Any, ...]) -> None:
    import cloudpickle

    try:
        data = cloudpickle.dumps(result)
    except Exception as problem:  # an exception that can't travel: its text does
        if result[0] == "returned":
            raise TypeError(f"the function's result can't travel back: {problem}") from problem
        data = cloudpickle.dumps(("raised", None, result[2]))
    target = os.environ["HORA_RESULT"]
    with open(target + ".new", "wb") as file:
        file.write(data)
    os.replace(target + ".new", target)
