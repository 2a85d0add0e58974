"""Ports for the ranks, chosen by binding them on the host that owns them, and kept bound until handed over.

Below the ephemeral range, or an outgoing connection takes the port between our release and the rank's bind;
above 10000, where few services live.  The start is random, so that two runs look in different places.
"""

from __future__ import annotations

import errno
import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

LOWEST = 10000
_HIGHEST = 65535
_EPHEMERAL = (32768, 60999)
_ENOUGH = 1000

# Handed out by this process, in order.  What was handed out once is taken again only when nothing else is
# left (a short range and a restart): its rank may be about to bind it, or a dying one still hold it.
_handed: dict[int, None] = {}


class NoPort(RuntimeError):
    """The range has no free port (left)."""


def ephemeral_range(path: str = "/proc/sys/net/ipv4/ip_local_port_range") -> tuple[int, int]:
    """The ports that outgoing connections get."""
    try:
        with open(path) as file:
            low, high = file.read().split()
        return int(low), int(high)
    except (OSError, ValueError):
        return _EPHEMERAL


def default_range(ephemeral: tuple[int, int] | None = None) -> tuple[int, int]:
    """Below the ephemeral range; above it where little is below; else all, for want of better."""
    low, high = ephemeral or ephemeral_range()
    for first, last in ((LOWEST, low - 1), (max(high + 1, LOWEST), _HIGHEST)):
        if last - first + 1 >= _ENOUGH:
            return first, last
    return LOWEST, _HIGHEST


class Ports:
    """Holds the ports that it has taken, until `release`."""

    def __init__(self, within: tuple[int, int] = (0, 0)) -> None:
        self.given = within != (0, 0)
        self.first, self.last = within if self.given else default_range()
        if not 1 <= self.first <= self.last <= _HIGHEST:
            raise NoPort(
                f"{self.first}-{self.last} is no range of ports: the first must be at least 1, the last at "
                f"most {_HIGHEST}, and the first not above the last; set network.ports to such a range"
            )
        self._held: dict[int, list[socket.socket]] = {}

    def take(self) -> int:
        """One more port, bound here on all addresses until it is released."""
        for port in self._candidates():
            sockets = _bind(port)
            if sockets:
                self._held[port] = sockets
                _handed.pop(port, None)
                _handed[port] = None
                return port
        raise NoPort(self._exhausted())

    def release(self, port: int | None = None) -> None:
        """Free one port, or all: right before its rank starts."""
        for one in [port] if port is not None else list(self._held):
            for held in self._held.pop(one, ()):
                held.close()

    def _candidates(self) -> Iterator[int]:
        count = self.last - self.first + 1
        start = int.from_bytes(os.urandom(4), "big") % count
        for step in range(count):
            port = self.first + (start + step) % count
            if port not in _handed:
                yield port
        for port in list(_handed):  # longest ago first
            if self.first <= port <= self.last and port not in self._held:
                yield port

    def _exhausted(self) -> str:
        count = self.last - self.first + 1
        own = sum(self.first <= port <= self.last for port in self._held)
        text = f"no free port in {self.first}-{self.last}: all {count} are in use, {own} of them by this run"
        todo = "give a wider range with network.ports" if self.given else "set network.ports to a free range"
        return f"{text}; end what holds them, or {todo}"


def _bind(port: int) -> list[socket.socket]:
    """Sockets on the port, for all IPv4 and, where there is IPv6, all IPv6 addresses; [] if it is taken.

    Without SO_REUSEADDR, so that somebody on 127.0.0.1 alone, or a connection in TIME_WAIT, counts as taken.
    """
    bound: list[socket.socket] = []
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            one = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                for other in bound:
                    other.close()
                raise NoPort(f"no port could be taken: {error.strerror}; raise ulimit -n") from error
            continue  # the system has no such family
        bound.append(one)
        try:
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind((address, port))
        except OSError as error:
            one.close()
            bound.pop()
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                continue  # a family that is built in and switched off
            for other in bound:
                other.close()
            return []
    return bound
