"""What is killed when, and what users must see then.  The table in docs/reference/faults.md is made of this."""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass
from pathlib import Path

from faults.lab import Trial, wait_until
from hora.state import FAILED, STOPPED, RunStatus

SINGLES = ("client", "lead", "agent", "keeper", "rank", "grandchild")
PAIRS = (
    ("lead", "agent"), ("keeper", "lead"), ("keeper", "agent"), ("client", "lead"), ("client", "agent"),
    ("client", "keeper"), ("rank", "lead"), ("rank", "agent"), ("rank", "keeper"), ("rank", "client"),
    ("lead", "agent", "keeper"), ("client", "lead", "agent", "keeper"),
)  # fmt: skip
# In the first phases; while all write; after a stop was asked for; after a rank was killed, without and with restarts.
MOMENTS = ("begin", "output", "stop", "failing", "restart")
SEEDS = range(30)  # of the random faults that every test run has

LEAD = (FAILED, 125, r"lead of this run was killed by signal 9|lead and keeper of this run were killed")
AGENT = (FAILED, 125, r"its agent was killed by signal 9|agent and keeper were killed")
KEEPER = (FAILED, 125, r"keeper (on \S+|of this run) was killed|lead and keeper of this run were killed")
OWNER = (STOPPED, 129, r"`hora run` .*went away")
ASKED = (STOPPED, 143, r"stopped by `hora stop`")
RANK = (FAILED, 137, r"was killed by signal 9 \(SIGKILL\)")
GONE = (FAILED, 125, r"without a verdict")  # nobody lived to give one
NEVER = (FAILED, 125, r"never began")

Outcome = "tuple[str, int, str]"


@dataclass(frozen=True)
class Case:
    kinds: tuple[str, ...]
    moment: str = "output"
    attached: bool = True
    ranks: int = 4
    target: int = 0  # of "rank"
    grandchild: int = 0  # which of the descendants
    delay: float = 0.0
    framework: str = "plain"

    @property
    def name(self) -> str:
        under = "" if self.framework == "plain" else f" under {self.framework}"
        how = "attached" if self.attached else "detached"
        return f"{' + '.join(self.kinds)} at {self.moment}, {how}{under}"

    def victims(self, trial: Trial) -> list[str]:
        names = trial.grandchildren()
        real = {"rank": f"rank-{self.target}", "grandchild": names[self.grandchild % len(names)]}
        return [real.get(kind, kind) for kind in self.kinds]

    @property
    def unharmed(self) -> bool:
        """The run must go on as if nothing had happened."""
        harmless = {"grandchild"} if self.attached else {"grandchild", "client"}
        return self.moment in ("begin", "output") and set(self.kinds) <= harmless

    @property
    def may_go_on(self) -> bool:
        """A second restart follows; an agent that had been given nothing to do is just started again."""
        return self.moment == "restart" or (self.moment == "begin" and "agent" in self.kinds)

    @property
    def may_lose_lines(self) -> bool:
        """Whatever was in a pipe is lost when nobody who holds the pipe is left."""
        return {"agent", "keeper"} <= set(self.kinds)

    def outcomes(self) -> list[tuple[str, int, str]]:
        known = {"lead": LEAD, "agent": AGENT, "keeper": KEEPER, "client": OWNER, "rank": RANK}
        found = [known[kind] for kind in self.kinds if kind in known]
        if self.unharmed:
            return [ASKED]
        if len(self.kinds) > 1:
            found += [GONE]
        if self.moment == "stop" or self.may_go_on:
            found += [ASKED]
        if self.moment in ("failing", "restart"):
            found += [RANK]
        if self.moment == "begin":
            found += [NEVER, GONE] if "client" in self.kinds or "keeper" in self.kinds else []
        return found


TABLE = [Case((kind,), attached=attached) for kind in SINGLES for attached in (True, False)]
TABLE += [Case(kinds) for kinds in PAIRS]
UNDER_MPI = [Case((kind,), framework="mpi", ranks=3) for kind in SINGLES]
UNDER_MPI += [Case(kinds, framework="mpi", ranks=3) for kinds in PAIRS[:3]]


