"""Why a run doesn't run: causes, each with its next step, from what the API shows.  Pure.

`causes` reads the objects of a run, `refused` an answer of the API server.
"""

from __future__ import annotations

from hora.agent.lead.sentences import duration, few
from hora.places.kubernetes import words
from hora.places.kubernetes.why import jobs, objects, pods
from hora.places.kubernetes.why.kinds import KINDS, PROGRESS, SINCE, Cause, Finding, Reason, Seen, rank
from hora.places.kubernetes.why.refusals import refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["KINDS", "PROGRESS", "Cause", "Seen", "causes", "refused"]


def causes(seen: Seen, base: str) -> tuple[Cause, ...]:
    """The gravest and most specific first.  `base`: what the run's objects are called (words.base)."""
    all_jobs = objects.ours(seen, base, seen.jobs)
    lead = next((job for job in all_jobs if objects.role(job) == words.LEAD), None)
    if lead is not None and jobs.over(lead) and jobs.failed(lead) is None:
        return ()  # its end is the run's, and told by the lead
    findings = list(_findings(seen, base))
    everybody = [name for job in all_jobs for name in objects.members_of(job)]
    return _folded(findings, [name for name in everybody if name != words.LEAD], seen.now)


def _findings(seen: Seen, base: str) -> Iterator[Finding]:
    events = objects.Events(seen.events)
    by_member = objects.by_member(objects.ours(seen, base, seen.pods))
    for job in objects.ours(seen, base, seen.jobs):
        whose = objects.members_of(job)
        ended = jobs.failed(job)
        if ended is not None:
            yield from (Finding(name, ended) for name in whose)
        if jobs.over(job):
            continue
        missing = [name for name in whose if _needs_pod(by_member.get(name, ()))]
        held = jobs.waiting(job, missing, seen, events)
        if held is not None:
            yield from (Finding(name, held) for name in missing or whose)
            continue
        absent = [name for name in missing if name not in by_member]
        quiet = jobs.silent(job, absent, seen)
        if quiet is not None:
            yield from (Finding(name, quiet) for name in absent)
    for name, own in by_member.items():
        for reason in pods.reasons(own, seen, events, base):
            yield Finding(name, reason)


def _needs_pod(own: Sequence[dict[str, object]]) -> bool:
    """The Job makes another pod for one that failed."""
    return not any(objects.phase(pod) != "Failed" for pod in own)


# --- equal causes of several members are one sentence ------------------------------------------------


def _folded(findings: Sequence[Finding], everybody: Sequence[str], now: float) -> tuple[Cause, ...]:
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        reason = finding.reason
        groups.setdefault((reason.kind, reason.what, reason.next, reason.final), []).append(finding)
    order = {name: position for position, name in enumerate([words.LEAD, *everybody])}
    made = []
    for group in groups.values():
        members = sorted(
            {each.member for each in group}, key=lambda name: (order.get(name, len(order)), name)
        )
        since = min((each.reason.since for each in group if each.reason.since is not None), default=None)
        made.append(_cause(group[0].reason, members, everybody, since, now))
    made.sort(key=lambda cause: (rank(cause.kind, cause.final), -len(cause.members)))
    return tuple(made)


def _cause(
    reason: Reason, members: Sequence[str], everybody: Sequence[str], since: float | None, now: float
) -> Cause:
    ago = f" since {duration(max(now - since, 0.0))}" if since is not None else ""
    return Cause(
        who=_who(members, everybody),
        what=reason.what.replace(SINCE, ago),
        next=reason.next,
        members=tuple(members),
        kind=reason.kind,
        final=reason.final,
    )


def _who(members: Sequence[str], everybody: Sequence[str]) -> str:
    """worker-0 … worker-3 (4 of 8 members)."""
    workers = [name for name in members if name != words.LEAD]
    lead = [words.LEAD] if len(workers) < len(members) else []
    if len(workers) > 2 and len(workers) == len(everybody):
        return " and ".join([*lead, f"all {len(workers)} members"])
    told = few(_ranges(workers, everybody), 3) if len(workers) > 2 else " and ".join(workers)
    of = f" ({len(workers)} of {len(everybody)} members)" if len(workers) > 2 else ""
    return " and ".join(part for part in [*lead, f"{told}{of}"] if part)


def _ranges(names: Sequence[str], everybody: Sequence[str]) -> list[str]:
    """Neighbours as first … last."""
    position = {name: at for at, name in enumerate(everybody)}
    runs: list[list[str]] = []
    for name in names:
        last = runs[-1][-1] if runs else ""
        same = name.rpartition("-")[0] == last.rpartition("-")[0]
        if last and same and position.get(name) == position.get(last, -2) + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    return [
        run[0] if len(run) == 1 else f"{run[0]} … {run[-1]}" if len(run) > 2 else f"{run[0]}, {run[1]}"
        for run in runs
    ]
