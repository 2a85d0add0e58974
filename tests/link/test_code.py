"""The code's way to the hosts: pieces over links that may break, a folder that is whole or not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.runs import python, wait_until
from hora.places.code import Packed, pack
from hora.plan import Limits
from link.mesh import Mesh
from link.proxy import PASS, REFUSE, Proxy

pytestmark = pytest.mark.leaks
LIMITS = Limits(schedule=60.0, start=60.0, grace=2.0)
SHOW = """
    import os, sys, mine
    print(mine.WORD, os.path.basename(os.getcwd()), sys.path[1] == os.getcwd() or sys.path[0], flush=True)
"""


@pytest.fixture
def proxies() -> Iterator[list[Proxy]]:
    made: list[Proxy] = []
    yield made
    for proxy in made:
        proxy.close()


def a_folder(mesh: Mesh, word: str = "first", **files: bytes) -> Packed:
    folder = mesh.work / "mine"
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(f"WORD = {word!r}\n")
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return pack(str(folder))


def code_folder(mesh: Mesh, index: int, code: Packed) -> Path:
    return mesh.work / f"at-{index}" / "code" / code.hash


def test_three_hosts_start_in_the_code_that_the_lead_has(mesh: Mesh) -> None:
    code = a_folder(mesh, noise=os.urandom(3_000_000))
    (mesh.work / "elsewhere").mkdir()
    mesh.lead(python(SHOW), members=3, code=code)
    for index in range(3):
        mesh.host(index, cwd=str(mesh.work / "elsewhere"))
    status = mesh.ended()
    assert (status.phase, status.code) == ("succeeded", code.hash), status
    assert status.notes == (f"code {code.hash} (2 files, 2.9 MiB)",)
    for index in range(3):
        assert mesh.output()[f"worker-{index}/0"].startswith(f"first {code.hash} ".encode())
        assert (code_folder(mesh, index, code) / "noise").stat().st_size == 3_000_000


def test_a_link_that_is_cut_while_the_code_travels_costs_only_time(mesh: Mesh, proxies: list[Proxy]) -> None:
    code = a_folder(mesh, noise=os.urandom(8_000_000))
    mesh.lead(["cat", "mine.py"], members=3, code=code)
    for index in range(3):
        proxies.append(Proxy(mesh.port))
        mesh.host(index, port=proxies[-1].port)
    for cut in range(3):
        wait_until(lambda goal=cut * 2_000_000: proxies[1].passed > goal, "a part of the code")  # type: ignore[misc]
        proxies[1].set(REFUSE, cut=True)
        proxies[1].set(PASS)
    wait_until(lambda: proxies[1].passed > 7_000_000, "most of the code")
    proxies[1].cut()
    status = mesh.ended()
    assert status.phase == "succeeded", status
    assert set(mesh.output().values()) == {b"WORD = 'first'\n"}


def test_a_host_that_is_replaced_gets_the_code_and_its_own_set_up(mesh: Mesh) -> None:
    code = a_folder(mesh)
    setup = ("sh", "-c", "echo set up >> set-up.txt")
    mesh.lead(["sh", "-c", "cat set-up.txt; cat mine.py; exec sleep 600"], members=3, code=code, limits=LIMITS,
              setup=setup, restarts=2)  # fmt: skip
    for index in range(3):
        mesh.host(index)
    mesh.until("running")
    old = mesh.hosts["host-1"]
    mesh.kill(old.pid, mesh.agent_pid("host-1"))
    mesh.host(7, name="host-1", members=["worker-1"])
    wait_until(lambda: getattr(mesh.status(), "attempt", 0) == 2, "the next attempt")
    mesh.until("running")
    wait_until(lambda: all(out.count(b"WORD") == 2 for out in mesh.output().values() if out), "what they say")
    found = mesh.output()
    assert found["worker-0/0"] == b"set up\nWORD = 'first'\n" * 2  # once a host, not once an attempt
    assert found["worker-1/0"] == b"set up\nWORD = 'first'\n" * 2
    assert (code_folder(mesh, 7, code) / "set-up.txt").read_text() == "set up\n"
    client = mesh.connect()
    client.answer("stop", kill=True)
    client.close()
    mesh.ended()


def test_an_archive_that_came_broken_is_refused_with_its_host(mesh: Mesh) -> None:
    code = a_folder(mesh)
    mesh.lead(members=2, code=Packed("0123456789ab", code.data, 1))
    mesh.host(0)
    mesh.host(1)
    status = mesh.ended()
    assert (status.phase, status.exit_code, status.origin) == ("failed", 125, "hora")
    assert f"it came broken: its hash is {code.hash}" in status.reason


def test_what_travels_is_told_while_it_does(mesh: Mesh, proxies: list[Proxy]) -> None:
    code = a_folder(mesh, noise=os.urandom(14_000_000))
    mesh.lead(members=2, code=code)
    mesh.host(0)
    proxies.append(Proxy(mesh.port))
    mesh.host(1, port=proxies[0].port)
    wait_until(lambda: proxies[0].passed > 500_000, "a part of the code")
    proxies[0].set(REFUSE, cut=True)
    wait_until(lambda: "1 of 2 have it" in getattr(mesh.status(), "reason", ""), "the reason")
    status = mesh.status()
    assert status is not None
    assert "of the code" in status.members[1].note
    assert status.members[0].note == ""
    proxies[0].set(PASS)
    assert mesh.ended().phase == "succeeded"
