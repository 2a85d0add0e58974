"""The agent of one host: does what the lead orders and tells the lead what happens."""

from __future__ import annotations

import os
import signal
import sys
import time

from hora import state
from hora.agent import facts, frames, guard, hook, proc
from hora.agent.checks import Checks
from hora.agent.errands import Errands
from hora.agent.inside import Inside
from hora.agent.journal import Journal
from hora.agent.loop import READ, Loop
from hora.agent.mpi_door import MpiDoor
from hora.agent.preparing import Preparing
from hora.agent.process import TOLD_TO_GO
from hora.agent.ranks import Ranks
from hora.agent.room import Room, cannot_keep
from hora.agent.uplink import Uplink
from hora.scene import Seat
from hora.starts import Start, environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

    from hora.agent.frames import Header

BEAT = 2.0
ORPHAN_GRACE = 3.0  # for ranks whose lead or keeper is gone: they must be away within 10 s
GAVE_UP = 3  # what it ends with when it has ended its ranks by itself, and has said why


class Agent:
    """`config`: run, host, members, folder, lead (addresses), incarnation, patience, tls (optional); `cwd`, and
    `code` where the code's folder is used in place."""

    def __init__(
        self, config: Dict[str, Any], ward: Optional[guard.Ward], loop: Optional[Loop] = None
    ) -> None:
        self.config = config
        self.loop = loop or Loop()
        self.folder = config["folder"]
        self.journal = Journal(os.path.join(self.folder, "journal"), limit=config.get("output"))
        self.code = 0
        self._ward = ward
        self._got = 0  # number of the last order done
        self.attempt = 0
        self._started = 0  # the last attempt whose ranks were started here
        self._told: List[Header] = []  # of this attempt, for a lead that was not there
        self._leaving = False
        self._kicked = False
        self._outer = dict(os.environ)  # nobody changes it, and reading it decodes every variable
        self._orphaned = ""
        self._alone = False  # the keeper was killed
        self.forsaken = False  # and the lead, too: nobody else can write the run's end
        self._broken = ""  # why the journal can't be written
        self._room = Room(self.folder)
        self.cwd = config.get("cwd") or os.getcwd()  # where the job has no code
        self.errands = Errands(self.loop)
        self.ranks = Ranks(self.loop, self.journal, ward, self.tell, self._kick)
        self.ranks.on_over = self._attempt_over
        self.ranks.on_problem = self._no_space
        self.inside = Inside(self.loop, self.reply, self.ranks, config.get("address", ""))
        self.ranks.spared = lambda: [*self.inside.pids(), *self.errands.pids]
        self.checks = Checks(self.loop, self.reply, self.ranks, self.errands, self.folder)
        self.preparing = Preparing(self)
        self.door = MpiDoor(self.loop, self.ranks, self.folder, self._environment, lambda: self.preparing.cwd)
        self.uplink = Uplink(
            self.loop, self.journal, config["lead"], self._hello, self._frame, tls=_tls_factory(config)
        )
        self.uplink.on_up = self._up
        self.uplink.on_down = self._down
        self.uplink.on_acked = self._acked

    # --- life ---

    def run(self) -> int:
        frames.keep_memory()
        proc.become_subreaper()
        hook.install(self.folder)
        os.makedirs(os.path.join(self.folder, "results"), exist_ok=True)
        self.loop.on_signal(signal.SIGCHLD, self._reap)
        self.loop.on_signal(signal.SIGTERM, self._told_to_go)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if self._ward is not None:
            self.loop.watch(self._ward.sock, READ, lambda _events: self._keeper_gone())
        self._patience()
        self.loop.after(BEAT, self._beat)
        self.uplink.dial()
        self.loop.run()
        self.uplink.close()
        self.door.close()
        self.preparing.ports.release()
        self.journal.close()
        return self.code

    def _hello(self) -> Header:
        return {
            "t": "hello",
            "v": 1,
            "run": self.config["run"],
            "host": self.config["host"],
            "home": self.journal.home,
            "incarnation": self.config.get("incarnation", 1),
            "members": self.config["members"],
            "attempt": self.attempt,
            "got": self._got,
            "journal": [self.journal.start, self.journal.end],
            "pid": os.getpid(),
            "keeper": os.getppid(),
            "time": time.time(),
            "code": self.preparing.code.known,
            "facts": facts.quick(),
        }

    def _patience(self) -> None:
        """Without a lead for too long: end the ranks, since nobody watches them."""
        limit = self.config.get("patience", 600.0)
        if not self.uplink.up and self.loop.now() - self.uplink.down_since > limit:
            self._abandon(f"no lead answered for {limit:.0f} s ({self.uplink.why})")
            return
        self.loop.after(min(limit, 5.0), self._patience)

    def _keeper_gone(self) -> None:
        if self._ward is None:
            return
        self.loop.unwatch(self._ward.sock)
        self._ward = None
        self._alone = True
        self.tell("alone", why=f"the keeper on {self.config['host']} was killed")
        self._end_ranks(ORPHAN_GRACE)
        self._see_who_is_left()

    def _see_who_is_left(self) -> None:
        """On one machine a link that is down means that the lead is dead."""
        if self._alone and self.config.get("one_machine") and not self.uplink.up and not self._leaving:
            self.forsaken = True
            self._abandon("keeper and lead are gone")

    def _told_to_go(self) -> None:
        why = "the agent was asked to end (SIGTERM)"
        if not self.config.get("own_end"):
            self._abandon(why)
        elif not self._orphaned:  # only this host goes: its ranks have their grace
            self._orphaned, self._leaving, self.code = why, True, TOLD_TO_GO
            self.tell("leaving", why=f"{self.config['host']} was told to go", at=time.time())
            self._end_ranks(self.config.get("grace", 30.0))

    def _abandon(self, why: str) -> None:
        """End the ranks and leave, whatever the lead thinks.  It hears why before it hears of any rank's end."""
        if self._orphaned:
            self.ranks.kill()
            return
        self._orphaned = why
        print(f"agent: {why}", file=sys.stderr, flush=True)
        self.code = GAVE_UP
        self._leaving = True
        self.tell("alone", why=f"{self.config['host']}: {why}")
        self._end_ranks(min(self.config.get("grace", 30.0), ORPHAN_GRACE))

    def _end_ranks(self, grace: float) -> None:
        self.inside.close_all()
        self.ranks.stop(grace)

    # --- the journal ---

    def tell(self, kind: str, **values: Any) -> None:
        """An event that the lead must hear, in order."""
        event = {"t": kind, **values}
        if values.get("attempt") == self.attempt:
            self._told.append(event)
            self.preparing.heard(kind, values)
        self._append(frames.encode(event))

    def _append(self, data: bytes) -> None:
        try:
            self.journal.append(data)
        except OSError as problem:
            self._no_space(problem)
            self._append_last(data)
        self._kick()

    def _append_last(self, data: bytes) -> None:
        """After room was made; without any the lead can't be told how the ranks end, so that must be soon."""
        try:
            self.journal.append(data)
        except OSError:
            if not self._orphaned:
                self._abandon(self._broken)

    def _no_space(self, problem: OSError) -> None:
        """What ranks print from now on is lost; the lead shall end the run, and needs to hear how they end."""
        if self._broken:
            return
        self._broken = cannot_keep(self.folder, problem)
        self._room.give()
        self.ranks.deafen()
        if not self.uplink.send({"t": "broken", "why": self._broken}):
            self._abandon(self._broken)

    def _kick(self) -> None:
        """Once for all that this turn of the loop has to tell: each message wakes the lead."""
        if not self._kicked:
            self._kicked = True
            self.loop.soon(self._send)

    def _send(self) -> None:
        self._kicked = False
        self.uplink.kick()

    def _acked(self) -> None:
        if not self.config.get("keep_journal"):
            self.journal.forget(self.uplink.acked)
        if self._leaving and not self._orphaned and self.uplink.all_acked:
            self.loop.stop()

    # --- the lead's orders ---

    def _up(self) -> None:
        self.preparing.code.ask()

    def _down(self, why: str) -> None:
        self.inside.close_all()
        if self._leaving and not self._orphaned:
            self.loop.stop()
        self._see_who_is_left()

    def _frame(self, header: Header, body: bytes) -> None:
        number = header.get("order")
        if number is not None:
            if number <= self._got:
                return  # came again after a break
            self._got = number
            self.uplink.send({"t": "got", "order": number})
        if header["t"] == "code":
            self.preparing.code.piece(header, body)
            return
        handler = getattr(self, f"_on_{header['t']}", None)
        if handler is None:
            self.inside.frame(header, body)
            return
        try:
            handler(header)
        except OSError as problem:
            self.tell("trouble", why=f"{header['t']}: {problem}")

    def _on_ping(self, header: Header) -> None:
        self.reply({"t": "pong", "n": header["n"], "time": time.time()})

    def _on_prepare(self, header: Header) -> None:
        self.preparing.prepare(header)

    def begin(self, attempt: int) -> None:
        """A new attempt: nothing is known of it."""
        self.attempt = attempt
        self._told = []
        self.ranks.clear()

    def _on_setup(self, header: Header) -> None:
        self.attempt = header["attempt"]
        order = {
            "label": state.SETUP + self.config["host"],
            "member": "setup",
            "number": 0,
            "attempt": self.attempt,
            "argv": header["argv"],
            "env": header.get("env", {}),
            "role": header.get("role", ""),
        }
        self.ranks.start(order, self._environment(order), self.preparing.cwd)

    def _on_start(self, header: Header) -> None:
        self.attempt = self._started = header["attempt"]
        self.ranks.clear()
        self.preparing.ports.release()
        self.door.expect(header)
        for order in header["ranks"]:
            for name, content, executable in order.get("files", ()):
                self._write_file(name, content, executable)
            self.ranks.start(order, self._environment(order), self.preparing.cwd)

    def _environment(self, order: Dict[str, Any]) -> Dict[str, str]:
        """The caller's environment, under what the plan demands; `defaults` only fill gaps."""
        start = Start(
            Seat("", 0), (), tuple(order.get("env", {}).items()), (), tuple(order.get("defaults", {}).items())
        )
        role = order.get("role") or order["member"].rpartition("-")[0]
        secrets = self.config.get("secrets", {}).get(role, {})
        full = environment(start, {**self._outer, **secrets})
        full.update(self.preparing.environment(full))
        full.update(hook.environment(self.folder, full))
        full.update(self.door.environment(full))
        full["HORA_RESULT"] = os.path.join(self.folder, "results", order["label"].replace("/", "_"))
        return full

    def _write_file(self, name: str, content: str, executable: bool) -> None:
        path = os.path.join(self.folder, "files", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(path + ".new", 0o700 if executable else 0o600)
        os.replace(path + ".new", path)

    def _on_stop(self, header: Header) -> None:
        if (
            header["attempt"] > self.attempt
        ):  # it has not begun here, and shall not: the lead waits for its end
            self.preparing.forget()
            self.attempt, self._told = header["attempt"], []
        if header.get("kill"):
            self.ranks.kill()
        elif header.get("leftovers"):
            self.ranks.finish(header["grace"])
        else:
            self.ranks.stop(header["grace"])

    def _attempt_over(self) -> None:
        self.tell("gone", attempt=self.attempt)
        self.preparing.go_on()
        if self._orphaned and self._broken:
            self.uplink.send({"t": "broken", "why": self._broken, "over": True})
        if self._orphaned:
            self.loop.after(1.0, self.loop.stop)  # time to hand over the rest, if anybody listens

    def _on_over(self, header: Header) -> None:
        self._leaving = True
        self.code = 0
        self.inside.close_all()
        if self.uplink.all_acked:
            self.loop.stop()

    def _on_recall(self, header: Header) -> None:
        """The lead was started anew and knows nothing of this attempt."""
        started = self._started == self.attempt
        known = {"attempt": self.attempt, "started": started, "events": self._told}
        self.reply({"t": "reply", "id": header["id"], **known})

    def _on_want(self, header: Header) -> None:
        self.preparing.code.give(header)

    def _on_stacks(self, header: Header) -> None:
        self.checks.stacks(header)

    def _on_ring(self, header: Header) -> None:
        self.checks.ring(header)

    # --- the rest ---

    def reply(self, header: Header, body: bytes = b"") -> bool:
        return self.uplink.send(header, body)

    def _beat(self) -> None:
        self.reply({"t": "beat", "time": time.time(), "ranks": self.ranks.samples()})
        self.loop.after(BEAT, self._beat)

    def _reap(self) -> None:
        """The one place that waits for children."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if self.inside.reaped(pid, status) or self.errands.reaped(pid, status):
                continue
            self.ranks.reaped(pid, status)


def _tls_factory(config: Dict[str, Any]) -> Optional[Callable[[], Any]]:
    identity = config.get("identity")
    if not identity:
        return None

    def make() -> Any:
        from hora.agent import tls

        return tls.agent_context(identity)

    return make
