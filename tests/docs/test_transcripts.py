"""The judge of the documentation judged: what counts as the same output, and what does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from helpers import markdown, transcript


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("", "anything\nat all"),
        ("a\nb", "a\nb"),
        ("a\n...\nd", "a\nb\nc\nd"),
        ("a\n...\nd", "a\nd"),
        ("...", "a\nb"),
        ("...\nb", "a\nb"),
        ("a ... c", "a b c"),
        ("loss 0.5…", "loss 0.512"),
        ("done in 0.8 s", "done in 12.25 s"),
        ("started 3m 20s ago", "started 12s ago"),
        ("at 2026-01-01 10:00:00", "at 2026-11-18 22:10:03"),
        ("run digits-x7k2p begins", "run digits-k9b6c begins"),
        ("hora: digits xt5zx failed", "hora: digits fnmsr failed"),
        ("started 1m58s ago", "started 5.0s ago"),
        ("w-0/0  laptop  0  0  12  running", "w-0/0  vm-7  0  0  3456  running"),
        ("first failure: w-0/0 exited on laptop", "first failure: w-0/0 exited on vm-7.local"),
        ("a\nb", "a\nhora: starting: starting the ranks\nb"),
        ("w-0/launcher | a\nb", "b\nw-0/launcher | a"),
        ("lead: pid 12", "lead: pid 3456"),
        ("columns   of a   table", "columns of a table"),
        ("w-0/0 | a\nw-1/0 | a", "w-1/0 | a\nw-0/0 | a"),
        ("w-0/0 | a\nw-0/0 | b\nend", "w-0/0 | a\nend\nw-0/0 | b"),
        ("w-0/0 | a\n...\nend", "w-0/0 | a\nw-1/0 | other\nw-0/0 | b\nend"),
    ],
)
def test_these_count_as_the_same(shown: str, printed: str) -> None:
    assert transcript.compare(shown.split("\n"), printed.split("\n")) is None


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a", "b"),
        ("a", "a\nb"),
        ("a\nb", "a"),
        ("a\nb", "b\na"),
        ("a\n...\nd", "a\nb\nc"),
        ("exit code 3", "exit code 4"),
        ("4 ranks", "3 ranks"),
        ("a...c", "abd"),
        ("w-0/0 | a\nw-0/0 | b", "w-0/0 | b\nw-0/0 | a"),
        ("w-0/0 | a", "w-0/0 | a\nw-1/0 | a"),
        ("w-0/0 | a\nw-1/0 | a", "w-0/0 | a"),
        ("w-0/0 | a\n...", "w-0/0 | b"),
        ("run digits-x7k2p begins", "run letters-k9b6c begins"),
        ("hora: digits xt5zx failed", "hora: digits aaaaa failed"),
        ("w-0/0  laptop  0  0  12  running", "w-0/0  laptop  1  0  12  running"),
        ("(a+b)", "aab"),
        ("a\nhora: starting: starting the ranks", "a"),
    ],
)
def test_these_do_not(shown: str, printed: str) -> None:
    assert transcript.compare(shown.split("\n"), printed.split("\n")) is not None


PAGE = """\
Text.

<!-- file: hello.sh -->
```sh
echo "hello $1"
```

<!-- exit: 3 -->

1. In a list:

   ```console
   $ sh hello.sh you
   hello you
   $ printf '%s\\n' a \\
   >   b
   a
   b
   ```

<!-- not run: it would take a day -->
```console
$ train
```

<!-- forgotten: since text follows -->
words
```console
$ exit 3
```
"""


@pytest.fixture
def page(work: Path) -> Path:
    file = work / "page.md"
    file.write_text(PAGE)
    return file


def test_blocks_are_found_with_their_lines_languages_and_marks(page: Path) -> None:
    blocks = markdown.blocks(page)
    assert [(b.language, b.line, b.marks) for b in blocks] == [
        ("sh", 5, {"file": "hello.sh"}),
        ("console", 13, {}),
        ("console", 23, {"not run": "it would take a day"}),
        ("console", 29, {}),
    ]
    assert blocks[0].text == 'echo "hello $1"\n'


def test_a_block_becomes_commands_and_what_they_show(page: Path) -> None:
    first, second = transcript.steps(markdown.blocks(page)[1])
    assert (first.where, first.command, first.shown) == ("page.md:13", "sh hello.sh you", ("hello you",))
    assert second.command == "printf '%s\\n' a \\\n  b"
    assert second.shown == ("a", "b")


def test_a_console_block_must_begin_with_a_command(page: Path) -> None:
    page.write_text("```console\nhello\n$ echo hello\n```\n")
    with pytest.raises(ValueError, match=r"page\.md:2: a console block begins with"):
        transcript.steps(markdown.blocks(page)[0])


def test_a_step_runs_and_tells_where_page_and_truth_part(page: Path, work: Path) -> None:
    blocks = markdown.blocks(page)
    (work / "hello.sh").write_text(blocks[0].text)
    for step in transcript.steps(blocks[1]):
        transcript.run(step, work, os.environ)
    (failing,) = transcript.steps(blocks[3])
    transcript.run(failing, work, os.environ, exit_code=3)
    with pytest.raises(AssertionError, match=r"exit code 3, not 0\npage\.md:29: \$ exit 3"):
        transcript.run(failing, work, os.environ)
    wrong = transcript.Step("page.md:1", "echo this", ("that",))
    with pytest.raises(AssertionError, match=r"the page shows \['that'\], printed was \['this'\]"):
        transcript.run(wrong, work, os.environ)


def test_a_step_that_needs_a_moment_is_run_again_and_not_for_ever(work: Path) -> None:
    soon = transcript.Step("page.md:1", "echo >> count; wc -l < count", ("3",))
    transcript.run_until(soon, work, os.environ, 0, patience=20)
    never = transcript.Step("page.md:1", "echo 1", ("2",))
    with pytest.raises(AssertionError, match=r"the page shows \['2'\]"):
        transcript.run_until(never, work, os.environ, 0, patience=0.2)
