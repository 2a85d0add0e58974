"""Words after `hora run` that can't be meant as they stand: told before a run is made, with what was meant."""

from __future__ import annotations

import os

from hora.cli.parse import JOB_FILES
from hora.errors import UsageError
from hora.load.here import here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SAMPLE = 4096  # bytes of a file that may be a job file under another name
KEYS = (b"command:", b"workers:", b"roles:", b"framework:")


def refuse_what_is_no_command(command: Sequence[str], file: str | None, name: str) -> None:
    """UsageError for a first word that is certainly no program.  `name`: run or render."""
    word = command[0]
    if word == "-":
        raise UsageError(f"{name}: '-' is no command, and a job comes from a file: hora {name} job.yaml")
    if word.startswith("-"):
        after = f"the words after {file} replace its command" if file else "the first word is the program"
        raise UsageError(f"{name}: {word!r} is an option, not a program: {after}, as python train.py {word}")
    path = os.path.join(here(), word)
    if _is_program(word, path):
        return
    first = word.split(" ")[0]
    if first != word and not os.path.exists(path) and _is_program(first, os.path.join(here(), first)):
        raise UsageError(f"{name}: {word!r} is one word: leave the quotes out, as hora {name} {word}")
    if not os.path.isfile(path):
        return
    if word.endswith(".py") and "/" not in word:
        raise UsageError(f"{name}: {word} is a script, not a program: hora {name} python {word}")
    if not word.endswith(JOB_FILES) and _begins_like_a_job(path):
        raise UsageError(
            f"{name}: {word} looks like a job file: one is known by the end of its name, .yaml, .yml or .json"
        )


def _is_program(word: str, path: str) -> bool:
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    paths = [path] if "/" in word else [os.path.join(folder, word) for folder in folders]
    return any(os.path.isfile(each) and os.access(each, os.X_OK) for each in paths)


def _begins_like_a_job(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            lines = file.read(SAMPLE).splitlines()
    except OSError:
        return False
    return any(line.startswith(KEYS) for line in lines)
