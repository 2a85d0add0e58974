"""`hora ps` and `hora status`."""

from __future__ import annotations

import time

from hora import api, state
from hora.cli import out, report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hora.cli.words import Words
    from hora.state import MemberState, RunStatus

MOST_RANKS = 40  # that a status lists one by one
OF_EACH_STATE = 5  # else
HEAD = ("ID", "NAME", "PHASE", "RANKS", "AGE", "TOOK", "REASON")
HEAD_WIDE = (
    "ID",
    "NAME",
    "PLACE",
    "PHASE",
    "CODE",
    "ORIGIN",
    "ATTEMPT",
    "RANKS",
    "CREATED",
    "TOOK",
    "COMMAND",
)


def chosen_run(words: Words) -> api.Run:
    """The run that was named; the newest where none was."""
    name = words.text("run")
    return api.get_run(_newest(words) if name is None else name, **words.where)


def _newest(words: Words) -> str:
    from hora.errors import UsageError
    from hora.places import elsewhere

    known = [(run.created_at or 0.0, run.id) for run in listed(words)]
    if not words.where:
        known += [(run.created_at, run.run) for run in elsewhere.all_runs()]
    if not known:
        raise UsageError("there are no runs: `hora run -n 2 COMMAND` starts one")
    return max(known)[1]


def listed(words: Words) -> list[RunStatus]:
    return api.list_runs(**words.where)


# --- ps ---


def ps(words: Words) -> int:
    runs = listed(words)
    if words.flag("running"):
        runs = [run for run in runs if not run.ended]
    form = words.text("output")
    if form in ("json", "yaml"):
        out.structured([run.to_json() for run in runs], form)
        return 0
    if not runs:
        out.tell("hora: there are no runs" + " that go on" * words.flag("running"))
        return 0
    now = time.time()
    wide = form == "wide"
    rows = [_wide_row(run, now) if wide else _row(run, now) for run in runs]
    columns = 10_000 if wide else out.width(out.STDOUT)
    lines = out.table(HEAD_WIDE if wide else HEAD, rows, columns)
    out.result("\n".join([lines[0], *map(_painted, lines[1:], runs)]))
    return 0


def _row(run: RunStatus, now: float) -> Sequence[str]:
    age = "-" if run.created_at is None else short(now - run.created_at)
    return run.id, run.name, run.phase, str(_ranks(run)), age, _took(run, now), run.reason


def _wide_row(run: RunStatus, now: float) -> Sequence[str]:
    import shlex

    created = "-" if run.created_at is None else moment(run.created_at)
    code = "-" if run.exit_code is None else str(run.exit_code)
    words = (run.id, run.name, run.place, run.phase, code, run.origin or "-", str(run.attempt))
    return *words, str(_ranks(run)), created, _took(run, now), shlex.join(run.command)


def _painted(line: str, run: RunStatus) -> str:
    colour = report.COLOURS.get(run.phase, "")
    return line.replace(run.phase, out.paint(run.phase, colour, out.STDOUT), 1) if colour else line


def _ranks(run: RunStatus) -> int:
    return sum(len(member.ranks) for member in run.members)


def _took(run: RunStatus, now: float) -> str:
    if run.started_at is None:
        return "-"
    return short((run.ended_at or now) - run.started_at)


