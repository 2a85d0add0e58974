"""The lead's words: one sentence for what a run waits for, or how and why it ended."""

from __future__ import annotations

import re

from hora.agent.lead.verdict import size
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Sequence, Tuple

    from hora.agent.frames import Header
    from hora.state import Failure

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class Stop(Record):
    """Who asked for an end, and what `hora run` then ends with."""

    reason: str
    code: int
    kill: bool = False


CTRL_C = Stop("stopped by Ctrl-C", 130)
CLIENT_GONE = Stop("stopped because the `hora run` that it belonged to went away", 129)
TERMINATED = Stop("stopped because its lead was asked to end (SIGTERM)", 143)
HORA_STOP = Stop("stopped by `hora stop`", 143)


TAKING_UP = "the lead was started anew; waiting for all hosts to tell how far they are"
STOPPED_BEFORE = "the first lead of this run was killed while it stopped the ranks"


def lost_while_away(hosts: Sequence[str]) -> str:
    return f"the ranks of {few(hosts)} were lost while the run had no lead"


def asked(header: Header) -> Stop:
    """The stop that a client's request stands for."""
    known = {
        "ctrl-c": CTRL_C, "hangup": CLIENT_GONE, "terminated": TERMINATED_CLIENT, "unread": UNREAD,
    }.get(header.get("why", ""))  # fmt: skip
    stop = known or HORA_STOP
    return Stop(stop.reason, stop.code, bool(header.get("kill")))


UNREAD = Stop(
    "stopped because nobody reads the output of `hora run` any more", 141
)  # as SIGPIPE ends programs
TERMINATED_CLIENT = Stop("stopped because `hora run` was asked to end (SIGTERM)", 143)


def count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def few(names: Sequence[str], most: int = 4) -> str:
    """Some names, and how many more."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def gathering(members: int, missing: List[str]) -> str:
    if not missing:
        return f"waiting for the {count(members, 'member')} to come"
    return f"{members - len(missing)} of {count(members, 'member')} are here; waiting for {few(missing)}"


def sending_code(digest: str, done: int, hosts: int) -> str:
    return f"sending code {digest} to the hosts: {done} of {hosts} have it"


def code_on_its_way(at: int, whole: int) -> str:
    return (
        "unpacks the code"
        if at >= whole
        else f"has {size(at) if at else 'nothing'} of {size(whole)} of the code"
    )


def new_code(digest: str) -> str:
    what = f"code {digest}" if digest else "new code"
    return f"{what} has come: stopping the ranks, which start again with it"


def again_with(digest: str, attempt: int) -> str:
    return f"all ranks start again as attempt {attempt}, with {f'code {digest}' if digest else 'the code as it is now'}"


def running(ranks: int) -> str:
    return f"{count(ranks, 'rank')} running"


def succeeded(ranks: int, seen: int, roles: Tuple[str, ...], seconds: float, attempt: int) -> str:
    """`seen`: ranks whose process was Hora's own; under launchers as written only those are.

    `roles`: those that decided, where there are others: these are stopped in the end.
    """
    if seen < ranks or not ranks:
        who = "its launcher" if seen < 2 else f"all {seen} launchers"
    else:
        who = "its rank" if ranks == 1 else f"all {ranks} ranks"
        who += f" of {' and '.join(roles)}" if roles else ""
    tries = f", at attempt {attempt}" if attempt > 1 else ""
    return f"{who} ended well after {duration(seconds)}{tries}"


def failed(failure: Failure) -> str:
    """worker-2/0 exited with code 3, 12 s after its start; its last line: ..."""
    after = f", {duration(failure.after)} after its start" if failure.after is not None else ""
    text = f"{failure.label or failure.member} {failure.cause}{after}"
    if failure.ties:
        text += f"; at the same moment also {few(failure.ties)}"
    last = next((plain(line) for line in reversed(failure.last_lines) if plain(line)), "")
    if last:
        text += f"; its last line: {last[:200]}"
    return text


def plain(line: str) -> str:
    """A rank's line, to be told in a sentence: without colours, and of a progress bar the last state."""
    line = _ESCAPES.sub("", line.rstrip("\r")).rpartition("\r")[2]
    return "".join(letter if letter.isprintable() else " " for letter in line).strip()


def stopping_after(first: Any) -> str:
    return f"{first.label} ended first; stopping the others"


def restarting(attempt: int, failure: Failure, left: int) -> str:
    more = f"{count(left, 'restart')} left" if left else "no restart left after this one"
    return f"attempt {attempt} failed: {failed(failure)}. All ranks start again as attempt {attempt + 1} ({more})"


def port_taken(attempt: int) -> str:
    return f"attempt {attempt}: a port was taken meanwhile; all ranks start again"


def not_retried(failure: Failure) -> str:
    return (
        f"not started again: {failure.label or failure.member} failed before it had done anything, which looks like "
        "a mistake in the program or its arguments"
    )


def setup_failed(host: str, code: int, last: List[bytes]) -> str:
    text = f"the set-up command failed on {host} with code {code}"
    lines = [plain(part.decode("utf-8", "replace")) for part in last]
    line = next((line for line in reversed(lines) if line), "")
    return f"{text}; its last line: {line[:200]}" if line else text


def removed(folder: str) -> str:
    return f"{folder} was removed while the run went on; next time end the run first: hora stop, then hora rm"


def dropping(host: str) -> str:
    return f"{host} has written more than `output` of the job file lets us keep: the oldest goes from now on"


def dropped(host: str, length: int) -> str:
    return (
        f"{size(length)} of the oldest output of {host} were dropped to stay within `output` of the job file"
    )


def out_of_time(seconds: float, key: str) -> str:
    return f"it took longer than timeouts.{key}, {duration(seconds)}"


def phase_limit(lead: Any, seconds: float, key: str) -> str:
    """A phase has reached its limit: say what was still missing."""
    limit = f"timeouts.{key} is {duration(seconds)}"
    missing = lead.board.unhosted()
    if missing:
        return f"{few(missing)} did not come in time ({limit})"
    late = [link.name for link in lead.hosts.values() if not link.prepared]
    if late and lead.code.missing:
        return (
            f"{few(late)} did not get code {lead.code.hash}, which `hora sync` brought: it went with the lead that "
            f"had it, and no host that is here has it ({limit}). Start the run again, or sync once more"
        )
    if late and lead.code.hash:
        return f"{few(late)} did not get the code and answer the check in time ({limit})"
    if late:
        return f"{few(late)} did not answer the check in time ({limit})"
    waiting = sorted(lead.attempt.expected - set(lead.attempt.began) - set(lead.attempt.exits))
    if waiting:
        return f"{few(waiting)} did not start in time ({limit})"
    return f"the set-up was not done in time ({limit})"
