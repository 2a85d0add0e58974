"""A rank that is hard to end: descendants that get away, lines without pause, signals that it doesn't mind.

`python program.py FOLDER`.  Every line is written to FOLDER/lines-RANK before it goes to stdout, so whatever
happens, at most the last line of that file may be missing in what was kept.  FOLDER/pids/ names processes.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time

CATCHABLE = sorted(set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD})
CARELESS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def main() -> None:
    folder, rank = sys.argv[1], int(os.environ["HORA_RANK"])
    for kind in FAMILIES[rank % len(FAMILIES)]:
        FAMILY[kind](folder, f"{kind}-{rank}")
    MANNERS[rank % len(MANNERS)](folder, rank)
    note(folder, f"rank-{rank}")
    talk(folder, rank)


def talk(folder: str, rank: int) -> None:
    """Bursts of numbered lines."""
    chance = random.Random(rank)
    attempt = os.environ["HORA_ATTEMPT"]
    side = os.open(os.path.join(folder, f"lines-{rank}"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    number = 0
    while number < 300_000:
        for _ in range(chance.randint(1, 30)):
            number += 1
            line = f"{attempt} {rank} {number:06d} {'x' * chance.randint(0, 120)}\n".encode()
            os.write(side, line)
            os.write(1, line)
        time.sleep(chance.choice((0.001, 0.003, 0.01)))


# --- descendants -------------------------------------------------------------------------------------


def stubborn(folder: str, name: str) -> None:
    """A child with a child, both deaf to SIGTERM, that keep stdout open."""
    if os.fork() == 0:
        ignore()
        if os.fork() == 0:
            stay(folder, name)
        stay(folder, f"parent-of-{name}")


def session(folder: str, name: str) -> None:
    """A child in a session of its own, with a child."""
    if os.fork() == 0:
        os.setsid()
        ignore()
        if os.fork() == 0:
            stay(folder, name)
        stay(folder, f"parent-of-{name}")


def daemon(folder: str, name: str) -> None:
    """Forks twice, as daemons do, and lets go of everything."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            ignore()
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            stay(folder, name)
        os._exit(0)
    os.wait()


def ignore() -> None:
    for number in CARELESS:
        signal.signal(number, signal.SIG_IGN)


def stay(folder: str, name: str) -> None:
    note(folder, name)
    while True:
        signal.pause()


def note(folder: str, name: str) -> None:
    path = os.path.join(folder, "pids", name)
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    os.replace(path + ".new", path)


# --- what a rank does with signals -------------------------------------------------------------------


def plain(folder: str, rank: int) -> None:
    pass


def saves(folder: str, rank: int) -> None:
    """Uses its grace: needs a while to save, then exits."""

    def save(number: int, frame: object) -> None:
        time.sleep(float(os.environ.get("SAVE_SECONDS", "0.1")))
        note(folder, f"saved-{rank}")
        os._exit(0)

    signal.signal(signal.SIGTERM, save)


def deaf(folder: str, rank: int) -> None:
    ignore()


def traps_all(folder: str, rank: int) -> None:
    for number in CATCHABLE:
        try:
            signal.signal(number, lambda number, frame: None)
        except (OSError, ValueError):
            pass  # kept by the C library for itself


FAMILY = {"stubborn": stubborn, "session": session, "daemon": daemon}
FAMILIES = (("stubborn",), ("session",), ("daemon",), ("stubborn", "session", "daemon"))
MANNERS = (plain, saves, deaf, traps_all)

if __name__ == "__main__":
    main()
