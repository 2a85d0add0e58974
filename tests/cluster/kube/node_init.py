"""The first process of a node, in namespaces of its own: prepares what its daemons see, starts them, buries the dead.

It runs alone, as a script: what it needs comes as JSON in its argument, what it should start as lines on a pipe.
When it ends, the kernel ends everything in the node and takes its mounts and interfaces along.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from typing import Any


def main() -> None:
    setup = json.loads(sys.argv[1])
    # The old /proc still shows the machine's pids: that is how the others will call this process.
    pid = os.readlink("/proc/self")
    for passed in (setup["ready"], setup["orders"]):
        os.set_inheritable(passed, False)
    # Daemons' logs are opened before folders are covered by the node's own.
    logs = {
        name: os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name, path in setup["logs"].items()
    }
    mounts(setup["binds"])
    socket.sethostname(setup["name"])
    os.write(setup["ready"], pid.encode())
    os.close(setup["ready"])
    serve(setup["orders"], setup["environment"], logs)


def mounts(binds: dict[str, str]) -> None:
    """Fresh /run and /var/lib as after a boot, the node's disk in them; `binds` goes from outside to inside.

    All that programs write at their default places goes to the node's disk or vanishes with the node.
    """
    mount("-t", "proc", "proc", "/proc")
    held = {os.open(source, os.O_PATH): target for source, target in binds.items()}  # may be below /var/lib
    for folder in ("/run", "/var/lib", "/var/log"):
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
    for handle, target in held.items():
        os.makedirs(target, exist_ok=True)
        mount("--no-canonicalize", "--rbind", f"/proc/{os.getpid()}/fd/{handle}", target)
        os.close(handle)
    mount("--make-rshared", "/")  # kubelet and containerd pass mounts to one another


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def serve(orders: int, environment: dict[str, str], logs: dict[str, int]) -> None:
    """Start what each line of the pipe says, and reap: everything without a parent comes here."""
    waker, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    watched, pending = [orders, waker], b""
    while True:
        reap()
        readable = select.select(watched, [], [])[0]
        if waker in readable:
            os.read(waker, 4096)
        if orders in readable:
            received = os.read(orders, 65536)
            if not received:  # whoever gave orders has left
                watched.remove(orders)
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                launch(json.loads(line), environment, logs)


def launch(order: dict[str, Any], environment: dict[str, str], logs: dict[str, int]) -> None:
    log = logs[order["name"]]
    null = os.open(os.devnull, os.O_RDONLY)
    os.posix_spawn(
        order["command"][0],
        order["command"],
        environment,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, null, 0),
            (os.POSIX_SPAWN_DUP2, log, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
        ],
        setsid=True,
    )
    os.close(null)


def reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    main()
