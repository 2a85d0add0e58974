"""Many stacks, few sentences: equal ones together, the odd one out by name."""

from __future__ import annotations

from hora.agent.lead import grouping
from hora.agent.stacks import Stack

WAIT = (
    "/usr/lib/python3.11/site-packages/torch/c10d.py:20 all_reduce",
    "train.py:40 step",
    "train.py:90 <module>",
)
LOAD = ("train.py:12 load_batch", "train.py:38 step", "train.py:90 <module>")


def stack(number: int, *frames: str, **rest: object) -> Stack:
    return Stack(
        f"worker-{number}/0", 100 + number, "faulthandler", tuple(frames), command="python train.py", **rest
    )  # type: ignore[arg-type]


def test_equal_stacks_are_one_group_the_largest_first() -> None:
    groups = grouping.group([stack(0, *LOAD), stack(1, *WAIT), stack(2, *WAIT), stack(3, *WAIT)])
    assert [group.labels for group in groups] == [
        ("worker-1/0", "worker-2/0", "worker-3/0"),
        ("worker-0/0",),
    ]


def test_who_does_not_wait_is_the_odd_one_out() -> None:
    groups = grouping.group([stack(0, *WAIT), stack(1, *WAIT), stack(2, *LOAD), stack(3, *WAIT)])
    odd = grouping.odd_one_out(groups)
    assert odd is not None and odd.labels == ("worker-2/0",)
    told = grouping.sentence(groups)
    assert told.startswith("worker-2/0 is in load_batch (train.py:12); the 3 others wait in all_reduce")
    assert "called from step (train.py:40)" in told


def test_of_two_ranks_that_differ_the_busy_one_is_named() -> None:
    groups = grouping.group([stack(0, *WAIT), stack(1, *LOAD)])
    assert grouping.sentence(groups).startswith("worker-1/0 is in load_batch")
    assert "; the other waits in all_reduce" in grouping.sentence(groups)


def test_all_in_one_place_are_told_together() -> None:
    assert "all 3 ranks wait in all_reduce" in grouping.sentence(
        grouping.group([stack(i, *WAIT) for i in range(3)])
    )
    assert grouping.sentence(grouping.group([stack(0, *WAIT)])).startswith("worker-0/0 waits in all_reduce")


def test_where_nothing_sets_one_apart_nobody_is_blamed() -> None:
    groups = grouping.group(
        [stack(0, *WAIT), stack(1, "x.py:1 recv"), stack(2, *WAIT), stack(3, "x.py:1 recv")]
    )
    assert grouping.odd_one_out(groups) is None
    assert "odd one out" not in grouping.render(groups)


def test_lines_of_a_loop_do_not_hide_the_odd_one() -> None:
    """Those who wait do so on different lines of one function."""
    waiting = [stack(i, f"ring.py:{10 + i} recv", f"ring.py:{50 + i} step") for i in range(3)]
    odd = grouping.odd_one_out(grouping.group([*waiting, stack(3, *LOAD)]))
    assert odd is not None and odd.labels == ("worker-3/0",)


def test_native_processes_are_grouped_by_what_the_kernel_says() -> None:
    sleeping = [
        Stack(f"worker-{i}/0", i, state="S", wchan="hrtimer_nanosleep", command="./a.out x") for i in range(2)
    ]
    working = Stack("worker-2/0", 2, state="R", command="./a.out x")
    told = grouping.sentence(grouping.group([*sleeping, working]))
    assert "worker-2/0 is in running native code (a.out)" in told
    assert "hrtimer_nanosleep in the kernel (a.out)" in told


def test_no_stacks_are_said_to_be_none() -> None:
    assert grouping.sentence([]) == "no stacks came back"


def test_the_text_holds_every_frame_every_thread_and_every_note() -> None:
    threads = (("loader", ("loader.py:7 fetch",)),)
    text = grouping.render(
        grouping.group(
            [
                stack(0, *WAIT),
                stack(1, *WAIT),
                stack(2, *LOAD, threads=threads),
                Stack("worker-3/0", 3, note="can't be asked"),
            ]
        )
    )
    for part in (
        "load_batch (train.py:12)",
        "thread loader",
        "fetch (loader.py:7)",
        "can't be asked",
        "worker-0/0, worker-1/0",
    ):
        assert part in text, text


def test_many_labels_are_told_in_short() -> None:
    assert grouping.names([f"worker-{i}/0" for i in range(9)]) == "9 ranks (worker-0/0, worker-1/0, ...)"
    assert grouping.names(["a", "b"]) == "a and b"


def test_a_frame_is_taken_apart_from_behind() -> None:
    assert grouping.split("/a:b/c d.py:12 f") == ("/a:b/c d.py", "12", "f")
    assert grouping.split("native") == ("", "", "native")
    assert grouping.split("<string>:?? f") == ("<string>", "??", "f")
