"""Wherever `hora run` is started from, and however little it is given, it works or says why not."""

from __future__ import annotations

import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.cli import COMMAND, Cli, changed
from helpers.runs import PATIENCE, Runs, is_running, lines_of, output_of, python, wait_until

pytestmark = pytest.mark.leaks


def shell(
    script: str, work: Path, timeout: float = 60, **env: str | None
) -> subprocess.CompletedProcess[bytes]:
    """A shell script in which `hora` is the command line under test."""
    text = script.replace("hora ", shlex.join(COMMAND) + " ")
    return subprocess.run(
        ["/bin/sh", "-c", text], cwd=work, env=changed(env), capture_output=True, timeout=timeout, check=False
    )


def text_of(told: subprocess.CompletedProcess[bytes]) -> str:
    return (told.stdout + told.stderr).decode("utf-8", "backslashreplace")


@pytest.mark.parametrize("ranks", [64, 256])
def test_many_ranks_start_print_and_end(runs: Runs, ranks: int) -> None:
    run, status = runs.ended(["sh", "-c", "echo $HORA_RANK of $HORA_WORLD_SIZE"], workers=ranks)
    assert status.phase == "succeeded", status.reason
    assert output_of(run) == {f"worker-{i}/0": f"{i} of {ranks}\n".encode() for i in range(ranks)}


def test_many_ranks_that_hang_are_all_ended(runs: Runs) -> None:
    run = runs.start(["sleep", "1000"], workers=256, timeouts={"grace": "2s"})
    wait_until(lambda: run.status().phase == "running", "all run")
    pids = [rank.pid for member in run.status().members for rank in member.ranks]
    assert len(set(pids)) == 256
    run.stop()
    assert run.wait(30, check=False).phase == "stopped"
    assert not any(is_running(pid) for pid in pids if pid)


def test_many_failures_at_once_have_one_verdict(runs: Runs) -> None:
    _, status = runs.ended(["sh", "-c", "exit 7"], workers=64)
    assert (status.phase, status.exit_code) == ("failed", 7)
    assert status.first_failure is not None
    named = {status.first_failure.label, *status.first_failure.ties, *status.first_failure.echoes}
    assert len(named) == 64


def test_a_run_inside_a_run(hora: Cli) -> None:
    inner = [*COMMAND, "run", "-n", "2", "sh", "-c", 'echo "inner $HORA_RANK of $HORA_WORLD_SIZE"']
    ranks = hora("run", "-n", "2", *inner, timeout=PATIENCE).check().ranks()
    assert sorted(ranks) == ["worker-0/0", "worker-1/0"]
    for lines in ranks.values():
        told = sorted(line for line in lines if "inner" in line)
        assert told == ["worker-0/0 | inner 0 of 2", "worker-1/0 | inner 1 of 2"], lines


def test_the_end_of_the_outer_run_ends_the_inner_one(hora: Cli, work: Path) -> None:
    code = "import os, time; open('inner', 'w').write(str(os.getpid())); time.sleep(1000)"
    process = hora.start("run", "-n", "1", *COMMAND, "run", "-n", "1", sys.executable, "-c", code)
    wait_until(lambda: (work / "inner").exists() and (work / "inner").read_text(), "the inner rank is up")
    process.terminate()
    assert process.wait(timeout=30) == 143
    wait_until(lambda: not is_running(int((work / "inner").read_text())), "the inner rank is gone", 10)


def test_four_runs_at_once_keep_apart(runs: Runs) -> None:
    command = ["sh", "-c", "for i in 1 2 3 4 5; do echo $MARK $HORA_RUN; done"]
    started = [runs.start(command, workers=4, env={"MARK": f"run {number}"}) for number in range(4)]
    for number, run in enumerate(started):
        assert run.wait(PATIENCE).phase == "succeeded"
        assert lines_of(run) == {f"worker-{i}/0": [f"run {number} {run.id}"] * 5 for i in range(4)}


def test_from_a_folder_that_was_removed(hora: Cli, work: Path) -> None:
    told = shell("mkdir gone && cd gone && rmdir ../gone && hora run -n 1 true", work)
    assert told.returncode == 2, text_of(told)
    assert "Traceback" not in text_of(told) and "defect" not in text_of(told), text_of(told)
    assert "folder" in text_of(told)


