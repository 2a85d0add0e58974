"""What of a code folder is left out: .gitignore as git reads it, and .horaignore, which has the last word."""

from __future__ import annotations

import os

from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from pathspec import GitIgnoreSpec

FILES = (".gitignore", ".horaignore")  # of one folder, in this order: the later wins
NEVER = (".git", "__pycache__")  # history, and what Python makes anew on every host


class Rule(Record):
    """One file of patterns, which are about paths from its own folder on."""

    spec: GitIgnoreSpec
    below: str = ""  # its folder within the code's
    above: str = ""  # or the code's within its own

    def says(self, path: str) -> bool | None:
        """Whether to leave it out; None: nothing is said of it."""
        return self.spec.check_file(self.above + path[len(self.below) :]).include


class Rules(Record):
    """Those of the folders from the top to one of them."""

    rules: tuple[Rule, ...] = ()

    def leave_out(self, path: str, is_folder: bool) -> bool:
        """`path` begins at the code's folder.  What lies in a folder that is left out is never asked for."""
        if path.rpartition("/")[2] in NEVER:
            return True
        text = f"{path}/" if is_folder else path
        for rule in reversed(self.rules):
            said = rule.says(text)
            if said is not None:
                return said
        return False

    def within(self, folder: str, path: str, names: Iterable[str]) -> Rules:
        """The rules for what lies in `folder`, whose path is `path` (with a slash, empty at the top)."""
        own = [_read(os.path.join(folder, name)) for name in FILES if name in names]
        return Rules((*self.rules, *(Rule(spec, below=path) for spec in own if spec is not None)))


def from_above(folder: str) -> Rules:
    """The .gitignore files of the repository around a folder that is only a part of it."""
    above: list[Rule] = []
    place, inside = folder, ""
    while not os.path.exists(os.path.join(place, ".git")):
        place, name = os.path.split(place)
        if not name:
            return Rules()  # no repository
        inside = f"{name}/{inside}"
        spec = _read(os.path.join(place, ".gitignore"))
        if spec is not None and not spec.match_file(inside):  # who names a folder that git ignores wants it
            above.insert(0, Rule(spec, above=inside))
    return Rules(tuple(above))


def _read(path: str) -> GitIgnoreSpec | None:
    from pathspec import GitIgnoreSpec

    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8-sig", "surrogateescape")
    except OSError:
        return None  # told where the code's files are read
    lines = [line.rstrip("\r") for line in text.split("\n")]
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:  # one that is no pattern: git passes it over
        return GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
