"""One host of many: a keeper with one agent below it, which dials a lead elsewhere.

The whole configuration comes as JSON on standard input: that of the agent, with its `identity`.  Its own
words go to standard error, which belongs to whoever started it.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from hora.agent import guard, keeper, proc, process
from hora.agent.agent import GAVE_UP, Agent
from hora.agent.lead.verdict import signal_name
from hora.agent.loop import READ, Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

LIMIT = 8.0  # for an agent to end its ranks after the keeper was asked to end; with `own_end`, on top of their grace


def main() -> int:
    config = json.loads(sys.stdin.buffer.read())
    os.makedirs(config["folder"], mode=0o700, exist_ok=True)
    return Host(config).run()


class Host:
    """The keeper of a host; ends as its agent does, and leaves nothing behind."""

    def __init__(self, config: Dict[str, Any]) -> None:
        self.loop = Loop()
        self.kept = keeper.Kept(config)
        self.asked_to_end = False
        self.code = 0

    def run(self) -> int:
        proc.set_name("hora-keeper")
        proc.become_subreaper()
        self.loop.on_signal(signal.SIGCHLD, lambda: keeper.reap(self._ended))
        self.loop.on_signal(signal.SIGTERM, self._terminated)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        self._start()
        self.loop.run()
        keeper.sweep(set(), lambda pid, status: None)
        return self.code

    def _start(self) -> None:
        self.kept.start(_run_agent, self.loop.close)
        if self.kept.watcher is not None:
            self.loop.watch(self.kept.watcher.sock, READ, lambda _events: self._agent_said())

    def _agent_said(self) -> None:
        watcher = self.kept.watcher
        if watcher is not None and not watcher.read():
            self.loop.unwatch(watcher.sock)

    def _terminated(self) -> None:
        """The agent ends its ranks first; should it hang, the sweep ends them."""
        self.asked_to_end = True
        self._signal(signal.SIGTERM)
        config = self.kept.config
        grace = config.get("grace", 30.0) if config.get("own_end") else 0.0
        self.loop.after(grace + LIMIT, lambda: self._signal(signal.SIGKILL))

    def _signal(self, number: int) -> None:
        if self.kept.pid:
            os.kill(self.kept.pid, number)

    def _ended(self, pid: int, status: int) -> None:
        if pid != self.kept.pid:
            return
        self.kept.pid = 0
        code, number = process.exit_of(status)
        incarnation = self.kept.config.get("incarnation", 1)
        if code in (0, GAVE_UP) or self.asked_to_end or incarnation >= keeper.MOST_INCARNATIONS:
            self.code = code if code is not None else 128 + (number or 0)
            self.loop.stop()
            return
        how = f"ended with code {code}" if number is None else f"was killed by signal {number}"
        self._anew(how if number is None else f"{how} ({signal_name(number)})", incarnation + 1)

    def _anew(self, how: str, incarnation: int) -> None:
        """End what the last agent left, complete its journal, start the next one."""
        if self.kept.watcher is not None:
            self.loop.unwatch(self.kept.watcher.sock)
        keeper.sweep(set(), lambda pid, status: None)
        self.kept.mend(f"its agent {how}")
        self.kept.config = {**self.kept.config, "incarnation": incarnation}
        self._start()


def _run_agent(config: Dict[str, Any], ward: guard.Ward) -> int:
    return Agent(config, ward).run()
