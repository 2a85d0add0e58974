"""Whether a failed attempt is followed by another one."""

from __future__ import annotations

from hora.agent.lead import sentences, verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

    from hora.state import Failure

PORT_RETRY = 30.0  # seconds: a port taken between choice and use shows early


class Retry:
    def __init__(self, restarts: int) -> None:
        self.left = restarts
        self._for_a_port = 1  # a port that somebody took in between is nobody's failure

    def give_up(self) -> None:
        """Somebody has asked for an end, or nobody is left who could start anything."""
        self.left = self._for_a_port = 0

    def after(self, first: verdict.Exit, failure: Failure, output: bytes) -> Tuple[bool, str]:
        """The decision, and what to say about it."""
        seconds = failure.after or 0.0
        if self._for_a_port and verdict.address_taken(output) and seconds < PORT_RETRY:
            self._for_a_port -= 1
            return True, sentences.port_taken(failure.attempt)
        if not self.left:
            return False, ""
        if verdict.user_error(first, seconds, output):
            return False, sentences.not_retried(failure)
        self.left -= 1
        return True, sentences.restarting(failure.attempt, failure, self.left)
