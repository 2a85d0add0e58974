"""Many stacks, few sentences: equal stacks together, the odd one out by name.  Pure."""

from __future__ import annotations

import re

from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

    from hora.agent.stacks import Stack

_FRAME = re.compile(r"^(.*):(\d+|\?+) (.*)$")
_LIBRARY = re.compile(r"(?:site|dist)-packages|/lib/python\d|^<frozen")
# Function names of those who wait for others.
_WAITS = re.compile(
    r"recv|wait|barrier|all_?reduce|all_?gather|all_?to_?all|reduce_scatter|broadcast|bcast|gather|scatter"
    r"|synchronize|poll|select|accept|acquire|join|rendezvous|^get$|^read|futex|epoll|sock_|unix_stream|hrtimer",
    re.IGNORECASE,
)


class Group(Record):
    """Ranks that are in the same place."""

    labels: tuple[str, ...]
    stack: Stack  # of the first of them

    @property
    def waits(self) -> bool:
        """Whether it looks like waiting for others, not like the reason why others wait."""
        function = split(self.stack.frames[0])[2] if self.stack.frames else self.stack.wchan
        return _WAITS.search(function) is not None

    @property
    def place(self) -> str:
        """Where the group is, to follow "is in" or "wait in"."""
        stack = self.stack
        if not stack.frames:
            kernel = (
                f"{stack.wchan} in the kernel" if stack.wchan else _STATES.get(stack.state, "no known place")
            )
            return "{} ({})".format(kernel, stack.command.split(" ")[0].rpartition("/")[2] or stack.how)
        text = _place(stack.frames[0])
        if _LIBRARY.search(stack.frames[0]):
            own = next((frame for frame in stack.frames if not _LIBRARY.search(frame)), None)
            text += ", called from " + _place(own) if own else ""
        return text


_STATES = {
    "R": "running native code",
    "S": "sleeping in native code",
    "D": "the kernel, where no signal reaches it",
    "T": "a stop",
    "t": "a debugger's stop",
    "Z": "no place: it has ended",
}


def split(frame: str) -> tuple[str, str, str]:
    """File, line and function of a frame."""
    match = _FRAME.match(frame)
    return (match.group(1), match.group(2), match.group(3)) if match else ("", "", frame)


def group(stacks: Sequence[Stack]) -> list[Group]:
    """Equal stacks together, the largest group first.

    Equal means the same files, lines and functions.  Where that names nobody, lines are left out: a loop
    over several calls of the same function puts those who wait on different lines of it.
    """
    exact = _grouped(stacks, lines=True)
    if len(exact) < 3 or odd_one_out(exact):
        return exact
    coarse = _grouped(stacks, lines=False)
    return coarse if odd_one_out(coarse) else exact


def _grouped(stacks: Sequence[Stack], lines: bool) -> list[Group]:
    together: dict[Any, list[Stack]] = {}
    for stack in stacks:
        together.setdefault(_key(stack, lines), []).append(stack)
    groups = [Group(tuple(stack.label for stack in equal), equal[0]) for equal in together.values()]
    return sorted(groups, key=lambda one: -len(one.labels))


def _key(stack: Stack, lines: bool) -> Any:
    if not stack.frames:
        return stack.command.split(" ")[0], stack.wchan, "" if stack.wchan else stack.state
    if lines:
        return stack.frames
    return tuple((file, function) for file, _, function in map(split, stack.frames))


def odd_one_out(groups: Sequence[Group]) -> Group | None:
    """The group that the others probably wait for; None when nothing sets one apart.

    One that doesn't wait among those that do, else one that is smaller than every other.
    """
    if len(groups) < 2:
        return None
    busy = [one for one in groups if not one.waits]
    if len(busy) == 1 and len(busy[0].labels) <= sum(len(one.labels) for one in groups) / 2:
        return busy[0]
    smallest, second = sorted(groups, key=lambda one: len(one.labels))[:2]
    return smallest if len(smallest.labels) < len(second.labels) else None


def sentence(groups: Sequence[Group]) -> str:
    """One sentence: who is where, the odd one out first."""
    if not groups:
        return "no stacks came back"
    odd = odd_one_out(groups)
    rest = [one for one in groups if one is not odd]
    if len(groups) == 1:
        (only,) = groups
        everyone = f"all {len(only.labels)} ranks" if len(only.labels) > 1 else only.labels[0]
        return f"{everyone} {_verb(only)} in {only.place}"
    parts = []
    if odd is not None:
        parts.append(f"{names(odd.labels)} {_verb(odd)} in {odd.place}")
    for one in rest:
        the = f"the {len(one.labels)} others" if odd is not None and len(rest) == 1 else names(one.labels)
        the = "the other" if the == "the 1 others" else the
        parts.append(f"{the} {_verb(one)} in {one.place}")
    return "; ".join(parts)


def names(labels: Sequence[str], most: int = 3) -> str:
    if len(labels) == 1:
        return labels[0]
    if len(labels) > most:
        return f"{len(labels)} ranks ({', '.join(labels[:2])}, ...)"
    return ", ".join(labels[:-1]) + " and " + labels[-1]


def render(groups: Sequence[Group]) -> str:
    """All of it as text: the sentence, then each group with its stack, innermost first."""
    lines = [sentence(groups)]
    odd = odd_one_out(groups)
    for one in ([odd] if odd else []) + [other for other in groups if other is not odd]:
        lines += ["", "{}{}".format(", ".join(one.labels), "   <- the odd one out" if one is odd else "")]
        lines += _described(one.stack)
    return "\n".join(lines) + "\n"


def _described(stack: Stack) -> list[str]:
    about = ", ".join(
        part for part in (_STATES.get(stack.state, ""), stack.wchan) if part and not stack.frames
    )
    lines = [f"  process {stack.pid}, {stack.how}: {stack.command}"]
    if not stack.frames:
        lines.append(
            "  {}".format(": ".join(part for part in ("no Python stack", stack.note, about) if part))
        )
    lines += [f"    {_line(frame)}" for frame in stack.frames]
    for name, frames in stack.threads:
        lines.append(f"  thread {name}")
        lines += [f"    {_line(frame)}" for frame in frames]
    return lines


def _line(frame: str) -> str:
    file, line, function = split(frame)
    return f"{function} ({file}:{line})" if file else frame


def _place(frame: str) -> str:
    file, line, function = split(frame)
    return "{} ({}:{})".format(function, file.rpartition("/")[2], line) if file else function


def _verb(one: Group) -> str:
    if one.waits:
        return "waits" if len(one.labels) == 1 else "wait"
    return "is" if len(one.labels) == 1 else "are"
