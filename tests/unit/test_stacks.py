"""Stacks of real processes; whoever is asked must be alive afterwards."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hora.agent import dumps, hook, proc, pyspy, stacks
from hora.agent.stacks import Stack

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    hook.install(str(tmp_path))
    return hook.stack_folder(str(tmp_path))


@pytest.fixture
def start(tmp_path: Path, folder: str) -> Iterator[Start]:
    """Starts a command in its own session and waits until it has written a line."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*command: str, hooked: bool = True, ready: bool = True, **env: str) -> subprocess.Popen[bytes]:
        full = {**os.environ, **env}
        full.update(hook.environment(str(tmp_path), env) if hooked else {})
        process = subprocess.Popen(
            list(command), env=full, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        started.append(process)
        if ready:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], 20)[0], "it wrote nothing"
            process.stdout.readline()
        return process

    yield begin
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()


def collect(pids: dict[str, int], folder: str, seconds: float = 10.0) -> list[Stack]:
    collection = stacks.Collection(pids, folder, seconds=seconds)
    until = time.monotonic() + seconds + 5
    while not collection.step():
        assert time.monotonic() < until, "it never ended"
        time.sleep(0.01)
    return collection.stacks


def one(process: subprocess.Popen[bytes], folder: str, seconds: float = 10.0) -> Stack:
    (stack,) = collect({"worker-0/0": process.pid}, folder, seconds)
    assert process.poll() is None, "asking ended it"
    return stack


def functions(frames: tuple[str, ...]) -> list[str]:
    return [frame.rpartition(" ")[2] for frame in frames]


STUCK = """
import ctypes, os, threading, time
pipe, buffer = os.pipe()[0], ctypes.create_string_buffer(1)
def helper():
    time.sleep(100)
def stuck_call():
    ctypes.PyDLL(None).read(pipe, buffer, 1)  # holds the GIL: no Python code runs any more
def train():
    stuck_call()
thread = threading.Thread(target=helper, daemon=True); thread.start()
time.sleep(0.1)
os.write(1, b"ready\\n")
train()
"""


def test_a_rank_stuck_in_a_c_call_that_holds_the_gil_tells_its_stack(start: Start, folder: str) -> None:
    stack = one(start(sys.executable, "-c", STUCK), folder)
    assert stack.how == "faulthandler"
    assert functions(stack.frames) == ["stuck_call", "train", "<module>"]
    assert stack.frames[0].startswith("<string>:7 ")
    assert ["helper" in functions(frames) for _, frames in stack.threads] == [True]
    assert stack.label == "worker-0/0"
    assert stack.command.startswith(sys.executable)


PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")


@pytest.mark.parametrize("python", [sys.executable, *sorted(map(str, PYENV.glob("versions/3.*/bin/python")))])
def test_every_python_is_understood(start: Start, folder: str, python: str) -> None:
    code = "import os, time\ndef wait():\n os.write(1, b'on\\n')\n time.sleep(100)\nwait()"
    assert one(start(python, "-c", code), folder).frames == ("<string>:4 wait", "<string>:5 <module>")


def test_a_stack_can_be_asked_again_and_again_while_it_computes(start: Start, folder: str) -> None:
    code = "print(flush=True)\ndef spin():\n while True: sum(range(1000))\nspin()"
    process = start(sys.executable, "-c", code)
    for _ in range(20):
        assert functions(one(process, folder).frames) == ["spin", "<module>"]
    assert proc.state(process.pid) in ("R", "S")


def test_a_busy_rank_tells_its_main_thread_alone(start: Start, folder: str) -> None:
    """faulthandler can crash on threads that are just being made; here they are, all the time."""
    code = (
        "import threading\nprint(flush=True)\ndef nothing(): pass\n"
        "def make():\n while True:\n"
        "  thread = threading.Thread(target=nothing); thread.start(); thread.join()\n"
        "make()"
    )
    process = start(sys.executable, "-c", code)
    for _ in range(100):
        stack = one(process, folder)
        assert (stack.how, stack.note, stack.threads) == ("faulthandler", "", ())
        assert functions(stack.frames)[-2:] == ["make", "<module>"]


def test_a_forked_child_answers_with_its_own_stack(start: Start, folder: str) -> None:
    code = (
        "import os, time, sys\n"
        "def child():\n print(os.getpid(), flush=True); time.sleep(100)\n"
        "if os.fork() == 0: child()\n"
        "time.sleep(100)"
    )
    process = start(sys.executable, "-c", code)
    (child,) = proc.descendants(process.pid)
    found = collect({"a": process.pid, "b": child}, folder)
    assert [stack.how for stack in found] == ["faulthandler", "faulthandler"]
    assert functions(found[0].frames) == ["<module>"]
    assert functions(found[1].frames) == ["child", "<module>"]


