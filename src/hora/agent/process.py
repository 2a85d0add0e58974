"""Starting one process: own session, output to a pipe, gone when its agent goes."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import sys
import termios

from hora.agent import proc, room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, NoReturn, Optional, Sequence, Tuple

NOT_FOUND = 127
NOT_EXECUTABLE = 126
TOLD_TO_GO = 143  # a part of Hora whose host or pod is going, while the run is not
# Handled or ignored by us; a program expects them as the system sets them.
_HANDLED = (
    signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP, signal.SIGQUIT, signal.SIGXFSZ,
)  # fmt: skip


class CannotStart(Exception):
    """One sentence: what can't be started, and why.  `code` is what a shell would have ended with."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def find(command: str, env: Dict[str, str], cwd: str) -> str:
    """The file that `command` names, as the rank's own PATH says."""
    if "/" in command:
        candidates = [os.path.join(cwd, command)]
    else:
        path = env.get("PATH") or os.defpath
        candidates = [os.path.join(cwd, folder, command) for folder in path.split(os.pathsep)]
    denied: Optional[str] = None
    for candidate in candidates:
        if not os.access(candidate, os.F_OK) or os.path.isdir(candidate):
            continue
        if os.access(candidate, os.X_OK):
            _look_for_interpreter(candidate, command, cwd)
            return candidate
        denied = candidate
    if denied is not None:
        raise CannotStart(
            f"{command!r} is not executable ({denied}): chmod +x it, or name its interpreter", NOT_EXECUTABLE
        )
    if "/" in command and os.path.isdir(candidates[0]):
        raise CannotStart(f"{command!r} is a folder: name a program in it", NOT_EXECUTABLE)
    if "/" in command:
        where = "no such file" + ("" if os.path.isabs(command) else f" in {cwd}")
    else:
        where = "it is not on the PATH"
    raise CannotStart(f"{command!r} was not found: {where}", NOT_FOUND)


def _look_for_interpreter(path: str, command: str, cwd: str) -> None:
    """The kernel says of a script whose interpreter is missing that the script itself isn't there."""
    first = _head(path)
    if not first.startswith(b"#!"):
        return
    interpreter = (first[2:].split(b"\n")[0].strip(b" \t").split(b" ") or [b""])[0].split(b"\t")[0]
    name = os.fsdecode(interpreter)
    if not name or os.path.exists(os.path.join(cwd, name)):
        return
    why = f"its first line asks for {name.rstrip()}, which is not here"
    if name.endswith("\r"):
        why = (
            "its lines end as on Windows (\\r\\n), so the interpreter is not found: convert it with dos2unix"
        )
    raise CannotStart(f"{command!r} can't be run: {why}", NOT_FOUND)


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(256)
    except OSError:
        return b""  # a program may be executable and not readable


def spawn(
    path: str,
    argv: Sequence[str],
    env: Dict[str, str],
    cwd: str,
    output: int,
    stdin: Optional[int] = None,
    terminal: bool = False,
    errors: Optional[int] = None,
) -> int:
    """Fork and exec; what the child writes goes to `output`, what it writes to stderr to `errors` if
    that is given.  Call it from the main thread only: the kernel
    sends the parent-death signal when the *thread* that forked ends."""
    parent = os.getpid()
    before, pid = _fork()
    if pid == 0:
        _child(path, argv, env, cwd, (output, output if errors is None else errors), stdin, terminal, parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _fork() -> Tuple[Any, int]:
    """Signals are blocked in both afterwards; returns the mask from before."""
    before = block_signals()
    try:
        return before, os.fork()
    except OSError:  # too many processes; we live on and need to hear
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise


def block_signals() -> Any:
    """Around a fork: a signal to the child, while it still has its parent's handlers, would be written to the
    wake-up pipe that both share, and the parent would take it for its own."""
    return signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)


