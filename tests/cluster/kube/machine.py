"""What a machine must have so that the cluster can be made on it, and what there is that a cluster could leave."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cluster.kube import build, cgroups, debian, images, layout, network

_SETTINGS = (
    "net/ipv4/ip_forward",
    "net/netfilter/nf_conntrack_max",
)  # besides those that the kubelet changes
_RIGHTS = ("--mount", "--pid", "--uts", "--ipc", "--net", "--fork")


def missing() -> str | None:
    """What it lacks for a cluster that starts at once, in words."""
    if reason := unfit():
        return reason
    if unbuilt := [part for part in parts() if not (layout.FOLDER / part).exists()]:
        return (
            f"{' and '.join(unbuilt)} must be built once: scripts/cluster build, about a quarter of an hour"
        )
    if lacking := debian.lacking():
        return f"Debian's {', '.join(lacking)} must be installed: scripts/cluster build"
    return None


def unfit() -> str | None:
    """Why the cluster can neither be built nor run here, in words."""
    return forbidden() or _no_namespaces() or build.missing()


def forbidden() -> str | None:
    """Why nothing here can be asked of the cluster."""
    if sys.platform != "linux":
        return "the test cluster needs Linux"
    if os.geteuid() != 0:
        return "the test cluster needs root: it makes namespaces, mounts and interfaces"
    return None


def _no_namespaces() -> str | None:
    tried = subprocess.run(
        ["unshare", *_RIGHTS, "true"],
        env=layout.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        return f"root may not make namespaces here, which the test cluster needs: {tried.stderr.strip()}"
    return None


def parts() -> list[str]:
    """The folders with what is built."""
    return [*(module.key for module in build.NEEDED), images.PART]


def belongings() -> dict[str, set[str]]:
    """Everything on this machine that a cluster makes and could leave, by kind.

    Compared before and after: the difference is what it left.  Processes are told by the network namespace that
    they are in, so that those of others, which come and go, don't count.
    """
    return {
        "mounts": {line.split()[4] for line in _lines("/proc/self/mountinfo")},
        "interfaces": set(os.listdir("/sys/class/net")),
        "routes": set(_said("ip", "route", "show", "table", "all")),
        "network namespaces": _namespaces(),
        "control groups": cgroups.names(),
        "rules": {
            rule
            for command in ("iptables", "ip6tables")
            for kind in ("nft", "legacy")
            for rule in _said(f"{command}-{kind}-save")
            if not rule.startswith(("#", ":"))  # with a time, with counters
        },
        "settings": {
            f"{name} = {Path('/proc/sys', name).read_text().strip()}"
            for name in (*network.SETTINGS, *_SETTINGS)
        },
        "names": set(_said("ip", "netns", "list")),
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def _said(*command: str) -> list[str]:
    done = subprocess.run(
        command,
        env=layout.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def _namespaces() -> set[str]:
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                found.add(os.readlink(f"/proc/{entry}/ns/net"))
            except OSError:
                pass  # it has ended
    return found
