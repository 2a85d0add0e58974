"""Whatever a rank writes, and however it stops writing, every byte arrives and nothing is held up."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from helpers.runs import Runs, is_running, lines_of, output_of, peak, python, wait_until
from hora.agent.merge import Merger
from hora.api import Run

pytestmark = pytest.mark.leaks

MOST_MEMORY = 150  # MB


def merged(run: Run) -> list[str]:
    """The stream as a terminal without colours gets it."""
    merger = Merger()
    shown = b"".join(merger.feed(chunk.label, chunk.data, chunk.time, chunk.time) for chunk in run.chunks())
    return (shown + merger.end()).decode("utf-8", "backslashreplace").split("\n")


WITHOUT_NEWLINE = """
    import hashlib, os, pathlib, time
    part = bytes(65 + i % 26 for i in range(1 << 20))
    told = hashlib.sha256()
    for _ in range(200):
        os.write(1, part)  # a pipe takes all of it, or blocks
        told.update(part)
    pathlib.Path("sum").write_text(told.hexdigest())
    while not os.path.exists("measured"):
        time.sleep(0.02)
"""


def test_200_mb_without_a_newline_arrive_whole_and_fill_nobodys_memory(runs: Runs, work: Path) -> None:
    run = runs.start(python(WITHOUT_NEWLINE))
    told, size = hashlib.sha256(), 0
    for chunk in run.chunks():
        told.update(chunk.data)
        size += len(chunk.data)
        if size == 200 << 20:
            break
    peaks = {name: peak(pid) for name, pid in run.status().pids}
    (work / "measured").touch()
    assert run.wait(20).exit_code == 0
    assert told.hexdigest() == (work / "sum").read_text()
    assert len(peaks) == 3 and max(peaks.values()) < MOST_MEMORY, peaks


READER = """
    import hashlib, pathlib, sys
    import hora
    told = hashlib.sha256()
    for chunk in hora.get_run(sys.argv[1]).chunks():
        told.update(chunk.data)
    print(told.hexdigest(), [l for l in open("/proc/self/status") if l.startswith("VmHWM")][0].split()[1])
"""


def test_a_client_that_reads_200_mb_stays_small(runs: Runs, work: Path) -> None:
    (work / "measured").touch()
    run = runs.start(python(WITHOUT_NEWLINE))
    told, peak_kb = subprocess.check_output(python(READER, run.id), timeout=60, text=True).split()
    assert told == (work / "sum").read_text()
    assert int(peak_kb) / 1024 < MOST_MEMORY


def test_every_value_of_a_byte_arrives_as_it_was_written(runs: Runs) -> None:
    code = "import os\nfor _ in range(400): os.write(1, bytes(range(256)))"
    run = runs.start(python(code), workers=2)
    assert output_of(run) == {f"worker-{i}/0": bytes(range(256)) * 400 for i in range(2)}


def test_bytes_that_are_no_text_give_lines_all_the_same(runs: Runs) -> None:
    run = runs.start(python(r"import os; os.write(1, b'\xff\xfe caf\xe9\nfine\n')"))
    assert lines_of(run) == {"worker-0/0": ["\ufffd\ufffd caf\ufffd", "fine"]}


def test_of_a_progress_bar_the_last_state_is_one_line(runs: Runs) -> None:
    code = r"""
        import sys
        for percent in range(101):
            sys.stdout.write(f"\repoch 1: {percent}%")
        print()
        for percent in range(0, 101, 50):
            sys.stdout.write(f"epoch 2: {percent}%\r")
    """
    shown = merged(runs.start(python(code), workers=2))
    for rank in ("worker-0/0", "worker-1/0"):
        assert f"{rank} | epoch 1: 100%" in shown
        assert f"{rank} | epoch 2: 100%" in shown
    assert len(shown) <= 7, shown


def test_a_rank_may_close_its_output_and_go_on(runs: Runs, work: Path) -> None:
    code = """
        import os, pathlib
        print("before", flush=True)
        os.close(1); os.close(2)
        pathlib.Path("closed").touch()
        while not os.path.exists("go"):
            pass
        pathlib.Path("after").touch()
        os._exit(7)
    """
    run = runs.start(python(code))
    wait_until((work / "closed").exists, "the rank closes its output")
    wait_until(lambda: run.status().phase == "running", "the run is seen running")
    (work / "go").touch()
    status = run.wait(20, check=False)
    assert (status.exit_code, (work / "after").exists()) == (7, True)
    assert lines_of(run) == {"worker-0/0": ["before"]}


GRANDCHILD = """
    import os, pathlib, signal, sys, time
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("grandchild", flush=True)
        pathlib.Path("grandchild").write_text(str(os.getpid()))
        while True:
            time.sleep(60)
    while not os.path.exists("grandchild"):
        time.sleep(0.01)
    print("rank", flush=True)
    sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("code", [0, 5])
