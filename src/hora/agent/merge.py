"""Many ranks, one stream: `worker-3/0 | text`, whole lines, nobody's line inside another's.

Bytes in, bytes out, no clock of its own.  What a rank wrote stays in the store as it is; this is the view.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

HOLD = 1.0  # seconds that a line may wait for its end before it is shown as far as it is
LONGEST_HELD = 4 << 20  # bytes of a line that wait for its end; longer ones are passed on in pieces


class _Held:
    """The begun line of one rank."""

    __slots__ = ("parts", "since", "size")

    def __init__(self, now: float) -> None:
        self.parts: List[bytes] = []
        self.size = 0
        self.since = now


class Merger:
    def __init__(self, prefix: bool = True, timestamps: bool = False) -> None:
        self._prefix = prefix
        self._timestamps = timestamps
        self._held: Dict[str, _Held] = {}
        self._open = ""  # the rank whose line on the stream has no end yet

    def feed(self, label: str, data: bytes, now: float, time: float = 0.0) -> bytes:
        """What can be shown of `data`, which `label` wrote at `time`."""
        if not self._prefix and not self._timestamps:
            return data
        prefix = self._head(label, time)
        cut = data.rfind(b"\n") + 1
        shown = self._end_line(label, prefix, data, cut) if cut else b""
        if cut < len(data):
            shown += self._hold(label, prefix, data[cut:], now)
        return shown

    def _head(self, label: str, time: float) -> bytes:
        head = label.encode() + b" | " if self._prefix else b""
        if self._timestamps:
            head = stamp(time).encode() + b" " + head
        return head

    def _end_line(self, label: str, prefix: bytes, data: bytes, cut: int) -> bytes:
        """What was begun, and the lines up to `cut`, where the last of them ends."""
        held = self._held.pop(label, None)
        begun = b"".join(held.parts) if held else b""
        if self._open != label:
            return self._close_open(label) + _lines(prefix, begun, data, cut)
        self._open = ""
        first = data.index(b"\n") + 1
        rest = data[first:cut]
        return begun + data[:first] + (_lines(prefix, b"", rest, len(rest)) if rest else b"")

    def _hold(self, label: str, prefix: bytes, data: bytes, now: float) -> bytes:
        held = self._held.get(label)
        if held is None:
            held = self._held[label] = _Held(now)
        held.parts.append(data)
        held.size += len(data)
        return self._pass_on(label, prefix) if held.size > LONGEST_HELD else b""

    def _pass_on(self, label: str, prefix: bytes) -> bytes:
        """Show a begun line without its end."""
        held = self._held.pop(label)
        text = b"".join(held.parts)
        if self._open == label:
            return text
        shown = self._close_open(label) + prefix + text
        self._open = label
        return shown

    def _close_open(self, label: str) -> bytes:
        if not self._open or self._open == label:
            return b""
        self._open = ""
        return b"\n"

    def tick(self, now: float) -> bytes:
        """Show what has waited for the end of its line for long enough: prompts, progress bars."""
        shown = []
        for label, held in list(self._held.items()):
            if now - held.since < HOLD:
                continue
            text = b"".join(held.parts)
            if b"\r" in text:  # a progress bar: its state now is one line, more will come
                del self._held[label]
                state = _last_state(text)
                if state:
                    shown.append(self._close_open("") + self._head(label, 0) + state + b"\n")
            else:
                shown.append(self._pass_on(label, self._head(label, 0)))
        return b"".join(shown)

    @property
    def waiting(self) -> bool:
        return bool(self._held)

    def end(self) -> bytes:
        """The run is over: what was never ended by its rank."""
        shown = []
        for label, held in list(self._held.items()):
            del self._held[label]
            text = b"".join(held.parts)
            if self._open == label:
                shown.append(text)
                continue
            shown.append(self._close_open(label) + self._head(label, 0) + _last_state(text) + b"\n")
        if self._open:
            self._open = ""
            shown.append(b"\n")
        return b"".join(shown)


def _lines(prefix: bytes, begun: bytes, data: bytes, cut: int) -> bytes:
    """Whole lines with their prefixes; the first one begins with `begun`.  Megabytes pass: few copies."""
    if b"\r" in begun or data.find(b"\r", 0, cut) >= 0:
        data = b"\n".join([_last_state(line) for line in (begun + data[:cut]).split(b"\n")])
        begun, cut = b"", len(data)
    marked = data.replace(b"\n", b"\n" + prefix)
    end = len(marked) - len(prefix) - (len(data) - cut)
    return b"".join((prefix, begun, memoryview(marked)[:end]))


def _last_state(line: bytes) -> bytes:
    """What a terminal would show of a line that was overwritten by carriage returns."""
    if b"\r" not in line:
        return line
    parts = [part for part in line.split(b"\r") if part]
    return parts[-1] if parts else b""


def stamp(time: float) -> str:
    from datetime import datetime, timezone

    moment = datetime.fromtimestamp(time, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
