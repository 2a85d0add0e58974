"""Names of hosts to addresses, asked by a child: a name service that doesn't answer takes half a minute, in which
an agent must go on reading what its ranks print."""

from __future__ import annotations

import json
import os
import signal
import socket

from hora.agent import proc, process
from hora.agent.loop import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List

    from hora.agent.loop import Loop

LIMIT = 10.0


def is_number(host: str) -> bool:
    """Whether it is an address already."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host.partition("%")[0])
            return True
        except OSError:
            continue
    return False


class Resolving:
    """`done(addresses, why)` is called once: all [address, port] in the order to try them, or why there is none."""

    def __init__(self, loop: Loop, host: str, port: int, done: Callable[[List[Any], str], None]) -> None:
        self._loop = loop
        self._done = done
        self._said = b""
        self._reader, writer = os.pipe()
        try:
            self._pid = process.fork_child("hora-resolve", lambda: _ask(host, port, writer))
        except OSError:
            os.close(self._reader)
            raise
        finally:
            os.close(writer)
        self._late = loop.after(LIMIT, self._give_up)
        loop.watch(self._reader, READ, lambda _events: self._read())

    def _read(self) -> None:
        part = os.read(self._reader, 1 << 16)
        self._said += part
        if not part:
            self._end("its name was not resolved")

    def _give_up(self) -> None:
        process.signal_one(
            self._pid, signal.SIGKILL
        )  # it holds the pipe, so it lives, and the number is its own
        self._end(f"no answer to its name within {LIMIT:.0f} s")

    def _end(self, why: str) -> None:
        self._let_go()
        try:
            addresses, why = json.loads(self._said)
        except ValueError:  # nothing, or half of it
            addresses = []
        self._done(addresses, why)

    def _let_go(self) -> None:
        self._late.cancel()
        self._loop.unwatch(self._reader)
        os.close(self._reader)

    cancel = _let_go  # the child ends with its parent, or when it has its answer


def _ask(host: str, port: int, writer: int) -> int:
    proc.die_with_parent(signal.SIGKILL)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses, why = [list(entry[4][:2]) for entry in found], ""
    except OSError as problem:
        addresses, why = [], str(problem.strerror or problem)
    os.write(writer, json.dumps([addresses, why]).encode())
    return 0
