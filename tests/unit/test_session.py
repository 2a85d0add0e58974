"""A command beside a rank, from Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hora
from helpers.runs import Runs, wait_until
from hora.api import Run
from hora.errors import CannotStart, PlaceError, UsageError
from hora.session import Session


@pytest.fixture
def run(work: Path) -> Iterator[Run]:
    runs = Runs(work)
    run = runs.start([sys.executable, "-c", "import time; time.sleep(600)"], workers=2)
    wait_until(lambda: run.status().phase == "running", "it runs")
    yield run
    runs.close()


def everything(session: Session) -> tuple[bytes, bytes]:
    """What it writes to stdout and to stderr until it ends."""
    written = {False: b"", True: b""}
    while session.code is None:
        for piece in session.read(10.0):
            written[piece.error] += piece.data
    return written[False], written[True]


def test_streams_and_exit_code_of_a_command(run: Run) -> None:
    session = run.exec(["sh", "-c", "cat; echo $HORA_RANK >&2; exit 3"], rank=1)
    session.write(b"some ")
    session.write(b"bytes")
    session.end_input()
    assert everything(session) == (b"some bytes", b"1\n")
    assert session.code == 3


def test_a_signal_ends_it_with_128_and_its_number(run: Run) -> None:
    session = run.exec(["sleep", "600"])
    session.signal(15)
    assert everything(session) == (b"", b"")
    assert session.code == 143


def test_one_with_a_terminal_knows_its_size(run: Run) -> None:
    session = run.exec(["sh", "-c", "stty size; read line; stty size"], size=(91, 17), terminal="vt100")
    seen = b""
    while b"17 91" not in seen:
        seen += b"".join(piece.data for piece in session.read(10.0))
    session.resize(100, 20)
    session.write(b"\n")
    assert b"20 100" in everything(session)[0]


def test_what_can_not_be_started_is_said(run: Run) -> None:
    session = run.exec(["no-such-program"])
    with pytest.raises(CannotStart, match="'no-such-program' was not found") as error:
        session.read(10.0)
    assert error.value.exit_code == 127
    with pytest.raises(UsageError, match="has no rank 7"):
        run.exec(["true"], rank=7)


def test_nothing_to_read_in_time_is_an_empty_list(run: Run) -> None:
    with run.exec(["cat"]) as session:
        assert session.read(0.05) == []
        assert session.code is None


def test_an_ended_run_has_no_place_for_commands(run: Run) -> None:
    session = run.exec(["sleep", "600"])
    run.stop(kill=True)
    run.wait(check=False)
    try:
        everything(session)
        assert session.code not in (None, 0)
    except PlaceError as error:  # nobody was left to tell how it ended
        assert "run has ended" in str(error)
    with (
        pytest.raises(hora.HoraError),
        run.exec(["true"]) as late,
    ):  # while its lead is still there, it says no
        late.read(10.0)
