"""Has the run come to a halt?  A pure state machine over what the heartbeats carry.

Two signs of life: a rank writes output, or uses CPU time.  CPU time below 1 % of one CPU is idle: Python
with a housekeeping thread, MPI that yields.  Some wait by spinning, though (MPI without oversubscription,
NCCL's proxy): there CPU time tells nothing.  So with `spins=True` only output counts for `due`, and
`certain` still asks for both: one sign is enough to report, never enough to kill.

Only what was seen counts: while the samples of a rank don't arrive, nothing is said of a stall.
"""

from __future__ import annotations

IDLE = 0.01  # of one CPU
_WINDOW = 30.0  # seconds over which CPU use is averaged, less for short limits
_FLOOR = 0.05  # seconds of CPU that are noise in any window: the kernel counts in steps of 0.01


class _Rank:
    def __init__(self, cpu: float, last_output: float | None, now: float) -> None:
        self.cpu = cpu  # at the beginning of the window
        self.since = now
        self.seen = now
        self.last_output = last_output
        self.output = now  # last time of output
        self.busy = now  # last time of CPU use


class StallWatch:
    """Feed `sample`, ask `due`.  `now` is the lead's clock, one that never jumps.

    `last_output` is any value that changes when the rank writes: the hosts' clocks don't matter.
    """

    def __init__(self, limit: float | None, spins: bool = False) -> None:
        self.limit = limit
        self.spins = spins
        self._window = min(_WINDOW, (limit or _WINDOW) / 4)
        self._ranks: dict[str, _Rank] = {}
        self._reported = False

    def sample(self, label: str, cpu_seconds: float, last_output: float | None, now: float) -> None:
        """One heartbeat's word on one rank; a rank's first sample counts as life."""
        rank = self._ranks.get(label)
        before = self._last_sign()
        if rank is None:
            rank = self._ranks[label] = _Rank(cpu_seconds, last_output, now)
        rank.seen = max(rank.seen, now)
        if last_output != rank.last_output:
            rank.last_output, rank.output = last_output, now
        self._weigh(rank, cpu_seconds, now)
        if self._last_sign() > before:
            self._reported = False

    def _weigh(self, rank: _Rank, cpu: float, now: float) -> None:
        used, span = cpu - rank.cpu, now - rank.since
        if used >= max(IDLE * self._window, _FLOOR):
            # A window may have begun long ago, when samples are rare: then the average counts.
            if used >= IDLE * span:
                rank.busy = max(rank.busy, now)
            rank.cpu, rank.since = cpu, now
        elif span >= self._window or used < 0:
            rank.cpu, rank.since = cpu, now

    def forget(self, label: str) -> None:
        """The rank has ended: that is news, too."""
        gone = self._ranks.pop(label, None)
        if gone is not None:
            for rank in self._ranks.values():
                rank.output = max(rank.output, gone.seen)
            self._reported = False

    def clear(self) -> None:
        """A new attempt begins."""
        self._ranks.clear()
        self._reported = False

    def due(self, now: float) -> bool:
        """True once for each stall: report it now."""
        if self._reported or not self._reached(now, self._last_sign()):
            return False
        self._reported = True
        return True

    def certain(self, now: float) -> bool:
        """Neither output nor CPU time for the limit: both signs, so it may be ended where asked for."""
        return self._reached(now, max(self._last_sign(), self._last_busy()))

    def quiet(self, now: float) -> float:
        """Seconds since the last sign of life, as far as was seen."""
        return max(0.0, self._seen(now) - self._last_sign()) if self._ranks else 0.0

    def wait(self, now: float) -> float | None:
        """Seconds until `due` may become true, for the event loop's timer; None: not without a new sample."""
        if self.limit is None or self._reported or not self._ranks:
            return None
        return max(0.0, self._last_sign() + self.limit - now)

    def _reached(self, now: float, sign: float) -> bool:
        return self.limit is not None and bool(self._ranks) and self._seen(now) - sign >= self.limit

    def _seen(self, now: float) -> float:
        return min(now, min(rank.seen for rank in self._ranks.values()))

    def _last_sign(self) -> float:
        output = max((rank.output for rank in self._ranks.values()), default=float("-inf"))
        return output if self.spins else max(output, self._last_busy())

    def _last_busy(self) -> float:
        return max((rank.busy for rank in self._ranks.values()), default=float("-inf"))
