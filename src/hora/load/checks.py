"""What must agree between keys.  Works on the data as written, so these problems show with all the others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from hora.load.keys import keys_of
from hora.load.models import JobKeys, is_nothing
from hora.load.problems import Problems
from hora.load.unknown import unknown_key
from hora.load.values import Plain, shown

_WITHOUT_COMMAND = ("dask",)  # its scheduler and workers have commands of their own


def check(data: dict[str, Any], folder: str, problems: Problems) -> None:
    _one_form(data, problems)
    _commands(data, problems)
    _code(data.get("code"), folder, problems)
    for path, env, secrets in _environments(data):
        for name in env:
            if name in secrets:
                problems.add((*path, "env", name), "is under secrets too: keep one of the two")
    for path, volumes in _volume_lists(data):
        _mounts(path, volumes, problems)


def roles_of(data: dict[str, Any]) -> dict[str, Any]:
    roles = data.get("roles")
    return roles if isinstance(roles, dict) else {}


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _one_form(data: dict[str, Any], problems: Problems) -> None:
    for short, long in (("workers", "replicas"), ("ranksPerWorker", "ranks")):
        if roles_of(data) and not is_nothing(data.get(short)):
            problems.add((short,), f"can't stand beside roles: write roles.worker.{long} instead")


def _commands(data: dict[str, Any], problems: Problems) -> None:
    framework = data.get("framework")
    if not is_nothing(data.get("command")) or framework in _WITHOUT_COMMAND:
        return
    roles = roles_of(data)
    if not roles:
        if only_services(data) or any(_means_command(key) for key in data if not is_nothing(data[key])):
            return
        problems.add((), "command: is needed: what each rank runs, as [python, train.py]")
    for name, role in roles.items():
        if is_nothing(_map(role).get("command")):
            problems.add(("roles", name), "has no command, and neither has the job")


def _means_command(key: str) -> bool:
    """A mistyped `command`: it is told already what was meant."""
    return key not in keys_of(JobKeys) and unknown_key((key,)).endswith("did you mean command?")


def only_services(data: dict[str, Any]) -> bool:
    """A workbench: services and no ranks."""
    ranks = ("workers", "ranksPerWorker", "command", "roles")
    return bool(_map(data.get("services"))) and all(is_nothing(data.get(key)) for key in ranks)


def _code(code: Any, folder: str, problems: Problems) -> None:
    path = ("code", "path") if isinstance(code, dict) else ("code",)
    place = code.get("path") if isinstance(code, dict) else code
    if not isinstance(place, (str, os.PathLike)) or isinstance(place, Plain) or not str(place):
        return
    place = absolute(str(place), folder)
    if "\0" in place or not os.path.exists(place):
        problems.add(path, f"no such folder: {shown(place)}")
    elif not os.path.isdir(place):
        problems.add(path, f"must be a folder, and {shown(place)} is a file")


def absolute(place: str, folder: str) -> str:
    return os.path.abspath(os.path.join(folder, os.path.expanduser(place)))


def _environments(data: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], dict[str, Any], dict[str, Any]]]:
    """The environment and the secrets of the job, then of each role together with what the job adds."""
    env, secrets = _map(data.get("env")), _map(data.get("secrets"))
    yield (), env, secrets
    for name, role in roles_of(data).items():
        own_env, own_secrets = _map(_map(role).get("env")), _map(_map(role).get("secrets"))
        yield ("roles", name), own_env, {**secrets, **own_secrets}
        yield (), env, own_secrets


def _volume_lists(data: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    yield ("volumes",), data.get("volumes") or []
    for name, role in roles_of(data).items():
        yield ("roles", name, "volumes"), _map(role).get("volumes") or []


def _mounts(path: tuple[str, ...], volumes: Any, problems: Problems) -> None:
    seen: dict[str, int] = {}
    for position, volume in enumerate(volumes if isinstance(volumes, (list, tuple)) else ()):
        mount = _map(volume).get("mount")
        if not isinstance(mount, str):
            continue
        if mount in seen:
            problems.add(
                (*path, position, "mount"), f"{mount} is taken by item {seen[mount] + 1} of the list"
            )
        seen.setdefault(mount, position)