def build(tmp_path: Path, source: str, name: str = "rank", *options: str) -> str:
    (tmp_path / f"{name}.cpp").write_text(source)
    subprocess.run(["g++", *options, "-o", str(tmp_path / name), str(tmp_path / f"{name}.cpp")], check=True)
    return str(tmp_path / name)


def test_a_cpp_rank_without_handler_survives_and_is_described(
    start: Start, folder: str, tmp_path: Path
) -> None:
    program = build(
        tmp_path,
        '#include <unistd.h>\n#include <cstdio>\nint main() { puts("on"); fflush(stdout); pause(); }',
    )
    process = start(program)
    for _ in range(20):
        stack = one(process, folder)
    assert (stack.how, stack.frames, stack.state) == ("kernel", (), "S")
    assert stack.command == program
    assert "no handler" in stack.note


def test_bash_survives_and_its_python_child_is_asked(start: Start, folder: str) -> None:
    code = "import time\ndef inner():\n print(flush=True); time.sleep(100)\ninner()"
    process = start("bash", "-c", f'"{sys.executable}" -c "$CODE"; true', CODE=code)
    stack = one(process, folder)
    assert functions(stack.frames) == ["inner", "<module>"]
    assert stack.pid != process.pid


def test_bash_alone_survives(start: Start, folder: str) -> None:
    process = start("bash", "-c", "echo on; read line; true")
    assert one(process, folder).how == "kernel"


def test_a_process_that_execs_all_the_time_is_never_ended(start: Start, folder: str, tmp_path: Path) -> None:
    """Python with a handler becomes a program without one, which becomes Python again, and so on."""
    program = build(
        tmp_path,
        "#include <unistd.h>\nint main(int, char **v) { usleep(300); execv(v[1], v + 1); }",
    )
    script = tmp_path / "again.py"
    script.write_text(
        "import os, sys, threading, time\n"
        "threading.Thread(target=time.sleep, args=(100,), daemon=True).start()\n"
        "time.sleep(time.time() % 0.04)\n"
        f"os.execv({program!r}, [{program!r}, sys.executable, __file__])\n"
    )
    process = start(sys.executable, str(script), ready=False)
    asked = answered = 0
    until = time.monotonic() + 6
    while time.monotonic() < until:
        (stack,) = collect({"x": process.pid}, folder, 2.0)
        asked += 1
        answered += stack.how == "faulthandler"
        assert process.poll() is None, f"ended by {process.returncode} after {asked} questions"
    assert asked > 50
    assert answered > 0


def test_without_the_stop_the_exec_test_would_find_its_victim(start: Start, tmp_path: Path) -> None:
    """The danger is real: a signal to a program without a handler ends it."""
    process = start("sleep", "100", ready=False)
    while proc.program(process.pid) != "sleep":
        time.sleep(0.01)
    assert not proc.catches(process.pid, hook.SIGNAL)
    os.kill(process.pid, hook.SIGNAL)
    assert process.wait(10) == -hook.SIGNAL


def test_a_rank_that_closed_all_descriptors_is_not_asked(start: Start, folder: str, tmp_path: Path) -> None:
    """Its handler would write into whatever has the number now."""
    target = tmp_path / "users.txt"
    code = (
        "import os, time\n"
        "os.closerange(3, 256)\n"
        f"files = [open({str(target)!r}, 'w') for _ in range(10)]\n"
        "print(flush=True); time.sleep(100)"
    )
    process = start(sys.executable, "-c", code)
    assert proc.catches(process.pid, hook.SIGNAL)
    assert one(process, folder).how == "kernel"
    assert target.read_text() == ""


def test_a_stopped_rank_stays_stopped(start: Start, folder: str) -> None:
    process = start(sys.executable, "-c", STUCK)
    os.kill(process.pid, signal.SIGSTOP)
    while proc.state(process.pid) != "T":
        time.sleep(0.01)
    stack = one(process, folder)
    assert (stack.how, stack.state) == ("kernel", "T")
    assert "stopped" in stack.note
    assert proc.state(process.pid) == "T"


def test_a_rank_that_blocks_the_signal_is_left_alone(start: Start, folder: str) -> None:
    code = (
        "import signal, time\n"
        f"signal.pthread_sigmask(signal.SIG_BLOCK, [{hook.SIGNAL}, {hook.SIGNAL + 1}])\n"
        "print(flush=True); time.sleep(100)"
    )
    stack = one(start(sys.executable, "-c", code), folder)
    assert (stack.how, "blocks" in stack.note) == ("kernel", True)


