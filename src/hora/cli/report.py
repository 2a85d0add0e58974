"""The end of a run in words: one sentence, what is needed to understand it, the next command."""

from __future__ import annotations

from hora import state
from hora.cli import out
from hora.errors import EXIT_HORA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.cli.stream import Stream
    from hora.state import Failure, RunStatus

SCROLLED = 10  # lines after which the failing rank's last ones are shown again
LAST = 12  # of them
COLOURS = {state.SUCCEEDED: out.GREEN, state.FAILED: out.RED, state.STOPPED: out.YELLOW}


def exit_code(status: RunStatus) -> int:
    return EXIT_HORA if status.exit_code is None else status.exit_code


def sentence(status: RunStatus, fd: int, before: str = "") -> str:
    """`digits k3f9x failed: worker-2/0 exited with code 3 ...`: the first thing that everybody reads."""
    start, phase, reason = (
        f"{before}{status.name} {status.id} ",
        status.phase,
        " ".join(status.reason.split()),
    )
    rest = reason[len(phase) :] if reason.startswith(f"{phase} ") else f": {reason}"  # "stopped by ..."
    text = out.filled(out.plain(start + phase + rest), fd)
    return start + out.paint(phase, COLOURS.get(phase, ""), fd) + text[len(start) + len(phase) :]


def verdict(status: RunStatus, stream: Stream, quiet: bool) -> None:
    """To stderr, after the output."""
    stream.tell(sentence(status, out.STDERR, "hora: "))
    failure = status.first_failure
    if failure is not None and status.phase == state.FAILED:
        missed = quiet or stream.lines - stream.last.get(failure.label, 0) > SCROLLED
        if missed or (stream.fd == out.STDOUT and not stream.on_terminal):
            for line in last_lines(failure, LAST):
                out.tell(f"  {line}")
        for line in consequences(status, failure):
            out.tell(f"  {line}")
    if status.phase == state.FAILED:
        out.tell(f"  more: {' · '.join(next_commands(status))}")


def last_lines(failure: Failure, most: int) -> list[str]:
    lines = [line for line in failure.last_lines if line.strip()][-most:]
    return [f"{failure.label} | {out.plain(line)}" for line in lines]


def consequences(status: RunStatus, failure: Failure) -> list[str]:
    """What else ended because of it; ties are in the sentence."""
    return [f"ended because of it: {few(failure.echoes)}"] if failure.echoes else []


def next_commands(status: RunStatus) -> list[str]:
    commands = [f"hora status {status.id}"]
    failure = status.first_failure
    if failure is not None and failure.rank is not None and failure.last_lines:
        commands.append(f"hora logs {status.id} --rank {failure.rank}")
    return commands


def few(names: tuple[str, ...], most: int = 6) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def seconds(value: float) -> str:
    return f"{value:g} s" if value < 120 else f"{value / 60:g} min"
