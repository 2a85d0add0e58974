"""The state of a run: one document, written by the lead, read by every client.

The JSON keys are part of the public surface.  Travels inside the agent: standard library only, Python 3.8.
"""

from __future__ import annotations

from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

QUEUED = "queued"  # the place has the run, its lead has not begun
GATHERING = "gathering"  # agents dial the lead
CHECKING = "checking"
STARTING = "starting"  # set-up and start of the ranks
RUNNING = "running"
STOPPING = "stopping"
SUCCEEDED = "succeeded"
FAILED = "failed"
STOPPED = "stopped"  # because somebody asked
PHASES = (QUEUED, GATHERING, CHECKING, STARTING, RUNNING, STOPPING, SUCCEEDED, FAILED, STOPPED)
ENDED = (SUCCEEDED, FAILED, STOPPED)

ORIGIN_JOB = "job"  # the exit code is the job's own
ORIGIN_HORA = "hora"  # Hora, the place or a person ended the run

# A rank's states.
WAITING = "waiting"
ALIVE = "running"
EXITED = "exited"
LOST = "lost"  # its agent is gone, nobody saw it end

SETUP = "setup@"  # so begin the labels of set-up processes: a host follows


class RankState(Record):
    rank: int
    local_rank: int
    state: str = WAITING
    pid: Optional[int] = None
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    number: int = 0  # in its member
    stopped: bool = False  # ended because Hora stopped it

    def to_json(self) -> Dict[str, Any]:
        return {
            "rank": self.rank,
            "localRank": self.local_rank,
            "number": self.number,
            "pid": self.pid,
            "state": self.state,
            "exitCode": self.exit_code,
            "signal": self.signal,
            "stopped": self.stopped,
        }

    @classmethod
    def from_json(cls, data: Dict[str, Any]) -> RankState:
        return cls(
            rank=data["rank"],
            local_rank=data["localRank"],
            number=data.get("number", 0),
            pid=data.get("pid"),
            state=data.get("state", WAITING),
            exit_code=data.get("exitCode"),
            signal=data.get("signal"),
            stopped=data.get("stopped", False),
        )


class MemberState(Record):
    name: str
    host: Optional[str]
    phase: str  # waiting, ready, setup, running, ended, lost
    ranks: Tuple[RankState, ...] = ()
    note: str = ""  # what it waits for, in words

    def to_json(self) -> Dict[str, Any]:
        return {
            "name": self.name,
            "host": self.host,
            "phase": self.phase,
            "note": self.note,
            "ranks": [rank.to_json() for rank in self.ranks],
        }

    @classmethod
    def from_json(cls, data: Dict[str, Any]) -> MemberState:
        return cls(
            data["name"],
            data.get("host"),
            data.get("phase", "waiting"),
            tuple(RankState.from_json(rank) for rank in data.get("ranks", ())),
            data.get("note", ""),
        )


class Failure(Record):
    """The first failure: the others are its echo."""

    member: str
    rank: Optional[int]  # global number; None when a whole member or host is the cause
    cause: str  # in words: "exited with code 3", "killed by signal 9 (SIGKILL)", ...
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    last_lines: Tuple[str, ...] = ()
    host: Optional[str] = None
    attempt: int = 1
    at: Optional[float] = None
    after: Optional[float] = None  # seconds since its start
    label: str = ""  # worker-2/0
    ties: Tuple[str, ...] = ()  # ranks that failed within the clock's error of it
    echoes: Tuple[str, ...] = ()  # ranks that failed or were stopped because of it

    def to_json(self) -> Dict[str, Any]:
        return {
            "member": self.member,
            "rank": self.rank,
            "label": self.label,
            "host": self.host,
            "attempt": self.attempt,
            "cause": self.cause,
            "exitCode": self.exit_code,
            "signal": self.signal,
            "at": self.at,
            "after": self.after,
            "ties": list(self.ties),
            "echoes": list(self.echoes),
            "lastLines": list(self.last_lines),
        }

    @classmethod
    def from_json(cls, data: Dict[str, Any]) -> Failure:
        return cls(
            member=data["member"],
            rank=data.get("rank"),
            cause=data["cause"],
            exit_code=data.get("exitCode"),
            signal=data.get("signal"),
            last_lines=tuple(data.get("lastLines", ())),
            host=data.get("host"),
            attempt=data.get("attempt", 1),
            at=data.get("at"),
            after=data.get("after"),
            label=data.get("label", ""),
            ties=tuple(data.get("ties", ())),
            echoes=tuple(data.get("echoes", ())),
        )


class RunStatus(Record):
    id: str
    name: str
    place: str
    phase: str
    reason: str = ""  # one sentence: what it waits for, or how and why it ended
    exit_code: Optional[int] = None
    origin: Optional[str] = None
    attempt: int = 0
    created_at: Optional[float] = None
    started_at: Optional[float] = None  # when the ranks of the first attempt began
    ended_at: Optional[float] = None
    framework: str = ""
    command: Tuple[str, ...] = ()
    members: Tuple[MemberState, ...] = ()
    first_failure: Optional[Failure] = None
    notes: Tuple[str, ...] = ()  # things worth knowing that changed nothing
    pids: Tuple[Tuple[str, int], ...] = ()  # lead, keeper, agents: for people who look at `ps`
    code: str = ""  # hash of the code that the ranks have; empty where its folder is used in place

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    def to_json(self) -> Dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "place": self.place,
            "phase": self.phase,
            "reason": self.reason,
            "exitCode": self.exit_code,
            "origin": self.origin,
            "attempt": self.attempt,
            "createdAt": self.created_at,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
            "framework": self.framework,
            "command": list(self.command),
            "members": [member.to_json() for member in self.members],
            "firstFailure": self.first_failure.to_json() if self.first_failure else None,
            "notes": list(self.notes),
            "pids": dict(self.pids),
            "code": self.code,
        }

    @classmethod
    def from_json(cls, data: Dict[str, Any]) -> RunStatus:
        failure = data.get("firstFailure")
        members: List[MemberState] = [MemberState.from_json(item) for item in data.get("members", ())]
        return cls(
            id=data["id"],
            name=data["name"],
            place=data["place"],
            phase=data["phase"],
            reason=data.get("reason", ""),
            exit_code=data.get("exitCode"),
            origin=data.get("origin"),
            attempt=data.get("attempt", 0),
            created_at=data.get("createdAt"),
            started_at=data.get("startedAt"),
            ended_at=data.get("endedAt"),
            framework=data.get("framework", ""),
            command=tuple(data.get("command", ())),
            members=tuple(members),
            first_failure=Failure.from_json(failure) if failure else None,
            notes=tuple(data.get("notes", ())),
            pids=tuple((data.get("pids") or {}).items()),
            code=data.get("code", ""),
        )
