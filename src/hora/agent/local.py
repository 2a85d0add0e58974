"""One machine: a keeper with the lead and one agent below it.

The client starts `main` before it has read the job: what takes time here happens meanwhile.  The whole
configuration comes as JSON on standard input; nothing on it means that the job was wrong.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

from hora.agent import guard, keeper, proc, process
from hora.agent.agent import Agent
from hora.agent.expired import remove_expired
from hora.agent.lead.lead import Lead
from hora.agent.lead.recovery import recover
from hora.agent.lead.verdict import signal_name
from hora.agent.loop import READ, Loop
from hora.agent.room import EXIT_FULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

LOCK = "lock"
AGENT_PATIENCE = 1.0  # for an agent to leave by itself after its lead has said that all is over
AGENT_LIMIT = 7.0  # for an agent to end its ranks after its lead was killed


def main(owner_fd: int) -> int:
    """`owner_fd`: the client's end of the control channel, or -1 when nobody stays."""
    _let_go_of_the_callers_files(owner_fd)
    try:
        config = json.loads(sys.stdin.buffer.read())
    except ValueError:
        return 0  # there is no job, or the client was killed while it told us of it
    return Machine(config, owner_fd).run()


def _let_go_of_the_callers_files(owner_fd: int) -> None:
    """A run may outlive its caller: what that has open (locks, pipes that somebody reads to their end) is not ours."""
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    for name in os.listdir(folder):
        if int(name) > 2 and int(name) != owner_fd:
            try:
                os.close(int(name))
            except OSError:
                pass  # that of the listing itself


class Machine:
    """The keeper of a run on this machine."""

    def __init__(self, config: Dict[str, Any], owner_fd: int) -> None:
        self.config = config
        self.loop = Loop()
        self.owner_fd = owner_fd
        self.folder: str = config["lead"]["folder"]
        self.kept = keeper.Kept(config["agent"])
        self.lead_pid = 0
        self.lead_status: Optional[int] = None
        self.server: Optional[socket.socket] = None
        self.trouble = ""  # why the keeper ends the run

    def run(self) -> int:
        self._settle()
        proc.set_name("hora-keeper")
        proc.become_subreaper()
        self.loop.on_signal(signal.SIGCHLD, self._reap)
        self.loop.on_signal(signal.SIGTERM, self._terminated)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        self.server = listen(self.config["socket"])
        self._start_lead()
        self._start_agent()
        self.server.close()
        if self.owner_fd >= 0:
            os.close(self.owner_fd)
            self.owner_fd = -1
        self.loop.run()
        return self._finish()

    def _settle(self) -> None:
        """Own words go to a file: the terminal belongs to the client."""
        log = os.open(os.path.join(self.folder, "hora.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDWR)
        for target, source in ((0, null), (1, log), (2, log)):
            os.dup2(source, target)
        os.close(log)
        os.close(null)
        import fcntl

        self._lock = os.open(os.path.join(self.folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # Keeper, lead and agent share it: it is held as long as any of them lives.
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    # --- lead and agent ---

    def _start_lead(self) -> None:
        server, owner = self.server, self.owner_fd
        keeper_pid = os.getpid()

        def child() -> int:
            self.loop.close()
            lead = Lead({**self.config["lead"], "keeper": keeper_pid})
            if server is not None:
                lead.links.listen(server)
            if owner >= 0:
                lead.links.connect(socket.socket(fileno=owner), owner=True)
            code = lead.run()
            if os.getppid() != keeper_pid:
                self._remove_socket()
            return code

        self.lead_pid = process.fork_child("hora-lead", child)

    def _start_agent(self) -> None:
        self.kept.start(self._run_agent, self._let_go)
        if self.kept.watcher is not None:
            sock = self.kept.watcher.sock
            self.loop.watch(sock, READ, lambda _events: self._agent_said())

    def _let_go(self) -> None:
        """In the agent: what only keeper and lead hold."""
        self.loop.close()
        if self.server is not None:
            self.server.close()
        if self.owner_fd >= 0:
            os.close(self.owner_fd)

    def _run_agent(self, config: Dict[str, Any], ward: guard.Ward) -> int:
        agent = Agent(config, ward)
        code = agent.run()
        if agent.forsaken:
            self._write_end("lead and keeper of this run were killed, so its ranks were ended, too")
        return code

    def _agent_said(self) -> None:
        watcher = self.kept.watcher
        if watcher is not None and not watcher.read():
            self.loop.unwatch(watcher.sock)

    # --- ends ---

    def _reap(self) -> None:
        keeper.reap(self._ended)

    def _ended(self, pid: int, status: int) -> None:
        if pid == self.lead_pid:
            self._lead_ended(status)
        elif pid == self.kept.pid:
            self._agent_ended(status)

    def _lead_ended(self, status: int) -> None:
        self.lead_status = status
        if not self.kept.pid:
            self.loop.stop()
        elif status != 0:
            self._end_agent()
        else:
            self.loop.after(AGENT_PATIENCE, self._end_agent)

    def _end_agent(self) -> None:
        """It ends its ranks first; should it hang, the sweep ends them."""
        _signal(self.kept.pid, signal.SIGTERM)
        self.loop.after(AGENT_LIMIT, lambda: _signal(self.kept.pid, signal.SIGKILL))

    def _agent_ended(self, status: int) -> None:
        self.kept.pid = 0
        if status == 0 or self.lead_status is not None:
            if self.lead_status is not None:
                self.loop.stop()
            return
        watcher = self.kept.watcher
        if watcher is not None:
            self.loop.unwatch(watcher.sock)
        keeper.sweep({self.lead_pid}, self._ended)
        self.kept.mend(f"its agent {describe(status)}")
        incarnation = self.kept.config.get("incarnation", 1)
        if self.lead_status is None and incarnation >= keeper.MOST_INCARNATIONS:
            self.trouble = f"the agent of this run ended {incarnation} times; the last one {describe(status)}"
        if self.lead_status is not None or self.trouble:
            self.loop.stop()
            return
        self.kept.config = {**self.kept.config, "incarnation": incarnation + 1}
        self._start_agent()

    def _terminated(self) -> None:
        _signal(self.lead_pid, signal.SIGTERM)

    def _finish(self) -> int:
        """Nothing may be left, and the status must tell an end."""
        keeper.sweep(set(), self._ended)
        if self.kept.watcher is not None:
            self.kept.watcher.read_all()
        lead_end = f"the lead of this run {describe(self.lead_status or 0)}, so its ranks were ended, too"
        self._write_end(self.trouble or lead_end)
        remove_expired(os.path.dirname(self.folder))
        return 0

    def _write_end(self, why: str) -> None:
        """What the lead writes in its last moment, unless it was killed before."""
        pipes = self.kept.watcher.pipes if self.kept.watcher is not None else {}
        recover(self.folder, self.config["agent"]["host"], self.config["lead"]["run"], why, pipes)
        self._remove_socket()

    def _remove_socket(self) -> None:
        try:
            os.unlink(self.config["socket"])
        except FileNotFoundError:
            pass


def listen(path: str) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(path)
    os.chmod(path, 0o600)
    server.listen(1024)
    return server


def describe(status: int) -> str:
    """How a part of Hora ended, to follow its name."""
    code, number = process.exit_of(status)
    if code == EXIT_FULL:
        return "found the disk full (see hora.log of the run)"
    if number is None:
        return f"ended with code {code} (see hora.log of the run)"
    return f"was killed by signal {number} ({signal_name(number)})"


def _signal(pid: int, number: int) -> None:
    if pid:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
