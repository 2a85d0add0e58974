"""New code for a run over several hosts: leads and links that break on the way."""

from __future__ import annotations

import os
import shutil

import pytest

from helpers.runs import python, wait_until
from hora import syncing
from hora.errors import PlaceError
from hora.places.code import Packed, pack
from hora.plan import Limits
from hora.syncing import PIECE, Synced
from link.mesh import Mesh

pytestmark = pytest.mark.leaks
LIMITS = Limits(schedule=60.0, start=40.0, grace=2.0)
SAYS = python(
    "import mine, os, time; print(mine.WORD, os.environ['HORA_ATTEMPT'], flush=True); time.sleep(600)"
)


def code(mesh: Mesh, word: str, size: int = 0) -> Packed:
    folder = mesh.work / "mine"
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(f"WORD = {word!r}\n")
    (folder / "noise").write_bytes(os.urandom(size))
    return pack(str(folder))


def sync(mesh: Mesh, packed: Packed, restart: bool = False) -> Synced:
    return syncing.sync(mesh.connect(), packed, restart)


def begun(mesh: Mesh, members: int, packed: Packed, restarts: int = 0) -> None:
    mesh.lead(SAYS, members=members, code=packed, limits=LIMITS, restarts=restarts)
    for index in range(members):
        mesh.host(index)
    mesh.until("running")


def until_all_say(mesh: Mesh, text: str) -> None:
    def said() -> bool:
        found = [data for label, data in mesh.output().items() if label.startswith("worker")]
        return len(found) == len(mesh.hosts) and all(data.endswith(text.encode() + b"\n") for data in found)

    wait_until(said, f"all ranks say {text}", 40.0)


def stop(mesh: Mesh) -> None:
    client = mesh.connect()
    client.answer("stop", kill=True)
    client.close()
    mesh.ended()


def test_new_code_reaches_all_hosts_and_the_status_tells_it(mesh: Mesh) -> None:
    first, second = code(mesh, "first", 1_000_000), code(mesh, "second", 2_000_000)
    begun(mesh, 3, first)
    done = sync(mesh, second)
    assert (done.attempt, done.changed, done.before, done.code) == (2, True, first.hash, second.hash)
    until_all_say(mesh, "second 2")
    status = mesh.until("running")
    assert status.code == second.hash
    assert f"all ranks start again as attempt 2, with code {second.hash}" in status.notes
    assert not sync(mesh, second).changed
    assert sync(mesh, second, restart=True).attempt == 3
    until_all_say(mesh, "second 3")
    for index in range(3):  # the code before is gone from the hosts
        assert sorted(os.listdir(mesh.work / f"at-{index}" / "code"))[0] == second.hash
        assert not (mesh.work / f"at-{index}" / "code" / first.hash).exists()
    stop(mesh)


def test_code_that_comes_only_half_changes_nothing(mesh: Mesh) -> None:
    begun(mesh, 2, code(mesh, "first"))
    second = code(mesh, "second", 1_000_000)
    client = mesh.connect()
    number = client.ask("sync", hash=second.hash, bytes=len(second.data))
    assert client.frames(20.0)[0][0]["t"] == "send"
    client.send({"t": "code", "id": number, "at": 0}, second.data[:PIECE])
    client.close()
    wait_until(lambda: not list(mesh.folder.glob("code/*.upload")), "the half is gone")
    status = mesh.status()
    assert status is not None
    assert (status.phase, status.attempt) == ("running", 1)
    sync(mesh, second)
    until_all_say(mesh, "second 2")
    stop(mesh)


def test_code_that_is_not_what_its_hash_says_is_refused(mesh: Mesh) -> None:
    begun(mesh, 2, code(mesh, "first"))
    second = code(mesh, "second")
    with pytest.raises(PlaceError, match=f"its hash is {second.hash}, not 0123456789ab"):
        sync(mesh, Packed("0123456789ab", second.data, 1))
    with pytest.raises(PlaceError, match="did not arrive well"):
        sync(mesh, Packed("0123456789ab", b"no archive at all", 1))
    assert mesh.until("running").attempt == 1
    stop(mesh)


