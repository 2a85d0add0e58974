"""The event loop under lead, agent and keeper."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator

import pytest

from hora.agent.loop import READ, WRITE, Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


def test_a_socket_that_another_ones_callback_closed_in_the_same_round_is_passed_over(loop: Loop) -> None:
    first, second = socket.socketpair(), socket.socketpair()
    called: list[str] = []

    def one(name: str, other: socket.socket) -> None:
        called.append(name)
        loop.unwatch(other)
        other.close()

    loop.watch(first[0], READ, lambda _events: one("first", second[0]))
    loop.watch(second[0], READ, lambda _events: one("second", first[0]))
    first[1].send(b"x")
    second[1].send(b"x")
    loop.turn()
    assert len(called) == 1
    for sock in (*first, *second):
        sock.close()


def test_a_number_that_is_used_anew_in_the_same_round_gets_its_own_callback(loop: Loop) -> None:
    pipes = [os.pipe(), os.pipe()]
    called: list[str] = []

    def replace(other: int) -> None:
        called.append("old")
        loop.watch(other, READ, lambda _events: called.append("new"))

    loop.watch(pipes[0][0], READ, lambda _events: replace(pipes[1][0]))
    loop.watch(pipes[1][0], READ, lambda _events: replace(pipes[0][0]))
    for _, writer in pipes:
        os.write(writer, b"x")
    loop.turn()
    assert called == ["old", "new"]
    for reader, writer in pipes:
        os.close(reader)
        os.close(writer)


def test_timers_come_in_the_order_of_their_times_and_cancelled_ones_never(loop: Loop) -> None:
    told: list[str] = []
    loop.after(0.02, lambda: told.append("late"))
    loop.after(0.01, lambda: told.append("cancelled")).cancel()
    loop.after(0.0, lambda: told.append("early"))
    loop.after(0.03, loop.stop)
    loop.run()
    assert told == ["early", "late"]


def test_soon_runs_before_anything_is_waited_for(loop: Loop) -> None:
    loop.soon(lambda: loop.soon(loop.stop))  # also what soon itself asked for
    loop.run()


def test_signals_are_told_in_the_loop(loop: Loop) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    try:
        loop.on_signal(signal.SIGUSR1, loop.stop)
        loop.after(0.0, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        loop.run()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_watching_again_replaces_what_was_waited_for(loop: Loop) -> None:
    ours, theirs = socket.socketpair()
    told: list[int] = []
    loop.watch(ours, READ, told.append)
    loop.watch(ours, WRITE, told.append)
    loop.turn()
    assert told == [WRITE]
    loop.watch(ours, 0, told.append)
    loop.after(0.0, lambda: None)
    loop.turn()
    assert told == [WRITE]
    ours.close()
    theirs.close()
