"""What the lead tells: its status, as a file and to clients, and notes that stay with it."""

from __future__ import annotations

import os

from hora import state
from hora.agent.lead import sentences

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

    from hora.agent.loop import Timer

STATUS_PAUSE = 0.05  # between two status documents for watchers
MOST_NOTES = 100


class Telling:
    def __init__(self, lead: Any) -> None:
        self.lead = lead
        self.notes: List[str] = list(lead.config.get("notes", ()))
        self._dropped: Dict[str, int] = {}  # bytes of output that `output` did not let us keep, by host
        self._due: Optional[Timer] = None

    def say(self, text: str) -> None:
        """To those who watch just now, and as a note."""
        self.lead.control.say(text)
        if self.lead.stream is not None:
            self.lead.stream.say(text)
        self.note(text)

    def note(self, text: str) -> None:
        self.notes = [*self.notes[1 - MOST_NOTES :], text]
        self.changed()

    def note_once(self, text: str) -> None:
        """For what shows again with every status that is written."""
        if text not in self.notes:
            self.note(text)

    def dropped(self, host: str, length: int) -> None:
        """A run can drop for hours: it is said once when it begins, and how much at the end."""
        if host not in self._dropped:
            self.say(sentences.dropping(host))
        self._dropped[host] = self._dropped.get(host, 0) + length

    def all_dropped(self) -> None:
        for host, length in self._dropped.items():
            self.say(sentences.dropped(host, length))

    # --- the status ---

    def changed(self) -> None:
        if self._due is None:
            self._due = self.lead.loop.after(STATUS_PAUSE, self.publish)

    def publish(self) -> None:
        self._due = None
        if self.lead.phase in state.ENDED:
            return
        try:
            self.lead.documents.status(self.document())
        except OSError as problem:
            self.lead.cannot_keep(problem)
        self.lead.control.new_status()

    def document(self) -> state.RunStatus:
        lead = self.lead
        ended = lead.phase in state.ENDED
        return state.RunStatus(
            id=lead.run_info["id"],
            name=lead.run_info["name"],
            place=lead.run_info["place"],
            phase=lead.phase,
            reason=lead.reason,
            exit_code=lead.exit_code if ended else None,
            origin=lead.origin if ended else None,
            attempt=lead.attempt.number,
            created_at=lead.run_info["createdAt"],
            started_at=lead.started_at,
            ended_at=lead.ended_at,
            framework=lead.plan.framework,
            command=tuple(lead.run_info["command"]),
            code=lead.code.told,
            members=lead.board.document(),
            first_failure=lead.failure,
            notes=tuple(self.notes),
            pids=(("lead", os.getpid()), *lead.links.pids()),
        )
