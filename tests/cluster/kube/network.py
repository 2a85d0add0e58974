"""The switch between the nodes and the host, and the kernel's settings that somebody else changes for us."""

from __future__ import annotations

import ipaddress
import json
import os
from pathlib import Path

from cluster.kube import layout, processes
from cluster.kube.problems import ClusterError, run, wait_until

# The kubelet sets these for the whole machine, and stops when it can't.
SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
SWITCH = "switch"  # the part that holds it
_saved = layout.STATE / "sysctl.json"


def ip(*words: str, namespace_of: int = 0) -> str:
    """`ip`, on the machine or in the network of a process."""
    return run(*_enter(namespace_of), "ip", *words)


def _enter(pid: int) -> list[str]:
    return ["nsenter", f"--net=/proc/{pid}/ns/net"] if pid else []


def _batch(lines: list[str], pid: int = 0) -> None:
    """Many changes by one command."""
    run(*_enter(pid), "ip", "-batch", "-", stdin="\n".join(lines) + "\n")


def switch() -> int:
    """The process that holds the switch's namespace; 0 when there is none.

    No named one, as `ip netns` makes them: a mount of theirs stays on the machine for ever.
    """
    ours = os.readlink("/proc/self/ns/net")
    return next((each.pid for each in processes.parts(SWITCH) if _network_of(each.pid) not in ("", ours)), 0)


def _network_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def up() -> None:
    """A bridge in a namespace of its own: the host's firewall, with whatever rules, does not see what crosses it."""
    network = ipaddress.ip_network(f"{layout.HOST_ADDRESS}/{layout.NODE_NETWORK_BITS}", strict=False)
    for line in ip("-4", "-o", "address").splitlines():
        if ipaddress.ip_interface(line.split()[3]).ip in network:
            raise ClusterError(f"the addresses of the cluster are taken on this machine: {line}")
    processes.start(SWITCH, ["unshare", "--net", "sleep", "infinity"])
    pid = wait_until(switch, "the switch", 10)
    _batch(
        [
            "link add switch type bridge",
            "link set switch up",
            f"link add host type veth peer name {layout.BRIDGE} netns {os.getpid()}",
            "link set host master switch up",
        ],
        pid,
    )
    _batch(
        [
            f"address add {layout.HOST_ADDRESS}/{layout.NODE_NETWORK_BITS} dev {layout.BRIDGE}",
            f"link set {layout.BRIDGE} up",
            *(
                f"route add {layout.pod_network(name)} via {layout.node_address(name)} dev {layout.BRIDGE}"
                for name in layout.NODES
            ),
            # From the host, too, a Service can be reached: node one translates, as it does for its pods.
            f"route add {layout.SERVICE_NETWORK} via {layout.node_address('one')} dev {layout.BRIDGE}",
        ]
    )


def exists() -> bool:
    return Path("/sys/class/net", layout.BRIDGE).exists()


def down() -> None:
    """After the end of all processes: interfaces go with their namespace, a moment later, and routes with them."""
    wait_until(lambda: not exists(), f"the end of the interface {layout.BRIDGE}", 20)


def plug_in(name: str, pid: int) -> None:
    """Connect a node, whose first process is `pid`, to the switch."""
    port, middle = f"node-{name}", switch()
    if not middle:
        raise ClusterError("the cluster is not up: scripts/cluster up")
    # The port of a node that was killed just now goes a moment later.
    wait_until(lambda: port not in ip("-o", "link", namespace_of=middle), f"the end of the port {port}", 20)
    _batch(
        [
            f"link add {port} type veth peer name eth0 netns {pid}",
            f"link set {port} master switch up",
        ],
        middle,
    )
    others = [each for each in layout.NODES if each != name]
    _batch(
        [
            "link set lo up",
            f"address add {layout.node_address(name)}/{layout.NODE_NETWORK_BITS} dev eth0",
            "link set eth0 up",
            f"route add default via {layout.HOST_ADDRESS}",
            *(f"route add {layout.pod_network(each)} via {layout.node_address(each)}" for each in others),
        ],
        pid,
    )
    run(*_enter(pid), "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")


def save_settings() -> None:
    """Before the first kubelet starts; what a cluster that crashed has saved is kept."""
    if _saved.exists():
        return
    values = {name: Path("/proc/sys", name).read_text().strip() for name in SETTINGS}
    unfinished = _saved.with_suffix(".new")
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    unfinished.write_text(json.dumps(values))
    unfinished.rename(_saved)


def restore_settings() -> None:
    if not _saved.exists():
        return
    for name, value in json.loads(_saved.read_text()).items():
        path = Path("/proc/sys", name)
        if path.read_text().strip() != value:
            path.write_text(value)
    _saved.unlink()
