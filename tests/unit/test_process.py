"""One process, started by an agent."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from hora.agent import process

pytestmark = pytest.mark.leaks


def test_a_child_whose_agent_is_killed_before_it_runs_its_program_never_runs_it() -> None:
    code = """
        import os, signal, sys, time
        from hora.agent import process
        from helpers.runs import wait_until

        agent = os.getpid()

        def late():
            os.kill(agent, signal.SIGKILL)
            wait_until(lambda: os.getppid() != agent, "the agent is gone")

        os.setsid = late  # the child's first step
        process.spawn("/bin/sleep", ["sleep", "600"], dict(os.environ), "/", 1)
        time.sleep(600)
    """
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env={**os.environ, "PYTHONPATH": path}, timeout=60
    )
    assert done.returncode == -9


def test_a_signal_reaches_a_child_that_has_no_group_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()

    def never() -> None:
        os.close(writer)
        os.read(reader, 1)  # until the parent has sent its signal

    monkeypatch.setattr(os, "setsid", never)
    pid = process.spawn("/bin/sleep", ["sleep", "600"], dict(os.environ), "/", 1)
    process.signal_group(pid, 15)
    os.close(writer)
    assert process.exit_of(os.waitpid(pid, 0)[1]) == (None, 15)
    os.close(reader)
