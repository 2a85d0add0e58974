"""docs/reference/faults.md, made from the cases that the tests carry out; scripts/docs-faults writes it."""

from __future__ import annotations

import random

from faults.cases import SEEDS, TABLE, UNDER_MPI, Case, scattered
from faults.lab import GONE_WITHIN
from faults.survived import table

DEFAULT_COUNT = 250  # of scripts/faults

HEAD = f"""# Faults that a run survives

Made from the tests by `scripts/docs-faults`; don't edit it here.

A run on this machine is four kinds of processes: the **client** (`hora run`), a **keeper**, below it the **lead** and
the **agent**, and below the agent the **ranks** with all that they start. Each of them can be killed at any moment
(`kill -9`, the OOM killer). Then, and also when several die at once:

- nothing is left after {GONE_WITHIN:.0f} s: no rank, and no descendant of one, whether it ignores SIGTERM, has a session
  of its own or has forked twice like a daemon;
- every line that a rank had written is in `hora logs`, once and in order;
- `hora status` tells an end, in one sentence that is true; the first failure is the first;
- `hora run` ends, with the exit code below, and has shown what is kept;
- `hora rm` removes all that there was.

## What you see

| killed | the run | exit code | `hora status` says |
|---|---|---|---|
"""

OTHERS = """
The ranks' own end stands: when a rank had failed before a part of Hora was killed, or before you pressed Ctrl-C, the
run ends with that failure. When agent *and* keeper die at the same moment, what was in the pipes just then (at most
some hundredths of a second of output) is lost: nobody holds them any more. When nobody at all is left, the next `hora`
command that looks at the run ends what its ranks left behind and writes its end.

## Ends that are asked for

| | the ranks | exit code |
|---|---|---|
| Ctrl-C (SIGINT) | have `timeouts.grace` to save | 130 |
| Ctrl-C twice | are killed | 130 |
| SIGTERM to `hora run` | have their grace | 143 |
| terminal closed (SIGHUP) | have their grace | 129 |
| `hora stop` | have their grace | 143 |
| `hora stop --kill` | are killed | 143 |
| `timeouts.total` | have their grace | 124 |
| `kill -9` of `hora run` | have their grace; with `--detach` they go on | – |

The grace: SIGTERM to the main process of each rank; after `timeouts.grace` SIGTERM to its process group; at most 2 s
later SIGKILL. Asking for the end a second time takes no time away unless it says kill. Should Hora's own lead be
killed, ranks have at most 3 s.

## How it is tested

Ranks write numbered lines without pause, first to a file of their own and then to stdout; their children ignore SIGTERM,
call `setsid`, fork twice. Each test kills with SIGKILL, then looks for leftovers, compares every line, and asks `hora
status` and `hora rm`.

"""


# Killed; what becomes of the run; exit code; what `hora status` says.  Rows of the page in docs/reference.
FALLS = (
    ("client", "is stopped", "129", "stopped because the `hora run` that it belonged to went away"),
    ("client, detached", "goes on", "", ""),
    (
        "lead",
        "fails",
        "125",
        "the lead of this run was killed by signal 9 (SIGKILL), so its ranks were ended, too",
    ),
    (
        "agent",
        "fails",
        "125",
        "worker-0/0 was lost: its agent was killed by signal 9 (SIGKILL) 12 s after its start",
    ),
    ("keeper", "fails", "125", "the keeper on HOST was killed, so its ranks were ended"),
    (
        "a rank",
        "fails",
        "137",
        "worker-0/0 was killed by signal 9 (SIGKILL): somebody or the OOM killer killed it",
    ),
    ("a rank's descendant", "goes on", "", ""),
    (
        "keeper and lead",
        "fails",
        "125",
        "lead and keeper of this run were killed, so its ranks were ended, too",
    ),
    ("keeper and agent", "fails", "125", "the keeper of this run was killed"),
    (
        "lead and agent and keeper",
        "fails",
        "125",
        "its processes are gone without a verdict: all were killed, or the machine was restarted",
    ),
)


def page() -> str:
    rows = [f"| {' | '.join(row)} |" for row in FALLS]
    return HEAD + "\n".join(rows) + "\n" + OTHERS + counts() + "\n" + LONG + ELSE + table()


def counts() -> str:
    """How many faults every test run has, by what is killed."""
    drawn = [scattered(random.Random(seed)) for seed in SEEDS]
    groups = (TABLE, UNDER_MPI, drawn)
    kinds = sorted(
        {name(case) for group in groups for case in group}, key=lambda text: (text.count("+"), text)
    )
    rows = ["| killed | while the ranks write | under mpirun | at random moments |", "|---|---|---|---|"]
    rows += [f"| {kind} | {' | '.join(_count(kind, group) for group in groups)} |" for kind in kinds]
    rows += [f"| all | {' | '.join(str(len(group)) for group in groups)} |"]
    return "\n".join(rows) + "\n"


def name(case: Case) -> str:
    return " + ".join(case.kinds)


def _count(kind: str, group: list[Case]) -> str:
    found = sum(name(case) == kind for case in group)
    return str(found) if found else "–"


LONG = f"""The random moments are in the first phases of a run, while it writes, while it is being stopped, and while it
stops after a failure. `scripts/faults` goes on with {DEFAULT_COUNT} more, or for hours (`--hours 8`); a seed always means the
same fault.
"""

ELSE = """
## All that is survived

Every test of the suites `faults`, `link` and `survival`, and what other suites have of the kind: real processes, real
signals, real sockets and disks. `scripts/fuzz` goes on with broken job files of its own making.

"""
