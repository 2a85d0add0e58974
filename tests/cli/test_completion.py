"""Shell completion: the words, and the scripts in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.cli import Cli
from helpers.terminal import Terminal

from .conftest import Rank, status_of


def words(hora: Cli, *line: str) -> list[str]:
    return [word.partition("\t")[0] or word for word in hora("__complete", *line).check().lines]


def test_commands_options_and_values_are_offered(hora: Cli) -> None:
    assert words(hora, "st") == ["stop", "status", "stacks"]
    assert words(hora, "run", "--re") == ["--restarts"]
    assert words(hora, "run", "--stall", "") == ["report", "kill"]
    assert words(hora, "run", "--stall=k") == ["--stall=kill"]
    assert words(hora, "run", "--on", "") == ["local", "kubernetes"]
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
    assert words(hora, "cp", "") == ["\tfiles", f"{two}:", f"{one}:", "two:", "one:"]
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


def needs(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here: scripts/shells gets it")


def test_zsh_completes_commands_options_values_runs_and_files(
    program: Path, hora: Cli, rank: Rank, work: Path
) -> None:
    needs("zsh")
    hora("run", "--name", "digits", "-n", "1", *rank("")).check()
    (work / "two words.yaml").write_text("")
    env = {"PATH": f"{program}{os.pathsep}{os.environ['PATH']}"}
    with Terminal(["zsh", "-f", "-i"], cwd=work, env=env) as shell:
        # What the keys have made of a line is told word by word: Ctrl-A goes to its beginning.
        shell.send("PS1='ready> '; said() { print -r -- \"said:${(j:|:)@}:\" }; unsetopt prompt_sp\r")
        shell.send(
            "autoload -Uz compinit; compinit -D -u; eval \"$(hora completion zsh)\"; print -r -- be''gun\r"
        )
        shell.expect("^begun$")
        for line, said in (
            ("hora stat", "hora|status"),
            ("hora run --restar", "hora|run|--restarts"),
            ("hora run --stall k", "hora|run|--stall|kill"),
            ("hora logs dig", "hora|logs|digits"),
            ("hora run two", "hora|run|two words.yaml"),
            ("hora run -n 2 python rank", "hora|run|-n|2|python|rank1.py"),
        ):
            shell.send(f"{line}\t\x01said \r")
            assert shell.expect(r"^said:(.*?)\|?:$")[1] == said
        shell.expect("ready> ")
        shell.send("hora run --stall \t")
        shell.expect(r"kill\s+report|report\s+kill")  # without a description, since there is none
        shell.send("\x15exit\r")
        assert shell.wait() == 0


def test_fish_completes_commands_options_values_runs_and_files(
    program: Path, hora: Cli, rank: Rank, work: Path
) -> None:
    needs("fish")
    hora("run", "--name", "digits", "-n", "1", *rank("")).check()
    (work / "two words.yaml").write_text("")
    (work / "hora.fish").write_text(hora("completion", "fish").check().stdout)

    def complete(line: str) -> list[str]:
        done = subprocess.run(
            ["fish", "--no-config", "-c", "source hora.fish; complete -C $argv[1]", line],
            cwd=work,
            env={**os.environ, "PATH": f"{program}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        return [found.partition("\t")[0] for found in done.stdout.splitlines()]

    assert complete("hora stat") == ["status"]
    assert complete("hora run --restar") == ["--restarts"]
    assert complete("hora run --stall k") == ["kill"]
    assert complete("hora run --stall=k") == ["--stall=kill"]
    assert complete("hora logs dig") == ["digits"]
    assert any("words.yaml" in found for found in complete("hora run two"))
    assert "rank1.py" in complete("hora run -n 2 python rank")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_is_understood_by_its_shell(hora: Cli, work: Path, shell: str) -> None:
    needs(shell)
    script = hora("completion", shell).check().stdout
    (work / "script").write_text(script)
    check = ["--no-execute"] if shell == "fish" else ["-n"]
    done = subprocess.run([shell, *check, str(work / "script")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_another_shell_is_refused(hora: Cli) -> None:
    assert "no script for 'tcsh'; allowed: bash, zsh, fish" in hora("completion", "tcsh").check(2).stderr
