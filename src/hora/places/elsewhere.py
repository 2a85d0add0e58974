"""Which runs were started from here on other places: so that `hora logs x7k2p` needs no --on.

One small file a run, in the user's state folder.  The place itself knows everything else.
"""

from __future__ import annotations

import json
import os
import time

from hora.agent.lead.documents import write_atomically
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from hora.spec import Code

FOLDER = "elsewhere"
LONGEST = 90 * 86400.0  # seconds; no place keeps an ended run for so long


class Elsewhere(Record):
    run: str
    name: str  # of its job
    place: str
    options: tuple[tuple[str, str], ...]  # what the place is made with
    created_at: float


def remember(run: str, name: str, place: str, options: Mapping[str, str], code: Code | None = None) -> None:
    """What can't be written is no reason to fail: --on finds the run, too."""
    document = {"id": run, "name": name, "place": place, "options": dict(options), "createdAt": time.time()}
    if code is not None:
        document["code"] = {"path": code.path, "git": code.git, "ref": code.ref}
    try:
        os.makedirs(_folder(), mode=0o700, exist_ok=True)
        write_atomically(_file(run), json.dumps(document).encode())
        _tidy()
    except OSError:
        pass


def forget(run: str) -> None:
    try:
        os.unlink(_file(run))
    except OSError:
        pass


def code_of(run: str) -> Code | None:
    """Where the run's code was taken from, if it was started here."""
    from hora.spec import Code

    try:
        with open(_file(run), "rb") as source:
            return Code(**json.loads(source.read())["code"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def all_runs() -> list[Elsewhere]:
    """Oldest first."""
    try:
        files = os.listdir(_folder())
    except OSError:
        return []
    found = [one for file in files if file.endswith(".json") and (one := _read(file)) is not None]
    return sorted(found, key=lambda one: one.created_at)


def find(name: str) -> Elsewhere | None:
    """By id, by the beginning of one if only one begins so, or the newest of a job."""
    known = all_runs()
    exact = [one for one in known if one.run == name] or [one for one in known if one.name == name]
    if exact:
        return exact[-1]
    begun = [one for one in known if name and one.run.startswith(name)]
    return begun[0] if len(begun) == 1 else None


def _read(file: str) -> Elsewhere | None:
    try:
        with open(os.path.join(_folder(), file), "rb") as source:
            data = json.loads(source.read())
        options = tuple((str(key), str(value)) for key, value in data["options"].items())
        return Elsewhere(data["id"], data["name"], data["place"], options, float(data["createdAt"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # half written by somebody, or removed meanwhile


def _tidy() -> None:
    for one in all_runs():
        if time.time() - one.created_at > LONGEST:
            forget(one.run)


def _folder() -> str:
    from hora.places.local.paths import state_folder

    return os.path.join(state_folder(), FOLDER)


def _file(run: str) -> str:
    return os.path.join(_folder(), f"{run}.json")
