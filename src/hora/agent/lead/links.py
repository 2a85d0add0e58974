"""All connections to the lead: who comes in, what the agents send, who is no longer there."""

from __future__ import annotations

import os
import resource
import signal

from hora import state
from hora.agent import keeper, proc
from hora.agent.accepting import Accepting
from hora.agent.channel import Channel
from hora.agent.lead import entrance, verdict
from hora.agent.lead.hosts import HostLink

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    import ssl
    from typing import Any, Dict, List, Optional

    from hora.agent.frames import Header

PING = 5.0
MOST_AT_ONCE = 64  # connections accepted before others get their turn
DESCRIPTORS = 65536


class Links:
    """`hosts`: each host that has ever said hello, by name."""

    def __init__(self, lead: Any) -> None:
        self.lead = lead
        self.loop = lead.loop
        self.hosts: Dict[str, HostLink] = {}
        self._refused: Dict[str, float] = {}  # since when, by reason
        self.same_clock: bool = lead.config.get("same_clock", False)
        self.keeper: int = lead.config.get("keeper", 0)  # above lead and agent, on one machine

    def begin(self) -> None:
        _raise_limits()
        self.loop.after(PING, self._ping)
        if self.keeper:
            self.loop.on_signal(signal.SIGUSR1, self._look_for_keeper)
            proc.die_with_parent(signal.SIGUSR1)
            self._look_again()

    # --- coming in ---

    def listen(self, server: socket.socket, tls: Optional[ssl.SSLContext] = None) -> None:
        server.setblocking(False)
        Accepting(self.loop, server, lambda: self._accept(server, tls), "lead")

    def _accept(self, server: socket.socket, tls: Optional[ssl.SSLContext]) -> None:
        for _ in range(MOST_AT_ONCE):
            try:
                sock, _address = server.accept()
            except (BlockingIOError, InterruptedError):
                return
            try:
                self.connect(sock, tls)
            except OSError:  # it went before TLS could begin
                sock.close()

    def connect(
        self, sock: socket.socket, tls: Optional[ssl.SSLContext] = None, owner: bool = False
    ) -> Channel:
        """A new connection: the first frame says whether it is an agent or a client."""
        channel: Channel

        def first(header: Header, body: bytes) -> None:
            late.cancel()
            wrong = entrance.wrong_word(header, channel.bearer)
            if wrong:
                self._refuse(channel, wrong)
            elif header["t"] == "hello":
                self._hello(channel, header)
            else:
                self.lead.control.add(channel, False)

        channel = Channel(self.loop, sock, first, lambda why: late.cancel(), tls=tls, server_side=True)
        late = self.loop.after(entrance.FIRST_WORD, lambda: channel.close("no first word in time"))
        if owner:
            late.cancel()
            self.lead.control.add(channel, True)
        return channel

    def _refuse(self, channel: Channel, why: str) -> None:
        """Say why; the other side may try again.  What goes on for long while the run gathers ends the run."""
        channel.send({"t": "refused", "why": why})
        channel.close_when_sent()
        now = self.loop.now()
        if why not in self._refused:
            self._refused[why] = now
            self.lead.telling.say(why)
        elif self.lead.phase == state.GATHERING and now - self._refused[why] > entrance.REFUSED_LIMIT:
            self.lead.fail(why, state.ORIGIN_HORA, verdict.EXIT_HORA)

    def _hello(self, channel: Channel, hello: Header) -> None:
        if hello["run"] != self.lead.run_info["id"]:
            channel.send({"t": "over", "why": "this lead serves another run"})
            channel.close_when_sent()
            return
        problem = entrance.conflict(hello, self.hosts, self.lead.board.host_of)
        if problem:
            self._refuse(channel, problem)
            return
        name = hello["host"]
        link = self.hosts.get(name)
        new = link is None
        if link is None:
            link = self.hosts[name] = HostLink(name, self.lead.store, self.same_clock)
        replaced = not new and link.home != hello.get("home", "")
        self.lead.store.settle(name, hello.get("home", ""))
        channel.on_frame = lambda header, body: self._frame(link, header, body)
        channel.on_close = lambda why: self._down(link, channel)
        if self.lead.phase in state.ENDED or link.lost:
            channel.send({"t": "welcome", "from": self.lead.store.end(name)})
            channel.send({"t": "over"})
            return
        link.greet(channel, hello)
        self.lead.code.hello(link)
        if not self.same_clock:
            link.ask(link.clock.ask())
        if new and hello["attempt"]:
            self.lead.rebuild.found(link, hello["attempt"])
        if replaced:
            self.lead.host_replaced(link)
        self.lead.host_came(link)
        self._look_for_last_word(link)

    def _look_for_last_word(self, link: HostLink) -> None:
        """A keeper tells in the journal that its agent was killed; on a full disk it can't."""
        if link.word_due is not None and self.lead.store.end(link.name) >= link.word_due:
            link.word_due = None
            if link.serving < link.incarnation:
                self.lead.agent_lost(link, "its agent was killed, and there was no room to say how")

    # --- what agents send ---

    def _frame(self, link: HostLink, header: Header, body: bytes) -> None:
        kind = header["t"]
        if kind == "j":
            self._journal(link, header["at"], body)
        elif kind == "got":
            link.got(header["order"])
        elif kind == "pong":
            link.clock.answered(header["n"], header["time"])
        elif kind == "beat":
            self.lead.watching.beat(link, header)
        elif kind == "want":
            self.lead.code.wanted(link, header)
        elif kind == "code":
            self.lead.code.arrived(link, header, body)
        elif kind == "spared":
            self.lead.event(link, header["event"], body)
        elif kind == "gap":
            self.lead.store.gap(link.name, header["to"])
        elif kind == "broken":
            self.lead.fail(header["why"], state.ORIGIN_HORA, verdict.EXIT_HORA)
            if header.get("over"):  # it can't tell us how its ranks ended
                self.lead.host_lost(link, header["why"])
        else:
            self.lead.requests.reply(link, header, body)

    def _journal(self, link: HostLink, at: int, body: bytes) -> None:
        before = self.lead.store.count
        try:
            events = self.lead.store.receive(link.name, at, body)
        except ValueError as problem:
            if link.channel is not None:
                link.channel.close(str(problem))
            return
        link.ask({"t": "ack", "at": at + len(body)})
        for header, data in events:
            self.lead.event(link, header, data)
        self._look_for_last_word(link)
        if self.lead.store.count != before:
            self.lead.control.new_output()

    # --- going ---

    def _down(self, link: HostLink, channel: Channel) -> None:
        if link.channel is not channel:
            return
        link.silent_since = self.loop.now()
        self.lead.requests.host_down(link)
        self.lead.code.down(link)
        self.lead.host_went()
        if self.keeper:
            self._look_for_keeper()

    def _look_again(self) -> None:
        """For systems that send no signal when a parent dies."""
        self._look_for_keeper()
        self.loop.after(PING, self._look_again)

    def _look_for_keeper(self) -> None:
        """Its death is told by the agent, as long as there is one."""
        if os.getppid() == self.keeper or any(link.up for link in self.hosts.values()):
            return
        self.lead.fail("the keeper of this run was killed", state.ORIGIN_HORA, verdict.EXIT_HORA)
        for link in self.hosts.values():
            if not link.lost:
                keeper.sweep_run(self.lead.run_info["id"])
                self.lead.host_lost(link, "agent and keeper were killed")

    def _ping(self) -> None:
        for link in self.hosts.values():
            link.ask(link.clock.ask())
        self.lead.watching.look()
        self.loop.after(PING, self._ping)

    # --- what they know ---

    def pids(self) -> List[Any]:
        """Names and numbers of the processes that told theirs."""
        found = []
        for link in self.hosts.values():
            found += [(f"agent {link.name}", link.agent_pid), (f"keeper {link.name}", link.keeper_pid)]
        return found


def _raise_limits() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
