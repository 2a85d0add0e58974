"""All that a run survives, and how many tests there are of it: counted by collecting them, so it can't drift."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHOLE = ("tests/faults", "tests/link", "tests/survival")  # suites of which every test counts
OWN = "tests/faults/test_page.py"  # but for those of the page itself

KILLED = "tests/faults/test_faults.py::test_"
SIGNALS = "tests/cli/test_signals.py::test_"

# What happens; the beginnings of the names of its tests.
ROWS = (
    ("a part of Hora, a rank or its descendant is killed while the ranks write", (f"{KILLED}what_is_killed_while",)),
    ("the same under mpirun", (f"{KILLED}what_is_killed_under",)),
    ("each rank in turn is killed", (f"{KILLED}each_rank",)),
    (
        "each kind of descendant is killed: it ignores SIGTERM, has a session of its own, has forked twice",
        (f"{KILLED}a_run_does_not_mind",),
    ),
    ("kills at random moments", (f"{KILLED}a_kill_at_a_random",)),
    (
        "the end is asked for: Ctrl-C once and twice, SIGTERM, a closed terminal, Ctrl-Z and `fg`, `hora stop`, time-outs",
        ("tests/faults/test_endings.py", SIGNALS),
    ),
    (
        "links are cut for 20 s, swallow, break again and again; hosts vanish, fall silent and come back",
        ("tests/link/test_breaks.py",),
    ),
    (
        "code on its way to hosts: links are cut, hosts replaced, archives broken; new code half-way, leads killed over it",
        ("tests/link/test_code.py", "tests/link/test_sync.py"),
    ),
    ("copies and open ports whose ways break: nothing half is left", ("tests/link/test_ways.py",)),
    ("several hosts: one never comes, can't be reached, has another Python", ("tests/link/test_hosts.py",)),
    ("the lead of several hosts is killed and another takes its place", ("tests/link/test_second_lead.py",)),
    ("the end is asked of a host on which the attempt never began", ("tests/link/test_orders.py",)),
    ("an agent or a keeper is asked to end by others than Hora", ("tests/survival/test_asked_to_end.py",)),
    ("clients say what makes no sense, or in the wrong order", ("tests/survival/test_clients.py",)),
    ("files are damaged, as after a power cut", ("tests/survival/test_damage.py",)),
    ("processes that nobody can kill", ("tests/survival/test_unkillable.py",)),
    (
        "strangers at the lead's door: no or a wrong certificate, garbage, silence, slowness",
        ("tests/link/test_entrance.py", "tests/link/test_identity.py"),
    ),
    ("readers of the output stop reading, are suspended, killed or late", ("tests/survival/test_readers.py",)),
    (
        "the disk of the state folder is or gets full; the folder can't be read or written, or is removed",
        ("tests/survival/test_disks.py",),
    ),
    (
        "hostile output: 200 MB without a line's end, every byte, `\\r`, a closed stdout, one kept open by a grandchild",
        ("tests/survival/test_output.py",),
    ),
    (
        "hostile names: folders, arguments, variables with spaces, quotes, line ends, `$`, what is no text",
        ("tests/survival/test_hostile.py",),
    ),
    (
        "stalls: ranks stuck in Python, in C and suspended; questions to ranks that have no handler",
        ("tests/survival/test_stalls.py",),
    ),
    ("several failures: which was the first, and what were its echoes", ("tests/survival/test_first_failure.py",)),
    ("restarts: needed once, used up, refused for mistakes; addresses in use", ("tests/survival/test_restarts.py",)),
    (
        "commands, folders, set-ups, names and places that are wrong or not there",
        ("tests/survival/test_refusals.py",),
    ),
    (
        "odd surroundings: limits, locales, closed files, full tables of processes and files, clocks that jump, many ranks",
        ("tests/survival/test_surroundings.py",),
    ),
    ("broken job files", ("tests/unit/test_load_broken.py",)),
)  # fmt: skip


def table() -> str:
    tests = collected()
    counts = [sum(test.startswith(names) for test in tests) for _, names in ROWS]
    rows = [f"| {what} | {count} |" for (what, _), count in zip(ROWS, counts)]
    return "\n".join(["| what happens | tests |", "|---|---|", *rows, f"| all | {sum(counts)} |"]) + "\n"


def _python() -> str:
    """One that has pytest and what the tests need: scripts/docs-faults may be run by any."""
    if importlib.util.find_spec("hypothesis") is not None:
        return sys.executable
    return subprocess.check_output([str(ROOT / "scripts" / "setup")], text=True).strip()


def collected() -> list[str]:
    """Ids of the tests of all files that the rows name, and of all whole suites."""
    files = {name.partition("::")[0] for _, names in ROWS for name in names}
    others = sorted(file for file in files if not file.startswith(WHOLE))
    done = subprocess.run(
        [
            _python(), "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider",
            "-o", "addopts=--import-mode=importlib", *WHOLE, *others,
        ],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"the tests can't be collected:\n{done.stdout}{done.stderr}")
    return [line for line in done.stdout.splitlines() if "::" in line]
