"""Output after the run: the log of the lead's pod holds the merged stream, as far as the cluster keeps it."""

from __future__ import annotations

import re

from hora.places.base import Chunk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LINE = re.compile(rb"(\S+) (?:([a-z][a-z0-9-]*-\d+/(?:\d+|launcher)|setup@\S+/\d+) \| )?(.*)\Z", re.DOTALL)
_OURS = b"hora: "


def chunks(lines: Iterable[bytes]) -> Iterator[Chunk]:
    """From the log's lines, each with its time before it.  What has no label continues the line before it."""
    number, label, at = 0, "", 0.0
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        when, named, text = match.groups()
        if named is None and (not label or text.startswith(_OURS)):
            continue  # Hora's own words
        if named is not None:
            label, at = named.decode(), _seconds(when)
        yield Chunk(number, label, at, 0, text)
        number += 1


def _seconds(when: bytes) -> float:
    import datetime

    text = when.decode("ascii", "replace").rstrip("Z")
    whole, _, fraction = text.partition(".")
    try:
        moment = datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc)
    except ValueError:
        return 0.0
    return moment.timestamp() + (float(f"0.{fraction}") if fraction.isdigit() else 0.0)
