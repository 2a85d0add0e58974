"""The control channel: what clients ask of the lead.

A request has an `id`; every reply to it carries the same.  Output is read from the store at the client's own
pace, so a slow reader holds up nobody.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

    from hora.agent.channel import Channel
    from hora.agent.frames import Header
    from hora.agent.lead.store import Store

MOST_AT_ONCE = 64


class Subscription:
    """One client's place in the output."""

    def __init__(self, client: Client, number: int, header: Header, store: Store) -> None:
        self.client = client
        self.number = number
        self.at = int(header.get("start", 0))
        self.follow = bool(header.get("follow", True))
        self.done = False
        self._labels = set(header["ranks"]) if header.get("ranks") is not None else None
        self._store = store

    def pump(self, over: bool) -> None:
        """Send what is new until the client's connection is full; `over`: nothing more will come."""
        channel = self.client.channel
        while not self.done and not channel.full and not channel.closed:
            entries = self._store.entries(self.at, MOST_AT_ONCE)
            if not entries:
                if over or not self.follow:
                    self.done = True
                    channel.send({"t": "end", "id": self.number, "at": self.at})
                return
            self._send_until_full(entries)

    def _send_until_full(self, entries: List[Any]) -> None:
        for entry in entries:
            label = self._store.label(entry)
            if self._labels is None or label in self._labels:
                self._send(entry, label)
            self.at += 1
            if self.client.channel.full:
                return

    def _send(self, entry: Any, label: str) -> None:
        body = self._store.body(entry)
        header = {
            "t": "o",
            "id": self.number,
            "n": self.at,
            "label": label,
            "a": entry.attempt,
            "at": entry.time,
        }
        if body is None:
            header["dropped"] = entry.length
        self.client.channel.send(header, body or b"")


class Client:
    """One connection of one client."""

    def __init__(self, control: Control, channel: Channel, owner: bool) -> None:
        self.control = control
        self.channel = channel
        self.owner = owner
        self.watching: Optional[int] = None
        self.holding = False  # it wants the lead to stay when the run has ended
        self.said = 0  # how many of the lead's sayings it has
        self.subscriptions: List[Subscription] = []
        self.forwards: Dict[int, Any] = {}  # streams (exec, shell) by request id
        channel.on_frame = self.frame
        channel.on_close = lambda why: control.left(self)
        channel.on_drain = self.pump

    def pump(self) -> None:
        for subscription in self.subscriptions:
            subscription.pump(self.control.over)

    @property
    def satisfied(self) -> bool:
        """It has all it asked for."""
        return not self.holding and all(item.done for item in self.subscriptions) and not self.channel.pending

    def reply(self, number: int, kind: str, body: bytes = b"", **values: Any) -> None:
        self.channel.send({"t": kind, "id": number, **values}, body)

    def frame(self, header: Header, body: bytes) -> None:
        handler = self.control.handlers.get(header["t"])
        number = header.get("id", 0)
        if handler is None:
            self.reply(
                number, "error", message=f"this lead doesn't know {header['t']!r}: it is of another version"
            )
            return
        try:
            handler(self, number, header, body)
        except (KeyError, TypeError, ValueError, OSError) as problem:  # it must not end the run
            self.reply(number, "error", message=f"{header['t']!r} can't be asked like that: {problem!r}")


class Control:
    """All clients of this run."""

    def __init__(self, store: Store, status: Callable[[], Dict[str, Any]]) -> None:
        self.clients: List[Client] = []  # who is told something may turn out to be gone, and go from here
        self.handlers: Dict[str, Callable[[Client, int, Header, bytes], None]] = {
            "watch": self._watch,
            "status": self._status,
            "output": self._output,
            "unoutput": self._unoutput,
            "detach": self._detach,
            "hold": self._hold,
        }
        self.over = False
        self.on_owner_left: Callable[[], None] = lambda: None
        self.on_left: Callable[[Client], None] = lambda client: None
        self.on_output: Callable[[], None] = lambda: None
        self.sayings: List[str] = []
        self._store = store
        self._state = status

    def add(self, channel: Channel, owner: bool) -> Client:
        client = Client(self, channel, owner)
        self.clients.append(client)
        return client

    def left(self, client: Client) -> None:
        if client in self.clients:
            self.clients.remove(client)
        self.on_left(client)
        if client.owner:
            self.on_owner_left()

    # --- requests that need nothing but the store and the status ---

    def _watch(self, client: Client, number: int, header: Header, body: bytes) -> None:
        client.watching = number
        self._tell_status(client)
        self._tell_sayings(client)

    def _status(self, client: Client, number: int, header: Header, body: bytes) -> None:
        client.reply(number, "status", status=self._state())

    def _output(self, client: Client, number: int, header: Header, body: bytes) -> None:
        subscription = Subscription(client, number, header, self._store)
        client.subscriptions.append(subscription)
        subscription.pump(self.over)

    def _unoutput(self, client: Client, number: int, header: Header, body: bytes) -> None:
        client.subscriptions = [item for item in client.subscriptions if item.number != header["which"]]

    def _detach(self, client: Client, number: int, header: Header, body: bytes) -> None:
        client.owner = False
        client.reply(number, "detached")

    def _hold(self, client: Client, number: int, header: Header, body: bytes) -> None:
        client.holding = True
        client.reply(number, "done")

    # --- news ---

    def new_output(self) -> None:
        self.on_output()
        for client in list(self.clients):
            if client.subscriptions:
                client.pump()

    def new_status(self) -> None:
        for client in list(self.clients):
            if client.watching is not None:
                self._tell_status(client)

    def say(self, text: str) -> None:
        """A sentence for whoever watches: it goes to their stderr."""
        self.sayings.append(text)
        for client in list(self.clients):
            if client.watching is not None:
                self._tell_sayings(client)

    def _tell_status(self, client: Client) -> None:
        if not client.channel.full:
            client.reply(client.watching or 0, "status", status=self._state())

    def _tell_sayings(self, client: Client) -> None:
        for text in self.sayings[client.said :]:
            client.reply(client.watching or 0, "say", text=text)
        client.said = len(self.sayings)

    def end(self) -> None:
        """The run is over: give everybody the rest."""
        self.over = True
        for client in list(self.clients):
            if client.watching is not None:
                client.reply(client.watching, "status", status=self._state())
            client.pump()
