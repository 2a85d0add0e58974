"""`hora.call`: functions on ranks."""

from __future__ import annotations

import functools
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import hora
from helpers.cli import Cli
from hora import calling, on_rank

pytestmark = pytest.mark.leaks


def rank() -> int:
    return int(os.environ["HORA_RANK"])


class Picky(Exception):
    """Its state doesn't fit its constructor, so it can't be unpickled."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"picky about {a} and {b}")


def test_results_come_in_rank_order() -> None:
    def late_first() -> int:
        import time

        time.sleep(0.3 if rank() == 0 else 0.0)  # so that the first rank is the last to end
        return rank()

    assert hora.call(late_first, workers=3) == [0, 1, 2]


def test_ranks_of_one_worker_are_counted_through() -> None:
    assert hora.call(rank, workers=2, ranks_per_worker=2) == [0, 1, 2, 3]


def test_a_module_function_travels_with_its_arguments() -> None:
    assert hora.call(divmod, 17, 5, workers=1) == [(3, 2)]


def test_closures_lambdas_and_partials_travel() -> None:
    factor = 7
    assert hora.call(lambda number: number * factor, 6) == [42]
    assert hora.call(functools.partial(pow, 2), 10) == [1024]


def test_objects_of_classes_that_only_the_caller_has_travel_both_ways() -> None:
    class Point:
        def __init__(self, x: int) -> None:
            self.x = x

    def move(point: Point) -> Point:
        return type(point)(point.x + 1)

    assert hora.call(move, Point(1))[0].x == 2


def test_what_ranks_print_goes_to_stderr_with_their_labels(capsys: pytest.CaptureFixture[str]) -> None:
    hora.call(lambda: print("hello\nworld"), workers=2)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert sorted(shown.err.splitlines()) == [
        f"worker-{n}/0 | {word}" for n in (0, 1) for word in ("hello", "world")
    ]


def test_what_ranks_print_is_not_shown_without_echo(capfd: pytest.CaptureFixture[str]) -> None:
    assert hora.call(lambda: print("hello"), echo=False) == [None]
    assert capfd.readouterr() == ("", "")


def test_the_remote_exception_is_raised_with_its_traceback() -> None:
    def broken() -> None:
        if rank() == 1:
            raise KeyError("weights")
        signal.pause()

    with pytest.raises(KeyError) as caught:
        hora.call(broken, workers=2, timeouts={"grace": 1}, echo=False)
    assert caught.value.args == ("weights",)
    told = caught.value.__cause__
    assert isinstance(told, hora.RemoteError)
    assert str(told).startswith("worker-1/0 raised:\nTraceback")
    assert 'raise KeyError("weights")' in str(told)
    assert "on_rank" not in str(told), "the traceback is the user's, not ours"
    assert told.status.first_failure.rank == 1
    assert told.exit_code == 1


def test_our_own_errors_travel_as_any_other() -> None:
    with pytest.raises(hora.JobFileError) as caught:
        hora.call(lambda: hora.Job(comand="x", workers=0), echo=False)  # type: ignore[call-arg]
    assert len(caught.value.problems) >= 2
    assert str(caught.value) == "\n".join(caught.value.problems)


def test_an_exception_that_can_not_be_made_again_is_told_in_text() -> None:
    def broken() -> None:
        raise Picky(1, 2)

    with pytest.raises(hora.RemoteError, match="picky about 1 and 2") as caught:
        hora.call(broken, echo=False)
    assert caught.value.__cause__ is None


def test_an_exception_that_can_not_be_pickled_is_told_in_text() -> None:
    def broken() -> None:
        error = ValueError("holds a lock")
        error.lock = __import__("threading").Lock()  # type: ignore[attr-defined]
        raise error

    with pytest.raises(hora.RemoteError, match="holds a lock"):
        hora.call(broken, echo=False)


def test_a_result_that_can_not_travel_is_said() -> None:
    def generator() -> Iterator[int]:
        yield 1

    with pytest.raises(
        hora.RemoteError, match="the function's result can't travel back: cannot pickle 'generator'"
    ):
        hora.call(generator, echo=False)


def test_an_argument_that_can_not_travel_is_said_before_anything_starts() -> None:
    with pytest.raises(hora.UsageError, match=r"can't travel to the ranks: .*generator.*inside the function"):
        hora.call(print, (number for number in range(3)))
    assert hora.list_runs() == []


def test_a_rank_that_dies_in_the_function_is_named() -> None:
    def dies() -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(hora.RemoteError, match=r"worker-0/0 was killed by signal 11 \(SIGSEGV\)") as caught:
        hora.call(dies, echo=False)
    assert caught.value.exit_code == 128 + 11


def test_a_rank_that_leaves_without_a_result_is_named() -> None:
    with pytest.raises(hora.RemoteError, match="no result came from worker-0/0: it ended before"):
        hora.call(os._exit, 0)


def test_a_function_that_calls_exit_is_told_as_that() -> None:
    with pytest.raises(hora.RemoteError, match="SystemExit: 3") as caught:
        hora.call(sys.exit, 3, echo=False)
    assert caught.value.__cause__ is None


def test_a_result_of_100_mib_comes_whole() -> None:
    data = hora.call(lambda: b"0123456789abcdef" * (100 << 16), echo=False)[0]
    assert len(data) == 100 << 20
    assert data == b"0123456789abcdef" * (100 << 16)


def test_results_of_an_earlier_attempt_do_not_count(work: Path) -> None:
    marker = str(work / "second")

    def once_more() -> str:
        if rank() == 0:
            if not os.path.exists(marker):
                return "of the first attempt"
            os._exit(0)
        if os.path.exists(marker):
            return "of the second attempt"
        print("progress", flush=True)
        open(marker, "w").close()
        os._exit(5)

    with pytest.raises(hora.RemoteError, match="no result came from worker-0/0"):
        hora.call(once_more, workers=2, restarts=1, echo=False)


def test_a_call_within_a_call_works() -> None:
    def outer() -> list[int]:
        return hora.call(
            lambda: int(os.environ["HORA_WORLD_SIZE"]) * 10 + int(os.environ["HORA_RANK"]), workers=2
        )

    assert hora.call(outer, workers=1) == [[20, 21]]


def test_the_callers_import_path_is_the_ranks(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "only_here.py").write_text("def answer():\n    return 42\n")
    monkeypatch.syspath_prepend(str(work))
    import only_here  # type: ignore[import-not-found]

    assert hora.call(only_here.answer) == [42]


def test_environment_and_timeouts_are_the_jobs() -> None:
    assert hora.call(os.getenv, "LR", env={"LR": "0.5"}) == ["0.5"]
    with pytest.raises(hora.RemoteError, match=r"timeouts\.total") as caught:
        hora.call(signal.pause, timeouts={"total": 0.5, "grace": 0.2}, echo=False)
    assert caught.value.exit_code == 124


@pytest.mark.parametrize("key", ["command", "roles"])
def test_a_call_takes_no_command_and_no_roles(key: str) -> None:
    with pytest.raises(hora.UsageError, match=f"takes no `{key}`"):
        hora.call(print, **{key: "true"})  # type: ignore[arg-type]


def test_only_functions_are_called() -> None:
    with pytest.raises(hora.UsageError, match="takes a function and its arguments, got str"):
        hora.call("train")  # type: ignore[arg-type]


def test_the_run_is_called_like_the_function() -> None:
    hora.call(rank)
    hora.call(lambda: 1)
    assert [status.name for status in hora.list_runs()] == ["rank", "call"]


def test_another_minor_python_on_the_rank_is_said_in_one_sentence(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = work / "function"
    file.write_bytes(json.dumps({"python": [3, 7], "path": []}).encode() + b"\n" + b"not even a pickle")
    assert on_rank.from_file(str(file)) == 1
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    said = capsys.readouterr().err
    assert f"this rank has Python {ours}, its caller 3.7" in said
    assert said.count("\n") == 1


def test_a_result_whose_class_is_gone_here_is_said() -> None:
    lost = pickle.dumps(Picky(1, 2))
    with pytest.raises(hora.RemoteError, match="the result of worker-0/0 can't be read here"):
        calling._value("worker-0/0", lost)


def test_a_function_of_main_is_called_and_ctrl_c_stops_its_run(work: Path, hora: Cli) -> None:
    script = work / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import time, hora

            def endless():
                print("begun", flush=True)
                time.sleep(600)

            if __name__ == "__main__":
                hora.call(endless, workers=2)
            """
        )
    )
    process = subprocess.Popen([sys.executable, str(script)], cwd=work, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process:
        shown = [process.stderr.readline() for _ in range(2)]
        assert sorted(shown) == ["worker-0/0 | begun\n", "worker-1/0 | begun\n"]
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert "KeyboardInterrupt" in rest.splitlines()[-1]
    assert "ResourceWarning" not in rest
    [status] = hora("ps", "-o", "json").check().json
    assert (status["phase"], status["reason"], status["exitCode"]) == ("stopped", "stopped by Ctrl-C", 130)
