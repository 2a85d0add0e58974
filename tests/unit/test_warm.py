"""The keeper that is started before the job is known."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from helpers import leftovers
from hora.places.local.warm import Warm, reap

pytestmark = pytest.mark.leaks


def test_a_keeper_without_a_job_goes_away(test_id: str) -> None:
    warm = Warm(attached=True)
    assert [found.pid for found in leftovers.carrying(test_id)] == [warm.pid]
    warm.forget()
    assert leftovers.wait_gone(test_id, 5.0) == []
    with pytest.raises(ChildProcessError):
        os.waitpid(warm.pid, os.WNOHANG)  # no zombie either


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
