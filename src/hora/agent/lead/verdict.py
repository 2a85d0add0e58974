"""Who failed first, and why: pure judgement over the exits of one attempt.

One failing rank makes the others fail: their connections break.  So exits by a broken connection rank
last, what Hora stopped never counts, and the rest is ordered by time as far as the clocks allow.
"""

from __future__ import annotations

import re
import signal as signals

from hora import state
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Mapping, Sequence

EXIT_HORA = 125
EXIT_TIME = 124  # as timeout(1) ends
EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND = 126, 127
SAME_HOST_ERROR = 0.002  # seconds between two deaths that one reaper may see in either order
LAST_LINES = 50  # of the first failure, in the report
EARLY = 3.0  # seconds: "the first seconds" of a user error


class Exit(Record):
    """How one rank ended, as its agent saw it."""

    label: str  # worker-2/0
    member: str
    rank: int | None  # global number; None when a whole member or host is meant
    host: str
    time: float  # on the lead's clock
    error: float = 0.0  # seconds that `time` may be off, by the host's clock
    exit_code: int | None = None
    signal: int | None = None
    stopped: bool = False  # because Hora stopped it
    reset: bool = False  # its last lines tell of a broken connection
    oom: bool = False  # the cgroup counted an OOM kill
    started_at: float | None = None
    lost: bool = False  # its agent is gone: nobody saw it end
    cause: str = ""  # in words, where they say more than the other fields
    memory_limit: int | None = None  # bytes

    @property
    def failed(self) -> bool:
        return bool(self.exit_code or self.signal or self.lost or self.cause)


class Verdict(Record):
    first: Exit
    cause: str
    exit_code: int  # of the run
    origin: str  # whose exit code that is: state.ORIGIN_JOB or ORIGIN_HORA
    ties: tuple[Exit, ...] = ()  # failed so close to the first that the clocks can't tell
    echoes: tuple[Exit, ...] = ()  # failed after it, or were stopped

    @property
    def sentence(self) -> str:
        text = f"{self.first.label} on {self.first.host} {self.cause}"
        if self.ties:
            text += "; at the same moment, as far as the clocks tell, also " + _listed(
                [ended.label for ended in self.ties]
            )
        return text


def first_failure(exits: Iterable[Exit], clock_errors: Mapping[str, float] | None = None) -> Verdict | None:
    """The verdict over one attempt; None when nothing failed by itself.

    `clock_errors`: per host, by how many seconds its clock may be off; an exit's own `error` counts where
    it is larger.
    """
    everyone = list(exits)
    failures = sorted((one for one in everyone if one.failed and not one.stopped), key=_order)
    if not failures:
        return None
    first = failures[0]
    errors = clock_errors or {}
    ties = tuple(other for other in failures[1:] if _tied(first, other, errors))
    echoes = tuple(one for one in failures[1:] if one not in ties)
    echoes += tuple(one for one in everyone if one.stopped)
    origin = state.ORIGIN_JOB if first.exit_code or first.signal else state.ORIGIN_HORA
    return Verdict(first, cause(first), exit_code(first), origin, ties, echoes)


def not_started(
    label: str, member: str, rank: int | None, host: str, time: float, why: str, code: int = EXIT_NOT_FOUND
) -> Exit:
    """The exit of a rank that never began; `code` as a shell would end: 127 not found, 126 can't be run."""
    return Exit(label, member, rank, host, time, exit_code=code, cause=f"could not be started: {why}")


def lost(label: str, member: str, rank: int | None, host: str, time: float, why: str = "") -> Exit:
    """The exit of a rank whose agent is gone; `time` is when it was last heard of."""
    cause = f"was lost: {why or f'its host {host} is gone'}"
    return Exit(label, member, rank, host, time, lost=True, cause=cause)


def failure(judged: Verdict, attempt: int, last_lines: Sequence[str]) -> state.Failure:
    """The verdict as the run's report carries it."""
    first = judged.first
    return state.Failure(
        member=first.member,
        rank=first.rank,
        label=first.label,
        host=first.host,
        attempt=attempt,
        cause=judged.cause,
        exit_code=first.exit_code,
        signal=first.signal,
        at=first.time,
        after=None if first.started_at is None else max(0.0, first.time - first.started_at),
        ties=tuple(one.label for one in judged.ties),
        echoes=tuple(one.label for one in judged.echoes),
        last_lines=tuple(last_lines[-LAST_LINES:]),
    )


def _order(ended: Exit) -> tuple[bool, bool, float, str]:
    # A launcher (it has no rank) that exits with a code reports what a rank of its did.
    launcher = ended.rank is None and bool(ended.exit_code)
    return ended.reset, launcher, ended.time, ended.label


def _tied(first: Exit, other: Exit, errors: Mapping[str, float]) -> bool:
    if first.reset != other.reset:
        return False
    if first.host == other.host:  # one clock: its offset cancels out
        limit = SAME_HOST_ERROR
    else:
        limit = sum(max(ended.error, errors.get(ended.host, 0.0)) for ended in (first, other))
    return abs(other.time - first.time) <= limit


def exit_code(ended: Exit) -> int:
    """What the run ends with when this exit was the first failure."""
    if ended.exit_code:
        return ended.exit_code
    if ended.signal:
        return 128 + ended.signal
    return EXIT_HORA if ended.failed else 0


# --- causes in words ---------------------------------------------------------------------------------