def test_a_grandchild_that_keeps_the_output_open_holds_up_no_verdict(
    runs: Runs, work: Path, code: int
) -> None:
    run = runs.start(python(GRANDCHILD, str(code)), timeouts={"grace": "1s"})
    status = run.wait(20, check=False)
    assert status.exit_code == code
    assert sorted(lines_of(run)["worker-0/0"]) == ["grandchild", "rank"]
    pid = int((work / "grandchild").read_text())
    assert not is_running(pid)


def test_stdout_and_stderr_keep_their_order(runs: Runs) -> None:
    code = r"""
        import os
        for i in range(2000):
            os.write(1 + i % 2, b"line %d\n" % i)
    """
    assert lines_of(runs.start(python(code)))["worker-0/0"] == [f"line {i}" for i in range(2000)]


def test_ranks_that_print_nothing_are_fine(runs: Runs) -> None:
    run, status = runs.ended(["true"], workers=3)
    assert (status.phase, output_of(run)) == ("succeeded", {})


def test_a_last_line_without_an_end_is_kept(runs: Runs) -> None:
    run = runs.start(["sh", "-c", "echo whole; printf half"], workers=2)
    assert lines_of(run) == {f"worker-{i}/0": ["whole", "half"] for i in range(2)}
    shown = merged(run)
    assert sorted(shown) == sorted(
        ["", *(f"worker-{i}/0 | {t}" for i in range(2) for t in ("whole", "half"))]
    )


def test_ten_thousand_tiny_writes_arrive_in_order(runs: Runs) -> None:
    code = r"""
        import os
        for i in range(10000):
            os.write(1, b"%d\n" % i)
    """
    assert lines_of(runs.start(python(code)))["worker-0/0"] == [str(i) for i in range(10000)]


def test_lines_of_64_kib_from_four_ranks_at_once_stay_whole(runs: Runs) -> None:
    code = r"""
        import os, sys
        letter = b"abcd"[int(os.environ["HORA_RANK"]):][:1]
        for _ in range(100):
            sys.stdout.buffer.write(letter * 65535 + b"\n")
    """
    shown = [line for line in merged(runs.start(python(code), workers=4)) if line]
    assert len(shown) == 400
    for line in shown:
        label, _, text = line.partition(" | ")
        assert text == "abcd"[int(label[len("worker-")])] * 65535


def test_a_rank_without_input_reads_an_end_of_file(runs: Runs) -> None:
    run = runs.start(python("import sys; print(repr(sys.stdin.read()))"))
    assert lines_of(run) == {"worker-0/0": ["''"]}


def test_what_goes_past_the_limit_drops_the_oldest_and_says_how_much(runs: Runs) -> None:
    code = r"""
        import os
        for i in range(20 << 10):
            os.write(1, b"%06d" % i + b"x" * 1017 + b"\n")
    """
    run, status = runs.ended(python(code), output="5Mi")
    assert status.phase == "succeeded"
    kept = b"".join(chunk.data for chunk in run.chunks(follow=False))
    assert 5 << 20 <= len(kept) < 12 << 20
    assert kept.endswith(b"%06d" % ((20 << 10) - 1) + b"x" * 1017 + b"\n")
    assert any("oldest output" in note and "`output`" in note for note in status.notes), status.notes


def test_what_happened_is_heard_even_where_the_output_around_it_was_dropped(runs: Runs, work: Path) -> None:
    """The lead stands still while more is written than is kept: ranks that ended meanwhile must be known."""
    code = r"""
        import os, pathlib, sys, time
        rank = os.environ["HORA_RANK"]
        pathlib.Path("up-" + rank).touch()
        while not os.path.exists("go-" + rank):
            time.sleep(0.01)
        for i in range(16 << 10):
            os.write(1, rank.encode() + b"x" * 1022 + b"\n")
        pathlib.Path("done-" + rank).touch()
    """
    run = runs.start(python(code), workers=3, output="1Mi")
    wait_until(lambda: run.status().phase == "running" and len(list(work.glob("up-*"))) == 3, "all run")
    pids = [rank.pid for member in run.status().members for rank in member.ranks]
    lead = dict(run.status().pids)["lead"]
    os.kill(lead, signal.SIGSTOP)
    try:
        for rank in range(3):
            (work / f"go-{rank}").touch()
            wait_until(lambda rank=rank: not is_running(pids[rank]), f"rank {rank} ends")
    finally:
        os.kill(lead, signal.SIGCONT)
    status = run.wait(20, check=False)
    assert (status.phase, status.exit_code) == ("succeeded", 0), status
    assert any("were dropped" in note for note in status.notes), status.notes
    kept = b"".join(chunk.data for chunk in run.chunks(follow=False))
    assert kept and set(kept) <= set(b"012x\n")
    assert kept.endswith(b"x\n")
