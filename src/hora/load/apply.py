"""Puts what the command line asks for into the data of a job file, before that is validated as a whole."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hora.load import quantities, source, values
from hora.load.flags import FLAGS, Flag
from hora.load.keys import is_list
from hora.load.overrides import Overrides
from hora.load.problems import Problems
from hora.load.source import Path
from hora.load.values import Plain

_NUMBERS = ("workers", "ranks_per_worker", "gpu", "restarts")
_ROLE_KEYS = {"workers": "replicas", "ranksPerWorker": "ranks"}


class Overlay:
    """Data of a job file, and the overrides that change it."""

    def __init__(self, data: dict[str, Any], problems: Problems, environ: Mapping[str, str]) -> None:
        self.data = data
        self.problems = problems
        self.origins = problems.origins
        self.environ = environ

    def apply(self, overrides: Overrides) -> None:
        given = overrides.given()
        for flag in FLAGS:
            if flag.field in given:
                self._flag(flag, given[flag.field])
        for assignment in overrides.sets:
            self._set(assignment)
        if overrides.command:
            self._command(overrides.command)
        if overrides.ranks is not None:
            self._ranks(overrides.ranks)

    def _flag(self, flag: Flag, value: Any) -> None:
        path: Path = tuple(flag.path.split("."))
        if flag.field in ("env", "secrets", "timeouts", "services"):
            for each in value:
                getattr(self, f"_{flag.field}")(flag, each)
        elif flag.path in _ROLE_KEYS and self._roles():
            role = self._main_role()
            if role is None:
                roles = ", ".join(self._roles())
                key = f"roles.NAME.{_ROLE_KEYS[flag.path]}"
                self.problems.add_flag(flag.option, f"which of the roles {roles}? use --set {key}={value}")
            else:
                self._put(("roles", role, _ROLE_KEYS[flag.path]), _number(value), flag.option)
        elif flag.field in _NUMBERS:
            self._everywhere(flag, path, _number(value))
        elif flag.field == "code":
            if value:
                self._put(path, os.path.abspath(os.path.expanduser(value)), flag.option)
            else:
                self.problems.add_flag(flag.option, "must not be empty: name a folder")
        else:
            self._everywhere(flag, path, value)

    def _everywhere(self, flag: Flag, path: Path, value: Any, says: str = "") -> None:
        """At the top, and in each role that would otherwise go on with its own."""
        option = f"{flag.option} {says}" if says else flag.option
        self._put(path, value, option)
        if flag.everywhere:
            for role in self._roles():
                if _get(self.data, ("roles", role, *path)) is not None:
                    self._put(("roles", role, *path), value, option)

    def _env(self, flag: Flag, assignment: str) -> None:
        name, equals, value = assignment.partition("=")
        if not equals:
            if name not in self.environ:
                self.problems.add_flag(
                    f"{flag.option} {name}", f"is not set here: write {flag.option} {name}=VALUE"
                )
                return
            value = self.environ[name]
        self._everywhere(flag, ("env", name), value, name)

    def _secrets(self, flag: Flag, assignment: str) -> None:
        name, _, text = assignment.partition("=")
        kind, _, where = text.partition(":")
        secret, _, key = where.partition("/")
        if kind == "env" and where:
            place = {"env": where}
        elif kind == "file" and where:
            place = {"file": os.path.abspath(os.path.expanduser(where))}
        elif kind == "secret" and secret and key:
            place = {"secret": secret, "key": key}
        else:
            # The text isn't repeated: it may be the secret itself.
            forms = f"{name}=env:VARIABLE, {name}=file:PATH or {name}=secret:SECRET/KEY"
            self.problems.add_flag(f"{flag.option} {name}", f"must be {forms}; a value never stands in a job")
            return
        self._everywhere(flag, ("secrets", name), place, name)

    def _timeouts(self, flag: Flag, assignment: str) -> None:
        name, equals, value = assignment.partition("=")
        if not equals:
            self.problems.add_flag(f"{flag.option} {name}", "must be KEY=DURATION, as total=24h")
            return
        self._put(("timeouts", name), value, f"{flag.option} {name}")

    def _services(self, flag: Flag, text: str) -> None:
        name, _, options = text.partition(":")
        option = f"{flag.option} {name}"
        assignments = options.split(",") if options else []
        if not all("=" in assignment for assignment in assignments):
            self.problems.add_flag(option, f"must be NAME:KEY=VALUE,KEY=VALUE, got {values.shown(text)}")
            return
        self._put(("services", name), _get(self.data, ("services", name)) or {}, option)
        for assignment in assignments:
            key, _, value = assignment.partition("=")
            self._put(("services", name, *_split(key)), _yaml(value), option, ("services", name))

    def _set(self, assignment: str) -> None:
        key, equals, text = assignment.partition("=")
        option = f"--set {key}"
        if not equals or not key:
            self.problems.add_flag(option, "must be KEY=VALUE, as placement.nodeSelector.disk=nvme")
            return
        path = _split(key)
        try:
            value = _yaml(text)
        except source.SourceError as error:
            self.problems.add_flag(option, str(error))
            return
        if path[0] == "roles" and not self._roles():
            self._to_long_form()
        problem = self._remove(path) if _is_nothing(value) else self._put(path, value, option)
        if problem:
            self.problems.add_flag(option, problem)

    def _to_long_form(self) -> None:
        """Who sets a key of a role beside `workers` means the long form of the same job."""
        for short, long in _ROLE_KEYS.items():
            value = self.data.pop(short, None)
            if _is_nothing(value):
                continue
            path: Path = ("roles", "worker", long)
            line, flag = self.origins.lines.get((short,)), self.origins.flags.pop((short,), None)
            self._put(path, value, "")
            for made in (path, path[:2], path[:1]):
                self.origins.flags.pop(made, None)
            if flag is not None:
                self.origins.flags[path] = flag[0], path
            elif line is not None:
                self.origins.lines[path] = line

    def _remove(self, path: Path) -> str:
        """`--set env.LR=null`: as if the file had never said it."""
        at = _get(self.data, path[:-1])
        if isinstance(at, list):
            return "one item of a list can't be taken away: set the whole list, as KEY=[...]"
        if isinstance(at, dict):
            at.pop(path[-1], None)
        return ""

    def _command(self, words: tuple[str, ...]) -> None:
        """The main role's command; where there is none, that of the roles without one of their own."""
        roles, main = self._roles(), self._main_role()
        own = [role for role in roles if not _is_nothing(_get(self.data, ("roles", role, "command")))]
        if main in own:
            self._put(("roles", main, "command"), list(words), "command")
        elif roles and own == roles:
            self.problems.add_flag(
                "command",
                f"the roles {', '.join(own)} each have their own: use --set roles.{own[0]}.command='...'",
            )
        else:
            self._put(("command",), list(words), "command")

    def _ranks(self, ranks: int | str) -> None:
        """-n counts all ranks: members are what is left when each has its ranks."""
        roles = self._roles()
        role = self._main_role()
        if len(roles) > 1 or (roles and role is None):
            self.problems.add_flag(
                "-n",
                f"counts all ranks; with the roles {', '.join(roles)} use --set roles.{role or roles[0]}.replicas=N",
            )
            return
        members: Path = ("roles", role, "replicas") if role else ("workers",)
        per: Path = ("roles", role, "ranks") if role else ("ranksPerWorker",)
        try:
            total = quantities.whole(1)(_number(ranks))
        except ValueError as error:
            self.problems.add_flag("-n", str(error))
            return
        try:
            each = quantities.whole(1)(_or(_get(self.data, per), 1))
            said = quantities.whole(1)(_or(_get(self.data, members), 1))
        except ValueError:
            return  # reported where it stands
        flag = self.origins.flags.get(members)
        if flag is not None and said * each != total:
            self.problems.add_flag(
                "-n",
                f"{total} ranks and {flag[0]} {said} don't agree: {said} x {each} are {said * each}",
            )
        elif total % each:
            where = self.origins.label(per, "")[1].rstrip(": ")
            self.problems.add_flag("-n", f"{total} ranks can't be shared out to members of {each} ({where})")
        elif flag is None:
            self._put(members, total // each, "-n")

    def _roles(self) -> list[str]:
        roles = self.data.get("roles")
        return list(roles) if isinstance(roles, dict) else []

    def _main_role(self) -> str | None:
        """The role that counts of workers and ranks mean."""
        roles = self._roles()
        return "worker" if "worker" in roles else roles[0] if len(roles) == 1 else None

    def _put(self, path: Path, value: Any, option: str, says: Path | None = None) -> str:
        """What is wrong with the path; empty when it is good."""
        at: Any = self.data
        real: Path = ()
        for part in path[:-1]:
            key = _index(at, part)
            real = (*real, key)
            below = _step(at, key)
            if _is_nothing(below):
                below = [] if is_list(real) else {}
                problem = _store(at, key, below)
                if problem:
                    return problem
                self.origins.flags.setdefault(real, (option, path))
            at = below
        last = _index(at, path[-1])
        problem = _store(at, last, value)
        if not problem:
            self.origins.from_flag((*real, last), option, says)
        return problem


def _number(value: int | str) -> Any:
    """A flag's number: text there, but meant without quotes."""
    return Plain(value, value) if isinstance(value, str) else value


def _or(value: Any, default: int) -> Any:
    return default if _is_nothing(value) else value


def _yaml(text: str) -> Any:
    return source.parse(text).data


def _split(key: str) -> Path:
    """Keys between dots; a backslash keeps the dot after it: nodeSelector.example\\.org/disk."""
    parts = key.replace("\\.", "\0").split(".")
    return tuple(part.replace("\0", ".") for part in parts)


def _index(at: Any, part: str | int) -> str | int:
    return int(part) if isinstance(at, list) and isinstance(part, str) and part.isdecimal() else part


def _step(at: Any, part: str | int) -> Any:
    if isinstance(at, dict):
        return at.get(part)
    return at[part] if isinstance(at, list) and isinstance(part, int) and part < len(at) else None


def _store(at: Any, part: str | int, value: Any) -> str:
    """Puts the value there, or says why not."""
    if isinstance(at, dict):
        at[part] = value
    elif not isinstance(at, list):
        return f"there is no {part} in {values.shown(at)}, which is no map"
    elif not isinstance(part, int) or part > len(at):
        return f"is in a list: {part} must be a number from 0 to {len(at)}, the last of which appends"
    else:
        at[part : part + 1] = [value]
    return ""


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, Plain) and value.value is None)


def _get(data: Any, path: Path) -> Any:
    for part in path:
        data = _step(data, _index(data, part))
    return data