def test_a_rank_with_a_handler_of_its_own_on_the_signal_gets_it_and_is_described(
    start: Start, folder: str
) -> None:
    code = (
        "import signal, time\n"
        f"for number in ({hook.SIGNAL}, {hook.SIGNAL + 1}): signal.signal(number, lambda *_: None)\n"
        "print(flush=True)\nwhile True: time.sleep(100)"
    )
    stack = one(start(sys.executable, "-c", code), folder)
    assert (stack.how, stack.note) == ("kernel", "gave no Python stack")


def test_a_rank_that_ended_is_described_without_an_error(start: Start, folder: str) -> None:
    process = start("true", ready=False)
    process.wait()
    (stack,) = collect({"x": process.pid}, folder)
    assert (stack.how, stack.note) == ("kernel", "has ended")


def test_many_ranks_are_asked_at_once_in_the_order_of_the_question(start: Start, folder: str) -> None:
    code = "import time\nprint(flush=True)\ntime.sleep(100)"
    ranks = {f"worker-{n}/0": start(sys.executable, "-c", code).pid for n in range(8)}
    begun = time.monotonic()
    found = collect(ranks, folder)
    assert [stack.label for stack in found] == list(ranks)
    assert {stack.how for stack in found} == {"faulthandler"}
    assert time.monotonic() - begun < 2


def test_a_stack_goes_through_json_and_back() -> None:
    stack = Stack("a", 1, "py-spy", ("x.py:1 f",), (("t", ("y.py:2 g",)),), "S", "w", "python x.py", "")
    assert Stack.from_json(stack.to_json()) == stack


def test_a_dump_of_any_python_is_parsed() -> None:
    text = (
        "Thread 0x00007f1 [worker] (most recent call first):\n"
        '  File "/a b/\\xe9\\u4e2d.py", line 3 in run\n\n'
        "Thread 0x00007f2 (most recent call first):\n  <no Python frame>\n\n"
        "Current thread 0x00007f3 [python] (most recent call first):\n  Garbage-collecting\n"
        '  File "x.py", line 12 in f\n  File "<string>", line 1 in <module>\n  ...\n'
    )
    main, others = dumps.parse(text)
    assert main == ("x.py:12 f", "<string>:1 <module>", "...")
    assert others == (("worker", ("/a b/é中.py:3 run",)), ("0x00007f2", ()))


def test_py_spy_is_used_where_a_python_has_no_handler(
    start: Start, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = tmp_path / "bin" / "py-spy"
    spy.parent.mkdir()
    spy.write_text(
        "#!/bin/sh\n"
        'test "$1 $2 $3 $4" = "dump --nonblocking --json --pid" || exit 1\n'
        'echo \'[{"pid": 1, "thread_id": 9, "thread_name": "MainThread", "os_thread_id": 1, "frames": '
        '[{"name": "f", "filename": "x.py", "line": 3}]}]\'\n'
    )
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", str(spy.parent), prepend=os.pathsep)
    code = "import time; print(flush=True); time.sleep(100)"
    stack = one(start(sys.executable, "-c", code, hooked=False), folder)
    assert (stack.how, stack.frames) == ("py-spy", ("x.py:3 f",))


def test_py_spy_that_hangs_or_fails_ends_at_the_limit(
    start: Start, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = tmp_path / "bin" / "py-spy"
    spy.parent.mkdir()
    spy.write_text("#!/bin/sh\nexec sleep 100\n")
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", str(spy.parent), prepend=os.pathsep)
    code = "import time; print(flush=True); time.sleep(100)"
    stack = one(start(sys.executable, "-c", code, hooked=False), folder, seconds=0.5)
    assert stack.how == "kernel"


def test_py_spy_without_thread_names_has_the_main_thread_last() -> None:
    frames = [{"name": "f", "filename": "x.py", "line": 3}]
    data = [{"thread_id": 1, "frames": []}, {"thread_id": 2, "frames": frames}]
    assert pyspy.parse(data) == (("x.py:3 f",), (("thread 1", ()),))


def test_a_process_in_pause_is_described_without_a_signal_since_it_would_go_on(
    start: Start, folder: str
) -> None:
    process = start(
        sys.executable, "-u", "-c", "import signal; print('ready'); signal.pause(); print('went on')"
    )
    stack = one(process, folder)
    if stack.how == stacks.KERNEL:  # where py-spy is there, it can tell more without a signal
        assert "pause" in stack.wchan
        assert stack.note == stacks.PAUSED
    assert process.stdout is not None
    assert not select.select([process.stdout], [], [], 0.3)[0], "it went on"
