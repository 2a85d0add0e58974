"""After the end: what the lead could not write because it was killed, the keeper writes."""

from __future__ import annotations

import os
import time

from hora import state
from hora.agent import keeper
from hora.agent.journal import Journal
from hora.agent.lead import documents
from hora.agent.lead.store import Store
from hora.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

SLICE = 1 << 20


def recover(folder: str, kept: Any, why: str) -> None:
    """Bring output and status to their end; removes the agent's own journal when all of it is kept."""
    place = os.path.join(kept.config["folder"], "journal")
    known = documents.read_json(os.path.join(folder, documents.STATUS))
    if known is not None and state.RunStatus.from_json(known).ended:
        return
    journal = Journal(place)
    try:
        if kept.watcher is not None:
            keeper.complete(journal, kept.watcher.pipes)
        exits = copy_rest(folder, kept.config["host"], journal)
    finally:
        journal.close()
    write_end(folder, known, exits, why)


def copy_rest(folder: str, host: str, journal: Journal) -> Dict[str, Dict[str, Any]]:
    """Move what the lead had not yet received into its store; returns how ranks ended, by label."""
    store = Store(os.path.join(folder, "output"))
    events: List[Dict[str, Any]] = store.mend(host)
    try:
        while store.end(host) < journal.end:
            part = journal.read(store.end(host), SLICE)
            if not part:
                break
            events += [header for header, _body in store.receive(host, store.end(host), part)]
    finally:
        store.close()
    attempt = max((event.get("attempt", 0) for event in events), default=0)
    return {e["label"]: e for e in events if e["t"] == "exit" and e["attempt"] == attempt}


def write_end(
    folder: str,
    known: Optional[Dict[str, Any]],
    exits: Dict[str, Dict[str, Any]],
    why: str,
) -> None:
    """The verdict that the lead didn't live to give."""
    if known is None:
        return  # it never began: the client says so
    status = state.RunStatus.from_json(known)
    status = replace(
        status,
        phase=state.FAILED,
        reason=why,
        exit_code=125,
        origin=state.ORIGIN_HORA,
        ended_at=time.time(),
        members=tuple(_closed(member, exits) for member in status.members),
    )
    documents.Documents(folder).final(status)


def _closed(member: state.MemberState, exits: Dict[str, Dict[str, Any]]) -> state.MemberState:
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
