"""What a run waits for: redrawn on a terminal, plain lines elsewhere, nothing at all when it is quick."""

from __future__ import annotations

import os
import time

from hora import state
from hora.cli import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.cli.stream import Stream
    from hora.state import RunStatus

QUICK = 0.3  # seconds in which nobody wants to know
REDRAW = 0.2
MOST = 8  # members shown
_WAITS = (state.QUEUED, state.GATHERING, state.CHECKING, state.STARTING, state.STOPPING)


class Progress:
    """One line for the phase and one for each member that is not ready."""

    def __init__(self, stream: Stream, shown: bool) -> None:
        self._stream = stream
        self._shown = shown
        self._redraws = os.isatty(out.STDERR) and os.environ.get("TERM", "dumb") != "dumb"
        self._status: RunStatus | None = None
        self._phase_began = time.monotonic()
        self._drawn = 0  # lines on the terminal that are ours
        self._drawn_at = 0.0
        self._told = ""

    @property
    def waiting(self) -> bool:
        return self._shown and self._status is not None and self._status.phase in _WAITS

    def update(self, status: RunStatus) -> None:
        if self._status is None or self._status.phase != status.phase:
            self._phase_began = time.monotonic()
        self._status = status
        if not self.waiting:
            self.clear()

    def tick(self) -> None:
        now = time.monotonic()
        if not self.waiting or self._status is None or now - self._phase_began < QUICK:
            return
        if not self._redraws:
            self._tell_once(f"hora: {self._status.phase}: {_reason(self._status)}")
        elif now - self._drawn_at >= REDRAW:
            self.clear()
            lines = self._lines(self._status, now - self._phase_began)
            self._stream.tell("\n".join(lines))
            self._drawn, self._drawn_at = len(lines), now

    def clear(self) -> None:
        if self._drawn:
            try:
                out.write(out.STDERR, f"\x1b[{self._drawn}F\x1b[J".encode())
            except OSError:
                pass
            self._drawn = 0

    def hide_echo(self) -> None:
        """The ^C that the terminal shows stands before what we say: write over it."""
        if self._redraws:
            try:
                out.write(out.STDERR, b"\r")
            except OSError:
                pass

    def _tell_once(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._stream.tell(text)

    def _lines(self, status: RunStatus, seconds: float) -> list[str]:
        columns = out.width(out.STDERR) - 1
        lines = [out.cut(f"{status.phase} {seconds:3.0f} s  {_reason(status)}", columns)]
        members = [member for member in status.members if _unsettled(status, member)]
        for member in members[:MOST]:
            note = member.note or member.phase
            lines.append(out.cut(f"  {member.name.ljust(12)} {member.host or '-'}  {note}", columns))
        if len(members) > MOST:
            lines.append(f"  and {len(members) - MOST} more")
        return [out.paint(line, out.DIM, out.STDERR) for line in lines]


def _reason(status: RunStatus) -> str:
    return status.reason.removeprefix(f"{status.phase}: ")


def _unsettled(status: RunStatus, member: state.MemberState) -> bool:
    """Whether it is one that the run waits for."""
    if status.phase == state.STOPPING:
        return any(rank.state == state.ALIVE for rank in member.ranks)
    return bool(member.note) or member.phase not in ("ready", "running")
