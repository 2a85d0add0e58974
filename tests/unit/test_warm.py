"""The keeper that is started before the job is known."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from helpers import leftovers
from helpers.cli import Cli
from hora.places.local import warm
from hora.places.local.warm import Warm, reap

pytestmark = pytest.mark.leaks


def test_a_keeper_without_a_job_goes_away(test_id: str) -> None:
    warm = Warm(attached=True)
    assert [found.pid for found in leftovers.carrying(test_id)] == [warm.pid]
    warm.forget()
    assert leftovers.wait_gone(test_id, 5.0) == []
    with pytest.raises(ChildProcessError):
        os.waitpid(warm.pid, os.WNOHANG)  # no zombie either


def test_a_keeper_goes_away_also_where_children_need_no_waiting(hora: Cli) -> None:
    """Some supervisors start programs with SIGCHLD ignored: a wrong word on the command line is still just that."""
    told = hora("run", "--no-such-flag", prefix=("/bin/sh", "-c", "trap '' CHLD; exec \"$@\"", "sh"))
    assert (told.code, "defect" in told.stderr) == (2, False), told


def test_a_keeper_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, test_id: str) -> None:
    monkeypatch.setattr(warm, "FORGET_LIMIT", 0.3)
    hung = Warm(attached=False)
    os.kill(hung.pid, signal.SIGSTOP)
    hung.forget()
    assert leftovers.wait_gone(test_id, 5.0) == []


def test_a_keeper_whose_client_dies_before_the_job_goes_away(test_id: str) -> None:
    code = "import os; from hora.places.local.warm import Warm; Warm(True); os._exit(0)"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0
    assert leftovers.wait_gone(test_id, 5.0) == []


def test_only_an_attached_keeper_has_an_owner() -> None:
    attached, free = Warm(attached=True), Warm(attached=False)
    assert isinstance(attached.owner, socket.socket)
    assert free.owner is None
    attached.forget()
    free.forget()


def test_a_keeper_is_of_a_session_of_its_own() -> None:
    warm = Warm(attached=False)
    assert os.getsid(warm.pid) == warm.pid != os.getsid(0)
    warm.forget()


def inheritable() -> set[int]:
    found = set()
    for fd in map(int, os.listdir("/dev/fd")):
        try:
            if os.get_inheritable(fd):
                found.add(fd)
        except OSError:
            continue  # the listing's own
    return found


def test_nothing_of_a_keeper_is_inherited_by_what_other_threads_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spawn, meanwhile = os.posix_spawn, set[int]()

    def looking(*args: Any, **options: Any) -> int:
        meanwhile.update(inheritable())
        return spawn(*args, **options)

    before = inheritable()
    monkeypatch.setattr(os, "posix_spawn", looking)
    Warm(attached=True).forget()
    assert meanwhile == before


def test_keepers_begin_whatever_standard_files_their_caller_has_closed() -> None:
    code = """
        import os, sys
        closed = [int(word) for word in sys.argv[1].split()]
        for fd in closed:
            os.close(fd)
        from hora.places.local.warm import Warm
        warm = Warm(attached=True)
        warm.begin({})
        assert warm.owner.recv(1) == b""
    """
    for closed in ("0", "0 1", "0 1 2", "1", "2"):
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), closed], timeout=60)
        assert done.returncode == 0, closed


def test_forgetting_twice_is_forgetting_once() -> None:
    warm = Warm(attached=True)
    warm.forget()
    warm.forget()


def test_a_keeper_that_has_died_does_not_break_its_caller() -> None:
    warm = Warm(attached=False)
    os.kill(warm.pid, 9)
    os.waitid(os.P_PID, warm.pid, os.WEXITED | os.WNOWAIT)
    warm.begin({"filler": "x" * 200_000})
    reap()
    with pytest.raises(ChildProcessError):
        os.waitpid(warm.pid, os.WNOHANG)  # the zombie is gone
