"""The agent's side of the link, where the lead is not as it should be."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hora.agent import uplink
from hora.agent.journal import Journal
from hora.agent.loop import Loop
from hora.agent.uplink import Uplink


def test_a_lead_that_goes_between_the_connection_and_the_hello_is_dialled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uplink, "SILENCE", 0.15)
    ours, theirs = socket.socketpair()
    theirs.close()
    loop, journal = Loop(), Journal(str(tmp_path))
    link = Uplink(loop, journal, [str(tmp_path / "nobody")], lambda: {"t": "hello"}, lambda header, body: None)
    link._connected(ours)  # where a dial that has just succeeded goes on
    loop.after(0.5, loop.stop)
    loop.run()
    assert "nobody" in link.why, "it has dialled again"
    link.close()
    journal.close()
    loop.close()
