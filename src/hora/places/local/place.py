"""This machine: a keeper, a lead and one agent per run, no daemon; runs are folders with plain files."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time

from hora import names, plan, state
from hora.agent.lead import documents
from hora.agent.lead.kept import Kept
from hora.errors import LeadGone, PlaceError, RunNotFound, UsageError
from hora.places import secrets
from hora.places.base import Chunk
from hora.places.connection import Connection
from hora.places.local import burial, fit, paths
from hora.places.local.code import working_folder
from hora.places.local.warm import take
from hora.record import replace
from hora.scene import seats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from hora.places.base import Submission
    from hora.spec import JobSpec

RUN = "run.json"
BEGIN_LIMIT = 10.0  # seconds for a new run's lead to listen
TIDY_LIMIT = 5.0  # seconds for an ended run's keeper to leave
LOOK_AGAIN = 0.01  # seconds between two looks where nobody can tell


class LocalPlace:
    name = "local"
    options = ()
    same_disk = True
    whereabouts: dict[str, str] = {}

    # --- submitting ---

    def remarks(self, spec: JobSpec) -> tuple[str, ...]:
        return fit.remarks(spec)

    def render(self, submission: Submission, whole: bool = False) -> str:
        """On this machine nothing is made but processes: the plan says which."""
        return json.dumps(plan.to_data(submission.plan), indent=2)

    def submit(self, submission: Submission) -> tuple[str, Connection | None]:
        spec = submission.spec
        submission = replace(submission, notes=(*submission.notes, *self.remarks(spec)))
        values = secrets.values(spec)  # what can be refused is refused before anything is made
        run = names.run_id(os.urandom(8))
        socket_path = paths.socket_path(run)
        folder = paths.make_run_folder(f"{spec.name}-{run}")
        cwd = working_folder(spec, folder)
        info = {
            "id": run,
            "name": spec.name,
            "place": self.name,
            "createdAt": time.time(),
            "command": list(spec.roles[0].command),
            "socket": socket_path,
            "host": socket.gethostname(),
            "attached": submission.attached,
            "keep": spec.keep,
            "git": None if spec.code is None or spec.code.git is None else [spec.code.git, spec.code.ref],
        }
        try:
            documents.write_atomically(os.path.join(folder, RUN), json.dumps(info, indent=1).encode())
            text = plan.dumps(submission.plan).encode()
            documents.write_atomically(os.path.join(folder, "plan.json"), text)
        except OSError as problem:
            from shutil import rmtree

            rmtree(folder, ignore_errors=True)
            raise paths.cannot_make(folder, problem) from problem
        warm = take(submission.attached)
        warm.begin(self._config(submission, info, folder, cwd, values))
        if warm.owner is not None:
            return run, Connection(warm.owner)
        self._see_it_begin(run, folder)
        return run, None

    def _see_it_begin(self, run: str, folder: str) -> None:
        """Whoever starts a run and leaves it shall know that it lives."""
        try:
            self.attach(run).close()
        except LeadGone:  # a short one is over already
            if not os.path.exists(os.path.join(folder, documents.STATUS)):
                raise PlaceError(f"run {run} did not begin: see {os.path.join(folder, 'hora.log')}") from None

    def _config(
        self,
        submission: Submission,
        info: dict[str, Any],
        folder: str,
        cwd: str,
        values: dict[str, dict[str, str]],
    ) -> dict[str, Any]:
        members = list(dict.fromkeys(seat.member for seat in seats(submission.plan)))
        return {
            "socket": info["socket"],
            "lead": {
                "run": {key: info[key] for key in ("id", "name", "place", "createdAt", "command")},
                "plan": plan.to_data(submission.plan),
                "folder": folder,
                "notes": list(submission.notes),
                "same_clock": True,
                "one_machine": True,
            },
            "agent": {
                "run": info["id"],
                "host": info["host"],
                "members": members,
                "one_machine": True,
                "folder": os.path.join(folder, "agent"),
                "lead": [info["socket"]],
                "incarnation": 1,
                "output": submission.plan.output * len(members),
                "ports": list(submission.plan.ports),
                "grace": submission.plan.limits.grace,
                "cwd": cwd,
                "code": cwd if submission.spec.code is not None else "",
                "secrets": values,
            },
        }

    # --- looking ---

    def _folders(self) -> list[tuple[str, dict[str, Any]]]:
        found = []
        try:
            entries = os.listdir(paths.runs_folder())
        except FileNotFoundError:
            return []
        except OSError as problem:
            raise PlaceError(f"{paths.runs_folder()} can't be read: {problem.strerror}") from problem
        for entry in entries:
            folder = os.path.join(paths.runs_folder(), entry)
            info = _read(os.path.join(folder, RUN))
            if info is not None:
                found.append((folder, info))
        return sorted(found, key=lambda item: item[1]["createdAt"])

    def _find(self, name: str) -> tuple[str, dict[str, Any]]:
        known = self._folders()
        exact = [item for item in known if name in (item[1]["id"], os.path.basename(item[0]))]
        if exact:
            return exact[-1]
        by_name = [item for item in known if item[1]["name"] == name]
        if by_name:
            return by_name[-1]
        begun = [item for item in known if item[1]["id"].startswith(name)] if name else []
        if len(begun) == 1:
            return begun[0]
        if begun:
            raise UsageError(
                f"{name!r} is the beginning of {', '.join(item[1]['id'] for item in begun)}: say more"
            )
        last = ", ".join(item[1]["id"] for item in known[-4:])
        others = f"the newest are {last}" if last else "there are none: `hora run -n 2 COMMAND` starts one"
        raise RunNotFound(f"no run {name!r} on this machine; {others}")

    def find(self, name: str) -> str:
        return str(self._find(name)[1]["id"])

    def folder(self, run: str) -> str:
        return self._find(run)[0]

    def list(self) -> list[state.RunStatus]:
        return [self._status(folder, info) for folder, info in self._folders()]

    def status(self, run: str) -> state.RunStatus:
        return self._status(*self._find(run))

    def explained(self, status: state.RunStatus) -> state.RunStatus:
        return status

    def watch(self, run: str, changed: Callable[[], None]) -> None:
        return None

    def hopeless(self, status: state.RunStatus) -> str:
        return ""

    def stuck(self, status: state.RunStatus) -> bool:
        return False

    def give_up(self, run: str) -> None:
        raise PlaceError(f"run {run} has begun: `hora stop {run}` ends it")

    def _status(self, folder: str, info: dict[str, Any]) -> state.RunStatus:
        known = _read(os.path.join(folder, documents.STATUS))
        alive = is_locked(folder)
        if known is None:
            return self._unbegun(info, alive)
        status = state.RunStatus.from_json(known)
        if status.ended or alive:
            return status
        known = _read(os.path.join(folder, documents.STATUS))  # it may have ended between the two looks
        status = state.RunStatus.from_json(known) if known is not None else status
        return status if status.ended else self._buried(folder, info, status)

    def _buried(self, folder: str, info: dict[str, Any], status: state.RunStatus) -> state.RunStatus:
        """Nobody lived to give a verdict."""
        try:
            burial.bury(folder, info)
            known = _read(os.path.join(folder, documents.STATUS))
            if known is not None:
                return state.RunStatus.from_json(known)
        except (OSError, ValueError):
            pass  # not ours to write, no room, or damaged: what is true can still be said
        return replace(status, phase=state.FAILED, reason=burial.WHY, exit_code=125, origin=state.ORIGIN_HORA)

    def _unbegun(self, info: dict[str, Any], alive: bool) -> state.RunStatus:
        status = state.RunStatus(
            id=info["id"],
            name=info["name"],
            place=self.name,
            phase=state.QUEUED,
            reason="its lead is about to begin",
            created_at=info["createdAt"],
            command=tuple(info["command"]),
        )
        if alive or _is_young(info):
            return status
        reason = "its lead never began: look at hora.log in the run's folder"
        return replace(status, phase=state.FAILED, reason=reason, exit_code=125, origin=state.ORIGIN_HORA)

    # --- talking, reading ---

    def attach(self, run: str) -> Connection:
        folder, info = self._find(run)
        while True:
            begun = os.path.exists(os.path.join(folder, documents.STATUS)) or not _is_young(info)
            if is_locked(folder):
                try:
                    return Connection.to_socket(info["socket"])
                except LeadGone:
                    if begun:
                        raise
            elif begun:
                raise LeadGone(f"run {info['id']} has ended")
            time.sleep(LOOK_AGAIN)  # its keeper is on its way; there is nothing yet that could be waited on

    def history(self, run: str, start: int = 0) -> Iterator[Chunk]:
        try:
            kept = Kept(os.path.join(self.folder(run), "output"))
        except FileNotFoundError:
            return  # nobody has come to write anything
        try:
            number = start
            while True:
                entries = kept.entries(number)
                if not entries:
                    return
                for entry in entries:
                    body = kept.body(entry)
                    dropped = entry.length if body is None else 0
                    yield Chunk(number, kept.label(entry), entry.time, entry.attempt, body or b"", dropped)
                    number += 1
        finally:
            kept.close()

    def results(self, run: str) -> dict[str, bytes]:
        return documents.read_results(self.folder(run))

    def fresh_code(self, run: str, folder: str | None) -> str:
        """Only a clone has to be made anew."""
        place, info = self._find(run)
        if folder is not None or not info.get("git"):
            return folder or ""
        from hora.places.local.code import another_clone

        return another_clone(info["git"], place)

    def delete(self, run: str) -> None:
        folder, info = self._find(run)
        until = time.monotonic() + TIDY_LIMIT
        while is_locked(folder):
            if not self._status(folder, info).ended:
                raise UsageError(f"run {info['id']} is still going on: `hora stop {info['id']}` first")
            if time.monotonic() > until:
                raise PlaceError(
                    f"run {info['id']} has ended, but somebody still reads its output: try again in a minute"
                )
            time.sleep(LOOK_AGAIN)  # its keeper tidies up
        burial.remove_socket(info)
        from shutil import rmtree  # rarely needed, and it loads every compressor there is

        rmtree(folder)


def _is_young(info: dict[str, Any]) -> bool:
    return 0 <= time.time() - float(info["createdAt"]) < BEGIN_LIMIT


def is_locked(folder: str) -> bool:
    """Whether the run's keeper lives: it holds the lock, and the kernel lets go of it whatever happens."""
    try:
        fd = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _read(path: str) -> dict[str, Any] | None:
    try:
        return documents.read_json(path)
    except (OSError, ValueError):
        return None
