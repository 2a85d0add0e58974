"""What Debian has: containerd, etcd and the like."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.kube import layout
from cluster.kube.problems import ClusterError
from cluster.kube.versions import DEBIAN, SERVICES

POLICY = Path("/usr/sbin/policy-rc.d")  # Debian asks it whether a service may be started


def lacking() -> list[str]:
    return sorted({package for file, package in DEBIAN.items() if not Path(file).exists()})


def install() -> None:
    """What lacks, without the services that it would start and enable."""
    packages = lacking()
    if not packages:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise ClusterError(f"install the packages first: apt-get install {' '.join(packages)}")
    print(f"cluster: apt-get install {' '.join(packages)}", file=sys.stderr, flush=True)
    with _no_service_starts():
        _apt("update")
        _apt("install", "--yes", "--no-install-recommends", *packages)
    if Path("/run/systemd/system").exists():
        for service in (SERVICES[package] for package in packages if package in SERVICES):
            subprocess.run(["systemctl", "disable", "--now", service], stdin=subprocess.DEVNULL, check=False)


def _apt(*words: str) -> None:
    command = ["apt-get", "--quiet", "--quiet", *words]
    quiet = {**layout.environment(), "DEBIAN_FRONTEND": "noninteractive"}
    if subprocess.call(command, env=quiet, stdin=subprocess.DEVNULL, stdout=sys.stderr):
        raise ClusterError(f"{' '.join(command)} failed, see above")


@contextmanager
def _no_service_starts() -> Iterator[None]:
    if POLICY.exists():  # the machine has a policy of its own: a container, most likely
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")  # 101: not allowed
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()
