"""The job's code as the lead's pod gets it: what is small in its environment, what is larger mounted.  Pure.

Mounting costs a third of a second, so it is for those that need it.
"""

from __future__ import annotations

from hora.places.kubernetes import words
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hora.places.code import Packed

SMALL = 300_000  # bytes that travel by environment
SHARD = 1_000_000  # bytes in one ConfigMap; Kubernetes takes 1 MiB
FOLDER = "/hora/code"
VARIABLE = "HORA_POD_CODE_"


class Shipped(Record):
    config: dict[str, Any] | None = None  # what the lead is told of it
    shards: tuple[bytes, ...] = ()  # each a ConfigMap that is mounted
    pieces: tuple[str, ...] = ()  # or texts for the environment


NOTHING = Shipped()


def shipped(code: Packed | None) -> Shipped:
    if code is None:
        return NOTHING
    if len(code.data) <= SMALL:
        return Shipped(code.config([]), (), tuple(words.pieces(code.data)))
    shards = code.parts(SHARD)
    return Shipped(code.config([f"{FOLDER}/{number}" for number in range(len(shards))]), tuple(shards))


def config_names(base: str, code: Shipped) -> list[str]:
    """Of the ConfigMaps that hold it."""
    return [f"{base}-code-{number}" for number in range(max(len(code.shards), 1 if code.pieces else 0))]


def environment(base: str, code: Shipped) -> list[dict[str, Any]]:
    name = f"{base}-code-0"
    return [
        {"name": f"{VARIABLE}{n}", "valueFrom": {"configMapKeyRef": {"name": name, "key": f"code-{n}"}}}
        for n in range(len(code.pieces))
    ]


def volume(base: str, code: Shipped) -> dict[str, Any]:
    sources = [
        {"configMap": {"name": f"{base}-code-{n}", "items": [{"key": "code", "path": str(n)}]}}
        for n in range(len(code.shards))
    ]
    return {"name": "code", "projected": {"sources": sources}}


def contents(code: Shipped) -> list[dict[str, Any]]:
    """What each of the ConfigMaps holds."""
    import base64

    if code.pieces:
        return [{"data": {f"code-{number}": piece for number, piece in enumerate(code.pieces)}}]
    return [{"binaryData": {"code": base64.b64encode(shard).decode("ascii")}} for shard in code.shards]