_HINTS = {
    "SIGSEGV": "a crash in native code: it touched memory that isn't its own",
    "SIGBUS": "most often /dev/shm is full or a mapped file was cut short",
    "SIGILL": "a program built for another CPU",
    "SIGABRT": "native code gave up; its last lines say why",
    "SIGFPE": "a division by zero in native code",
    "SIGTERM": "somebody told it to end, and it was not Hora",
    "SIGINT": "somebody interrupted it, and it was not Hora",
    "SIGPIPE": "it wrote to somebody who had gone",
    "SIGXCPU": "its CPU time limit (ulimit -t) was reached",
    "SIGXFSZ": "its file size limit (ulimit -f) was reached",
}
_CODES = {
    EXIT_NOT_EXECUTABLE: "by a shell's custom: a command was found but could not be run",
    EXIT_NOT_FOUND: "by a shell's custom: a command was not found",
    137: "by a shell's custom: its child was killed by SIGKILL",
    139: "by a shell's custom: its child was killed by SIGSEGV",
    143: "by a shell's custom: its child was ended by SIGTERM",
}


def cause(ended: Exit) -> str:
    """What happened to a rank, to follow its name: "exited with code 3"."""
    if ended.cause:
        return ended.cause
    if ended.signal:
        name = signal_name(ended.signal)
        reason = _kill_reason(ended) if name == "SIGKILL" else _HINTS.get(name, "")
        return f"was killed by signal {ended.signal} ({name})" + (reason and ": " + reason)
    text = f"exited with code {ended.exit_code}"
    if ended.oom and ended.exit_code:
        return text + f" after a process was killed: {_kill_reason(ended)}"
    hint = _CODES.get(ended.exit_code or 0, "")
    return text + (hint and f" ({hint})")


def _kill_reason(ended: Exit) -> str:
    if not ended.oom:
        return "somebody or the OOM killer killed it"
    if ended.memory_limit is None:
        return "out of memory"
    return f"out of memory (the memory limit of {size(ended.memory_limit)} was reached)"


def signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        first = int(getattr(signals, "SIGRTMIN", 65))
        return f"SIGRTMIN+{number - first}" if first < number <= 64 else f"signal {number}"


def size(count: int) -> str:
    """Bytes as people and Kubernetes write them."""
    for unit, factor in (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024)):
        if count >= factor:
            return f"{count / factor:.1f}".replace(".0", "") + unit
    return f"{count} bytes"


def _listed(words: list[str], most: int = 8) -> str:
    shown = words if len(words) <= most else [*words[:most], f"{len(words) - most} more"]
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]


# --- what the last lines tell ------------------------------------------------------------------------

_RESET = re.compile(
    rb"ConnectionResetError|BrokenPipeError|ConnectionAbortedError|Broken pipe|Connection reset by peer"
    rb"|Connection closed by (?:remote )?peer|Connection was closed by (?:the )?peer"  # Gloo
    rb"|ncclRemoteError|remote process exit|NCCL communicator was aborted|peer (?:has )?(?:closed|exited)"
    rb"|MPI_ERR_PROC_FAILED|MPI communication peer process has unexpectedly disconnected"
    rb"|communication error with rank|Communication error with rank"  # MPICH
    rb"|HorovodInternalError|Horovod has been shut down"
    rb"|UnavailableError|StatusCode\.UNAVAILABLE|UNAVAILABLE: (?:Socket closed|Connection reset)"  # gRPC
    rb"|DistStoreError|StreamClosedError|CommClosedError"  # torch's store, tornado, Dask
)
_TAKEN = re.compile(rb"Address already in use|EADDRINUSE", re.IGNORECASE)
_ABSENT = re.compile(rb"ConnectionRefusedError|Connection refused|TimeoutError|timed out")
_LAST = 16 * 1024


def looks_like_reset(last_lines: bytes) -> bool:
    """Whether a rank died because a peer went away: then it is an echo, not the cause."""
    return _RESET.search(last_lines[-_LAST:]) is not None


def address_taken(last_lines: bytes) -> bool:
    """Whether a rank died because somebody else had taken its port meanwhile."""
    return _TAKEN.search(last_lines[-_LAST:]) is not None


_TRACEBACK = re.compile(rb"Traceback \(most recent call last\):\r?\n")
_SYNTAX = re.compile(rb'  File "[^"\n]*", line \d+\r?\n(?:.*\n)*?(?:SyntaxError|IndentationError|TabError)\b')
_INTERPRETER = re.compile(rb"[^\n]*: (?:No module named |can't open file |Error while finding module)[^\n]*$")


def user_error(ended: Exit, seconds_since_start: float, output: bytes) -> bool:
    """Whether trying again would only fail again: the user's own mistake, before any progress.

    Within the first seconds, by an exit code, and the code is one for wrong usage or an absent command, or
    there is no output but a Python traceback, or none.  What is printed before a traceback is progress.
    """
    if seconds_since_start > EARLY or ended.signal or not ended.exit_code:
        return False
    if ended.stopped or ended.lost or ended.oom or ended.reset or looks_like_reset(output):
        return False
    if ended.exit_code in (2, EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND):
        return True
    if address_taken(output) or _ABSENT.search(output[-_LAST:]):
        return False  # the port may be free, the peer may be there, the next time
    text = output.strip(b"\r\n")
    return not text.strip() or any(form.match(text) for form in (_TRACEBACK, _SYNTAX, _INTERPRETER))
