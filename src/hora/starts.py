"""From a plan to processes, ready to start.  Pure; the lead calls `starts` and `served` at each attempt.

Travels inside the agent: standard library only, Python 3.8.
"""

from __future__ import annotations

from hora.record import Record
from hora.scene import LAUNCHER, Seat, number, resolve, same_for_all
from hora.symbols import MPIRUN, PER_HOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from hora.plan import RolePlan
    from hora.scene import Numbers, Scene
    from hora.symbols import Value

_LONGEST = 128 * 1024 - 1  # bytes that Linux takes for one variable, name and all


class Start(Record):
    """One process, everything resolved.  `environment` puts its variables together."""

    seat: Seat
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]  # stronger than what the host has
    files: tuple[tuple[str, str, bool], ...] = ()  # name, content, executable
    defaults: tuple[tuple[str, str], ...] = ()  # weaker


def hora_env(scene: Scene, seat: Seat, numbers: Numbers) -> dict[str, str]:
    """What every process gets from Hora.  One that starts ranks by itself (torchrun, mpirun) has no rank."""
    role = scene.plan.role(seat.role)
    spot = scene.spot(seat.role, seat.index)
    env = {
        "HORA_RUN": scene.run,
        "HORA_ATTEMPT": str(scene.attempt),
        "HORA_ROLE": seat.role,
        "HORA_MEMBER": seat.member,
        "HORA_MEMBER_INDEX": str(seat.index),
        "HORA_WORLD_SIZE": str(numbers.world),
        "HORA_LOCAL_WORLD_SIZE": str(numbers.local_world),
        "HORA_HOST_INDEX": str(numbers.host_index),
        "HORA_HOST_COUNT": str(numbers.host_count),
        "HORA_HOST": spot.address,
        "HORA_INTERFACE": spot.interface,
    }
    if role.start != PER_HOST and seat.rank != LAUNCHER:
        env["HORA_RANK"] = str(numbers.rank)
        env["HORA_LOCAL_RANK"] = str(numbers.local)
    for name, port in spot.ports:
        name, _, rank = name.partition("/")
        if rank in ("", str(seat.rank)):
            env[f"HORA_PORT_{name.upper().replace('-', '_')}"] = str(port)
    return env


_PROCESS_NAMES = (
    "HORA_RUN", "HORA_ATTEMPT", "HORA_ROLE", "HORA_MEMBER", "HORA_MEMBER_INDEX", "HORA_WORLD_SIZE",
    "HORA_LOCAL_WORLD_SIZE", "HORA_HOST_INDEX", "HORA_HOST_COUNT", "HORA_HOST", "HORA_INTERFACE",
    "HORA_RANK", "HORA_LOCAL_RANK", "HORA_AGENT_SOCKET",
)  # fmt: skip


def environment(start: Start, base: Mapping[str, str]) -> dict[str, str]:
    """All variables of a process on a host that has `base`.

    What an outer run set, when this one was started by one of its ranks, is left out.
    """
    env = {
        name: text
        for name, text in base.items()
        if name not in _PROCESS_NAMES and not name.startswith(("HORA_PORT_", "HORA_PEERS"))
    }
    for name, text in start.defaults:
        env.setdefault(name, text)
    env.update(start.env)
    return env


def starts(scene: Scene) -> dict[Seat, Start]:
    """Every process that an agent starts: one per rank, per host or per launcher, as the roles say."""
    by_role = _by_role(scene)
    world = [numbers for role, members in by_role if role.in_world for _, numbers in members]
    ready: dict[Seat, Start] = {}
    for role, members in by_role:
        if role.start == MPIRUN:
            if role.launcher:  # it speaks for the whole world, even when its own role is outside
                seat = Seat(role.name, 0, LAUNCHER)
                ready[seat] = _Builder(scene, role, role.launcher).start(seat, world[0])
            continue
        builder = _Builder(scene, role, role.command)
        chosen = _first_per_host(scene, members) if role.start == PER_HOST else members
        ready.update((seat, builder.start(seat, numbers)) for seat, numbers in chosen)
    return ready


def served(scene: Scene) -> dict[Seat, Start]:
    """Every rank that a launcher starts and that asks its agent what to run, by the rank's seat."""
    ready: dict[Seat, Start] = {}
    for role, members in _by_role(scene):
        if role.start == MPIRUN and role.command:
            builder = _Builder(scene, role, role.command)
            ready.update((seat, builder.start(seat, numbers)) for seat, numbers in members)
    return ready


def _by_role(scene: Scene) -> list[tuple[RolePlan, list[tuple[Seat, Numbers]]]]:
    members: dict[str, list[tuple[Seat, Numbers]]] = {role.name: [] for role in scene.plan.roles}
    for seat, numbers in number(scene).items():
        members[seat.role].append((seat, numbers))
    return [(role, members[role.name]) for role in scene.plan.roles]


def _first_per_host(scene: Scene, members: list[tuple[Seat, Numbers]]) -> list[tuple[Seat, Numbers]]:
    first: dict[str, tuple[Seat, Numbers]] = {}
    for seat, numbers in members:
        first.setdefault(scene.spot(seat.role, seat.index).host, (seat, numbers))
    return list(first.values())


class _Builder:
    """Makes the processes of one role; what is equal for all of them is resolved once."""

    def __init__(self, scene: Scene, role: RolePlan, command: tuple[Value, ...]) -> None:
        self.scene = scene
        self.role = role
        self.command = command
        self._known: dict[int, str] = {}  # by id: the plan keeps its values alive

    def start(self, seat: Seat, numbers: Numbers) -> Start:
        env = hora_env(self.scene, seat, numbers)
        for name, value in self.role.env:
            text = self._text(value, seat, numbers)
            if not name.startswith("HORA_PEERS") or len(name) + len(text) < _LONGEST:
                env[name] = text
        for name, value in self.role.user_env:  # the user's own come last and win
            env[name] = self._text(value, seat, numbers)
        advice = [(name, self._text(value, seat, numbers)) for name, value in self.role.defaults]
        return Start(
            seat=seat,
            argv=tuple(self._text(part, seat, numbers) for part in self.command),
            env=tuple(env.items()),
            files=tuple(
                (file.name, self._text(file.content, seat, numbers), file.executable)
                for file in self.role.files
            ),
            defaults=tuple((name, text) for name, text in advice if text and name not in env),
        )

    def _text(self, value: Value, seat: Seat, numbers: Numbers) -> str:
        text: str | None = self._known.get(id(value))
        if text is None:
            text = resolve(value, self.scene, seat, numbers)
            if same_for_all(value):
                self._known[id(value)] = text
        return text
