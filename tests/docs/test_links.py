"""No link of the documentation leads nowhere."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from helpers import markdown

ROOT = Path(__file__).resolve().parents[2]
AWAY = {".git", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache", "node_modules", "build", "dist"}


def pages() -> list[Path]:
    """Every Markdown file of the repository: those git knows, else all but what tools leave."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listing.returncode == 0:
        found = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        found = list(ROOT.rglob("*.md"))
    kept = [page for page in found if page.exists() and not _away(page)]
    return sorted(kept)


def _away(page: Path) -> bool:
    parts = page.relative_to(ROOT).parts
    return any(part in AWAY or part.startswith(".venv") for part in parts)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    problems = [markdown.problem_with(link, ROOT) for link in markdown.links(page)]
    assert [problem for problem in problems if problem] == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[a](other.md)", None),
        ("[a](other.md#two-words)", None),
        ("[a](other.md#two-words-1)", None),
        ("[a](#here--there)", None),
        ("[a](https://example.org/x)", None),
        ("[a](folder/)", None),
        ("`[a](gone.md)`", None),
        ("```\n[a](gone.md)\n```", None),
        ("see [a\\_b [c]](<other.md>)", None),
        ("[a](gone.md)", "no such file"),
        ("[a](other.md#gone)", "no such heading"),
        ("[a](other.md#in-a-block)", "no such heading"),
        ("![picture](gone.png)", "no such file"),
        ("[a]: gone.md", "no such file"),
        ('<a href="gone.md">x</a>', "no such file"),
        ("[a](../../outside.md)", "leads out"),
        ("[a](/README.md)", "leads out"),
        ("[a][b] and [c](gone.md) after ``x ` y``", "no such file"),
    ],
)
def test_the_check_tells_good_links_from_bad_ones(work: Path, text: str, problem: str | None) -> None:
    (work / "folder").mkdir()
    (work / "other.md").write_text("# Two words\n\n## Two `words`\n\n```sh\n# in a block\n```\n")
    page = work / "page.md"
    page.write_text(f"# Here & there\n\n{text}\n")
    found = [markdown.problem_with(link, work) for link in markdown.links(page)]
    if problem is None:
        assert [each for each in found if each] == []
    else:
        assert [each for each in found if each and problem in each], found


def test_every_page_can_be_reached_from_the_readme() -> None:
    """A page that nothing links to is read by nobody."""
    documentation = {page for page in pages() if page.is_relative_to(ROOT / "docs")}
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = [(page.parent / link.target.partition("#")[0]).resolve() for link in markdown.links(page)]
        waiting += [target for target in targets if target.suffix == ".md" and target.exists()]
    assert sorted(documentation - reached) == []
