"""Ways from this computer to ports beside ranks, over one connection to the lead: `Run.dial`, `hora open`."""

from __future__ import annotations

import select
import socket
import threading
import time

from hora.errors import LeadGone, PlaceError, UsageError
from hora.state import ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hora.agent.frames import Header
    from hora.api import Run
    from hora.places.connection import Connection

CHUNK = 64 << 10
WINDOW = 1 << 20  # bytes on the way there
LOOK = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
LIMIT = 30.0  # seconds for a port to answer


class Way:
    """One connection of ours, and its other half beside a rank."""

    def __init__(self, sock: socket.socket, target: str) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.target = target  # in words
        self.open = False  # the other half has answered
        self.reads = True  # we may still say something
        self.unwritten = bytearray()  # came for us
        self.ended = False  # nothing more comes for us
        self.on_way = 0  # bytes that the port has not taken yet
        self.problem = ""


class Tunnels:
    """All ways over one connection; `wait` moves what can be moved."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.problems: list[str] = []  # of ways that could not be opened, or broke
        self.others: list[tuple[Header, bytes]] = []  # frames that belong to no way
        self._ways: dict[int, Way] = {}

    def add(self, sock: socket.socket, label: str, port: int) -> Way:
        way = Way(sock, f"port {port} beside {label}")
        number = self.connection.ask("dial", label=label, port=port)
        self._ways[number] = way
        return way

    def wait(self, timeout: float, others: tuple[socket.socket, ...] = ()) -> list[socket.socket]:
        """Those of `others` that are ready; LeadGone when the connection has broken."""
        poll = select.poll()
        poll.register(self.connection.fileno(), select.POLLIN)
        for sock in others:
            poll.register(sock, select.POLLIN)
        by_fd = {}
        for number, way in self._ways.items():
            wanted = select.POLLIN if way.open and way.reads and way.on_way < WINDOW else 0
            wanted |= select.POLLOUT if way.unwritten else 0
            if wanted:
                poll.register(way.sock, wanted)
                by_fd[way.sock.fileno()] = number
        ready = dict(poll.poll(timeout * 1000))
        if self.connection.fileno() in ready:
            self._listen()
        for fd, number in by_fd.items():
            if fd in ready and number in self._ways:
                self._move(number, self._ways[number], ready[fd])
        return [sock for sock in others if sock.fileno() in ready]

    def _listen(self) -> None:
        for header, body in self.connection.frames(0.0):
            way = self._ways.get(header.get("id", 0))
            if way is None:
                self.others.append((header, body))
            else:
                self._told(header["id"], way, header, body)
        if self.connection.closed:
            raise LeadGone("the connection to the lead of the run broke")

    def _told(self, number: int, way: Way, header: Header, body: bytes) -> None:
        kind = header["t"]
        if kind == "dialled":
            way.open = True
        elif kind == "data":
            way.unwritten += body
            self._write(number, way)
        elif kind == "took":
            way.on_way -= header["bytes"]
        elif kind == "eof":
            way.ended = True
            self._write(number, way)
        elif kind in ("exited", "error", "lost"):
            way.problem = header.get("message", "")
            self.problems += [way.problem] if way.problem else []
            way.ended, way.reads = True, False
            self._write(number, way)

    # --- one way ---

    def _move(self, number: int, way: Way, events: int) -> None:
        if events & select.POLLOUT:
            self._write(number, way)
        if way.reads and way.open and events & ~select.POLLOUT:
            self._read(number, way)

    def _read(self, number: int, way: Way) -> None:
        try:
            data = way.sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            way.on_way += len(data)
            self.connection.send({"t": "stdin", "id": number}, data)
            return
        way.reads = False
        self.connection.send({"t": "stdin", "id": number, "end": True})
        self._look(number, way)

    def _write(self, number: int, way: Way) -> None:
        taken = 0
        try:
            while way.unwritten:
                count = way.sock.send(way.unwritten)
                del way.unwritten[:count]
                taken += count
        except BlockingIOError:
            pass
        except OSError:  # nobody listens here any more
            self._drop(number, way)
            return
        if taken:
            self.connection.send({"t": "took", "id": number, "bytes": taken})
        if way.ended and not way.unwritten:
            try:
                way.sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it has gone
            self._look(number, way)

    def _look(self, number: int, way: Way) -> None:
        if way.ended and not way.reads and not way.unwritten:
            self._ways.pop(number, None)
            way.sock.close()

    def _drop(self, number: int, way: Way) -> None:
        self._ways.pop(number, None)
        way.sock.close()
        self.connection.send({"t": "signal", "id": number, "signal": 1})

    def __len__(self) -> int:
        return len(self._ways)

    def close(self) -> None:
        """Cut all of them."""
        for way in self._ways.values():
            way.sock.close()
        self._ways.clear()
        self.connection.close()


class Forward:
    """Ports of this computer that lead to ports beside ranks, as long as the run goes on."""

    def __init__(self, run: Run, tell: Callable[[str], None]) -> None:
        self.run = run
        self._tell = tell
        self._servers: dict[socket.socket, tuple[str, int]] = {}
        self._said = ""

    def listen(self, label: str, port: int, local: int | None = None) -> int:
        """The number of the port here: the same if it is free, else any; exactly `local` where that is given."""
        wanted = local if local is not None else 0 if self._is_here(label) else port
        try:
            server = socket.create_server(("127.0.0.1", wanted), backlog=128)
        except OSError as problem:
            if local is not None:
                why = f"port {local} can't be had here: {problem.strerror}"
                raise UsageError(f"open: {why}; leave out --port, and any will do") from None
            server = socket.create_server(("127.0.0.1", 0), backlog=128)
        server.setblocking(False)
        self._servers[server] = (label, port)
        found: int = server.getsockname()[1]
        return found

    def _is_here(self, label: str) -> bool:
        """On this very machine the port is the rank's own, perhaps not yet taken."""
        member = label.partition("/")[0]
        return any(
            known.name == member and known.host == socket.gethostname() for known in self.run.status().members
        )

    def serve(self) -> None:
        """Until the run has ended.  A connection to its lead that breaks is made anew; what went over it is cut."""
        while True:
            connection = self._connect()
            if connection is None:
                return
            tunnels = Tunnels(connection)
            try:
                connection.ask("watch")
                while not self._step(tunnels):
                    pass
                return
            except LeadGone:
                pass  # try again
            finally:
                tunnels.close()

    def close(self) -> None:
        for server in self._servers:
            server.close()

    def _connect(self) -> Connection | None:
        pause = FIRST_PAUSE
        while True:
            try:
                connection = self.run.connect()
            except PlaceError as problem:
                if self._has_ended():
                    return None
                self._say_once(f"{problem}; trying again")
                time.sleep(pause)  # nobody is left who could tell
                pause = min(pause * 1.5, LONGEST_PAUSE)
                continue
            if self._said:
                self._tell("the lead answers again")
            self._said = ""
            return connection

    def _has_ended(self) -> bool:
        try:
            return self.run.status().ended
        except PlaceError:
            return False  # the place doesn't answer either

    def _step(self, tunnels: Tunnels) -> bool:
        """Whether the run has ended."""
        for server in tunnels.wait(LOOK, tuple(self._servers)):
            try:
                sock, _ = server.accept()
            except OSError:
                continue  # it has gone meanwhile
            tunnels.add(sock, *self._servers[server])
        for problem in tunnels.problems:
            self._say_once(problem)
        tunnels.problems.clear()
        found, tunnels.others = tunnels.others, []
        return any(header["t"] == "status" and header["status"]["phase"] in ENDED for header, _ in found)

    def _say_once(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._tell(text)


def dial(connection: Connection, label: str, port: int) -> socket.socket:
    """A socket whose other end is that port; a thread of ours moves the bytes."""
    ours, theirs = socket.socketpair()
    tunnels = Tunnels(connection)
    try:
        way = tunnels.add(theirs, label, port)
        while not way.open and not way.ended:
            tunnels.wait(LIMIT)
    except BaseException:
        ours.close()
        tunnels.close()
        raise
    if not way.open:
        ours.close()
        tunnels.close()
        raise PlaceError(way.problem or f"{way.target} went away")
    threading.Thread(target=_relay, args=(tunnels,), name="hora-dial", daemon=True).start()
    return ours


def _relay(tunnels: Tunnels) -> None:
    try:
        while len(tunnels):
            tunnels.wait(LIMIT)
            tunnels.others.clear()
    except (LeadGone, OSError, ValueError):
        pass  # who holds the socket sees that it has ended
    finally:
        tunnels.close()
