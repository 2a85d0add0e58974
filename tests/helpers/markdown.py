"""What the tests of the documentation read in a Markdown file: links, anchors and fenced blocks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_FENCE = re.compile(r"^( *)(`{3,}|~{3,})\s*([\w+-]*)[^`]*$")
_COMMENT = re.compile(r"<!--\s*([a-z ]+?):\s*(.*?)\s*-->")
_INLINE_CODE = re.compile(r"(`+)(?:.*?)\1")
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^\s)>]*)>?(?:\s+\"[^\"]*\")?\s*\)")
_REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)>?")
_HTML_LINK = re.compile(r"<(?:a|img)\s[^>]*?(?:href|src)=\"([^\"]+)\"")
_HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_HTML_ANCHOR = re.compile(r"<a\s[^>]*?(?:id|name)=\"([^\"]+)\"")


@dataclass(frozen=True)
class Block:
    """A fenced block, and the comments `<!-- word: text -->` in the lines right before it."""

    page: Path
    line: int  # of its first line inside the fence
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"{self.page.name}:{self.line}"


@dataclass(frozen=True)
class Link:
    page: Path
    line: int
    target: str


def _parts(text: str) -> Iterator[tuple[int, str, re.Match[str] | None, bool]]:
    """Each line with its number, the match if it opens a fence, and whether it lies inside one."""
    closing: str | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if closing is not None:
            yield number, line, None, True
            if line.strip().startswith(closing) and not line.strip().strip(closing[0]):
                closing = None
            continue
        opened = _FENCE.match(line)
        if opened:
            closing = opened[2]
        yield number, line, opened, False


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    marks: dict[str, str] = {}
    opened: tuple[int, re.Match[str]] | None = None
    body: list[str] = []
    for number, line, fence, inside in [*_parts(page.read_text(encoding="utf-8")), (0, "", None, False)]:
        if opened and not inside:  # the last line inside was the closing fence
            start, match = opened
            indent = len(match[1])
            lines = [text[indent:] if not text[:indent].strip() else text for text in body[:-1]]
            found.append(Block(page, start + 1, match[3], "".join(f"{text}\n" for text in lines), marks))
            marks, opened, body = {}, None, []
        if fence:
            opened = (number, fence)
        elif inside:
            body.append(line)
        elif comments := dict(_COMMENT.findall(line)):
            marks = {**marks, **comments}
        elif line.strip():
            marks = {}
    return found


def _prose(page: Path) -> Iterator[tuple[int, str]]:
    for number, line, fence, inside in _parts(page.read_text(encoding="utf-8")):
        if not inside and not fence:
            yield number, line


def links(page: Path) -> list[Link]:
    found = []
    for number, line in _prose(page):
        bare = _INLINE_CODE.sub(lambda code: "`" + "x" * (len(code[0]) - 2) + "`", line)
        targets = [*_LINK.findall(bare), *_REFERENCE.findall(bare), *_HTML_LINK.findall(bare)]
        found += [Link(page, number, target) for target in targets]
    return found


def anchors(page: Path) -> set[str]:
    """The ids that GitHub gives to the headings, and those written by hand."""
    ids: set[str] = set()
    for _, line in _prose(page):
        ids.update(_HTML_ANCHOR.findall(line))
        heading = _HEADING.match(line)
        if heading:
            slug = base = slug_of(heading[2])
            count = 0
            while slug in ids:
                count += 1
                slug = f"{base}-{count}"
            ids.add(slug)
    return ids


def slug_of(heading: str) -> str:
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    kept = [c for c in text.lower() if c in " -_" or unicodedata.category(c)[0] in "LNM"]
    return "".join(kept).replace(" ", "-")


def problem_with(link: Link, root: Path) -> str | None:
    """Why the link leads nowhere; None when it is good or leads out of the repository."""
    where = f"{link.page.relative_to(root)}:{link.line}: {link.target}"
    if re.match(r"^(https?|mailto):", link.target):
        return None
    path, _, anchor = link.target.partition("#")
    target = (link.page.parent / path).resolve() if path else link.page
    if path.startswith("/") or not target.is_relative_to(root):
        return f"{where}: leads out of the repository"
    if not target.exists():
        return f"{where}: no such file"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return f"{where}: {target.name} has no such heading; it has {', '.join(sorted(anchors(target)))}"
    return None
