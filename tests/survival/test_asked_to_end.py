"""An agent that somebody asks to end: the run ends soon, as failed, and says so."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from helpers.runs import Runs, is_running, python, wait_until

pytestmark = pytest.mark.leaks

LIMIT = 20.0
OBEDIENT = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *a: sys.exit(0)); print('up', flush=True)"
)


def agent_of(run: Any) -> int:
    def known() -> int:
        return next((pid for name, pid in run.status().pids if name.startswith("agent ")), 0)

    return wait_until(known, "the agent is known")


@pytest.mark.parametrize("ranks_end", ["by the signal", "with code 0"])
def test_an_agent_asked_to_end_fails_the_run_and_says_so(runs: Runs, ranks_end: str) -> None:
    command = ["sleep", "1000"] if ranks_end == "by the signal" else python(OBEDIENT + "; time.sleep(1000)")
    run = runs.start(command, workers=2)
    wait_until(lambda: run.status().phase == "running", "the ranks run")
    if ranks_end == "with code 0":
        wait_until(lambda: len(list(run.logs(follow=False))) == 2, "both ranks listen")
    pids = [rank.pid for member in run.status().members for rank in member.ranks]
    os.kill(agent_of(run), signal.SIGTERM)
    status = run.wait(LIMIT, check=False)
    assert (status.phase, status.exit_code, status.origin) == ("failed", 125, "hora"), status
    assert "the agent was asked to end (SIGTERM), so its ranks were ended" in status.reason
    assert not any(is_running(pid) for pid in pids if pid)


def test_an_agent_asked_to_end_over_the_set_up_fails_the_run(runs: Runs) -> None:
    run = runs.start(["true"], workers=1, setup="sleep 1000")
    wait_until(lambda: "setting up" in run.status().reason, "the set-up runs")
    os.kill(agent_of(run), signal.SIGTERM)
    status = run.wait(LIMIT, check=False)
    assert (status.phase, status.exit_code) == ("failed", 125), status
    assert "the agent was asked to end (SIGTERM)" in status.reason
