"""The end of a run: the verdict, written and told, and when the lead may go."""

from __future__ import annotations

import time

from hora import state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LINGER = 60.0  # for clients that don't have everything yet
LOOK_AGAIN = 0.2


class Ending:
    def __init__(self, lead: Any) -> None:
        self.lead = lead

    def verdict(self, phase: str, reason: str, code: int, origin: str) -> None:
        lead = self.lead
        lead.telling.all_dropped()
        lead.exit_code, lead.origin = code, origin
        lead.ended_at = time.time()
        lead.phase, lead.reason = phase, reason
        lead.limits.end()
        lead.documents.final(lead.telling.document())
        if "message" in lead.config:
            lead.documents.message(lead.config["message"], lead.telling.document())
        lead.control.end()
        if lead.stream is not None:
            lead.stream.end()
            lead.stream.say(f"{lead.run_info['name']} {lead.run_info['id']} {phase}: {reason}")
        for link in lead.hosts.values():
            link.ask({"t": "over"})
        lead.loop.after(LINGER, lead.loop.stop)
        self.leave_if_done()

    def leave_if_done(self) -> None:
        """Agents have left, clients have everything."""
        lead = self.lead
        if lead.phase not in state.ENDED or any(link.up for link in lead.hosts.values()):
            return
        if lead.stream is not None and not lead.stream.done:
            lead.loop.after(LOOK_AGAIN / 4, self.leave_if_done)
            return
        if all(client.satisfied and not client.owner for client in lead.control.clients):
            lead.loop.stop()
        elif not any(client.owner for client in lead.control.clients):
            lead.loop.after(LOOK_AGAIN, self.leave_if_done)