def test_new_code_during_the_set_up_begins_anew_with_it(mesh: Mesh) -> None:
    mesh.lead(SAYS, members=2, code=code(mesh, "first"), limits=LIMITS,
              setup=("sh", "-c", "test -e fast || exec sleep 600"))  # fmt: skip
    mesh.host(0)
    mesh.host(1)
    wait_until(lambda: "setting up" in getattr(mesh.status(), "reason", ""), "the set-up")
    (mesh.work / "mine" / "fast").touch()
    sync(mesh, code(mesh, "second"))
    until_all_say(mesh, "second 2")
    stop(mesh)


def test_new_code_before_all_hosts_are_here_is_what_they_begin_with(mesh: Mesh) -> None:
    mesh.lead(SAYS, members=2, code=code(mesh, "first"), limits=LIMITS)
    mesh.host(0)
    wait_until(lambda: "1 of 2 members" in getattr(mesh.status(), "reason", ""), "the first host")
    assert sync(mesh, code(mesh, "second")).attempt == 1
    mesh.host(1)
    until_all_say(mesh, "second 1")
    stop(mesh)


def test_a_new_lead_on_the_same_folder_has_the_new_code(mesh: Mesh) -> None:
    begun(mesh, 2, code(mesh, "first"), restarts=1)
    sync(mesh, code(mesh, "second", 500_000))
    until_all_say(mesh, "second 2")
    mesh.leads[-1].kill()
    mesh.leads[-1].wait()
    mesh.start_lead()
    wait_until(
        lambda: dict(mesh.until("running").pids)["lead"] == mesh.leads[-1].pid, "the new lead's own word"
    )
    replace_host(mesh)
    until_all_say(mesh, "second 3")
    stop(mesh)


def test_a_new_lead_without_the_folder_gets_the_new_code_from_a_host(mesh: Mesh) -> None:
    first, second = code(mesh, "first"), code(mesh, "second", 3_000_000)
    mesh.lead(SAYS, members=2, code=first, limits=LIMITS, restarts=1)
    mesh.host(0, keep_journal=True)
    mesh.host(1, keep_journal=True)
    mesh.until("running")
    sync(mesh, second)
    until_all_say(mesh, "second 2")
    mesh.leads[-1].kill()
    mesh.leads[-1].wait()
    shutil.rmtree(mesh.folder)
    mesh.start_lead()
    status = mesh.until("running")
    assert status.code == second.hash
    wait_until(lambda: (mesh.folder / "code" / f"{second.hash}.tar.gz").exists(), "the code is back")
    replace_host(mesh)
    wait_until(
        lambda: mesh.output().get("worker-1/0", b"").endswith(b"second 3\n"), "the code on the new host", 40
    )
    assert (mesh.work / "at-7" / "code" / second.hash / "noise").stat().st_size == 3_000_000
    stop(mesh)


def test_a_sync_that_its_lead_did_not_live_to_finish_is_finished_by_the_next(mesh: Mesh) -> None:
    begun(mesh, 2, code(mesh, "first"))
    second = code(mesh, "second")
    sync(mesh, second)
    mesh.leads[-1].kill()  # the ranks are being stopped, or not yet
    mesh.leads[-1].wait()
    mesh.start_lead()
    wait_until(lambda: all(data.endswith(b"second %d\n" % number) for data in mesh.output().values()
                           for number in [data.count(b"\n")]), "the new code")  # fmt: skip
    assert mesh.until("running").code == second.hash
    stop(mesh)


def test_code_that_nobody_has_is_waited_for_until_somebody_sends_it(mesh: Mesh) -> None:
    first = code(mesh, "first", 1_000_000)
    mesh.code_sent_later = True
    mesh.lead(SAYS, members=2, code=first, limits=LIMITS)
    mesh.host(0)
    mesh.host(1)
    wait_until(lambda: "0 of 2 have it" in getattr(mesh.status(), "reason", ""), "they wait for the code")
    assert sync(mesh, first).attempt == 1
    until_all_say(mesh, "first 1")
    stop(mesh)


def replace_host(mesh: Mesh) -> None:
    old = mesh.hosts["host-1"]
    mesh.kill(old.pid, mesh.agent_pid("host-1"))
    mesh.host(7, name="host-1", members=["worker-1"])
