"""The files that the lead writes for whoever comes later: status, report, results.  Always whole, never half."""

from __future__ import annotations

import json
import os
import sys

from hora.agent.room import Room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

    from hora.state import RunStatus

STATUS = "status.json"
RESULTS = "results"
MESSAGE_LIMIT = 4000  # bytes


class Documents:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.room = Room(folder)

    def status(self, status: RunStatus) -> None:
        text = json.dumps(status.to_json()) + "\n"  # written often: with `indent` it takes ten times as long
        write_atomically(os.path.join(self.folder, STATUS), text.encode("utf-8"))

    def final(self, status: RunStatus) -> None:
        """The last word.  Where the disk is full, clients still hear it; the file then tells what it can."""
        self.room.give()
        try:
            self.status(status)
        except OSError as problem:
            print(f"lead: the last status can't be kept: {problem}", file=sys.stderr, flush=True)
            self._overwrite(status)

    def _overwrite(self, status: RunStatus) -> None:
        """Without room for a second file, the first one's own room has to do."""
        small = {**status.to_json(), "members": [], "firstFailure": None}
        try:
            with open(os.path.join(self.folder, STATUS), "r+b") as file:
                file.write(json.dumps(small).encode("utf-8"))
                file.truncate()
        except OSError as problem:
            print(f"lead: nor overwritten: {problem}", file=sys.stderr, flush=True)

    def message(self, path: str, status: RunStatus) -> None:
        """The verdict for whoever looks at the lead's pod: Kubernetes keeps 4 KiB of it."""
        try:
            with open(path, "wb") as file:
                file.write(shortened(status.to_json(), MESSAGE_LIMIT))
        except OSError as problem:
            print(f"lead: the verdict can't be left at {path}: {problem}", file=sys.stderr, flush=True)

    def result(self, label: str, piece: bytes, at: int, last: bool) -> None:
        """One piece of a rank's result; what is not whole doesn't count."""
        place = os.path.join(self.folder, RESULTS)
        os.makedirs(place, exist_ok=True)
        path = os.path.join(place, label.replace("/", "_"))
        with open(path + ".new", "ab") as file:
            file.truncate(at)
            file.write(piece)
        if last:
            os.replace(path + ".new", path)


def shortened(data: Dict[str, Any], limit: int) -> bytes:
    """The document in so many bytes: the oldest of the last lines go first, then what is said of each member."""
    data = json.loads(json.dumps(data))
    failure = data.get("firstFailure") or {}
    lines: List[str] = failure.get("lastLines", [])
    while len(_packed(data)) > limit and lines:
        if len(lines) > 1:
            del lines[: max(1, len(lines) // 4)]
        elif len(lines[0]) > 200:
            lines[0] = lines[0][:200] + "..."
        else:
            lines.clear()
    for key, least in (("members", []), ("pids", {}), ("notes", []), ("command", [])):
        if len(_packed(data)) > limit:
            data[key] = least
    for key in ("echoes", "ties"):
        if len(_packed(data)) > limit and failure:
            failure[key] = failure[key][:3]
    if len(_packed(data)) > limit:
        data["reason"] = data["reason"][:1000] + "..."
    return _packed(data)


def _packed(data: Dict[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def read_results(folder: str) -> Dict[str, bytes]:
    """What the ranks left as results, by label."""
    found: Dict[str, bytes] = {}
    place = os.path.join(folder, RESULTS)
    if os.path.isdir(place):
        for name in sorted(os.listdir(place)):
            if not name.endswith(".new"):
                with open(os.path.join(place, name), "rb") as file:
                    found[name.replace("_", "/")] = file.read()
    return found


def read_json(path: str) -> Optional[Dict[str, object]]:
    try:
        with open(path, "rb") as file:
            data = json.load(file)
    except FileNotFoundError:
        return None
    return data if isinstance(data, dict) else None


def write_atomically(path: str, data: bytes) -> None:
    temporary = f"{path}.{os.getpid()}.new"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