def _child(
    path: str,
    argv: Sequence[str],
    env: Dict[str, str],
    cwd: str,
    outputs: Tuple[int, int],
    stdin: Optional[int],
    terminal: bool,
    parent: int,
) -> NoReturn:
    code = NOT_EXECUTABLE
    try:
        _settle(cwd, outputs, stdin, terminal, parent)
        _exec(path, argv, env)
    except BaseException as error:  # noqa: BLE001 - whatever it is, a fork must not return into its parent
        if isinstance(error, OSError) and error.errno == errno.ENOENT:
            code = NOT_FOUND
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = f"hora: {argv[0]!r} can't be started: {reason}\n"
        os.write(2, message.encode("utf-8", "surrogateescape"))
    finally:
        os._exit(code)


def _settle(cwd: str, outputs: Tuple[int, int], stdin: Optional[int], terminal: bool, parent: int) -> None:
    """In a new child: a session of its own, its streams, its folder; it goes when its parent goes."""
    os.setsid()
    proc.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:  # killed before it could be asked
        os._exit(NOT_EXECUTABLE)
    signal.set_wakeup_fd(-1)
    for number in _HANDLED:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    stdin = os.open(os.devnull, os.O_RDONLY) if stdin is None else stdin
    os.dup2(stdin, 0)
    os.dup2(outputs[0], 1)
    os.dup2(outputs[1], 2)
    if terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(cwd)


def spawn_work(name: str, work: Callable[[], int], cwd: str, stdin: int, output: int, errors: int) -> int:
    """Like `spawn`, for a part of Hora itself; what `work` returns is its exit code."""
    parent = os.getpid()
    before, pid = _fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return pid
    code = 1
    try:
        _settle(cwd, (output, errors), stdin, False, parent)
        folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
        os.closerange(3, max(map(int, os.listdir(folder))) + 1)  # links and pipes are the agent's alone
        proc.set_name(name)
        code = work()
    except BaseException as error:  # noqa: BLE001 - a fork must not return into its parent
        os.write(2, f"hora: {error}\n".encode("utf-8", "surrogateescape"))
    finally:
        os._exit(code)


def _exec(path: str, argv: Sequence[str], env: Dict[str, str]) -> None:
    try:
        os.execve(path, list(argv), env)
    except OSError as error:
        if error.errno != errno.ENOEXEC or b"\0" in _head(path):  # a program for another machine
            raise
        os.execve("/bin/sh", ["sh", path, *argv[1:]], env)  # a script without a first line, as a shell does


def exit_of(status: int) -> Tuple[Optional[int], Optional[int]]:
    """(exit code, signal) of a wait status; one of them is None."""
    if os.WIFSIGNALED(status):
        return None, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), None


def signal_group(pid: int, number: int) -> None:
    """To what `spawn` started and its children."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        signal_one(pid, number)  # it is so new that it has no group yet


def signal_one(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended; or it changed its user, and SIGKILL to its group comes next


def unkillable(pids: Sequence[int]) -> str:
    """What to say of processes that SIGKILL did not end."""
    lines = [(pid, proc.stat(pid)) for pid in pids[:8]]
    told = ", ".join(f"{pid} ({line.name}, state {line.state})" for pid, line in lines if line is not None)
    return (
        f"left behind, for SIGKILL did not end it: process {told}; it belongs to another user (sudo), sleeps in "
        "the kernel (state D: a lost file server, a driver) or is held by a debugger"
    )


def fork_child(name: str, run: object) -> int:
    """Fork a part of Hora itself (lead, agent): it shares what is imported already."""
    sys.stdout.flush()
    sys.stderr.flush()
    before, pid = _fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return pid
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in _HANDLED:
            ignored = number in (signal.SIGPIPE, signal.SIGXFSZ)  # they are told as errors then
            signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        proc.set_name(name)
        code = run()  # type: ignore[operator]
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else 1
    except BaseException as error:  # noqa: BLE001
        import traceback

        traceback.print_exc()
        if isinstance(error, OSError) and error.errno in room.FULL:
            code = room.EXIT_FULL
    finally:
        try:
            sys.stderr.flush()
        finally:
            os._exit(code)
