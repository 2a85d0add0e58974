"""The images, as data.  A change here builds them anew, and gives the nodes fresh disks."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

SUITE = "bookworm"


@dataclass(frozen=True)
class Image:
    """A layer on those of the image below it."""

    name: str
    below: str = ""  # nothing: Debian itself
    packages: tuple[str, ...] = ()  # of Debian, in its layer
    script: str = ""  # run by sh as root in the image
    command: tuple[str, ...] = ("/bin/sh",)

    @property
    def reference(self) -> str:
        return f"localhost/hora/{self.name}:1"


PAUSE = "localhost/hora/pause:1"
# Every pod has one of these; it holds the pod's namespaces, and reaps what the pod's processes leave to it.
PAUSE_SOURCE = """\
package main

import (
\t"os"
\t"os/signal"
\t"syscall"
)

func main() {
\tsignals := make(chan os.Signal, 16)
\tsignal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
\tfor received := range signals {
\t\tif received != syscall.SIGCHLD {
\t\t\tos.Exit(0)
\t\t}
\t\tfor {
\t\t\tif pid, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 {
\t\t\t\tbreak
\t\t\t}
\t\t}
\t}
}
"""

# None has a user: a pod that must not run as root says so itself.
NOPYTHON = Image("nopython")
SLIM = Image("slim", below="nopython", packages=("python3", "ca-certificates"), command=("python3",))
BASE = Image(
    "base",
    below="slim",
    packages=("python3-numpy", "python3-mpi4py", "openmpi-bin", "openssh-client", "iproute2", "procps"),
    command=("python3",),
)
ROOT = Image(
    "root",
    below="slim",
    script="mkdir -m 755 /work; echo 'only root reads this' >/root/only; chmod 600 /root/only",
)
# What the MPI Operator wants of an image; Hora is measured against it, and none of Hora's own tests sees an sshd.
PEER = Image(
    "peer",
    below="base",
    packages=("openssh-server",),
    script="mkdir -p /run/sshd; echo StrictModes no >/etc/ssh/sshd_config.d/hora.conf; "
    'printf "Host *\\nStrictHostKeyChecking no\\nUserKnownHostsFile /dev/null\\n" >/etc/ssh/ssh_config.d/hora.conf',
)
IMAGES = (NOPYTHON, SLIM, BASE, ROOT, PEER)  # each after the one below it

# Documentation is a third of such a Debian, and nobody reads it here.
NOT_IN_IMAGES = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
VERSION = 1  # of the code that makes layers of all this; raise it when that changes what is in them

KEY = hashlib.sha256(repr((SUITE, PAUSE, PAUSE_SOURCE, IMAGES, NOT_IN_IMAGES, VERSION)).encode()).hexdigest()[
    :12
]
