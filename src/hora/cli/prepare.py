"""`hora init` and `hora schema`."""

from __future__ import annotations

import os

from hora import load
from hora.cli import out
from hora.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.cli.words import Words

JOB_FILE = "job.yaml"


def init(words: Words) -> int:
    script, target = words.text("script"), words.text("file") or JOB_FILE
    if script is not None and not os.path.isfile(script):
        raise UsageError(f"init: there is no file {script}: name the training script, or leave it out")
    text = load.start_file(script, _workers(words), words.text("framework"))
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
    out.tell(f"hora: wrote {target}; look it through, then: hora run {target}")
    return 0


def _workers(words: Words) -> int:
    text = words.text("workers") or "2"
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"init: --workers: must be a number of 1 or more, got {text!r}")
    return int(text)


def schema(words: Words) -> int:
    out.structured(load.json_schema(), "json")
    return 0
