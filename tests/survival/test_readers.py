"""Who reads the output may be slow, stop or go away: the ranks never wait for that."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from helpers.cli import Cli
from helpers.runs import PATIENCE, Runs, is_running, python, wait_until

pytestmark = pytest.mark.leaks

WRITES = r"""
    import os, pathlib, sys
    for i in range(32 << 10):
        os.write(1, b"%06d" % i + b"x" * 1017 + b"\n")  # 32 MiB: more than any pipe or socket holds
    pathlib.Path("done-" + os.environ["HORA_RANK"]).touch()
"""


def done(work: Path) -> bool:
    return len(list(work.glob("done-*"))) == 2


def test_ranks_finish_while_nobody_reads_the_output(hora: Cli, work: Path) -> None:
    process = hora.start("run", "-n", "2", *python(WRITES))
    wait_until(lambda: done(work), "both ranks end", 30)
    assert process.poll() is None, "the client still has everything to say"
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    lines = out.decode().splitlines()
    for rank in range(2):
        mine = [line for line in lines if line.startswith(f"worker-{rank}/0 | ")]
        assert mine == [f"worker-{rank}/0 | {i:06d}" + "x" * 1017 for i in range(32 << 10)]


def test_a_suspended_reader_holds_up_no_rank_and_loses_nothing(hora: Cli, work: Path) -> None:
    process = hora.start("run", "-n", "2", "--detach", *python(WRITES))
    out, _ = process.communicate(timeout=60)
    run = out.decode().split()[0]
    reader = hora.start("logs", "-f", run, bufsize=0)
    assert reader.stdout is not None
    reader.stdout.readline()
    reader.send_signal(signal.SIGSTOP)
    wait_until(lambda: done(work), "both ranks end", 30)
    hora("wait", run, timeout=PATIENCE).check()
    reader.send_signal(signal.SIGCONT)
    rest, err = reader.communicate(timeout=60)
    assert reader.returncode == 0, err
    assert len(rest.splitlines()) == (64 << 10) - 1


def test_a_killed_reader_of_a_detached_run_changes_nothing(hora: Cli, work: Path) -> None:
    run = hora("run", "-n", "2", "--detach", *python(WRITES)).check().stdout.split()[0]
    reader = hora.start("logs", "-f", run)
    assert reader.stdout is not None
    reader.stdout.readline()
    reader.kill()
    hora("wait", run, timeout=PATIENCE).check()
    assert len(hora("logs", run).check().lines) == 64 << 10


def test_many_readers_each_get_everything(hora: Cli, work: Path) -> None:
    run = hora("run", "-n", "2", "--detach", *python(WRITES)).check().stdout.split()[0]
    readers = [hora.start("logs", "-f", run, stdout=subprocess.PIPE) for _ in range(6)]
    for reader in readers:
        out, err = reader.communicate(timeout=PATIENCE)
        assert (reader.returncode, out.count(b"\n")) == (0, 64 << 10), err


def test_head_ends_the_attached_run_it_reads_from(hora: Cli, work: Path) -> None:
    """`hora run … | head -1`: as for any program, who writes on gets SIGPIPE."""
    code = """
        import os, time
        open("pid", "w").write(str(os.getpid()))
        while True:
            print("tick", flush=True)
            time.sleep(0.01)
    """
    process = hora.start("run", "-n", "1", *python(code))
    assert process.stdout is not None
    assert process.stdout.readline() == b"worker-0/0 | tick\n"
    process.stdout.close()
    assert process.wait(timeout=20) == 141
    assert not is_running(int((work / "pid").read_text()))


def test_a_reader_that_comes_late_gets_everything_from_the_start(runs: Runs, work: Path) -> None:
    run = runs.start(python(WRITES), workers=2)
    wait_until(lambda: done(work), "both ranks end", 30)
    size = sum(len(chunk.data) for chunk in run.chunks())
    assert size == 2 * (32 << 20)


def test_a_reader_can_stop_and_go_on_where_it_was(runs: Runs) -> None:
    run = runs.start(python(WRITES), workers=2)
    size, at = 0, 0
    while run.status().phase not in ("succeeded", "failed"):
        for chunk in run.chunks(start=at):
            size, at = size + len(chunk.data), chunk.number + 1
            if at % 50 == 0:
                break
    for chunk in run.chunks(start=at):
        size += len(chunk.data)
    assert size == 2 * (32 << 20)


def test_a_client_that_sends_nonsense_is_shown_out_and_nobody_else_is(runs: Runs, home: Path) -> None:
    import socket

    run = runs.start(["sleep", "1000"], workers=2, timeouts={"grace": "1s"})
    wait_until(lambda: run.status().phase == "running", "the run runs")
    path = next((home.parent / "run").rglob("*.sock"))
    for nonsense in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b"\0" * 64, b"\xff" * 64):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(10)
            sock.connect(str(path))
            sock.sendall(nonsense)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(4096):
                pass
    assert run.status().phase == "running"
    assert len(run.stacks()) == 2
    run.stop()
    assert run.wait(20, check=False).phase == "stopped"
