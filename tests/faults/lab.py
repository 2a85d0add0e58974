"""One run of hard-to-end ranks, the faults done to it, and everything that is wrong afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hora
from helpers import leftovers
from helpers.cli import COMMAND
from hora.errors import HoraError
from hora.places.local import paths
from hora.state import RunStatus

HERE = Path(__file__).resolve().parent
PARTS = ("lead", "agent", "keeper")
NEWLINE = b"\n"
GRACE = 0.6  # seconds: the ladder takes twice as long
GONE_WITHIN = 10.0  # seconds after a fault: nothing may be left then


def wait_until(met: Callable[[], Any], what: str, timeout: float = 20.0) -> Any:
    """The first true value of `met()`."""
    end = time.monotonic() + timeout
    while True:
        value = met()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {timeout:g} s")
        time.sleep(0.004)


class Trial:
    """`folder` is empty and short; `test_id` marks the processes; the run's state is where HORA_STATE says."""

    def __init__(
        self, folder: Path, test_id: str, ranks: int = 4, attached: bool = True, grace: float = GRACE
    ) -> None:
        self.folder = folder
        self.grace = grace
        self.test_id = test_id
        self.ranks = ranks
        self.attached = attached
        self.client: subprocess.Popen[bytes] | None = None
        self.killed: list[str] = []
        self.fault_at = 0.0
        (folder / "pids").mkdir(parents=True)

    # --- starting ---

    def start(self, *options: str, framework: str = "plain", restarts: int = 0) -> Trial:
        """Attached: by `hora run`; detached: by the API, and a client that follows all the same."""
        if self.attached:
            grace = f"timeouts.grace={self.grace * 1000:.0f}ms"
            argv = [*COMMAND, "run", "-n", str(self.ranks), "--name", "fault", "--set", grace]
            argv += ["--framework", framework, "--restarts", str(restarts), *options, *self.command]
        else:
            job = {
                "framework": framework,
                "restarts": restarts,
                "command": self.command,
                "workers": self.ranks,
                "name": "fault",
                "timeouts": {"grace": self.grace},
            }
            argv = [sys.executable, str(HERE / "client.py"), json.dumps(job)]
        with open(self.told, "wb") as out, open(self.folder / "client.log", "wb") as log:
            self.client = subprocess.Popen(
                argv,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                start_new_session=True,
            )
        return self

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-S", "-E", str(HERE / "program.py"), str(self.folder)]

    @property
    def told(self) -> Path:
        return self.folder / "told"

    @property
    def run(self) -> hora.Run | None:
        """The run, once the client has its id, or the state folder shows it."""
        try:
            known = [status.id for status in hora.list_runs()]
            return hora.get_run(known[-1]) if known else None
        except HoraError:
            return None

    def the_run(self) -> hora.Run:
        run = self.run
        assert run is not None, f"no run was made: {self.client_log()}"
        return run

    def client_log(self) -> str:
        return (self.folder / "client.log").read_text(errors="replace")

    # --- finding processes ---

    def pid(self, who: str) -> int | None:
        """client, lead, agent, keeper, rank-2, or a grandchild (daemon-2, session-1, ...)."""
        if who == "client":
            return self.client.pid if self.client and self.client.poll() is None else None
        if who in PARTS:
            return self._part(who)
        try:
            return int((self.folder / "pids" / who).read_text())
        except (FileNotFoundError, ValueError):
            return None

    def _part(self, who: str) -> int | None:
        """By the name that it gave itself; a fork of it that has not yet become a rank has the same."""
        named = []
        for process in leftovers.carrying(self.test_id):
            try:
                if Path(f"/proc/{process.pid}/comm").read_text().strip() == f"hora-{who}":
                    named.append(process.pid)
            except OSError:
                continue
        parents = {pid: _parent(pid) for pid in named}
        return next((pid for pid, parent in parents.items() if parent not in named), None)

    def grandchildren(self) -> list[str]:
        families = ("stubborn-0", "session-1", "daemon-2", "stubborn-3", "session-3", "daemon-3")
        return [name for name in families if int(name[-1]) < self.ranks]

    # --- moments ---

    def written(self, rank: int) -> int:
        try:
            return (self.folder / f"lines-{rank}").stat().st_size
        except FileNotFoundError:
            return 0

    def reach_output(self) -> None:
        """All ranks with all their descendants are there and write."""

        def there() -> bool:
            if self.client is not None and self.client.poll() and "client" not in self.killed:
                raise TimeoutError(f"the client ended with {self.client.returncode}: {self.client_log()}")
            return self.is_writing()

        wait_until(there, "all ranks write", 30.0)

    def is_writing(self, beyond: Sequence[int] = ()) -> bool:
        """All with their descendants, and each some lines more than `beyond`."""
        names = [*self.grandchildren(), *(f"rank-{rank}" for rank in range(self.ranks))]
        sizes = [self.written(rank) for rank in range(self.ranks)]
        more = all(size > before + 2000 for size, before in zip(sizes, beyond or [0] * self.ranks))
        return more and all(self.pid(name) for name in names)

    def goes_on(self) -> bool:
        """Every rank writes more."""
        before = [self.written(rank) for rank in range(self.ranks)]
        try:
            wait_until(lambda: self.is_writing(beyond=before), "all ranks write on", 10.0)
        except TimeoutError:
            return False
        return not self.the_run().status().ended

    # --- faults ---

    def kill(self, *who: str, number: int = signal.SIGKILL) -> None:
        """All at once: stopped first by nobody, so that the order is the system's."""
        pids = [(name, self.pid(name)) for name in who]
        ours = {process.pid for process in leftovers.carrying(self.test_id)}
        self.fault_at = time.monotonic()
        for name, pid in pids:
            if pid is None or pid not in ours:
                continue  # it has ended; its number may be another's by now
            try:
                os.kill(pid, number)
                self.killed.append(name)
            except ProcessLookupError:
                pass

    def stop(self, **how: Any) -> None:
        self.fault_at = time.monotonic()
        try:
            self.the_run().stop(**how)
        except HoraError:
            pass  # it has ended by itself meanwhile: the verdict will tell

    # --- what is left ---

    def ended(self, timeout: float = 20.0) -> RunStatus:
        run = self.the_run()
        return wait_until(lambda: _if_ended(run.status()), "the run's status tells an end", timeout)

    def problems(self, status: RunStatus | None, may_lose_lines: bool = False) -> list[str]:
        """Everything that must hold after any fault."""
        wrong: list[str] = []
        left = leftovers.wait_gone(self.test_id, max(0.1, self.fault_at + GONE_WITHIN - time.monotonic()))
        wrong += [f"left behind: {process}" for process in left if not _is_client(process, self.client)]
        wrong += self._client_problems(status)
        if status is None:
            return wrong
        told = self.hora("status", self.the_run().id)
        if told.returncode or not status.reason or status.reason not in told.stdout.split("\n")[0]:
            wrong.append(
                f"`hora status` ({told.returncode}) doesn't begin with {status.reason!r}: {told.stdout}"
            )
        wrong += self._line_problems(may_lose_lines)
        wrong += self._removal_problems()
        return wrong

    def _client_problems(self, status: RunStatus | None) -> list[str]:
        if self.client is None or "client" in self.killed:
            if self.client is not None:
                self.client.wait()
            return []
        try:
            code = self.client.wait(timeout=GONE_WITHIN)
        except subprocess.TimeoutExpired:
            self.client.kill()
            self.client.wait()
            return ["the client didn't end"]
        if status is not None and code != status.exit_code:
            return [
                f"the client ended with {code}, the run with {status.exit_code}: {self.client_log()[-2000:]}"
            ]
        if status is None:
            return []
        shown: dict[str, list[bytes]] = {}
        for line in self.told.read_bytes().splitlines():
            label, _, text = line.partition(b" | ")
            shown.setdefault(label.decode(), []).append(text)
        kept = {label: b"".join(parts.values()).splitlines() for label, parts in self.kept().items()}
        return [] if shown == kept else ["the client was shown other output than what is kept"]

    def kept(self) -> dict[str, dict[int, bytes]]:
        """By label and attempt."""
        kept: dict[str, dict[int, bytes]] = {}
        for chunk in self.the_run().chunks(follow=False):
            parts = kept.setdefault(chunk.label, {})
            parts[chunk.attempt] = parts.get(chunk.attempt, b"") + chunk.data
        return kept

    def _line_problems(self, may_lose_lines: bool) -> list[str]:
        kept = self.kept()
        wrong = []
        for rank in range(self.ranks):
            parts, written = kept.get(f"worker-{rank}/0", {}), self._by_attempt(rank)
            for attempt in sorted({*parts, *written}):
                problem = compare(written.get(attempt, b""), parts.get(attempt, b""), may_lose_lines)
                if problem:
                    wrong.append(f"rank {rank}, attempt {attempt}: {problem}")
        return wrong

    def _by_attempt(self, rank: int) -> dict[int, bytes]:
        """What the rank wrote beside; every line begins with the attempt's number."""
        side = self.folder / f"lines-{rank}"
        found: dict[int, bytes] = {}
        for line in side.read_bytes().splitlines(keepends=True) if side.exists() else ():
            attempt = int(line.split(b" ", 1)[0])
            found[attempt] = found.get(attempt, b"") + line
        return found

    def _removal_problems(self) -> list[str]:
        run, sockets = self.the_run(), os.path.dirname(paths.socket_path("x"))
        removed = self.hora("rm", run.id)
        if removed.returncode:
            return [f"`hora rm` ended with {removed.returncode}: {removed.stderr}"]
        return [
            f"not removed: {name}" for place in (paths.runs_folder(), sockets) for name in os.listdir(place)
        ]

    def hora(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*COMMAND, *words], cwd=self.folder, capture_output=True, text=True, timeout=60)


def compare(written: bytes, kept: bytes, may_lose: bool) -> str:
    """All but the line that was being written, once and in order; empty when it holds."""
    if not written.startswith(kept):
        at = next(
            (i for i, pair in enumerate(zip(written, kept)) if pair[0] != pair[1]),
            min(len(written), len(kept)),
        )
        return f"kept output differs from what was written at byte {at}: {kept[at - 80 : at + 80]!r}"
    missing = written[len(kept) :]
    if missing.count(NEWLINE) > 1 and not may_lose:
        return f"{missing.count(NEWLINE)} lines are missing at the end"
    return ""


def _if_ended(status: RunStatus) -> RunStatus | None:
    return status if status.ended else None


def _is_client(process: leftovers.Process, client: subprocess.Popen[bytes] | None) -> bool:
    return client is not None and process.pid == client.pid and client.poll() is None


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
