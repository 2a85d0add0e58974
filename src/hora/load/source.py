"""YAML text to plain data, with the line of every key, and with limits on what a hostile file can cost.

Unlike `yaml.safe_load`: duplicate keys are errors, keys are always text, and scalars that YAML doesn't read
as text keep how they were written (`Plain`), so that `LR: 0.1` can stay "0.1" and `no` can be explained.
"""

from __future__ import annotations

import os
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import Resolver
from yaml.scanner import Scanner

from hora.load.values import Plain

Path = tuple[str | int, ...]

MAX_BYTES = 512 * 1024
MAX_DEPTH = 40
MAX_VALUES = 20_000

_TEXT = "tag:yaml.org,2002:str"
_MERGE = "tag:yaml.org,2002:merge"
_KNOWN_TAGS = {
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq", "value")
} | {_MERGE}


class SourceError(ValueError):
    """The text can't be read at all.  `line` counts from 1; None where no line is to blame."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Source:
    """What a text says: `data`, the line of each key and item, and what is wrong but can be read past."""

    def __init__(self) -> None:
        self.data: Any = None
        self.lines: dict[Path, int] = {}
        self.problems: list[tuple[Path, int, str]] = []


def read_file(path: str | os.PathLike[str]) -> str:
    """The text of a job file, or a SourceError in words."""
    if os.path.isdir(path):
        raise SourceError("is a folder: name the job file in it")
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SourceError("no such file; `hora init` writes one to begin with") from None
    except PermissionError:
        raise SourceError("may not be read: its permissions forbid it") from None
    except (OSError, ValueError) as error:
        raise SourceError(f"can't be read: {getattr(error, 'strerror', None) or error}") from None
    return decode(raw)


def decode(raw: bytes) -> str:
    if len(raw) > MAX_BYTES:
        raise SourceError(
            f"is larger than {MAX_BYTES // 1024} KiB, the most that a job file may have: is it one?"
        )
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise SourceError("is UTF-16 text: save it as UTF-8", 1)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"byte {error.start} (0x{raw[error.start]:02x}) is not UTF-8: save the file as UTF-8"
        raise SourceError(what, line) from None


def parse(text: str) -> Source:
    """The data in a text; SourceError where it is no YAML or too much of it."""
    try:
        composer = _Composer(text)
        node = composer.get_single_node()
    except RecursionError:
        raise SourceError(f"is nested deeper than {MAX_DEPTH} levels") from None
    except yaml.YAMLError as error:
        raise _explained(error, text) from None
    source = Source()
    if node is not None:
        _Builder(source).build(node, ())
    return source


class _Composer(Reader, Scanner, Parser, Composer, Resolver):
    """PyYAML's safe loader up to the nodes, and no deeper than MAX_DEPTH."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        Resolver.__init__(self)
        self._depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
            raise SourceError(f"is nested deeper than {MAX_DEPTH} levels", line)
        node: Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Builder:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.values = 0
        self.open: set[int] = set()  # ids of the nodes around the one being built: an alias to one is a cycle
        self.scalars = SafeConstructor()

    def build(self, node: Node, path: Path) -> Any:
        self.source.data = self._value(node, path)

    def _value(self, node: Node, path: Path) -> Any:
        line = node.start_mark.line + 1
        self.values += 1
        if self.values > MAX_VALUES:
            raise SourceError(
                f"has more than {MAX_VALUES} values once its aliases (*name) are filled in", line
            )
        self.source.lines.setdefault(path, line)
        if node.tag not in _KNOWN_TAGS:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            self.source.problems.append((path, line, f"has the tag {tag}: a job file knows no tags"))
            return None
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if id(node) in self.open or len(self.open) > MAX_DEPTH:
            what = "holds itself" if id(node) in self.open else f"is nested deeper than {MAX_DEPTH} levels"
            raise SourceError(f"{dotted(path) or 'the file'} {what} by an alias (*name)", line)
        self.open.add(id(node))
        try:
            if isinstance(node, SequenceNode):
                return [self._value(item, (*path, number)) for number, item in enumerate(node.value)]
            return self._map(node, path) if isinstance(node, MappingNode) else None
        finally:
            self.open.discard(id(node))

    def _scalar(self, node: ScalarNode) -> Any:
        if node.tag == _TEXT or node.style in ("'", '"', "|", ">"):
            return node.value
        try:
            read = self.scalars.construct_object(node)
        except (ValueError, KeyError, ConstructorError):  # 2026-13-45 looks like a date and is none
            return node.value
        return read if isinstance(read, str) else Plain(node.value, read)

    def _map(self, node: MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        inherited: list[Node] = []
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == _MERGE:
                inherited += value_node.value if isinstance(value_node, SequenceNode) else [value_node]
                continue
            if not isinstance(key_node, ScalarNode):
                self.source.problems.append((path, line, "has a key that is a list or a map: keys are text"))
                continue
            here = (*path, key_node.value)
            if key_node.value in result:
                first = self.source.lines[here]
                self.source.problems.append((here, line, f"is given twice, first in line {first}"))
                continue
            self.source.lines[here] = line
            result[key_node.value] = self._value(value_node, here)
        for other in inherited:
            self._inherit(other, path, result)
        return result

    def _inherit(self, node: Node, path: Path, result: dict[str, Any]) -> None:
        """A `<<` merge: keys that the map doesn't have itself."""
        line = node.start_mark.line + 1
        if not isinstance(node, MappingNode):
            self.source.problems.append((path, line, "merges (<<) something that is not a map"))
            return
        aside = _Builder(Source())
        aside.values, aside.open = self.values, self.open
        for key, value in aside._map_once(node, path).items():
            result.setdefault(key, value)
        self.values = aside.values
        for inner, inner_line in aside.source.lines.items():
            self.source.lines.setdefault(inner, inner_line)
        self.source.problems += aside.source.problems

    def _map_once(self, node: MappingNode, path: Path) -> dict[str, Any]:
        value = self._value(node, path)
        return value if isinstance(value, dict) else {}


def resolved(value: Any) -> Any:
    """Data with every scalar as YAML reads it, for parts that are passed on as they are.  Dates stay text."""
    if isinstance(value, dict):
        return {key: resolved(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [resolved(item) for item in value]
    if isinstance(value, Plain):
        return value.value if isinstance(value.value, (bool, int, float, type(None))) else str(value)
    return value


def dotted(path: Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _explained(error: yaml.YAMLError, text: str) -> SourceError:
    """YAML's own complaint, in the words of a person who has to repair the file."""
    if isinstance(error, ReaderError):
        position = error.position if isinstance(error.position, int) else 0
        what = (
            f"character {error.character!r}"
            if isinstance(error.character, str)
            else f"#x{error.character:02x}"
        )
        return SourceError(f"holds a character that YAML forbids ({what})", text.count("\n", 0, position) + 1)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = mark.line + 1 if mark is not None else None
    problem = str(getattr(error, "problem", "") or error)
    context = str(getattr(error, "context", "") or "")
    if "'\\t'" in problem:
        return SourceError("a tab where YAML wants spaces: indent with spaces", line)
    if "expected a single document" in context:
        return SourceError("has several documents (---): write one job per file", line)
    if "mapping values are not allowed" in problem:
        return SourceError(
            "a ':' where YAML takes none: quote text that holds ': ', and check the indent", line
        )
    if "undefined alias" in problem:
        return SourceError(f"{problem}: write &name before *name", line)
    if "while scanning a quoted scalar" in context:
        opened = getattr(error, "context_mark", None)
        return SourceError("a quote is opened here and never closed", opened.line + 1 if opened else line)
    where = f"{context}: " if context else ""
    return SourceError(f"is not YAML: {where}{problem}", line)
