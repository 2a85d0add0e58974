"""The lead: brings the agents together, starts the attempt, watches it, ends it, gives the verdict."""

from __future__ import annotations

import os
import signal
import time

from hora import plan as plans
from hora import state
from hora.agent import frames
from hora.agent.lead import judging, sentences, verdict
from hora.agent.lead.attempt import Attempt
from hora.agent.lead.board import Board
from hora.agent.lead.code import Code
from hora.agent.lead.control import Control
from hora.agent.lead.documents import Documents
from hora.agent.lead.ending import Ending
from hora.agent.lead.limits import Limits
from hora.agent.lead.links import Links
from hora.agent.lead.preparing import Preparing
from hora.agent.lead.rebuild import Rebuild
from hora.agent.lead.requests import Requests
from hora.agent.lead.retry import Retry
from hora.agent.lead.store import Store
from hora.agent.lead.stream import Stream
from hora.agent.lead.syncing import Syncing
from hora.agent.lead.telling import Telling
from hora.agent.lead.watching import Watching
from hora.agent.loop import Loop
from hora.agent.room import cannot_keep
from hora.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Set

    from hora.agent.frames import Header
    from hora.agent.lead.hosts import HostLink

CAUSE_PAUSE = 1.0  # between an echo and the end of all: what it echoes may be about to end
LEFTOVER_GRACE = 2.0  # for what ranks leave behind after they ended


