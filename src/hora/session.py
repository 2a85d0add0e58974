"""A command or a shell beside a rank: its streams and its end, over a connection of its own."""

from __future__ import annotations

from hora.errors import CannotStart, HoraError, LeadGone, PlaceError
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any

    from typing_extensions import Self

    from hora.places.connection import Connection


WINDOW = 1 << 20  # bytes on the way to the command


class Piece(Record):
    """Some bytes that it wrote."""

    data: bytes
    error: bool = False  # on stderr


class Session:
    """Made by `Run.exec`.  When it is closed, or the process that holds it dies, the command gets SIGHUP."""

    def __init__(
        self,
        connection: Connection,
        label: str,
        argv: Sequence[str],
        size: tuple[int, int] | None = None,
        terminal: str = "",
    ) -> None:
        """`size`: columns and rows of a terminal, if it is to have one, of the type `terminal`."""
        self.label = label
        self.code: int | None = None  # exit code, 128 + the number of a signal, once it has ended
        self._connection = connection
        self._unwritten = 0  # bytes that the command has not taken yet
        columns, rows = size or (0, 0)
        told = {"tty": size is not None, "rows": rows, "cols": columns, "term": terminal}
        self._number = self._ask(argv=list(argv), **told)

    def _ask(self, **told: Any) -> int:
        return self._connection.ask("exec", label=self.label, **told)

    def fileno(self) -> int:
        return self._connection.fileno()

    # --- what it writes ---

    def read(self, timeout: float | None = None) -> list[Piece]:
        """What it has written; empty when nothing came within `timeout`, or it has ended (`code`)."""
        found: list[Piece] = []
        while not found and self.code is None:
            came = self._connection.frames(timeout)
            for header, body in came:
                if header.get("id") != self._number:
                    continue
                if header["t"] == "data":
                    found.append(Piece(body, header["error"]))
                    self._took(len(body))
                elif header["t"] == "took":
                    self._unwritten -= header["bytes"]
                elif header["t"] == "exited":
                    self.code = _exit_code(header["code"], header["signal"])
                    self.close()
                elif header["t"] == "lost":
                    self.close()
                    raise PlaceError(header["message"])
                elif header["t"] == "error":
                    self.close()
                    raise CannotStart(header["message"], header.get("code", HoraError.exit_code))
            if self.code is None and self._connection.closed:
                self.close()
                raise LeadGone(f"the connection to {self.label} was lost: its run has ended")
            if not came:
                break
        return found

    def _took(self, count: int) -> None:
        try:
            self._connection.send({"t": "took", "id": self._number, "bytes": count})
        except LeadGone:
            pass  # then nobody waits for it

    # --- what it reads ---

    @property
    def takes_more(self) -> bool:
        """Whether there is room for more input; `read` learns of it."""
        return self._unwritten < WINDOW

    def write(self, data: bytes) -> None:
        self._unwritten += len(data)
        self._connection.send({"t": "stdin", "id": self._number}, data)

    def end_input(self) -> None:
        self._connection.send({"t": "stdin", "id": self._number, "end": True})

    def resize(self, columns: int, rows: int) -> None:
        self._connection.send({"t": "resize", "id": self._number, "rows": rows, "cols": columns})

    def signal(self, number: int) -> None:
        """To it and its children."""
        self._connection.send({"t": "signal", "id": self._number, "signal": number})

    # --- its end ---

    def close(self) -> None:
        """Leave it; needless once it has ended."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _exit_code(code: int | None, signal: int | None) -> int:
    return 128 + signal if code is None and signal is not None else code or 0
