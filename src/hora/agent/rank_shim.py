"""hora-rank: what mpirun starts for each rank.  It asks the agent of its host what to run, and becomes that.

It gets its words, variables, folder and output pipe over the agent's Unix socket, so nothing of the user's
passes through mpirun, and every rank has lines of its own.  It `exec`s and never starts a child: MPICH's
ranks talk to their launcher over an inherited descriptor (PMI_FD).  Standard library only, Python 3.8; it
imports little, since it stands between mpirun and every rank.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping, Sequence

SOCKET = "HORA_AGENT_SOCKET"
HEAD = struct.Struct(">I")  # length of the answer's JSON
LONGEST_ANSWER = 64 * 1024 * 1024

_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID")
_LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
# What mpirun tells this rank about itself; the agent's own environment may hold the like from an outer run.
_MPIRUNS_OWN = (
    "OMPI_COMM_WORLD_", "OMPI_UNIVERSE", "OMPI_MCA_ess", "OMPI_MCA_orte", "PMIX_", "PMI_", "PMI2_", "PRTE_",
    "MPI_LOCALN", "MPI_LOCALRANKID", "MV2_COMM_", "HYDI_",
)  # fmt: skip


class RankError(Exception):
    """Why this rank can't begin.  One sentence."""


def numbers(environ: Mapping[str, str]) -> tuple[int, int | None]:
    """This rank's number in the world and, where MPI says so, on its host."""
    ranks = [environ[name] for name in _RANKS if environ.get(name, "").isdigit()]
    if not ranks:
        raise RankError(f"not started by mpirun: none of {', '.join(_RANKS)} is set")
    local = [environ[name] for name in _LOCAL_RANKS if environ.get(name, "").isdigit()]
    return int(ranks[0]), int(local[0]) if local else None


def merged(environ: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The rank's variables: the agent's, but what mpirun says of this rank itself stays."""
    env = dict(environ)
    for name, text in given.items():
        if name not in env or not name.startswith(_MPIRUNS_OWN):
            env[name] = text
    return env


def ask(path: str, hello: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """The agent's answer and the output pipe that came with it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.connect(path)
        link.sendall(json.dumps(hello).encode() + b"\n")
        data, pipe = _receive(link)
        while len(data) < HEAD.size:
            data += _more(link)
        (length,) = HEAD.unpack_from(data)
        if length > LONGEST_ANSWER:
            raise RankError(f"the agent's answer is {length} bytes long")
        body = bytearray(data[HEAD.size :])
        while len(body) < length:
            body += _more(link)
    answer: dict[str, Any] = json.loads(bytes(body))
    if "error" in answer:
        raise RankError(str(answer["error"]))
    if pipe < 0:
        raise RankError("the agent sent no output pipe")
    return answer, pipe


def _receive(link: socket.socket) -> tuple[bytes, int]:
    """The first bytes of the answer, with the descriptor that travels beside them (-1: none)."""
    room = socket.CMSG_SPACE(struct.calcsize("i"))
    data, beside, _, _ = link.recvmsg(65536, room)
    if not data:
        raise RankError("the agent hung up")
    for level, kind, payload in beside:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            return data, int(struct.unpack_from("i", payload)[0])
    return data, -1


def _more(link: socket.socket) -> bytes:
    data = link.recv(1 << 20)
    if not data:
        raise RankError("the agent hung up in the middle of its answer")
    return data


def become(answer: Mapping[str, Any], pipe: int) -> None:
    """Turns this process into the rank."""
    env = merged(os.environ, answer["env"])
    argv = [str(word) for word in answer["argv"]]
    if answer.get("cwd"):
        os.chdir(answer["cwd"])
    try:
        os.setsid()  # a session of its own, as ranks have that agents start
    except PermissionError:
        pass  # it leads a process group already: mpirun's doing, and as good for signals
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (pipe, 1), (pipe, 2)):
        os.dup2(source, target)
    for spare in (null, pipe):
        if spare > 2:
            os.close(spare)
    os.execvpe(argv[0], argv, env)


def main(argv: Sequence[str]) -> int:
    """Becomes the rank.  Returns only when that is not possible: 127 not found, 126 not executable."""
    name = "hora-rank"
    try:
        rank, local = numbers(os.environ)
        name = f"hora-rank {rank}"
        path = os.environ.get(SOCKET)
        if not path:
            raise RankError(f"{SOCKET} is not set: it runs only under Hora's agent")
        attempt = os.environ.get("HORA_ATTEMPT", "")
        hello = {
            "t": "rank",
            "rank": rank,
            "localRank": local,
            "pid": os.getpid(),
            "attempt": int(attempt) if attempt.isdigit() else None,
        }
        answer, pipe = ask(path, hello)
    except (RankError, OSError, ValueError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 125
    try:
        become(answer, pipe)
    except OSError as error:
        what = f": {error.filename}" if error.filename else ""
        print(f"can't run {answer['argv'][0]}: {error.strerror}{what}", file=sys.stderr, flush=True)
        return 127 if isinstance(error, FileNotFoundError) else 126
    return 125  # not reached: exec doesn't return
