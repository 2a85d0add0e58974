"""While it runs: who is silent, who is stalled."""

from __future__ import annotations

import os

from hora import state
from hora.agent.lead import grouping, sentences, stall, verdict
from hora.agent.lead.sentences import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

    from hora.agent.frames import Header
    from hora.agent.lead.hosts import HostLink
    from hora.agent.loop import Timer
    from hora.agent.stacks import Stack

SILENCE = 15.0
LOOKS_PER_LIMIT = 20


class Watching:
    def __init__(self, lead: Any) -> None:
        self.lead = lead
        self._stall: Optional[stall.StallWatch] = None
        self._timer: Optional[Timer] = None

    def restart(self) -> None:
        """The ranks of an attempt have started."""
        limit = self.lead.plan.limits.stall
        self.pause()
        if limit is None:
            return
        self._stall = stall.StallWatch(limit)
        self._look_again(limit)

    def pause(self) -> None:
        self._stall = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def beat(self, link: HostLink, header: Header) -> None:
        if self._stall is None:
            return
        now = self.lead.loop.now()
        for label, cpu, last in header["ranks"]:
            self._stall.sample(label, cpu, last, now)

    def ended(self, label: str) -> None:
        """No beat tells of this rank any more."""
        if self._stall is not None:
            self._stall.forget(label)

    def _look_again(self, limit: float) -> None:
        self._timer = self.lead.loop.after(
            min(max(limit / LOOKS_PER_LIMIT, 0.1), 5.0), lambda: self._look(limit)
        )

    def _look(self, limit: float) -> None:
        watch = self._stall
        if watch is None:
            return
        if watch.due(self.lead.loop.now()):
            self.lead.requests.stacks(None, lambda stacks: self._stalled(watch, limit, stacks))
        self._look_again(limit)

    def _stalled(self, watch: stall.StallWatch, limit: float, stacks: List[Stack]) -> None:
        if self._stall is not watch:
            return  # the ranks have ended while they were asked
        groups = grouping.group(stacks)
        text = f"stalled: no rank has printed or computed anything for {duration(limit)}. {grouping.sentence(groups)}"
        self.lead.telling.say(text + "\n" + grouping.render(groups))
        if self.lead.plan.stall == "kill" and watch.certain(self.lead.loop.now()):
            self.lead.fail(text, state.ORIGIN_HORA, verdict.EXIT_TIME)

    # --- silent hosts: report on one sign; a second sign (the place's word, or the limit) ends them ---

    def look(self) -> None:
        if not os.path.isdir(self.lead.folder):  # our files are open: writing to them would not tell
            self.lead.fail(sentences.removed(self.lead.folder), state.ORIGIN_HORA, verdict.EXIT_HORA)
        now = self.lead.loop.now()
        silent: Dict[str, float] = {}
        for link in self.lead.hosts.values():
            if link.lost:
                continue
            if link.up and now - link.channel.heard > SILENCE:
                link.channel.close(f"silent for {SILENCE:.0f} s")
            if link.silent_since is not None:
                silent[link.name] = now - link.silent_since
        for name, seconds in silent.items():
            limit = self.lead.plan.limits.start
            if limit is not None and seconds > limit:
                self.lead.host_lost(
                    self.lead.hosts[name], f"its host {name} was not heard of for {duration(seconds)}"
                )
