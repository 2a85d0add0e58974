"""What clients want from inside the hosts: stacks, exec, shell, stop, results.  The lead passes it on."""

from __future__ import annotations

from hora import state
from hora.agent.lead import sentences
from hora.agent.lead.documents import read_results
from hora.agent.lead.verdict import EXIT_HORA
from hora.agent.stacks import Stack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

    from hora.agent.frames import Header
    from hora.agent.lead.control import Client
    from hora.agent.lead.hosts import HostLink

    OnReply = Callable[[HostLink, Header], None]
    OnProblem = Callable[[HostLink, str], None]

STACK_LIMIT = 10.0
# Keys without which an agent would err.
NEEDED: Dict[str, Tuple[str, ...]] = {"get": ("path",), "put": ("path", "base")}
DOWN = "the link to {} is down just now: try again in a moment"
ENDED = "{} has left: its run has ended"


class Requests:
    def __init__(self, lead: Any) -> None:
        self.lead = lead
        self._number = 0
        self._waiting: Dict[int, Tuple[HostLink, OnReply, OnProblem]] = {}
        self._streams: Dict[int, Tuple[Client, int, HostLink]] = {}
        self._again: List[Tuple[HostLink, Callable[[], None]]] = []  # when the link is there again
        lead.control.on_left = self._left
        lead.control.handlers.update(
            where=self._where, stop=self._stop, fail=self._fail, stacks=self._stacks, results=self._results,
            exec=self._open, get=self._open, put=self._open, dial=self._open,
            stdin=self._forward, took=self._forward, resize=self._forward, signal=self._forward,
        )  # fmt: skip

    # --- one question to one host ---

    def of_host(self, link: HostLink, header: Header, reply: OnReply, problem: OnProblem) -> int:
        """Returns the question's number."""
        self._number += 1
        number = self._number
        self._waiting[number] = (link, reply, problem)
        if not link.ask({**header, "id": number}) and self._waiting.pop(number, None) is not None:
            problem(link, self._down(link))
        return number

    def insist(self, link: HostLink, header: Header, reply: OnReply, late: OnProblem, seconds: float) -> None:
        """Asked again when the link has been down; `late` when it is up and no answer comes."""

        def ask() -> None:
            def too_late() -> None:
                if self._waiting.pop(number, None) is not None:
                    late(link, f"{link.name} did not answer within {seconds:.0f} s")

            def answered(link: HostLink, answer: Header) -> None:
                timer.cancel()
                reply(link, answer)

            def down(link: HostLink, why: str) -> None:
                timer.cancel()
                self._again.append((link, ask))

            timer = self.lead.loop.after(seconds, too_late)
            number = self.of_host(link, header, answered, down)

        ask()

    def host_up(self, link: HostLink) -> None:
        due = [ask for other, ask in self._again if other is link]
        self._again = [each for each in self._again if each[0] is not link]
        for ask in due:
            ask()

    def reply(self, link: HostLink, header: Header, body: bytes) -> None:
        """A host's answer, or a piece of a stream."""
        number = header.get("id", 0)
        if number in self._streams:
            self._stream(number, header, body)
            return
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            waiting[1](link, header)

    def host_down(self, link: HostLink) -> None:
        for number, (other, _reply, problem) in list(self._waiting.items()):
            if other is link:
                del self._waiting[number]
                problem(link, self._down(link))
        for number, (client, request, other) in list(self._streams.items()):
            if other is link:
                del self._streams[number]
                client.forwards.pop(request, None)
                client.reply(request, "lost", message=self._down(link))

    def _down(self, link: HostLink) -> str:
        return (ENDED if self.lead.phase in state.ENDED else DOWN).format(link.name)

    # --- where, stop, results ---

    def _where(self, client: Client, number: int, header: Header, body: bytes) -> None:
        client.reply(number, "where", address=self.lead.config.get("address"))

    def _stop(self, client: Client, number: int, header: Header, body: bytes) -> None:
        client.reply(number, "done")
        self.lead.stop(sentences.asked(header))

    def _fail(self, client: Client, number: int, header: Header, body: bytes) -> None:
        """The client has it from the place that the run will never be whole."""
        client.reply(number, "done")
        if self.lead.phase == state.GATHERING:
            self.lead.fail(str(header["why"]), state.ORIGIN_HORA, EXIT_HORA)

    def _results(self, client: Client, number: int, header: Header, body: bytes) -> None:
        for label, data in read_results(self.lead.folder).items():
            client.reply(number, "result", data, label=label)
        client.reply(number, "done")

    # --- stacks ---

    def _stacks(self, client: Client, number: int, header: Header, body: bytes) -> None:
        def done(stacks: List[Stack]) -> None:
            client.reply(number, "stacks", stacks=[stack.to_json() for stack in stacks])

        self.stacks(header.get("ranks"), done)

    def stacks(self, labels: Optional[List[str]], done: Callable[[List[Stack]], None]) -> None:
        """Ask all hosts; whoever doesn't answer in time is named, too."""
        links = [link for link in self.lead.hosts.values() if not link.lost]
        found: List[Stack] = []
        open_hosts = {link.name for link in links}

        def finish() -> None:
            timer.cancel()
            order = {label: position for position, label in enumerate(self.lead.board.ranks)}
            found.sort(key=lambda stack: order.get(stack.label, -1))
            done(found)

        def answered(link: HostLink, reply: Header) -> None:
            if link.name in open_hosts:
                open_hosts.discard(link.name)
                found.extend(Stack.from_json(item) for item in reply["stacks"])
                if not open_hosts:
                    finish()

        def problem(link: HostLink, why: str) -> None:
            answered(
                link, {"t": "reply", "stacks": [self._unknown(label, why) for label in self._alive(link)]}
            )

        def late() -> None:
            for link in links:
                if link.name in open_hosts:
                    problem(link, f"{link.name} did not answer within {STACK_LIMIT:.0f} s")

        timer = self.lead.loop.after(STACK_LIMIT + 1.0, late)
        if not links:
            finish()
        for link in links:
            self.of_host(link, {"t": "stacks", "labels": labels, "seconds": STACK_LIMIT}, answered, problem)

    def _alive(self, link: HostLink) -> List[str]:
        board = self.lead.board
        return [
            label
            for member in link.members
            for label in board.labels_of(member)
            if board.ranks[label].state == "running"
        ]

    def _unknown(self, label: str, why: str) -> Dict[str, Any]:
        return Stack(label=label, pid=self.lead.board.ranks[label].pid or 0, note=why).to_json()

    # --- exec, shell, cp, open: a stream between a client and a host ---

    def _open(self, client: Client, number: int, header: Header, body: bytes) -> None:
        if not all(isinstance(header[key], str) for key in NEEDED.get(header["t"], ())):
            raise TypeError("a path is text")
        if header["t"] == "dial" and not 0 < int(header["port"]) < 65536:
            raise ValueError("a port is a number from 1 to 65535")
        label = header.get("label")
        board = self.lead.board
        if not board.knows(label or ""):
            client.reply(
                number, "error", message=f"no rank {label!r}; there are {sentences.few(list(board.ranks))}"
            )
            return
        host = board.host_of(board.seat(label).member)
        link = self.lead.hosts.get(host or "")
        if link is None or link.lost:
            client.reply(number, "error", message=f"{label} has no host yet")
            return
        self._number += 1
        self._streams[self._number] = (client, number, link)
        client.forwards[number] = self._number
        if not link.ask({**header, "id": self._number}):
            del self._streams[self._number]
            del client.forwards[number]
            client.reply(number, "error", message=self._down(link))

    def _forward(self, client: Client, number: int, header: Header, body: bytes) -> None:
        stream = self._streams.get(client.forwards.get(number, 0))
        if stream is not None:
            stream[2].ask({**header, "id": client.forwards[number]}, body)

    def _stream(self, number: int, header: Header, body: bytes) -> None:
        client, request, _link = self._streams[number]
        if header["t"] in ("exited", "error"):
            del self._streams[number]
            client.forwards.pop(request, None)
        client.channel.send({**header, "id": request}, body)

    def _left(self, client: Client) -> None:
        """The client went away: end what it had open."""
        self.lead.syncing.left(client)
        for number in client.forwards.values():
            stream = self._streams.pop(number, None)
            if stream is not None:
                stream[2].ask({"t": "signal", "id": number, "signal": 1})
