"""What `hora.call` runs on each rank: load the function, call it, leave what it gave in $HORA_RESULT.

Where ranks don't see the caller's disk this file travels to them as text, with cloudpickle and the function
behind it: it imports nothing of Hora.
"""

import base64
import json
import os
import pickle
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RETURNED, RAISED, UNFIT = "returned", "raised", "unfit"  # unfit: it returned what can't travel


def from_file(file: str) -> int:
    with open(file, "rb") as source:
        return run(source.read())


def from_text(cloudpickle: str, packed: str) -> int:
    """Both in base64: cloudpickle as a zip file, and what `run` takes."""
    with tempfile.TemporaryDirectory(prefix="hora-call-") as folder:
        path = os.path.join(folder, "cloudpickle.zip")
        with open(path, "wb") as file:
            file.write(base64.b64decode(cloudpickle))
        sys.path.insert(1, path)
        return run(base64.b64decode(packed))


def run(packed: bytes) -> int:
    """`packed`: a line of JSON (the caller's Python, its import path), then the pickled function."""
    import traceback

    first, _, pickled = packed.partition(b"\n")
    head = json.loads(first)
    if tuple(head["python"]) != sys.version_info[:2]:
        theirs, ours = (".".join(map(str, version)) for version in (head["python"], sys.version_info[:2]))
        sys.stderr.write(
            f"hora.call: this rank has Python {ours}, its caller {theirs}: functions travel only between equal "
            "minor versions; call from the same one, or give an image that has it\n"
        )
        return 1
    if head["path"] is not None:
        sys.path[:] = head["path"]
    try:
        function, arguments = pickle.loads(pickled)
        value = function(*arguments)
    except BaseException as problem:  # noqa: BLE001 - whatever it raises goes to the caller
        trace = problem.__traceback__
        text = "".join(traceback.format_exception(type(problem), problem, trace and (trace.tb_next or trace)))
        sys.stderr.write(text)
        _leave(RAISED, text, _pickled(problem))  # an exception that can't travel: its text does
        return 1
    return _leave_value(value)


def _leave_value(value: "Any") -> int:
    import cloudpickle

    try:
        pickled = cloudpickle.dumps(value)
    except Exception as problem:  # noqa: BLE001 - pickling runs whatever code the value has
        text = f"the function's result can't travel back: {problem}"
        sys.stderr.write(f"hora.call: {text}\n")
        _leave(UNFIT, text, None)
        return 1
    _leave(RETURNED, "", pickled)
    return 0


def _pickled(value: "Any") -> "bytes | None":
    import cloudpickle

    try:
        found: bytes = cloudpickle.dumps(value)
    except Exception:  # noqa: BLE001 - as above
        return None
    return found


def _leave(kind: str, text: str, pickled: "bytes | None") -> None:
    target = os.environ["HORA_RESULT"]
    with open(target + ".new", "wb") as file:
        pickle.dump((int(os.environ["HORA_ATTEMPT"]), kind, text, pickled), file)
    os.replace(target + ".new", target)
