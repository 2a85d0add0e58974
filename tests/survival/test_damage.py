"""Files that a power cut has left damaged: the run has an end, the others are listed, what is whole is kept."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import hora
from helpers.runs import Runs, output_of, python, wait_until
from hora.places.local.place import LocalPlace

pytestmark = pytest.mark.leaks

DAMAGE = {
    "zeros": bytes(500),
    "another page": b"\x07\xf3" * 250,
    "a header that is none": b"\0\0\0\x05\0\0\0\x01hello" + b"x" * 100,
    "half a header": b"\0\0\0\x40\0\0\0\x10" + b'{"t":"o"',
}
FILES = {
    "the agent's journal": "agent/journal/*.journal",
    "the lead's copy": "output/hosts/*/*.journal",
    "both": "*/**/*.journal",
    "the index": "output/index",
}


def kill_all(run: hora.Run) -> None:
    """At once, as when the power goes."""
    status = run.status()
    pids = [pid for _, pid in status.pids]
    pids += [rank.pid for member in status.members for rank in member.ranks if rank.pid]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("files", FILES)
def test_a_run_whose_files_end_in_rubbish_has_an_end_and_keeps_its_lines(
    runs: Runs, files: str, damage: str
) -> None:
    run = runs.start(python("import time; print('here', flush=True); time.sleep(1000)"), workers=2)
    wait_until(lambda: len(list(run.logs(follow=False))) == 2, "both have printed")
    wait_until(lambda: len(run.status().pids) == 3, "lead, agent and keeper are known")
    folder = Path(LocalPlace().folder(run.id))
    kill_all(run)
    found = list(folder.glob(FILES[files]))
    assert found
    for file in found:
        with file.open("ab") as end:
            end.write(DAMAGE[damage])
    told = wait_until(lambda: [one for one in hora.list_runs() if one.ended], "the end")[0]
    assert (told.id, told.phase, told.exit_code) == (run.id, "failed", 125)
    assert "without a verdict" in told.reason
    assert output_of(run) == {"worker-0/0": b"here\n", "worker-1/0": b"here\n"}
    assert [line.text for line in run.logs()] == ["here", "here"]
