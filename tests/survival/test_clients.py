"""Whatever a client says to the lead, and by it to an agent: the run goes on."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.runs import Runs, wait_until
from hora import places

pytestmark = pytest.mark.leaks


def words(connection: Any, number: int, kind: str) -> Any:
    """What comes for a request until the frame of this kind."""
    seen = []
    while True:
        come = connection.frames(10.0)
        assert come, f"no {kind!r} for {number}: {seen}"
        for header, _body in come:
            if header.get("id") == number and header["t"] == kind:
                return header
            seen.append(header)


@pytest.mark.parametrize(
    "said",
    [
        {"t": "resize", "rows": 70_000, "cols": 80},
        {"t": "resize"},
        {"t": "resize", "rows": "many", "cols": None},
        {"t": "signal", "signal": 9999},
        {"t": "signal"},
        {"t": "took"},
        {"t": "took", "bytes": []},
    ],
    ids=str,
)
def test_a_word_that_makes_no_sense_ends_its_exec_and_nothing_else(runs: Runs, said: dict[str, Any]) -> None:
    run = runs.start(["sleep", "1000"], workers=1)
    wait_until(lambda: run.status().phase == "running", "the rank runs")
    with_lead = places.get("local").attach(run.id)
    number = with_lead.ask("exec", label="worker-0/0", argv=["sh", "-c", "echo up; sleep 1000"], tty=True)
    words(with_lead, number, "data")
    with_lead.send({**said, "id": number})
    assert said["t"] in words(with_lead, number, "error")["message"]
    number = with_lead.ask("exec", label="worker-0/0", argv=["true"])
    assert words(with_lead, number, "exited")["code"] == 0
    assert run.status().phase == "running"
    with_lead.close()


@pytest.mark.parametrize("argv", [["a\0b"], [5], 7, {"sh": 1}], ids=str)
def test_a_command_that_is_none_is_refused_and_the_run_goes_on(runs: Runs, argv: Any) -> None:
    run = runs.start(["sleep", "1000"], workers=1)
    wait_until(lambda: run.status().phase == "running", "the rank runs")
    with_lead = places.get("local").attach(run.id)
    assert words(with_lead, with_lead.ask("exec", label="worker-0/0", argv=argv), "error")
    number = with_lead.ask("exec", label="worker-0/0", argv=["true"])
    assert words(with_lead, number, "exited")["code"] == 0
    with_lead.close()
