"""Shell completion: the words, and the scripts in real shells."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.cli import Cli

from .conftest import Rank, status_of


def words(hora: Cli, *line: str) -> list[str]:
    return [word.partition("\t")[0] or word for word in hora("__complete", *line).check().lines]


def test_commands_options_and_values_are_offered(hora: Cli) -> None:
    assert words(hora, "st") == ["stop", "status", "stacks"]
    assert words(hora, "run", "--re") == ["--restarts"]
    assert words(hora, "run", "--stall", "") == ["report", "kill"]
    assert words(hora, "run", "--stall=k") == ["--stall=kill"]
    assert words(hora, "run", "--on", "") == ["local"]
    assert words(hora, "run", "--framework", "to") == ["torch"]
    assert words(hora, "status", "-o", "") == ["json", "yaml", "wide"]
    assert words(hora, "completion", "") == ["bash", "zsh", "fish"]
    assert words(hora, "nonesuch", "") == []
    assert words(hora, "logs", "--tail", "") == []


def test_words_of_the_own_command_are_files_and_never_our_options(hora: Cli) -> None:
    assert words(hora, "run", "-n", "2", "python", "--re") == ["\tfiles"]
    assert words(hora, "run", "job.yaml", "--re") == ["--restarts"]
    assert words(hora, "run", "") == ["\tfiles", "\tprograms", "\tfiles"]


def test_runs_are_offered_by_id_and_by_name_the_newest_first(hora: Cli, rank: Rank) -> None:
    for name in ("one", "two"):
        hora("run", "--name", name, "-n", "1", *rank("")).check()
    one, two = status_of(hora, "one")["id"], status_of(hora, "two")["id"]
    assert words(hora, "logs", "") == [two, one, "two", "one"]
    assert words(hora, "stop", one, "") == [two, "two", "one"]  # what stands there already is not offered
    assert words(hora, "stop", one, "tw") == [word for word in (two, "two") if word.startswith("tw")]
    assert words(hora, "logs", two, "--rank", "") == ["worker-0/0"]


# --- real shells ----------------------------------------------------------------------------------------------


@pytest.fixture
def program(work: Path) -> Path:
    """A folder for PATH with `hora` alone."""
    folder = work / "bin"
    folder.mkdir()
    (folder / "hora").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hora "$@"\n')
    (folder / "hora").chmod(0o755)
    return folder


@pytest.fixture
def bash(program: Path, work: Path) -> Callable[[str], list[str]]:
    """What bash offers for a command line when Tab is pressed at its end."""

    def complete(line: str) -> list[str]:
        script = f"""
            PATH={program}:$PATH
            eval "$(hora completion bash)"
            COMP_LINE={quoted(line)} COMP_POINT={len(line)}
            # bash's own way to words: breaks at the characters of COMP_WORDBREAKS
            COMP_WORDS=({" ".join(map(quoted, broken(line)))})
            COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
            compopt() {{ :; }}
            _hora
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        done = subprocess.run(
            ["bash", "--norc", "-c", script],
            capture_output=True,
            text=True,
            cwd=work,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        return [word for word in done.stdout.split("\n") if word]

    return complete


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def broken(line: str) -> list[str]:
    found: list[str] = []
    for word in line.split(" "):
        at = 0
        for mark in [at for at, char in enumerate(word) if char in "=:"]:
            found += [part for part in (word[at:mark], word[mark]) if part]
            at = mark + 1
        if at < len(word) or not word or word[-1] in "=:":
            found.append(word[at:])
    return found


def test_bash_completes_commands_options_values_runs_and_files(
    bash: Callable[[str], list[str]], hora: Cli, rank: Rank, work: Path
) -> None:
    hora("run", "--name", "digits", "-n", "1", *rank("")).check()
    assert bash("hora stat") == ["status"]
    assert bash("hora run --restar") == ["--restarts"]
    assert bash("hora run --stall=k") == ["kill"]
    assert bash("hora logs dig") == ["digits"]
    (work / "two words.yaml").write_text("")
    assert "two words.yaml" in bash("hora run two")
    assert "rank1.py" in bash("hora run -n 2 python rank")
    assert "rank1.py" not in bash("hora run --code ra")


@pytest.mark.parametrize("shell", [name for name in ("bash", "zsh", "fish") if shutil.which(name)])
def test_each_script_is_understood_by_its_shell(hora: Cli, work: Path, shell: str) -> None:
    script = hora("completion", shell).check().stdout
    (work / "script").write_text(script)
    check = ["--no-execute"] if shell == "fish" else ["-n"]
    done = subprocess.run([shell, *check, str(work / "script")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_another_shell_is_refused(hora: Cli) -> None:
    assert "no script for 'tcsh'; allowed: bash, zsh, fish" in hora("completion", "tcsh").check(2).stderr