def test_without_home_and_without_any_variable(work: Path, home: Path) -> None:
    state = f"HORA_STATE={shlex.quote(str(work / 'state'))} HORA_TEST_ID=$HORA_TEST_ID"
    told = shell(
        f"env -i {state} PATH=$PATH hora run -n 2 sh -c 'echo $HORA_RANK'".replace("env -i", "exec env -i"),
        work,
    )
    assert told.returncode == 0, text_of(told)
    assert sorted(told.stdout.decode().splitlines()) == ["worker-0/0 | 0", "worker-1/0 | 1"]


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 2>&-", "0<&- 1>&- 2>&-"])
def test_with_closed_standard_files(work: Path, closed: str) -> None:
    told = shell(f"hora run -n 2 sh -c 'echo hello; touch done-$HORA_RANK' {closed}", work)
    assert sorted(path.name for path in work.glob("done-*")) == ["done-0", "done-1"], text_of(told)
    assert told.returncode == 0, text_of(told)
    if "1>" not in closed:
        assert sorted(told.stdout.decode().splitlines()) == ["worker-0/0 | hello", "worker-1/0 | hello"]


def test_what_comes_to_a_full_device_is_an_error_and_no_hang(work: Path) -> None:
    told = shell("hora run -n 1 sh -c 'echo hello; sleep 1000' > /dev/full", work)
    assert told.returncode not in (0, -9), text_of(told)
    assert b"Traceback" not in told.stderr, text_of(told)


def test_with_a_strict_umask(work: Path, home: Path) -> None:
    told = shell("umask 077; hora run -n 2 sh -c 'umask; echo kept'", work)
    assert told.returncode == 0, text_of(told)
    assert told.stdout.decode().count("0077") == 2
    kept = [path for path in (home.parent / "state").rglob("*") if path.stat().st_mode & 0o077]
    assert kept == []


def test_the_state_of_a_run_is_its_users_alone(runs: Runs, home: Path) -> None:
    before = os.umask(0o000)
    try:
        runs.ended(["echo", "hello"])
    finally:
        os.umask(before)
    (folder,) = (home.parent / "state" / "hora" / "runs").iterdir()
    assert folder.stat().st_mode & 0o077 == 0


def test_with_a_long_tmpdir(work: Path) -> None:
    long = work / ("t" * 100) / ("u" * 100)
    long.mkdir(parents=True)
    told = shell("hora run -n 2 sh -c 'echo $TMPDIR'", work, TMPDIR=str(long), XDG_RUNTIME_DIR=None)
    assert told.returncode == 0, text_of(told)
    assert told.stdout.decode().count(str(long)) == 2


def test_with_a_tmpdir_that_is_not_there(work: Path) -> None:
    told = shell(
        "hora run -n 1 echo hello", work, TMPDIR="/no/such/folder", XDG_RUNTIME_DIR="/no/such/either"
    )
    assert told.returncode == 0, text_of(told)


def test_with_an_empty_path(work: Path) -> None:
    told = shell(f"PATH= ; export PATH; hora run -n 1 {shlex.quote(sys.executable)} -c 'print(1)'", work)
    assert told.returncode == 0, text_of(told)
    told = shell("PATH= ; export PATH; hora run -n 1 no-such-program", work)
    assert told.returncode == 127 and "PATH" in text_of(told)


@pytest.mark.parametrize("prefix", ["nohup", "setsid -w", "nice -n 5", "env", "timeout 50"])
def test_under_a_wrapper(work: Path, prefix: str) -> None:
    told = shell(f"{prefix} hora run -n 2 echo hello", work)
    assert told.returncode == 0, text_of(told)
    assert sorted(told.stdout.decode().splitlines()) == ["worker-0/0 | hello", "worker-1/0 | hello"]


def test_in_a_pipeline_and_in_the_background(work: Path) -> None:
    told = shell("hora run -n 2 echo hello | sort & wait", work)
    assert told.stdout == b"worker-0/0 | hello\nworker-1/0 | hello\n", text_of(told)


def test_with_few_open_files(work: Path) -> None:
    told = shell("ulimit -n 64; hora run -n 4 sh -c 'echo hello'", work)
    assert told.returncode == 0, text_of(told)


def test_with_too_few_open_files_for_its_ranks(work: Path) -> None:
    """It may say that it can't, in one sentence; it may not hang."""
    told = shell("ulimit -n 32; hora run -n 64 sh -c 'sleep 1'", work)
    assert told.returncode in (0, 125, 126), text_of(told)
    assert b"Traceback" not in told.stderr and b"defect" not in told.stderr, text_of(told)
    if told.returncode:
        assert "files" in text_of(told), text_of(told)