def scattered(chance: random.Random) -> Case:
    """A case at random; with the same seed the same."""
    kinds: tuple[str, ...] = (chance.choice(SINGLES),) if chance.random() < 0.7 else chance.choice(PAIRS)
    ranks = chance.randint(2, 4)
    moment = chance.choice(("begin", *MOMENTS))
    if moment == "begin" and {"rank", "grandchild"} & set(kinds):
        moment = "output"
    longest = {"begin": 0.25, "output": 0.3}.get(moment, 1.4)
    if kinds == ("client",):
        longest += 0.4  # its own beginning
    return Case(
        kinds,
        moment,
        attached=chance.random() < 0.6,
        ranks=ranks,
        target=chance.randrange(ranks),
        grandchild=chance.randrange(6),
        delay=chance.random() ** 2 * longest,
    )


def carry_out(case: Case, folder: Path, test_id: str) -> list[str]:
    """Run the case; everything that was wrong."""
    trial = Trial(folder, test_id, case.ranks, case.attached)
    trial.start(framework=case.framework, restarts=3 if case.moment == "restart" else 0)
    try:
        _reach(case, trial)
        trial.kill(*case.victims(trial))
        wrong = []
        if (
            case.unharmed
            or (case.moment in ("begin", "output") and not trial.killed)
            or (case.may_go_on and _went_on(trial))
        ):
            wrong += _go_on(trial)
        status = trial.ended() if _has_run(trial) else None
    except TimeoutError as problem:
        run = trial.run
        return [f"{problem}; status: {run.status().reason if run else 'no run'}"]
    if status is not None:
        wrong += _wrong_end(case, trial, status)
    return wrong + trial.problems(status, case.may_lose_lines)


def _go_on(trial: Trial) -> list[str]:
    """The run is as good as before, and then ends when asked."""
    if trial.run is None:
        return []  # its client was killed before it made one
    trial.reach_output()
    wrong = [] if trial.goes_on() else [f"the run did not go on: {trial.the_run().status().reason}"]
    trial.stop()
    return wrong


def _went_on(trial: Trial) -> bool:
    """Which of the two happens shows when all ranks write more, or when the run has ended."""
    before = [trial.written(rank) for rank in range(trial.ranks)]

    def settled() -> bool:
        return trial.run is None or trial.the_run().status().ended or trial.is_writing(beyond=before)

    wait_until(settled, "the run ends or goes on", 30.0)
    return trial.run is not None and not trial.the_run().status().ended


def _has_run(trial: Trial) -> bool:
    """A client that was killed early may have made none."""
    if "client" not in trial.killed:
        wait_until(lambda: trial.run, f"a run is there ({trial.client_log()})", 15.0)
    return trial.run is not None


def _reach(case: Case, trial: Trial) -> None:
    if case.moment == "begin":
        parts = [kind for kind in case.kinds if kind != "client"]
        if parts:
            wait_until(lambda: any(trial.pid(part) for part in parts) or _over(trial), "they are there", 15.0)
        _pause(case.delay)
        return
    trial.reach_output()
    if case.moment == "stop":
        trial.stop()
    elif case.moment in ("failing", "restart"):
        trial.kill(f"rank-{(case.target + 1) % case.ranks}")
    _pause(case.delay)


def _over(trial: Trial) -> bool:
    return trial.client is not None and trial.client.poll() is not None


def _pause(seconds: float) -> None:
    """The seed's moment: this is no wait for anything."""
    time.sleep(seconds)


def _wrong_end(case: Case, trial: Trial, status: RunStatus) -> list[str]:
    told = f"{status.phase} {status.exit_code}: {status.reason}"
    outcomes = case.outcomes() if trial.killed else [ASKED]
    fitting = [one for one in outcomes if (status.phase, status.exit_code) == one[:2]]
    if not any(re.search(one[2], status.reason) for one in fitting):
        return [f"ended otherwise than expected: {told}"]
    failure = status.first_failure
    if status.exit_code != 137:
        return []
    victims = {f"worker-{name[5:]}/0" for name in trial.killed if name.startswith("rank-")}
    if failure is None or failure.label not in victims or failure.signal != 9:
        return [f"the first failure should be one of {victims}: {failure}"]
    return []