def short(seconds: float) -> str:
    """0.4s, 12s, 5m10s, 25m, 3h20m, 2d4h."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f}s"
    for unit, size, smaller, rest in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= size:
            more = int(seconds % size // rest) if seconds < 10 * size else 0
            return f"{int(seconds // size)}{unit}" + (f"{more}{smaller}" if more else "")
    return f"{seconds:.0f}s"


def moment(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


# --- status ---


def status(words: Words) -> int:
    found = chosen_run(words).status()
    form = words.text("output")
    if form in ("json", "yaml"):
        out.structured(found.to_json(), form)
        return 0
    columns = 10_000 if form == "wide" else out.width(out.STDOUT)
    most = None if form == "wide" else MOST_RANKS
    lines = [report.sentence(found, out.STDOUT), *_about(found, columns), *_members(found, columns, most)]
    out.result("\n".join([*lines, *_failure(found), *_notes(found), *_next(found)]))
    return 0


def _about(found: RunStatus, columns: int) -> list[str]:
    import shlex

    now = time.time()
    facts = [f"framework {found.framework}", f"place {found.place}"]
    if found.code:
        facts.append(f"code {found.code}")
    if found.attempt > 1:
        facts.append(f"attempt {found.attempt}")
    if found.exit_code is not None:
        facts.append(f"exit code {found.exit_code} ({'of the job' if found.origin == 'job' else 'by Hora'})")
    times = []
    if found.created_at is not None:
        times.append(f"created {moment(found.created_at)}, {short(now - found.created_at)} ago")
    if found.started_at is not None:
        times.append(f"{'took' if found.ended else 'runs for'} {_took(found, now)}")
    lines = (shlex.join(found.command), "; ".join(facts), "; ".join(times))
    return ["  " + out.cut(line, columns - 2) for line in lines if line]


def _members(found: RunStatus, columns: int, most: int | None) -> list[str]:
    rows = [row for member in found.members for row in _rows_of(member)]
    if not rows:
        return []
    shown, left_out = (rows, []) if most is None or len(rows) <= most else _examples(rows)
    return ["", *out.table(("MEMBER", "HOST", "RANK", "LOCAL", "PID", "STATE"), shown, columns), *left_out]


def _examples(rows: Sequence[Sequence[str]]) -> tuple[list[Sequence[str]], list[str]]:
    """Some ranks of each state, and how many more there are."""
    count: dict[str, int] = {}
    shown = []
    for row in rows:
        count[row[-1]] = count.get(row[-1], 0) + 1
        if count[row[-1]] <= OF_EACH_STATE:
            shown.append(row)
    more = [
        f"and {number - OF_EACH_STATE} more: {text}"
        for text, number in count.items()
        if number > OF_EACH_STATE
    ]
    return shown, [*more, "all of them: -o wide"]


def _rows_of(member: MemberState) -> list[Sequence[str]]:
    host = member.host or "-"
    if not member.ranks:
        return [(member.name, host, "-", "-", "-", f"{member.phase} {member.note}".strip())]
    return [
        (f"{member.name}/{rank.number}", host, str(rank.rank), str(rank.local_rank), str(rank.pid or "-"),
         _state(rank, member))
        for rank in member.ranks
    ]  # fmt: skip


def _state(rank: state.RankState, member: MemberState) -> str:
    if rank.state != state.EXITED:
        return f"{rank.state}: {member.note}" if member.note else rank.state
    if rank.signal is not None:
        text = f"ended by signal {rank.signal}"
    else:
        text = f"exited with code {rank.exit_code}"
    return text + (", stopped by Hora" if rank.stopped else "")


def _failure(found: RunStatus) -> list[str]:
    failure = found.first_failure
    if failure is None:
        return []
    host = f" on {failure.host}" if failure.host else ""
    attempt = f" in attempt {failure.attempt}" if found.attempt > 1 else ""
    lines = ["", f"first failure: {failure.label or failure.member} {failure.cause}{host}{attempt}"]
    lines += [f"  {line}" for line in report.last_lines(failure, 50)]
    return lines + [f"  {line}" for line in report.consequences(found, failure)]


def _notes(found: RunStatus) -> list[str]:
    return ["", "notes", *(f"  {note}" for note in found.notes)] if found.notes else []


def _next(found: RunStatus) -> list[str]:
    failure = found.first_failure
    which = f" --rank {failure.rank}" if failure is not None and failure.rank is not None else ""
    if found.ended:
        return ["", f"next: hora logs {found.id}{which} · hora rm {found.id}"]
    return ["", f"next: hora logs -f {found.id} · hora stacks {found.id} · hora stop {found.id}"]
