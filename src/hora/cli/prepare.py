"""`hora init` and `hora schema`."""

from __future__ import annotations

import os
import shlex

from hora import load, names
from hora.cli import out
from hora.cli.parse import JOB_FILES
from hora.errors import UsageError
from hora.load import quantities, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hora.cli.words import Words

JOB_FILE = "job.yaml"


def init(words: Words) -> int:
    script, target = words.text("script"), words.text("file")
    target = JOB_FILE if target is None else target
    if not target.endswith(JOB_FILES) and target != "-":
        raise UsageError(f"init: --file: a job file's name ends in {', '.join(JOB_FILES)}, got {target!r}")
    if script is not None and not os.path.isfile(script):
        raise UsageError(f"init: there is no file {script}: name the training script, or leave it out")
    framework = words.text("framework")
    if framework is not None:
        _must_be(values.framework, framework, "--framework")
    text = load.start_file(script, _workers(words), framework, JOB_FILE if target == "-" else target)
    if target == "-":
        out.result(text)
        return 0
    try:
        with open(target, "w" if words.flag("force") else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            f"init: {target} exists and is not overwritten: say --force, or name another with --file"
        ) from None
    except OSError as problem:
        raise UsageError(f"init: {target} can't be written: {problem.strerror}") from problem
    out.tell(f"hora: wrote {target}; look it through, then: hora run {shlex.quote(target)}")
    return 0


def _workers(words: Words) -> int:
    text = words.text("workers")
    if text is None:
        return 2
    return int(_must_be(quantities.whole(1, names.INDEX_MAX + 1), values.Plain(text, text), "--workers"))


def _must_be(rule: Callable[[Any], Any], value: Any, option: str) -> Any:
    """What the rule of the job file makes of an option's value."""
    try:
        return rule(value)
    except ValueError as problem:
        raise UsageError(f"init: {option}: {problem}") from problem


def schema(words: Words) -> int:
    out.structured(load.json_schema(), "json")
    return 0
