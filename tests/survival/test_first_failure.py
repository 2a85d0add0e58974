"""Of many ranks that end badly, the one that began it is named, with its words and its exit code."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.cli import Cli
from helpers.runs import Runs, is_running, python, wait_until

pytestmark = pytest.mark.leaks

# The others talk to rank 2, and end with a traceback when it is gone.
STAR = """
    import ctypes, os, signal, socket, sys, time
    rank, size = int(os.environ["HORA_RANK"]), int(os.environ["HORA_WORLD_SIZE"])
    if rank == 2:
        server = socket.create_server(("127.0.0.1", 0))
        with open("port.new", "w") as file:
            file.write(str(server.getsockname()[1]))
        os.rename("port.new", "port")
        others = [server.accept()[0] for _ in range(size - 1)]
        for other in others:
            other.sendall(b"hello")  # never read, so that the end comes as a reset
        for line in range(60):
            print("line", line)
        print("step 7: loss is nan", flush=True)
        {end}
    while not os.path.exists("port"):
        time.sleep(0.01)
    sock = socket.create_connection(("127.0.0.1", int(open("port").read())))
    sock.recv(5)
    sock.sendall(b"x")
    if not sock.recv(1):
        raise ConnectionResetError("peer is gone")
"""


def star(end: str) -> list[str]:
    return python(STAR.format(end=end))


@pytest.mark.parametrize(
    ("end", "code", "number", "cause"),
    [
        ("sys.exit(3)", 3, None, "exited with code 3"),
        ("[other.close() for other in others]; time.sleep(0.5); sys.exit(3)", 3, None, "exited with code 3"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, 9, "SIGKILL"),
        ("ctypes.string_at(0)", 139, 11, "SIGSEGV"),
        ("os.abort()", 134, 6, "SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGTERM)", 143, 15, "SIGTERM"),
    ],
)
def test_the_first_failure_wins_and_the_others_are_its_echo(
    runs: Runs, end: str, code: int, number: int | None, cause: str
) -> None:
    _run, status = runs.ended(star(end), workers=4, timeouts={"grace": "2s"})
    first = status.first_failure
    assert first is not None, status
    assert (first.label, first.rank, first.member) == ("worker-2/0", 2, "worker-2"), status.reason
    assert cause in first.cause and cause in status.reason
    assert (status.exit_code, status.origin, first.signal) == (code, "job", number)
    assert first.exit_code == (code if number is None else None)
    assert len(first.last_lines) <= 50 and "step 7: loss is nan" in first.last_lines
    assert set(first.echoes) == {"worker-0/0", "worker-1/0", "worker-3/0"}, first
    assert first.ties == ()


def test_a_reset_that_comes_first_by_the_clock_is_still_an_echo(runs: Runs) -> None:
    """Rank 0 loses its peer; the peer itself takes its time to end."""
    code = """
        import os, socket, sys, time
        if os.environ["HORA_RANK"] == "0":
            print("Connection reset by peer", flush=True)
            open("gone", "w").close()
            sys.exit(1)
        while not os.path.exists("gone"):
            time.sleep(0.005)
        sys.exit(9)
    """
    _run, status = runs.ended(python(code), workers=2, timeouts={"grace": "5s"})
    assert status.first_failure is not None
    # Either the other's own end came before it was stopped, then it is first; or it was stopped, then not.
    labels = {rank.stopped: member.name for member in status.members for rank in member.ranks}
    expected = "worker-0/0" if True in labels else "worker-1/0"
    assert status.first_failure.label == expected, status


def test_all_ranks_that_end_at_once_are_called_ties(runs: Runs) -> None:
    code = """
        import os, sys, time
        open("up-" + os.environ["HORA_RANK"], "w").close()
        while not os.path.exists("at"):
            time.sleep(0.001)
        at = float(open("at").read())
        while time.time() < at:
            pass
        os._exit(4)
    """
    run = runs.start(python(code), workers=2)
    wait_until(lambda: len(list(runs.work.glob("up-*"))) == 2, "both ranks are up")
    import time

    (runs.work / "at.new").write_text(str(time.time() + 0.5))
    (runs.work / "at.new").rename(runs.work / "at")
    status = run.wait(20, check=False)
    assert status.exit_code == 4 and status.first_failure is not None
    members = {"worker-0/0", "worker-1/0"}
    assert {status.first_failure.label, *status.first_failure.ties, *status.first_failure.echoes} == members


def test_ranks_that_wait_are_stopped_and_said_to_be(runs: Runs) -> None:
    command = ["sh", "-c", 'if [ "$HORA_RANK" = 1 ]; then echo broken; exit 6; fi; exec sleep 1000']
    _run, status = runs.ended(command, workers=3)
    assert (status.exit_code, status.first_failure and status.first_failure.label) == (6, "worker-1/0")
    assert "broken" in status.reason
    stopped = {member.name: member.ranks[0].stopped for member in status.members}
    assert stopped == {"worker-0": True, "worker-1": False, "worker-2": True}


def test_what_ignores_the_end_is_killed_after_the_grace(runs: Runs) -> None:
    fails = 'if [ "$HORA_RANK" = 1 ]; then until [ -e deaf ]; do sleep 0.02; done; exit 6; fi'
    command = ["sh", "-c", f'trap "" TERM; {fails}; touch deaf; while :; do sleep 1000; done']
    _run, status = runs.ended(command, workers=2, timeouts={"grace": "1s"})
    assert status.exit_code == 6
    assert [member.ranks[0].signal for member in status.members] == [signal.SIGKILL, None]
    assert not any(is_running(member.ranks[0].pid or 0) for member in status.members)


def test_a_rank_may_save_its_state_within_the_grace(runs: Runs, work: Path) -> None:
    code = """
        import os, pathlib, signal, sys, time
        rank = os.environ["HORA_RANK"]
        def save(*_):
            pathlib.Path("saved-" + rank).touch()
            print("saved", flush=True)
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        open("up-" + rank, "w").close()
        if rank == "0":
            while len([name for name in os.listdir() if name.startswith("up-")]) < 3:
                time.sleep(0.01)
            sys.exit(8)
        while True:
            time.sleep(60)
    """
    run, status = runs.ended(python(code), workers=3)
    assert (status.exit_code, sorted(path.name for path in work.glob("saved-*"))) == (
        8,
        ["saved-1", "saved-2"],
    )
    assert [line.label for line in run.logs(follow=False) if line.text == "saved"].sort() is None


def test_a_shells_custom_code_is_explained(runs: Runs) -> None:
    _run, status = runs.ended(["sh", "-c", "no-such-program-here"])
    assert status.exit_code == 127
    assert "not found" in status.reason


def test_one_monster_line_is_cut_in_the_report(runs: Runs) -> None:
    code = "import sys; sys.stdout.write('x' * 10_000_000); sys.stdout.flush(); sys.exit(1)"
    _run, status = runs.ended(python(code))
    assert status.first_failure is not None
    assert len(status.reason) < 1000
    assert sum(map(len, status.first_failure.last_lines)) < 2_000_000


def test_last_lines_of_any_bytes_can_be_told(runs: Runs) -> None:
    code = r"import os; os.write(1, bytes(range(256)) + b'\xff\xfe\ud8'[:3] + b'\nend\n'); os._exit(3)"
    _run, status = runs.ended(python(code))
    assert status.first_failure is not None
    assert status.first_failure.last_lines[-1] == "end" and status.exit_code == 3


@pytest.fixture
def memory_group() -> Iterator[Path]:
    """A control group of 300 MB."""
    version_1 = Path("/sys/fs/cgroup/memory")
    group = (version_1 if version_1.is_dir() else version_1.parent) / f"hora-test-{os.getpid()}"
    limit = group / ("memory.limit_in_bytes" if version_1.is_dir() else "memory.max")
    try:
        group.mkdir()
    except OSError as problem:
        pytest.skip(f"no control group can be made here: {problem.strerror}")
    try:
        limit.write_text(str(300 << 20))
    except OSError as problem:
        group.rmdir()
        pytest.skip(f"control groups have no memory limit here: {problem.strerror}")
    yield group
    wait_until(lambda: not (group / "cgroup.procs").read_text(), "the group is empty")
    group.rmdir()


def test_a_rank_out_of_memory_is_called_so(hora: Cli, work: Path, memory_group: Path) -> None:
    code = """
        blocks = []
        print("loading", flush=True)
        while True:
            blocks.append(b"x" * (1 << 20))
    """
    join = ("sh", "-c", f'echo $$ > {memory_group}/cgroup.procs; exec "$@"', "sh")
    result = hora("run", "-n", "1", *python(code), prefix=join).check(137)
    if "oom_kill " not in _events(memory_group):
        pytest.skip("this kernel does not count whom it kills")
    assert "out of memory (the memory limit of 300Mi was reached)" in result.stderr
    assert "loading" in result.stdout


def _events(group: Path) -> str:
    return "".join(
        (group / name).read_text()
        for name in ("memory.events", "memory.oom_control")
        if (group / name).exists()
    )
