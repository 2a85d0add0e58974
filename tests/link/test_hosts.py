"""Runs over several hosts: what works when nothing breaks."""

from __future__ import annotations

import pytest

from helpers.runs import wait_until
from link.mesh import Mesh, assert_whole, counting

pytestmark = pytest.mark.leaks
SIX = [f"worker-{member}/{rank}" for member in range(3) for rank in range(2)]


def test_three_hosts_with_two_ranks_each_run_to_their_end(mesh: Mesh) -> None:
    mesh.lead(counting(200), members=3, ranks=2)
    for index in range(3):
        mesh.host(index)
    status = mesh.ended()
    assert (status.phase, status.exit_code) == ("succeeded", 0), status
    assert_whole(mesh.output(), SIX)
    assert [member.host for member in status.members] == ["host-0", "host-1", "host-2"]
    assert sorted(rank.rank for member in status.members for rank in member.ranks) == [0, 1, 2, 3, 4, 5]
    assert [process.wait(20) for process in mesh.hosts.values()] == [0, 0, 0]
    assert wait_until(lambda: mesh.leads[0].poll() == 0, "the lead's end")
