"""What a host says of itself: at once in its hello, and more when the check asks for it."""

from __future__ import annotations

import os
import socket
import struct
import sys

from hora.agent import cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator, Mapping, Sequence

_LIMIT = 60.0  # seconds for one program that is asked for its version: first imports from NFS are slow
# Names that are not Python packages.
_OWN = ("python", "mpi", "shm", "gpu")


def quick() -> dict[str, Any]:
    """For the hello: nothing here starts a process or waits."""
    return {
        "hostname": socket.gethostname(),
        "cpus": cgroup.cpus(),
        "memory": cgroup.memory_limit(),
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "platform": f"{sys.platform}-{os.uname().machine}",
    }


def check(
    names: Iterable[str],
    python: str = "python3",
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> dict[str, Any]:
    """What the check compares between hosts, by name; None for what isn't there.  Takes its time: not for
    the event loop.

    `python` (version), `mpi` (name and version), `shm` (free bytes), `gpu` (list of names); every other name
    is a Python package, and its version is asked of the job's own interpreter `python`.
    """
    wanted = list(names)
    packages = [name for name in wanted if name not in _OWN]
    found: dict[str, Any] = {}
    if packages or "python" in wanted:
        found.update(_python(python, packages, env, cwd))
    if "mpi" in wanted:
        found["mpi"] = mpi_version(_output(["mpirun", "--version"], env, cwd))
    if "shm" in wanted:
        found["shm"] = free_shm()
    if "gpu" in wanted:
        found["gpu"] = gpus(_output(["nvidia-smi", "-L"], env, cwd))
    return {name: found.get(name) for name in wanted}


# Also for Pythons too old for importlib.metadata, and with nothing printed by a sitecustomize in the way.
_ASK = """
import sys
print("\\nhora python %d.%d.%d" % sys.version_info[:3])
try:
    from importlib.metadata import version
except ImportError:
    version = None
for name in sys.argv[1:]:
    try:
        print("hora %s %s" % (name, version(name)))
    except Exception:
        pass
"""


def _python(
    python: str, packages: Sequence[str], env: Mapping[str, str] | None, cwd: str | None
) -> dict[str, Any]:
    if not packages and _is_ours(python, env):
        return {"python": ".".join(str(part) for part in sys.version_info[:3])}
    text = _output([python, "-c", _ASK, *packages], env, cwd) or ""
    lines = (line.split(" ") for line in text.splitlines())
    return {words[1]: words[2] for words in lines if len(words) == 3 and words[0] == "hora"}


def _is_ours(python: str, env: Mapping[str, str] | None) -> bool:
    """Whether the job's interpreter is the one that runs us: then nothing needs to be started."""
    import shutil

    found = shutil.which(python, path=None if env is None else env.get("PATH"))
    return found is not None and os.path.realpath(found) == os.path.realpath(sys.executable)


def _output(command: Sequence[str], env: Mapping[str, str] | None, cwd: str | None = None) -> str | None:
    """What a program prints; None when it isn't there, fails or takes too long."""
    import shutil
    import subprocess

    # The PATH that counts is the job's, not the agent's.
    program = shutil.which(command[0], path=None if env is None else env.get("PATH"))
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *command[1:]],
            env=None if env is None else dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_LIMIT,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def mpi_version(text: str | None) -> str | None:
    """Name and version from what `mpirun --version` prints, e.g. `Open MPI 5.0.11`."""
    if not text:
        return None
    import re

    for pattern, name in (
        (r"\(Open MPI\) (\d[\w.]*)", "Open MPI"),
        (r"Intel\(R\) MPI Library for .*?Version (\d[\w.]*(?: Update \d+)?)", "Intel MPI"),
        (r"HYDRA[^$]*?Version:\s*(\d[\w.]*)", "MPICH"),
    ):
        match = re.search(pattern, text)
        if match:
            return f"{name} {match.group(1)}"
    return text.strip().splitlines()[0][:100]


def gpus(text: str | None) -> list[str]:
    """Names from what `nvidia-smi -L` prints."""
    lines = (line.strip() for line in (text or "").splitlines())
    return [line.partition(": ")[2].partition(" (UUID")[0] for line in lines if line.startswith("GPU ")]


def free_shm() -> int | None:
    try:
        room = os.statvfs("/dev/shm")
    except OSError:
        return None
    return room.f_bavail * room.f_frsize


# --- addresses ---------------------------------------------------------------------------------------


def loopback(address: str) -> bool:
    """Whether only this host can reach the address.  127.0.1.1 hides behind many a host name: a peer that
    is told such an address hangs, it gets no error."""
    bare = address.strip("[]").partition("%")[0].lower()
    if bare.startswith("::ffff:"):
        bare = bare[7:]
    if bare in ("localhost", "::1", "ip6-localhost") or bare.endswith(".localhost"):
        return True
    try:
        return socket.inet_pton(socket.AF_INET, bare)[0] == 127
    except OSError:
        return False


def interface_of(address: str) -> str | None:
    """Name of the network interface that has this address; None when none has it."""
    bare, _, scope = address.strip("[]").partition("%")
    if scope and not scope.isdigit():
        return scope
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    try:
        wanted = socket.inet_pton(family, bare)
    except OSError:
        return None
    if not sys.platform.startswith("linux"):
        return _interface_by_ifconfig(bare)
    pairs = _addresses6() if family == socket.AF_INET6 else _addresses4()
    for name, packed in pairs:
        if packed == wanted:
            return name
    if wanted[0] == 127 and family == socket.AF_INET:
        return "lo"  # all of 127.0.0.0/8 is there, only 127.0.0.1 is listed
    return None


_SIOCGIFCONF = 0x8912


def _addresses4() -> Iterator[tuple[str, bytes]]:
    """(interface, address) of all IPv4 addresses; SIOCGIFADDR would tell one for each interface."""
    import array
    import fcntl

    entry = 16 + (24 if struct.calcsize("P") == 8 else 16)  # struct ifreq: name, union
    room = entry * 64
    while True:
        buffer = array.array("B", bytes(room))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            request = struct.pack("iP", room, buffer.buffer_info()[0])
            used = struct.unpack("iP", fcntl.ioctl(probe, _SIOCGIFCONF, request))[0]
        if used + entry <= room:
            break
        room *= 2
    data = buffer.tobytes()
    for start in range(0, used, entry):
        name = data[start : start + 16].partition(b"\0")[0].decode("utf-8", "replace")
        yield name.partition(":")[0], data[start + 20 : start + 24]  # eth0:1 is an address of eth0


def _addresses6() -> Iterator[tuple[str, bytes]]:
    try:
        with open("/proc/net/if_inet6") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        words = line.split()
        yield words[-1], bytes.fromhex(words[0])


def _interface_by_ifconfig(address: str) -> str | None:
    name = ""
    for line in (_output(["ifconfig"], None) or "").splitlines():
        if line[:1].strip():
            name = line.partition(":")[0].split(" ")[0]
        words = line.split()
        if len(words) > 1 and words[0] in ("inet", "inet6") and words[1].partition("%")[0] == address:
            return name
    return None
