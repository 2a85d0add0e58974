"""Kubeconfig files, read and merged as kubectl does: the first file that has an entry wins, whole."""

from __future__ import annotations

import os

from hora.errors import PlaceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

KINDS = ("cluster", "user", "context")


class Entry:
    """One cluster, user or context, and the file that it comes from: relative paths are relative to that."""

    def __init__(self, kind: str, name: str, values: dict[str, Any], file: str) -> None:
        self.kind = kind
        self.name = name
        self.values = values
        self.file = file

    @property
    def where(self) -> str:
        return f'{self.kind} "{self.name}" in {self.file}'

    def __repr__(self) -> str:
        return f"Entry({self.where})"  # the values hold secrets

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise PlaceError(f"{self.where}: {key} must be a text; put it in quotes")
        return value

    def flag(self, key: str) -> bool:
        value = self.values.get(key)
        if not isinstance(value, bool | None):
            raise PlaceError(f"{self.where}: {key} must be true or false")
        return bool(value)

    def texts(self, key: str) -> list[str]:
        value = self.values.get(key)
        if not isinstance(value, list | None) or not all(isinstance(item, str) for item in value or []):
            raise PlaceError(f"{self.where}: {key} must be a list of texts")
        return value or []

    def entries(self, key: str) -> list[Entry]:
        value = self.values.get(key)
        if not isinstance(value, list | None) or not all(isinstance(item, dict) for item in value or []):
            raise PlaceError(f"{self.where}: {key} must be a list of mappings")
        return [Entry(self.kind, self.name, item, self.file) for item in value or []]

    def below(self, key: str) -> Entry | None:
        value = self.values.get(key)
        if not isinstance(value, dict | None):
            raise PlaceError(f"{self.where}: {key} must be a mapping")
        return None if value is None else Entry(self.kind, self.name, value, self.file)

    def path(self, key: str) -> str:
        value = self.text(key)
        return os.path.join(os.path.dirname(os.path.abspath(self.file)), value) if value else ""

    def pem(self, key: str) -> str:
        """What `KEY-data` holds, or else the file that `KEY` names."""
        data = self.text(f"{key}-data")
        if not data:
            path = self.path(key)
            return read_text(path, f"{key} of {self.where}") if path else ""
        import base64

        try:
            return base64.b64decode(data, validate=True).decode("ascii")
        except ValueError:  # both errors are; neither tells the data
            raise PlaceError(f"{self.where}: {key}-data must be PEM in base64") from None


class Kubeconfig:
    """What all files say together."""

    def __init__(self) -> None:
        self.current = ""
        self.files: list[str] = []  # those that exist
        self.clusters: dict[str, Entry] = {}
        self.users: dict[str, Entry] = {}
        self.contexts: dict[str, Entry] = {}

    def add(self, file: str) -> None:
        content = _load(file)
        self.files.append(file)
        current = content.get("current-context")
        if not self.current and isinstance(current, str):
            self.current = current
        for kind, known in zip(KINDS, (self.clusters, self.users, self.contexts)):
            for entry in _entries(content, kind, file):
                known.setdefault(entry.name, entry)


def read(files: Iterable[str]) -> Kubeconfig:
    """Files that don't exist are passed over."""
    found = Kubeconfig()
    for file in files:
        if os.path.exists(file):
            found.add(file)
    return found


def read_text(path: str, what: str) -> str:
    """A text file that `what` names."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as problem:
        raise PlaceError(f"{path} ({what}) can't be read: {problem.strerror}") from problem
    except UnicodeDecodeError:
        raise PlaceError(f"{path} ({what}) isn't a text") from None


def _load(file: str) -> dict[str, Any]:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        with open(file, "rb") as opened:
            content = yaml.load(opened.read(), Loader=loader)  # a safe one
    except OSError as problem:
        raise PlaceError(f"{file} can't be read: {problem.strerror}") from problem
    except yaml.MarkedYAMLError as problem:
        line = f":{problem.problem_mark.line + 1}" if problem.problem_mark else ""
        raise PlaceError(f"{file}{line}: is not YAML: {problem.problem}") from None
    except (yaml.YAMLError, ValueError):  # bytes that are no text; dates that are none
        raise PlaceError(f"{file}: is not YAML: it holds characters or values that can't be in it") from None
    if not isinstance(content, dict | None):
        raise PlaceError(f"{file}: is no kubeconfig: it must be a mapping with clusters, users and contexts")
    return content or {}


def _entries(content: dict[str, Any], kind: str, file: str) -> list[Entry]:
    key = f"{kind}s"
    named = content.get(key)
    if not isinstance(named, list | None):
        raise PlaceError(f"{file}: {key} must be a list")
    found = []
    for number, item in enumerate(named or [], 1):
        values = item.get(kind) if isinstance(item, dict) else None
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or not isinstance(values, dict | None):
            raise PlaceError(f"{file}: {key}: number {number} must have a name and a mapping {kind}")
        found.append(Entry(kind, name, values or {}, file))
    return found
