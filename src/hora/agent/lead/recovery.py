"""After the end: what the lead could not write because it was killed, whoever is left writes."""

from __future__ import annotations

import os
import sys
import time

from hora import state
from hora.agent import keeper
from hora.agent.journal import Journal
from hora.agent.lead import documents, sentences, verdict
from hora.agent.lead.store import Store
from hora.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    from hora.agent.frames import Header

    Exits = Dict[str, Header]  # how ranks ended, by label

SLICE = 1 << 20


def recover(
    folder: str, host: str, run: Dict[str, Any], why: str, open_pipes: Optional[Dict[str, Any]] = None
) -> None:
    """Bring output and status to their end, unless the lead has done so.

    `open_pipes`: those of ranks, which may still hold what nobody has read.  Safe to do again when it was
    killed in the middle.
    """
    if not os.path.isdir(folder):
        return  # somebody removed it: it shall not come back
    known = documents.read_json(os.path.join(folder, documents.STATUS))
    if known is not None and state.RunStatus.from_json(known).ended:
        return
    journal = Journal(os.path.join(folder, "agent", "journal"))
    try:
        _complete(journal, open_pipes or {})
        store = Store(os.path.join(folder, "output"))
        try:
            exits = copy_rest(store, host, journal)
            status = ended(_begun(run, known), exits, why, store)
        finally:
            store.close()
    finally:
        journal.close()
    documents.Documents(folder).final(status)


def _complete(journal: Journal, open_pipes: Dict[str, Any]) -> None:
    try:
        keeper.complete(journal, open_pipes)
    except (OSError, ValueError) as problem:  # a full disk, most often: what is there has to do
        print(f"keeper: what ranks wrote last can't be kept: {problem}", file=sys.stderr, flush=True)


def copy_rest(store: Store, host: str, journal: Journal) -> Exits:
    """Move what the lead had not yet received into its store; returns how the last attempt's ranks ended."""
    events: List[Header] = store.mend(host)
    while store.end(host) < journal.end:
        part = journal.read(store.end(host), SLICE)
        if not part:
            break
        events += [header for header, _body in store.receive(host, store.end(host), part)]
    attempt = max((event.get("attempt", 0) for event in events), default=0)
    return {e["label"]: e for e in events if e["t"] == "exit" and e["attempt"] == attempt}


def _begun(run: Dict[str, Any], known: Optional[Dict[str, Any]]) -> state.RunStatus:
    """The last status that the lead wrote; it may have been killed before its first."""
    if known is not None:
        return state.RunStatus.from_json(known)
    return state.RunStatus(
        run["id"],
        run["name"],
        run["place"],
        state.GATHERING,
        created_at=run["createdAt"],
        command=tuple(run["command"]),
    )


def ended(status: state.RunStatus, exits: Exits, why: str, store: Store) -> state.RunStatus:
    """The verdict that the lead didn't live to give.  A rank that had failed before is still the first failure."""
    status = replace(
        status,
        phase=state.FAILED,
        reason=why,
        exit_code=verdict.EXIT_HORA,
        origin=state.ORIGIN_HORA,
        ended_at=time.time(),
        members=tuple(_closed(member, exits) for member in status.members),
    )
    judged = verdict.first_failure(_exits(status, exits))
    if judged is None:
        return status
    label, attempt = judged.first.label, exits[judged.first.label]["attempt"]
    lines = store.last_lines(label, verdict.LAST_LINES, attempt)
    failure = verdict.failure(judged, attempt, [line.decode("utf-8", "replace") for line in lines])
    return replace(
        status,
        reason=sentences.failed(failure),
        exit_code=judged.exit_code,
        origin=judged.origin,
        first_failure=failure,
        notes=(*status.notes, why),
    )


def _exits(status: state.RunStatus, exits: Exits) -> List[verdict.Exit]:
    found = []
    for member, rank in _ranks(status):
        label = f"{member.name}/{rank.number}"
        told = exits.get(label)
        if told is not None:
            found.append(
                verdict.Exit(
                    label=label,
                    member=member.name,
                    rank=rank.rank,
                    host=member.host or "",
                    time=told["at"],
                    exit_code=told["code"],
                    signal=told["signal"],
                    stopped=told["stopped"],
                    oom=told["oom"],
                )
            )
    return found


def _ranks(status: state.RunStatus) -> List[Tuple[state.MemberState, state.RankState]]:
    return [(member, rank) for member in status.members for rank in member.ranks]


def _closed(member: state.MemberState, exits: Exits) -> state.MemberState:
    ranks = []
    for rank in member.ranks:
        told = exits.get(f"{member.name}/{rank.number}")
        if told is not None:
            rank = replace(
                rank,
                state=state.EXITED,
                exit_code=told["code"],
                signal=told["signal"],
                stopped=told["stopped"],
            )
        elif rank.state == state.ALIVE:
            rank = replace(rank, state=state.LOST)
        ranks.append(rank)
    return replace(member, phase="ended", ranks=tuple(ranks))
