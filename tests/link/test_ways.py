"""Copies and open ports over TLS, on links that break: new ones work again, and nothing half is left."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.runs import wait_until
from hora import copying
from hora.errors import HoraError
from hora.opening import Forward
from hora.places.connection import Connection
from hora.state import RunStatus
from link.mesh import Mesh, identity
from link.proxy import PASS, REFUSE, Proxy

pytestmark = pytest.mark.leaks
ECHO = """
import os, socket, threading
server = socket.create_server(("127.0.0.1", 0))
open("port", "w").write(str(server.getsockname()[1]))
print("ready", flush=True)

def echo(sock):
    with sock:
        while True:
            data = sock.recv(65536)
            if not data:
                return
            sock.sendall(data)

while True:
    threading.Thread(target=echo, args=(server.accept()[0],), daemon=True).start()
"""


class Far:
    """The run of a mesh, reached over a way that can be cut."""

    def __init__(self, mesh: Mesh, port: int) -> None:
        self.mesh, self.port = mesh, port

    def connect(self) -> Connection:
        return Connection.to_address("127.0.0.1", self.port, identity().part("client"))

    def status(self) -> RunStatus:
        status = self.mesh.status()
        assert status is not None
        return status


@pytest.fixture
def proxies() -> Iterator[list[Proxy]]:
    made: list[Proxy] = []
    yield made
    for proxy in made:
        proxy.close()


@pytest.fixture
def far(mesh: Mesh, proxies: list[Proxy]) -> Far:
    """Two hosts, the second behind a proxy, and a client behind another."""
    mesh.lead([sys.executable, "-c", ECHO], members=2)
    proxies += [Proxy(mesh.port), Proxy(mesh.port)]
    for index in range(2):
        (mesh.work / f"home-{index}").mkdir()
    mesh.host(0, cwd=str(mesh.work / "home-0"))
    mesh.host(1, cwd=str(mesh.work / "home-1"), port=proxies[0].port)
    wait_until(lambda: len(mesh.output()) == 2, "both ranks serve")
    mesh.until("running")
    return Far(mesh, proxies[1].port)


def stop(mesh: Mesh) -> None:
    client = mesh.connect()
    client.answer("stop", kill=True)
    client.close()
    mesh.ended()


def echoed(port: int, data: bytes) -> bytes:
    """What comes back; less than all where the way is cut meanwhile."""

    def send() -> None:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # what came back tells

    found = b""
    with socket.create_connection(("127.0.0.1", port), 20) as sock:
        sender = threading.Thread(target=send)
        sender.start()
        try:
            while part := sock.recv(1 << 16):
                found += part
        except ConnectionError:
            pass
        sender.join()
    return found


def test_an_open_port_works_again_after_the_way_to_the_lead_broke(
    mesh: Mesh, far: Far, proxies: list[Proxy]
) -> None:
    told: list[str] = []
    forward = Forward(far, told.append)  # type: ignore[arg-type]
    here = forward.listen("worker-1/0", int((mesh.work / "home-1" / "port").read_text()))
    serving = threading.Thread(target=forward.serve, daemon=True)
    serving.start()
    data = os.urandom(5_000_000)
    assert echoed(here, data) == data
    with socket.create_connection(("127.0.0.1", here), 20) as old:
        old.sendall(b"x")
        assert old.recv(1) == b"x"
        proxies[1].set(REFUSE, cut=True)
        assert old.recv(1) == b""  # what went over the old way is cut
    wait_until(lambda: told, "it is said")
    proxies[1].set(PASS)
    assert echoed(here, data) == data
    wait_until(lambda: "the lead answers again" in told, "that is said, too")
    proxies[0].cut()  # the host's link: the next connection works as soon as it is back
    wait_until(lambda: echoed(here, b"again") == b"again", "the host is back")
    stop(mesh)
    serving.join(20)
    assert not serving.is_alive()
    forward.close()


def test_many_connections_at_once_do_not_mix_their_bytes(mesh: Mesh, far: Far) -> None:
    forward = Forward(far, lambda text: None)  # type: ignore[arg-type]
    here = forward.listen("worker-0/0", int((mesh.work / "home-0" / "port").read_text()))
    threading.Thread(target=forward.serve, daemon=True).start()
    found: list[bool] = []

    def one() -> None:
        data = os.urandom(400_000)
        found.append(echoed(here, data) == data)

    threads = [threading.Thread(target=one) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [True] * 20
    stop(mesh)
    forward.close()


@pytest.mark.parametrize("which", ["the client's way", "the host's link"])
def test_a_copy_whose_way_breaks_leaves_nothing_half(
    mesh: Mesh, far: Far, proxies: list[Proxy], tmp_path: Path, which: str
) -> None:
    proxy = proxies[1 if which == "the client's way" else 0]
    large = mesh.work / "home-1" / "large"
    with large.open("wb") as file:
        file.truncate(500_000_000)
    problems: list[Exception] = []

    def copy(there: bool) -> None:
        try:
            if there:
                copying.put(far.connect(), "worker-1/0", str(large), "copy")
            else:
                copying.fetch(far.connect(), "worker-1/0", "large", str(tmp_path))
        except HoraError as problem:
            problems.append(problem)

    def back() -> bool:
        try:
            return copying.fetch(far.connect(), "worker-1/0", "port", str(mesh.work / "port")).files == 1
        except HoraError:
            return False

    for there in (True, False):
        goal = proxy.passed + 2_000_000
        working = threading.Thread(target=copy, args=(there,))
        working.start()
        wait_until(lambda goal=goal: proxy.passed > goal, "a part of it")  # type: ignore[misc]
        proxy.cut()
        working.join(30)
        assert len(problems) == 1 + (not there), problems
        wait_until(back, "the link is back")
    wait_until(
        lambda: sorted(os.listdir(mesh.work / "home-1")) == ["large", "port"], "nothing half is left there"
    )
    assert os.listdir(tmp_path) == []
    with large.open("wb") as file:
        file.write(b"small now")

    assert copying.fetch(far.connect(), "worker-1/0", "large", str(tmp_path)).bytes == 9
    stop(mesh)


def test_a_copy_of_large_files_keeps_lead_and_agent_small(mesh: Mesh, far: Far, tmp_path: Path) -> None:
    from helpers.runs import peak

    with (mesh.work / "home-0" / "large").open("wb") as file:
        file.truncate(300_000_000)
    agent = mesh.agent_pid("host-0")
    before = peak(agent), peak(mesh.leads[0].pid)
    assert copying.fetch(far.connect(), "worker-0/0", "large", str(tmp_path)).bytes == 300_000_000
    assert copying.put(far.connect(), "worker-0/0", str(tmp_path / "large"), "back").bytes == 300_000_000
    after = peak(agent), peak(mesh.leads[0].pid)
    assert max(b - a for a, b in zip(before, after)) < 25, (before, after)
    stop(mesh)
