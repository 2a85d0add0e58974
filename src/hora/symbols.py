"""Symbols: what a plan holds where an address, a port, a rank or a count goes.

Never `$VAR` text: the lead resolves them (see scene.py) at each attempt, from what the agents reported.
Travels inside the agent: standard library only, Python 3.8.
"""

from __future__ import annotations

from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class PlanError(ValueError):
    """A plan that contradicts itself, or can't be read by this version."""


SPAWN = "spawn"  # agents start every rank
PER_HOST = "host"  # agents start one process per host; it starts the ranks of that host (torchrun)
MPIRUN = "mpirun"  # member 0 runs a launcher; it starts the ranks, which ask their agent what to run
STARTS = (SPAWN, PER_HOST, MPIRUN)


class Host(Record):
    """Address at which peers reach the host of one member."""

    role: str
    index: int = 0


class Hosts(Record):
    """Addresses of all members of a role, in order: a list (use inside Join or Json)."""

    role: str


class Port(Record):
    """A port that the member's role asked for by name in `ports`; one of `rank_ports` is `name/rank`."""

    role: str
    index: int
    name: str


class HostPort(Record):
    """`host:port` of one member, IPv6 in brackets."""

    role: str
    index: int
    name: str


class HostPorts(Record):
    """`host:port` of all members of a role, or of all its ranks for one of `rank_ports`, in order: a list."""

    role: str
    name: str


class Rank(Record):
    """Global number of the rank, 0 ... world size - 1."""


class LocalRank(Record):
    """Number of the rank among those on its host, as torchrun and mpirun count."""


class RankInMember(Record):
    """Number of the rank in its member."""


class Index(Record):
    """Number of the member in its role."""


class World(Record):
    """Number of ranks in the world."""


class LocalWorld(Record):
    """Number of ranks on this rank's host."""


class HostCount(Record):
    """Number of hosts that hold ranks of the world."""


class HostIndex(Record):
    """Number of this rank's host among those hosts."""


class Size(Record):
    """Number of members of a role."""

    role: str


class Interface(Record):
    """Network interface of this host that reaches the peers (`lo` when all share one host).

    Empty, without the prefix, when the host can't tell; also for the loopback when that is not wanted.
    """

    prefix: str = ""
    loopback: bool = True


class Threads(Record):
    """CPUs that each rank of this host really has, at least 1."""


class RunId(Record):
    """Id of the run."""


class Attempt(Record):
    """Number of the attempt, from 1."""


class Restarts(Record):
    """Number of restarts so far: 0 in the first attempt."""


class HostSlots(Record):
    """`address count` of every host that holds ranks of the world, in the order of HostIndex: a list."""

    sep: str = " "  # " slots=" makes it a host file of Open MPI and DeepSpeed


# --- shapes ------------------------------------------------------------------------------------------


class Join(Record):
    """Its parts as text, joined.  The items of a part that is a list (Hosts, HostPorts) are parts, too."""

    parts: tuple[Value, ...]
    sep: str = ""


class Json(Record):
    """Its value as JSON text.  Maps are written as pairs, so that the plan stays frozen."""

    value: Tree


class Map(Record):
    """An object inside Json."""

    pairs: tuple[tuple[str, Tree], ...]


class FilePath(Record):
    """Absolute path, on the rank's host, of a file that the role declares in `files`."""

    name: str


SYMBOLS = (
    Host, Hosts, Port, HostPort, HostPorts, Rank, LocalRank, RankInMember, Index, World, LocalWorld,
    HostCount, HostIndex, Size, Interface, Threads, RunId, Attempt, Restarts, HostSlots,
    Join, Json, FilePath,
)  # fmt: skip

if TYPE_CHECKING:  # only read by type checkers: Python 3.8 couldn't run it
    Symbol = (
        Host | Hosts | Port | HostPort | HostPorts | Rank | LocalRank | RankInMember | Index | World
        | LocalWorld | HostCount | HostIndex | Size | Interface | Threads | RunId | Attempt | Restarts
        | HostSlots | Join | Json | FilePath
    )  # fmt: skip
    Value = str | Symbol
    Tree = None | bool | int | float | str | tuple[Any, ...] | Map | Symbol
    Pairs = tuple[tuple[str, Value], ...]
