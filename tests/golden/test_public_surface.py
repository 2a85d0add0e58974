"""The public surface is frozen: what scripts, job files' ranks and people's habits rest on.

A change here is a change for users: it needs a line in the CHANGELOG, and a removal a successor's name.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import hora
from helpers.plans import a_job, on_one_host
from hora import api, copying, errors, frameworks, session, state, syncing
from hora.agent import process
from hora.agent.lead import sentences
from hora.agent.stacks import Stack
from hora.cli import main, reference
from hora.cli.commands import COMMANDS
from hora.load.keys import walk
from hora.places.base import Chunk
from hora.plan import starts
from hora.record import Record
from hora.spec import RoleSpec

Golden = Callable[[str, str], None]


def section(title: str, lines: Iterator[str] | list[str]) -> str:
    return "\n".join([f"# {title}", *lines, ""])


# --- Python ---


def names() -> list[str]:
    return [name for name in hora.__all__ if name != "__version__"]


def members(cls: type) -> Iterator[str]:
    """Public methods with their signatures, properties, and the fields of records."""
    if issubclass(cls, Record):
        yield from (f"{cls.__name__}.{name}" for name in cls._fields)
    for name, value in vars(cls).items():
        if name.startswith("_") and name not in ("__init__", "__enter__", "__exit__"):
            continue
        if isinstance(value, property):
            yield f"{cls.__name__}.{name}"
        elif isinstance(value, (FunctionType, classmethod)):
            yield f"{cls.__name__}.{name}{signature(getattr(cls, name))}"


def signature(what: Callable[..., Any]) -> str:
    return str(inspect.signature(what)).replace("'", "")


def test_the_python_api_is_as_it_was(golden: Golden) -> None:
    functions = [name for name in names() if isinstance(getattr(hora, name), FunctionType)]
    told = (
        state.RunStatus,
        state.MemberState,
        state.RankState,
        state.Failure,
        api.Line,
        api.Event,
        Chunk,
        Stack,
        syncing.Synced,
        copying.Copied,
    )
    used = (api.Job, api.Run, session.Session, session.Piece, api.Overrides)
    tree = [
        cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, errors.HoraError)
    ]
    parts = [
        section("names", names()),
        section("functions", [name + signature(getattr(hora, name)) for name in functions]),
        *(section(cls.__name__, members(cls)) for cls in (*used, *told)),
        section(
            "errors",
            [f"{cls.__name__}({cls.__base__.__name__}) {_code(cls)}" for cls in tree if cls.__base__],
        ),
    ]
    golden("surface/python.txt", "\n".join(parts))


def _code(error: type[errors.HoraError]) -> str:
    return str(error.exit_code) if isinstance(error.exit_code, int) else "the run's"


def test_every_public_name_is_there() -> None:
    for name in hora.__all__:
        assert getattr(hora, name) is not None
    assert dir(hora) == sorted(hora.__all__)


# --- the command line ---


def test_the_command_line_is_as_it_was(golden: Golden) -> None:
    parts = []
    for command in COMMANDS:
        lines = [f"also: {alias}" for alias in command.aliases]
        lines += [f"argument: {argument}" for argument in command.arguments]
        for option in command.options:
            value = f" {option.value}" if option.value else ""
            lines.append(f"{', '.join(option.names)}{value}{' (many)' if option.many else ''}")
        parts.append(section(f"hora {command.name}", lines))
    golden("surface/command-line.txt", "\n".join(parts))


# --- JSON ---


def paths(node: Any, path: str = "") -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from paths(value, f"{path}.{key}" if path else key)
    elif isinstance(node, list) and node and isinstance(node[0], dict):
        yield from paths(node[0], f"{path}[]")
    else:
        yield path


def test_the_status_document_is_as_it_was(golden: Golden) -> None:
    member = state.MemberState("worker-0", "here", "running", (state.RankState(0, 0),))
    failure = state.Failure("worker-0", 0, "exited with code 3")
    status = state.RunStatus(
        "ab2cd", "digits", "local", "failed", members=(member,), first_failure=failure, pids=(("lead", 1),)
    )
    document = json.loads(json.dumps(status.to_json()))
    stack = json.loads(json.dumps(Stack("worker-0/0", 1).to_json()))
    constants = [
        f"phases: {' '.join(state.PHASES)}",
        f"ended: {' '.join(state.ENDED)}",
        f"origins: {state.ORIGIN_JOB} {state.ORIGIN_HORA}",
        f"states of a rank: {state.WAITING} {state.ALIVE} {state.EXITED} {state.LOST}",
    ]
    parts = [
        section("status", list(paths(document))),
        section("stacks", list(paths(stack))),
        section("words", constants),
    ]
    golden("surface/json.txt", "\n".join(parts))


def test_exit_codes_are_as_they_were() -> None:
    codes = (errors.EXIT_USAGE, errors.EXIT_TIMEOUT, errors.EXIT_HORA, errors.EXIT_INTERRUPTED)
    assert codes == (2, 124, 125, 130)
    assert (process.NOT_EXECUTABLE, process.NOT_FOUND) == (126, 127)
    whys = ("", "hangup", "ctrl-c", "unread", "terminated")
    assert [sentences.asked({"why": why}).code for why in whys] == [143, 129, 130, 141, 143]
    assert main.BROKEN_PIPE == 141
    page = reference.reference().partition("## Exit codes")[2]
    for code in (0, 2, 124, 125, 126, 127, 129, 130, 141, 143):
        assert f"\n| {code} | " in page, f"{code} is not in docs/reference/cli.md"


# --- the job file ---


def test_the_keys_of_the_job_file_are_as_they_were(golden: Golden) -> None:
    lines = []
    for path, key in walk():
        kind = key.rule.kind if key.rule else "keys"
        lines.append(f"{path}: {key.shape} of {kind}" if key.shape else f"{path}: {kind}")
    golden("surface/job-file.txt", section("job file", lines))


# --- what ranks get ---


def planned(framework: str) -> set[str]:
    """Names that the plan gives a rank; where there are several roles, those of the first's."""
    command = ("torchrun", "train.py") if framework == "torchrun" else ("python", "train.py")
    roles = RoleSpec("worker", 2, command=command), RoleSpec("ps", 1, command=command)
    name = "torch" if framework == "torchrun" else framework
    chosen = roles if framework == "plain" else roles[:1]
    started = starts(on_one_host(frameworks.plan(a_job(*chosen, framework=name))))
    start = next(iter(started.values()))
    return {name for name, _ in (*start.env, *start.defaults)}


def test_variables_of_the_ranks_are_as_they_were(golden: Golden) -> None:
    parts = [section(name, sorted(planned(name))) for name in ("plain", "torch", "torchrun", "mpi")]
    golden("surface/variables.txt", "\n".join(parts))


def test_a_real_rank_gets_these_hora_variables(golden: Golden) -> None:
    run = hora.submit(hora.Job(command=["env"], workers=2))
    found = {line.text.partition("=")[0] for line in run.logs()}
    run.wait()
    hora_own = {name for name in found if name.startswith("HORA_") and name != "HORA_TEST_ID"}
    golden("surface/variables-of-a-rank.txt", section("HORA_*", sorted(hora_own)))