class Lead:
    """`config`: run {id, name, place, createdAt, command}, plan, folder; same_clock, one_machine;
    address (where agents of other hosts reach it), stream (the output also on stdout), message (a file for the
    verdict), code {hash, bytes, parts: files that are the archive when joined}."""

    def __init__(self, config: Dict[str, Any], loop: Optional[Loop] = None) -> None:
        self.config = config
        self.run_info = config["run"]
        self.plan = plans.from_data(config["plan"])
        self.loop = loop or Loop()
        self.folder = config["folder"]
        self.board = Board(self.plan)
        self.store = Store(os.path.join(self.folder, "output"), self.board.members, self._kept())
        self.store.on_gap = lambda host, length: self.telling.dropped(host, length)
        self.store.on_problem = self.cannot_keep
        self.control = Control(self.store, lambda: self.telling.document().to_json())
        self.control.on_owner_left = self._owner_left
        self.stream = Stream(self.loop, self.store) if config.get("stream") else None
        if self.stream is not None:
            self.control.on_output = self.stream.pump
        self.documents = Documents(self.folder)
        self.code = Code(self)
        self.links = Links(self)
        self.hosts = self.links.hosts
        self.attempt = Attempt(0, self.plan, self.run_info["id"], self.board)
        self.phase = state.GATHERING
        self.reason = ""
        self.exit_code: Optional[int] = None
        self.origin: Optional[str] = None
        self.failure: Optional[state.Failure] = None
        self.started_at: Optional[float] = None
        self.ended_at: Optional[float] = None
        self.retry = Retry(self.plan.restarts)
        self.asked_to_stop: Optional[sentences.Stop] = None
        self.ranks_decided = False  # like `fail` and `stop`: whoever comes first gives the verdict
        self.watching = Watching(self)
        self.requests = Requests(self)
        self.rebuild = Rebuild(self)
        self.limits = Limits(self)
        self.preparing = Preparing(self)
        self.syncing = Syncing(self)
        self.telling = Telling(self)
        self.ending = Ending(self)

    def _kept(self) -> int:
        kept: int = self.plan.output * max(1, len(self.board.members))
        return kept

    # --- life ---

    def run(self) -> int:
        frames.keep_memory()
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.on_signal(number, lambda: self.stop(sentences.TERMINATED))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.limits.begin()
        self.set_phase(state.GATHERING, sentences.gathering(len(self.board.members), []))
        self.limits.of_phase("schedule")
        self.code.begin()
        self.telling.publish()
        self.links.begin()
        self.loop.run()
        return 0

    def set_phase(self, phase: str, reason: str) -> None:
        self.phase, self.reason = phase, reason
        self.telling.changed()

    # --- agents ---

    def host_came(self, link: HostLink) -> None:
        """An agent said hello: for the first time, after a break, or anew."""
        for member in link.members:
            if member in self.board.members:
                self.board.host(member, link.name)
        self.requests.host_up(link)
        if self.rebuild.going_on:
            self.rebuild.host_came(link)
        else:
            self._gathered()

    def host_replaced(self, link: HostLink) -> None:
        """Another agent has come in a host's place: what the first one had is no more."""
        if self.phase == state.CHECKING or self.preparing.setting_up:
            self.preparing.prepare(link)
        elif self.phase != state.GATHERING:
            self._agent_lost(link, "a new agent came in its place", time.time())
            self._advance()

    def host_went(self) -> None:
        if self.phase in state.ENDED:
            self.ending.leave_if_done()

    def host_lost(self, link: HostLink, why: str) -> None:
        """Nobody will hear of this host again in this attempt."""
        link.lost = True
        self._agent_lost(link, why, time.time())
        link.gone = True
        self._advance()

    def _agent_lost(self, link: HostLink, why: str, at: float) -> None:
        self.board.lost(link.name)
        for label in sorted(self.attempt.expected - set(self.attempt.exits)):
            if self.board.host_of(self.board.seat(label).member) == link.name:
                self._exit(label, judging.lost(label, self.board, link.name, at, why))
        link.gone = True

    def event(self, link: HostLink, header: Header, body: bytes) -> None:
        if self.rebuild.keeps(link, header, body):
            return
        handler = getattr(self, f"_event_{header['t']}", None)
        if handler is None:
            self.telling.note(f"{link.name}: unknown event {header['t']!r}")
        elif header.get("attempt", self.attempt.number) == self.attempt.number:
            handler(link, header, body)

    def _event_result(self, link: HostLink, header: Header, body: bytes) -> None:
        try:
            self.documents.result(header["label"], body, header["at"], header["last"])
        except OSError as problem:
            self.cannot_keep(problem)

    def cannot_keep(self, problem: OSError) -> None:
        self.documents.room.give()
        self.fail(cannot_keep(self.folder, problem), state.ORIGIN_HORA, verdict.EXIT_HORA)

    def _event_trouble(self, link: HostLink, header: Header, body: bytes) -> None:
        self.fail(f"{link.name}: {header['why']}", state.ORIGIN_HORA, verdict.EXIT_HORA)

    def _event_note(self, link: HostLink, header: Header, body: bytes) -> None:
        self.telling.say(f"{link.name}: {header['why']}")

    def _event_alone(self, link: HostLink, header: Header, body: bytes) -> None:
        self.fail(f"{header['why']}, so its ranks were ended", state.ORIGIN_HORA, verdict.EXIT_HORA)

    def _event_leaving(self, link: HostLink, header: Header, body: bytes) -> None:
        """Its pod is being deleted, evicted or drained: what runs there is given up, whoever ends first."""
        self._agent_lost(link, header["why"], link.clock.ours(header["at"]))
        self._advance()

    def _event_agentlost(self, link: HostLink, header: Header, body: bytes) -> None:
        link.word_due = None
        if header["incarnation"] >= link.serving:  # else its successor has been given the attempt already
            self.agent_lost(link, header["why"], link.clock.ours(header["at"]))

    def agent_lost(self, link: HostLink, why: str, at: Optional[float] = None) -> None:
        """What an agent had in its hands is gone with it."""
        if self.phase == state.GATHERING:
            return
        self._agent_lost(link, why, at or time.time())
        if not self.attempt.expected:  # it died over the checks or the set-up
            self.fail(f"{link.name}: {why}", state.ORIGIN_HORA, verdict.EXIT_HORA)
        self._advance()

    # --- a second lead ---

    def found_at_work(self) -> None:
        self.set_phase(state.STARTING, sentences.TAKING_UP)
        self.limits.of_phase("start")

    def take_up(self, started: Set[str], started_at: Optional[float]) -> None:
        """Go on with an attempt that another lead began; hosts that had no start order get it now."""
        self.code.running = next(link.prepared.get("code", "") for link in self.hosts.values())
        self.started_at = started_at or time.time()
        orders = self.attempt.orders(self.attempt.scene(list(self.hosts.values())))
        for name, link in self.hosts.items():
            link.serving = link.incarnation
            if name in orders and name not in started:
                link.order(orders[name])

    # --- gather, check, start ---

    def _gathered(self) -> None:
        missing = self.board.unhosted()
        if self.phase != state.GATHERING:
            return
        if missing:
            self.set_phase(state.GATHERING, sentences.gathering(len(self.board.members), missing))
            return
        self.next_attempt()

    def next_attempt(self) -> None:
        self.syncing.due = False
        self.attempt = Attempt(self.attempt.number + 1, self.plan, self.run_info["id"], self.board)
        self.failure = None
        self.ranks_decided = False
        self.preparing.begin()

    def _event_prepared(self, link: HostLink, header: Header, body: bytes) -> None:
        self.preparing.prepared(link, header)

    # --- ranks ---

    def _event_started(self, link: HostLink, header: Header, body: bytes) -> None:
        label = header["label"]
        if label not in self.attempt.expected and not self.board.knows(label):
            return  # set-up
        self.attempt.started(label, header["pid"], link.clock.ours(header["at"]))
        self.telling.changed()
        if self.phase == state.STARTING and self.attempt.all_started:
            self._running()

    def _running(self) -> None:
        self.limits.no_more_of_phase()
        self.watching.restart()
        self.set_phase(state.RUNNING, sentences.running(len(self.board.ranks)))

    def _event_nostart(self, link: HostLink, header: Header, body: bytes) -> None:
        label = header["label"]
        if label.startswith(state.SETUP):
            self.preparing.no_set_up(link, header)
            return
        self._exit(label, judging.not_started(label, self.board, link.name, time.time(), header))

    def _event_exit(self, link: HostLink, header: Header, body: bytes) -> None:
        label = header["label"]
        if label.startswith(state.SETUP):
            self.preparing.set_up_ended(link, header)
            return
        at, error = link.clock.ours(header["at"]), min(link.clock.error, 1.0)
        if header["stopped"] and not self.attempt.stopping:  # whatever its code: it had not done its work
            why = judging.UNASKED_SINCE if self.rebuild.took_up else judging.UNASKED
            self._exit(label, judging.lost(label, self.board, link.name, at, why))
            return
        reset, began = self._reset(label, header), self.attempt.began.get(label)
        self._exit(label, judging.ended(header, self.board, link.name, at, error, reset, began))

    def _reset(self, label: str, header: Header) -> bool:
        if header["stopped"] or header["code"] == 0:
            return False
        return verdict.looks_like_reset(
            b"\n".join(self.store.last_lines(label, 20, self.attempt.number, 1 << 16))
        )

    def _exit(self, label: str, ended: verdict.Exit) -> None:
        self.attempt.ended(label, ended)
        self.watching.ended(label)
        self.telling.changed()
        self._advance()

    def _advance(self) -> None:
        """After an end: stop the others, or finish."""
        attempt = self.attempt
        if self.phase in (state.STARTING, state.RUNNING):
            self.ranks_decided = attempt.failed or attempt.succeeded
            if attempt.failed:
                self._failed(attempt)
            elif attempt.succeeded:
                helpers = not attempt.over
                self.stop_ranks("ending what is left", self.plan.limits.grace if helpers else None)
        self._over_if_gone()

    def _over_if_gone(self) -> None:
        if self.phase == state.STOPPING and all(link.gone for link in self.hosts.values()):
            self._attempt_over()

    def _failed(self, attempt: Attempt, waited: bool = False) -> None:
        """Stop the others; if all that is known is an echo, its cause first gets a moment to end, too.

        A process that exits closes its connections before its end is seen: stopped then, it would not count.
        """
        if attempt is not self.attempt or self.phase not in (state.STARTING, state.RUNNING):
            return
        first = judging.judge(attempt.exits).first
        if first.reset and not attempt.over and not waited:
            self.loop.after(CAUSE_PAUSE, lambda: self._failed(attempt, waited=True))
            return
        self.stop_ranks(sentences.stopping_after(first), self.plan.limits.grace)

    def stop_ranks(self, why: str, grace: Optional[float], kill: bool = False) -> None:
        """`grace` None: the ranks have ended by themselves, only leftovers are to go."""
        self.limits.no_more_of_phase()
        self.watching.pause()
        self.attempt.stopping = True
        self.set_phase(state.STOPPING, why)
        order: Dict[str, Any] = {"t": "stop", "attempt": self.attempt.number, "kill": kill}
        order["grace"] = LEFTOVER_GRACE if grace is None else grace
        order["leftovers"] = grace is None
        for link in self.hosts.values():
            if not link.lost:
                link.order(order)
        self._over_if_gone()  # of hosts that have nothing left, nobody has more to tell

    def _event_gone(self, link: HostLink, header: Header, body: bytes) -> None:
        link.gone = True
        self._advance()

    # --- the end of an attempt ---

    def _attempt_over(self) -> None:
        attempt = self.attempt
        if self.exit_code is not None:  # Hora itself ended it
            self.ending.verdict(state.FAILED, self.reason, self.exit_code, self.origin or state.ORIGIN_HORA)
            return
        if self.asked_to_stop is not None and not self.ranks_decided:
            self.ending.verdict(
                state.STOPPED, self.asked_to_stop.reason, self.asked_to_stop.code, state.ORIGIN_HORA
            )
            return
        if self.syncing.take_over():
            return
        if not attempt.failed:
            took = time.time() - (self.started_at or time.time())
            decided = [rank.pid for _, rank in self.board.states(self.plan.end.decides)]
            others = {role.name for role in self.plan.roles} - set(self.plan.end.decides)
            reason = sentences.succeeded(
                ranks=len(decided),
                seen=sum(pid is not None for pid in decided),
                roles=self.plan.end.decides if others else (),
                seconds=took,
                attempt=attempt.number,
            )
            self.ending.verdict(state.SUCCEEDED, reason, 0, state.ORIGIN_JOB)
            return
        judged = judging.judge(attempt.exits)
        lines = self.store.last_lines(judged.first.label, verdict.LAST_LINES, attempt.number)
        text = [line.decode("utf-8", "replace") for line in lines]
        self.failure = verdict.failure(judged, attempt.number, text)
        again, why = self.retry.after(judged.first, self.failure, b"\n".join(lines))
        if why:
            self.telling.say(why)
        if again:
            self.next_attempt()
            return
        self.ending.verdict(state.FAILED, sentences.failed(self.failure), judged.exit_code, judged.origin)

    # --- ends from outside ---

    def stop(self, asked: sentences.Stop) -> None:
        """Somebody asked: the ladder, or SIGKILL at once.

        Who asks first gives the reason.  Asking again takes no time away from ranks that save, unless it says
        so: a terminal that is closed asks twice (SIGHUP, and then its client goes away).
        """
        if self.phase in state.ENDED:
            return
        if self.asked_to_stop is not None and not asked.kill:
            return
        asked = self.asked_to_stop = replace(self.asked_to_stop or asked, kill=asked.kill)
        self.retry.give_up()
        if self.phase in (state.GATHERING, state.CHECKING, state.QUEUED) or not self.hosts:
            self.limits.no_more_of_phase()
            self.ending.verdict(state.STOPPED, asked.reason, asked.code, state.ORIGIN_HORA)
            return
        decided = self.ranks_decided or self.exit_code is not None
        why = self.reason if decided else f"stopping: {asked.reason}"
        self.stop_ranks(why, self.plan.limits.grace, kill=asked.kill)

    def fail(self, reason: str, origin: str, code: int) -> None:
        """Hora, the place or the set-up ends the run, unless its end has been decided already."""
        if self.phase in state.ENDED or self.exit_code is not None:
            return
        if self.ranks_decided or self.asked_to_stop is not None:
            self.telling.note_once(reason)
            self.retry.give_up()
            return
        self.exit_code, self.origin = code, origin
        if self.phase == state.GATHERING or all(link.lost or link.gone for link in self.hosts.values()):
            self.ending.verdict(state.FAILED, reason, code, origin)
            return
        self.stop_ranks(reason, self.plan.limits.grace)

    def _owner_left(self) -> None:
        if self.phase in state.ENDED:
            self.ending.leave_if_done()
        else:
            self.stop(sentences.CLIENT_GONE)
