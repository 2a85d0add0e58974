"""The client of a run that belongs to it: shows the output, passes on Ctrl-C, ends as the run ends."""

from __future__ import annotations

import select
import signal

from hora import state
from hora.cli import out, report
from hora.cli.progress import Progress
from hora.cli.stream import Stream
from hora.errors import EXIT_HORA, EXIT_INTERRUPTED, LeadGone, RunNotFound
from hora.following import Following
from hora.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hora.api import Run
    from hora.cli.words import Words
    from hora.following import Event
    from hora.spec import JobSpec
    from hora.state import RunStatus

LOOK = 0.2  # seconds between looks where no event tells: time that passes, a lead that is gone


class Attached:
    def __init__(self, run: Run, spec: JobSpec, words: Words) -> None:
        self.run = run
        self.grace = spec.timeouts.grace
        self.quiet = words.flag("quiet")
        self.form = words.text("output")
        target = out.STDERR if self.form else out.STDOUT
        self.stream = Stream(target, not words.flag("no_prefix"), words.flag("timestamps"))
        self.progress = Progress(self.stream, shown=not self.quiet)
        self.interrupts = 0
        self.stopping = False
        self.following: Following | None = None
        self.taken_back: RunStatus | None = None  # how a run ended that had no lead yet

    def follow(self) -> int:
        """Until the run has ended; its exit code."""
        self._take_signals()
        following = self.following = Following(self.run, True, 0, None)
        while not following.done:
            try:
                self._take(following.events(0.0 if following.fileno() >= 0 else LOOK))
            except RunNotFound:
                if self.taken_back is None:
                    raise
            hopeless = "" if self.stopping else following.hopeless
            if hopeless:
                self._give_up(hopeless)
            if self.taken_back is not None:
                break
            if not following.done:
                self._wait(following)
        self.progress.clear()
        if not self.stream.end():
            self._reader_gone()
        following.close()
        return self._end(self.taken_back or following.status or self.run.status())

    # --- what happens ---

    def _wait(self, following: Following) -> None:
        """For news, for time to pass where something is to be redrawn, for the reader to go."""
        fd = following.fileno()
        if fd < 0:  # events() has waited
            self.progress.tick()
            return
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not self.stream.closed:
            poll.register(self.stream.fd, 0)  # tells only that its reader has gone
        waits = self.stream.waiting or self.progress.waiting
        found = poll.poll(LOOK * 1000 if waits else None)
        if any(ready == self.stream.fd and ready != fd for ready, _ in found):
            self._reader_gone()
        if self.stream.waiting and not self.stream.tick():
            self._reader_gone()
        self.progress.tick()

    def _take(self, events: list[Event]) -> None:
        for event in events:
            if event.chunk is not None:
                self.stream.add(event.chunk)
            elif event.said:
                self._tell(event.said)
            elif event.status is not None:
                self.progress.update(event.status)
        if self.stream.pending:
            self.progress.clear()
            if not self.stream.flush():
                self._reader_gone()

    def _tell(self, text: str) -> None:
        if not self.quiet:
            self.progress.clear()
            lines = f"hora: {text}".split("\n")  # stacks have many
            self.stream.tell("\n".join(out.filled(out.plain(line), out.STDERR) for line in lines))

    # --- ends from this side ---

    def _take_signals(self) -> None:
        handlers = {
            signal.SIGINT: self._interrupted,
            signal.SIGTERM: lambda *_: self._stop("terminated"),
            signal.SIGHUP: lambda *_: self._stop("hangup"),
        }
        for number, handler in handlers.items():
            if signal.getsignal(number) != signal.SIG_IGN:  # as nohup and `&` want it
                signal.signal(number, handler)

    def _interrupted(self, *_: Any) -> None:
        self.interrupts += 1
        self.progress.hide_echo()
        if self.interrupts == 1:
            self._tell(
                f"stopping: SIGTERM to the ranks, SIGKILL after {report.seconds(self.grace)}; "
                "Ctrl-C again kills them now"
            )
            self._stop("ctrl-c")
        elif self.interrupts == 2:
            self._tell("killing the ranks")
            self._stop("ctrl-c", kill=True)
        else:  # the lead doesn't answer, or our reader doesn't read: the run ends when we are gone
            # One more, while Python tidies up, would end us without 130.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            raise KeyboardInterrupt

    def _reader_gone(self) -> None:
        """Nobody reads stdout: end as a program that SIGPIPE ends; a closed terminal is what SIGHUP tells."""
        self.stream.close()
        if not self.stream.on_terminal:
            self._stop("unread")
        elif signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            self._stop("hangup")

    def _stop(self, why: str, kill: bool = False) -> None:
        """Once, since the lead takes a second request for impatience; `kill` is meant so."""
        if self.stopping and not kill:
            return
        self.stopping = True
        self._ask("stop", why=why, kill=kill)

    def _ask(self, kind: str, **values: Any) -> None:
        connection = self.following.connection if self.following is not None else self.run.owner
        if connection is None:
            self._without_lead(kind, values["why"])
            return
        try:
            connection.ask(kind, **values)
        except LeadGone:
            pass  # it has ended, or the run's keeper ends it

    def _without_lead(self, kind: str, why: str) -> None:
        """Nobody is there to be asked: the place takes back a run that hasn't begun."""
        status = self.following.status if self.following is not None else None
        if status is None or status.phase != state.QUEUED:
            return
        self.run.place.give_up(self.run.id)
        phase = state.FAILED if kind == "fail" else state.STOPPED
        code = EXIT_HORA if kind == "fail" else EXIT_INTERRUPTED
        reason = why if kind == "fail" else "before its lead had begun; nothing of it is left"
        self.taken_back = replace(
            status, phase=phase, reason=reason, exit_code=code, origin=state.ORIGIN_HORA
        )

    def _give_up(self, why: str) -> None:
        """The run will never begin, the place says."""
        self.stopping = True
        self._ask("fail", why=why)

    def _end(self, status: RunStatus) -> int:
        if self.form:
            out.structured(status.to_json(), self.form)
        failed = status.phase != "succeeded"
        if (failed or not self.quiet) and not self.stream.closed:
            report.verdict(status, self.stream, self.quiet)
        return report.exit_code(status)
