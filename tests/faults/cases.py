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
MOMENTS = ("begin", "output", "stop", "failing")
SEEDS = range(30)  # of the random faults that every test run has

LEAD = (FAILED, 125, r"lead of this run was (ended|killed)|gone without a verdict")
AGENT = (FAILED, 125, r"agent")
KEEPER = (FAILED, 125, r"keeper|agent")
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

    @property
    def name(self) -> str:
        return f"{' + '.join(self.kinds)} at {self.moment}, {'attached' if self.attached else 'detached'}"

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
        if self.moment == "stop":
            found += [ASKED]
        if self.moment == "failing":
            found += [RANK]
        if self.moment == "begin":
            found += [NEVER, GONE] if "client" in self.kinds or "keeper" in self.kinds else []
        return found


def scattered(chance: random.Random) -> Case:
    """A case at random; with the same seed the same."""
    kinds: tuple[str, ...] = (chance.choice(SINGLES),) if chance.random() < 0.7 else chance.choice(PAIRS)
    ranks = chance.randint(2, 4)
    moment = chance.choice(("begin", "begin", "output", "output", "stop", "failing"))
    if moment == "begin" and {"rank", "grandchild"} & set(kinds):
        moment = "output"
    longest = {"begin": 0.6 if kinds == ("client",) else 0.25, "output": 0.3, "stop": 1.4, "failing": 1.4}[
        moment
    ]
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
    trial = Trial(folder, test_id, case.ranks, case.attached).start()
    try:
        _reach(case, trial)
        trial.kill(*case.victims(trial))
        wrong = []
        if case.unharmed or (case.moment in ("begin", "output") and not trial.killed):
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
    elif case.moment == "failing":
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
