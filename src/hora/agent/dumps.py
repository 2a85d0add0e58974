"""What faulthandler writes, read."""

from __future__ import annotations

import re

_HEAD = re.compile(
    r"^(Current thread|Thread|Stack)(?: (0x[0-9a-f]+))?(?: \[(.*)\])? \(most recent call first\)"
)
_FRAME = re.compile(r'^  File (?:"(.*)"|(\?\?\?)), line (\d+|\?\?\?) in (.*)$')
_ESCAPE = re.compile(r"\\x([89a-f][0-9a-f])|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})")


def parse(text: str) -> tuple[tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]]:
    """Frames of the main thread, and of the others by name, from what faulthandler wrote."""
    main: list[str] = []
    others: list[tuple[str, list[str]]] = []
    frames: list[str] = []
    for line in text.splitlines():
        head, frame = _HEAD.match(line), _FRAME.match(line)
        if head and head.group(1) == "Thread":
            frames = []
            others.append((head.group(3) or head.group(2) or "thread", frames))
        elif head:  # the signal went to the main thread, so that is the current one
            frames = main = []
        elif frame:
            frames.append(
                "{}:{} {}".format(_plain(frame.group(1) or "?"), frame.group(3), _plain(frame.group(4)))
            )
        elif line == "  ...":
            frames.append("...")
    return tuple(main), tuple((name, tuple(found)) for name, found in others)


def _plain(text: str) -> str:
    """Without faulthandler's escapes for what isn't ASCII."""
    return _ESCAPE.sub(lambda match: chr(int(match.group(1) or match.group(2) or match.group(3), 16)), text)
