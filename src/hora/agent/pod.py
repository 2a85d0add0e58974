"""A pod of a cluster: the lead's, or a member's.

All that it needs comes by environment, and is taken out of it before any rank could inherit it.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import time
import zlib

from hora import state
from hora.agent import boot, keeper, proc, process
from hora.agent.lead import documents
from hora.agent.loop import Loop
from hora.agent.process import TOLD_TO_GO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

MESSAGE = "/dev/termination-log"
UNSUCCESSFUL = 1  # the run has ended, but not well: the lead's own work is done
MOST_LIVES = 10  # of a lead within one pod


def run(home: str) -> int:
    """The rest of the pod's life; `home` is the folder for its files (boot.py chose it)."""
    config = json.loads(os.environ.pop(boot.CONFIG))
    identity = json.loads(os.environ.pop("HORA_POD_IDENTITY"))
    config.update(identity=identity, address=os.environ.pop("HORA_POD_IP", ""))
    os.environ.pop("HORA_POD_BOOT", None)
    settle(home)
    if config["part"] == "lead":
        return LeadKeeper(lead_config(config, home)).run()
    from hora.agent import host

    return host.Host(member_config(config, home)).run()


def settle(home: str) -> None:
    """A user without a name or a home of its own: programs that ask for either would fail."""
    theirs = os.environ.get("HOME", "")
    if not (theirs and theirs != "/" and os.access(theirs, os.W_OK)):
        os.environ["HOME"] = os.path.join(home, "home")
        os.makedirs(os.environ["HOME"], exist_ok=True)
    if not os.environ.get("USER") and not _has_name():
        os.environ["USER"] = os.environ["LOGNAME"] = "hora"
    if not os.environ.get("TMPDIR") and not os.access("/tmp", os.W_OK):
        os.environ["TMPDIR"] = os.path.join(home, "tmp")
        os.makedirs(os.environ["TMPDIR"], exist_ok=True)


def _has_name() -> bool:
    import pwd

    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


# --- a member ----------------------------------------------------------------------------------------


def member_config(config: Dict[str, Any], home: str) -> Dict[str, Any]:
    import socket

    return {
        **config,
        "host": socket.gethostname(),
        "members": [f"{config['role']}-{int(os.environ.pop('HORA_POD_INDEX'))}"],
        "folder": os.path.join(home, "agent"),
        "keep_journal": True,  # for a lead whose pod was made again: its copies are gone
        "own_end": True,
    }


# --- the lead ----------------------------------------------------------------------------------------


def lead_config(config: Dict[str, Any], home: str) -> Dict[str, Any]:
    told = json.loads(os.environ.pop("HORA_POD_LEAD"))
    if told["run"]["createdAt"] is None:  # rendered, and applied by somebody else
        told["run"]["createdAt"] = time.time()
    packed = boot.parts("HORA_POD_CODE_")
    if packed:
        path = os.path.join(home, "code.tar.gz")
        with open(path, "wb") as file:
            file.write(base64.b64decode(packed))
        told["code"]["parts"] = [path]
    return {
        **config,
        **told,
        "plan": json.loads(zlib.decompress(base64.b64decode(boot.parts("HORA_POD_PLAN_")))),
        "folder": os.path.join(home, "lead"),
        "listen": ["", config["port"]],
        "address": [config["address"], config["port"]],
        "handout": {"path": os.path.join(home, "handout"), "port": config["port"] + 1},
        "stream": True,
        "message": MESSAGE,
    }


class LeadKeeper:
    """Above the lead: starts it anew when it is killed, so that its folder outlives it."""

    def __init__(self, config: Dict[str, Any]) -> None:
        self.config = config
        self.loop = Loop()
        self.pid = 0
        self.lives = 0
        self.code: Optional[int] = None

    def run(self) -> int:
        proc.set_name("hora-keeper")
        proc.become_subreaper()
        self.loop.on_signal(signal.SIGCHLD, lambda: keeper.reap(self._ended))
        self.loop.on_signal(signal.SIGTERM, self._go)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        self._start()
        self.loop.run()
        return self.code if self.code is not None else UNSUCCESSFUL

    def _start(self) -> None:
        self.lives += 1

        def child() -> int:
            from hora.agent import server

            self.loop.close()
            server.serve(self.config)
            status = documents.read_json(os.path.join(self.config["folder"], documents.STATUS))
            return 0 if status is not None and status["phase"] == state.SUCCEEDED else UNSUCCESSFUL

        self.pid = process.fork_child("hora-lead", child)

    def _ended(self, pid: int, status: int) -> None:
        if pid != self.pid:
            return
        code, number = process.exit_of(status)
        if number is not None and self.lives < MOST_LIVES and self.code is None:
            self._start()
            return
        if self.code is None:
            self.code = code if code is not None else 128 + (number or 0)
        self.loop.stop()

    def _go(self) -> None:
        """Not the end of the run: the ranks go on, and a new pod takes it up."""
        self.code = TOLD_TO_GO
        os.kill(self.pid, signal.SIGKILL)
