"""The beginning of every pod: find Hora's agent, and run it.

It travels as text in the pod's own description, so that a pod mounts nothing: mounting costs a third of a
second, more than all the rest.  The lead has the agent in its environment; members fetch it from the lead,
and take it only if its hash is the one that their description names.  Runs on any Python from 3.8 on.
"""

import base64
import hashlib
import json
import os
import socket
import sys
import time
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

CONFIG = "HORA_POD_CONFIG"
PARTS = "HORA_POD_AGENT_"
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
NO_LEAD = 3  # as an agent that gives up


def folder(run: str) -> str:
    """Where this pod's files go: the first place that can be written."""
    for base in (os.environ.get("TMPDIR"), "/tmp", "/var/tmp", os.getcwd(), "/dev/shm"):
        if base and os.access(base, os.W_OK | os.X_OK):
            path = os.path.join(base, "hora-" + run)
            os.makedirs(path, 0o700, exist_ok=True)
            return path
    sys.exit(
        "hora: this container has no folder that can be written: mount one, with a scratch volume at /tmp"
    )


def parts(name: str) -> str:
    """A text that was too long for one variable."""
    found, number = "", 0
    while name + str(number) in os.environ:
        found += os.environ.pop(name + str(number))
        number += 1
    return found


def fetched(config: "Dict[str, Any]") -> bytes:
    """The agent from the lead, as soon as one of its addresses answers."""
    until, pause = time.monotonic() + config["patience"], FIRST_PAUSE
    why = "not yet tried"
    while time.monotonic() < until:
        for host, port in config["handout"]:
            try:
                data = received(host, port)
            except OSError as problem:
                why = "%s:%s: %s" % (host, port, problem)
                continue
            if hashlib.sha256(data).hexdigest() == config["agent"]:
                return data
            why = "%s:%s hands out something else than this run's agent" % (host, port)
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)
    sys.stderr.write("hora: no lead answered for %.0f s (%s)\n" % (config["patience"], why))
    sys.exit(NO_LEAD)


def received(host: str, port: int) -> bytes:
    found = b""
    with socket.create_connection((host, port), 5.0) as sock:
        while True:
            data = sock.recv(1 << 18)
            if not data:
                return found
            found += data


def boot() -> None:
    if sys.version_info < (3, 8):
        sys.exit("hora: Python 3.8 or newer is needed; this image has %d.%d" % sys.version_info[:2])
    config = json.loads(os.environ[CONFIG])
    packed = base64.b64decode(parts(PARTS)) if config["part"] == "lead" else fetched(config)
    home = folder(config["run"])
    path = os.path.join(home, "agent.pyz")
    with open(path, "wb") as file:
        file.write(zlib.decompress(packed))
    if config["part"] == "lead":
        with open(os.path.join(home, "handout"), "wb") as file:
            file.write(packed)
    sys.path.insert(0, path)
    from hora.agent import pod

    sys.exit(pod.run(home))


if __name__ == "__main__":
    boot()
