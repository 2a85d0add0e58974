"""How long a phase, and the whole run, may take."""

from __future__ import annotations

from hora import state
from hora.agent.lead import sentences
from hora.agent.lead.verdict import EXIT_TIME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from hora.agent.loop import Timer


class Limits:
    def __init__(self, lead: Any) -> None:
        self.lead = lead
        self._phase: Optional[Timer] = None
        self._total: Optional[Timer] = None

    def begin(self) -> None:
        """The run's own time runs from here."""
        seconds = self.lead.plan.limits.total
        if seconds is not None:
            why = sentences.out_of_time(seconds, "total")
            self._total = self.lead.loop.after(
                seconds, lambda: self.lead.fail(why, state.ORIGIN_HORA, EXIT_TIME)
            )

    def of_phase(self, key: str) -> None:
        """The limit `key` of the plan, in the place of the one before."""
        self.no_more_of_phase()
        seconds = getattr(self.lead.plan.limits, key)
        if seconds is not None:
            self._phase = self.lead.loop.after(
                seconds,
                lambda: self.lead.fail(
                    sentences.phase_limit(self.lead, seconds, key), state.ORIGIN_HORA, EXIT_TIME
                ),
            )

    def no_more_of_phase(self) -> None:
        if self._phase is not None:
            self._phase.cancel()
            self._phase = None

    def end(self) -> None:
        self.no_more_of_phase()
        if self._total is not None:
            self._total.cancel()