@pytest.fixture
def twelve_processes() -> Iterator[Path]:
    """A control group in which there can be twelve processes."""
    version_1 = Path("/sys/fs/cgroup/pids")
    group = (version_1 if version_1.is_dir() else version_1.parent) / f"hora-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as problem:
        pytest.skip(f"no control group can be made here: {problem.strerror}")
    try:
        (group / "pids.max").write_text("12")
    except OSError as problem:
        group.rmdir()
        pytest.skip(f"control groups don't count processes here: {problem.strerror}")
    yield group
    wait_until(lambda: not (group / "cgroup.procs").read_text(), "the group is empty")
    group.rmdir()


def test_with_too_few_processes(twelve_processes: Path, hora: Cli) -> None:
    join = ("sh", "-c", f'echo $$ > {twelve_processes}/cgroup.procs; exec "$@"', "sh")
    result = hora("run", "-n", "32", "sleep", "1000", prefix=join, timeout=30)
    assert result.code in (125, 126) and "Traceback" not in result.stderr, result
    assert "no process could be made" in result.stderr and "ulimit -u" in result.stderr, result


def test_with_little_stack_memory_and_core_limits(work: Path) -> None:
    told = shell("ulimit -c 0; ulimit -s 256; hora run -n 2 echo hello", work)
    assert told.returncode == 0, text_of(told)


def test_a_file_size_limit_is_told_and_no_hang(work: Path) -> None:
    told = shell("ulimit -f 2000; hora run -n 2 sh -c 'seq 1000000'", work)  # blocks of 512 bytes
    assert told.returncode == 125, text_of(told)[-2000:]
    assert "File too large" in told.stderr.decode(), told.stderr.decode()[-2000:]


def test_limits_of_the_caller_are_those_of_the_ranks(work: Path) -> None:
    soft = min(200, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    told = shell(f"ulimit -S -n {soft}; hora run -n 1 sh -c 'ulimit -n'", work)
    assert told.stdout.decode() == f"worker-0/0 | {soft}\n", text_of(told)


def test_ignored_and_blocked_signals_of_the_caller_do_not_bind_the_ranks(work: Path) -> None:
    code = "import signal; print(int(signal.getsignal(15)), int(signal.getsignal(1)), signal.pthread_sigmask(0, []))"
    script = f"trap '' TERM PIPE INT HUP; hora run -n 1 {shlex.join([sys.executable, '-S', '-c', code])}"
    told = shell(script, work)
    assert told.returncode == 0, text_of(told)
    assert told.stdout == b"worker-0/0 | 0 0 set()\n", text_of(told)


def test_the_ranks_inherit_no_files_of_ours(runs: Runs) -> None:
    code = """
        import os
        print(sorted(int(name) for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)))
    """
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)  # such as a shell opens
    run = runs.start([sys.executable, "-S", "-E", "-c", python(code)[-1]], workers=3)
    os.close(writer)
    assert os.read(reader, 1) == b"", "nobody has the other end any more"
    os.close(reader)
    assert lines_of(run) == {f"worker-{i}/0": ["[0, 1, 2]"] for i in range(3)}


def test_a_clock_that_jumps_changes_no_verdict(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranks believe in another time; so do the files that they write."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    run, status = runs.ended(["date"], workers=2, timeouts={"total": "30s", "stall": "20s"})
    assert status.phase == "succeeded" and len(lines_of(run)) == 2


@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8", "tr_TR.UTF-8", "nonsense"])
def test_with_any_locale(work: Path, locale: str) -> None:
    told = shell("hora run -n 1 echo größe 数", work, LC_ALL=locale, LANG=locale, PYTHONUTF8=None)
    assert told.returncode == 0, text_of(told)
    assert told.stdout.decode() == "worker-0/0 | größe 数\n"


def test_variables_that_change_python_do_not_change_us(work: Path) -> None:
    told = shell("hora run -n 1 echo hello", work, PYTHONWARNINGS="error", PYTHONOPTIMIZE="2")
    assert told.returncode == 0, text_of(told)
    assert told.stdout == b"worker-0/0 | hello\n"


def test_modules_of_the_users_folder_do_not_hide_pythons_own(runs: Runs, work: Path) -> None:
    for name in ("json", "socket", "select", "selectors", "random", "signal", "struct", "heapq"):
        (work / f"{name}.py").write_text("raise SystemExit('not what you wanted')\n")
    run, status = runs.ended(["echo", "hello"], workers=2)
    assert status.phase == "succeeded", status.reason
    assert len(run.status().members) == 2
