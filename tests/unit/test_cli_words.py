"""The command line's words: what they mean, and what is said about those that mean nothing."""

from __future__ import annotations

import shlex
from importlib import import_module
from pathlib import Path

import pytest

from hora.cli import commands
from hora.cli import help as texts
from hora.cli.parse import WantsHelp, parse
from hora.cli.run import overrides_of
from hora.cli.words import Command, Words
from hora.errors import UsageError
from hora.load.flags import FLAGS


def words(line: str) -> Words:
    name, *rest = shlex.split(line)
    command = commands.find(name)
    assert command is not None
    return parse(command, rest)


def test_words_after_the_command_belong_to_it() -> None:
    said = words("run -n 2 python train.py --lr 1 -n 7 --help -- x")
    assert said.text("ranks") == "2"
    assert said.many("command") == ("python", "train.py", "--lr", "1", "-n", "7", "--help", "--", "x")


def test_options_may_stand_between_the_job_file_and_the_command() -> None:
    said = words("run --env A=1 job.yaml -n 8 --env B=2 python other.py -d")
    assert said.text("job_yaml") == "job.yaml"
    assert said.many("env") == ("A=1", "B=2")
    assert said.text("ranks") == "8"
    assert said.many("command") == ("python", "other.py", "-d")
    assert not said.flag("detach")


def test_after_two_dashes_even_a_yaml_file_is_a_command(work: Path) -> None:
    said = words("run -n 1 -- ./tool.yaml --flag")
    assert said.text("job_yaml") is None
    assert said.many("command") == ("./tool.yaml", "--flag")
    said = words("run job.yaml -- -x")
    assert (said.text("job_yaml"), said.many("command")) == ("job.yaml", ("-x",))


def test_a_yaml_file_that_can_be_executed_is_a_command(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    (work / "tool.yaml").write_text("#!/bin/sh\n")
    assert words("run tool.yaml").text("job_yaml") == "tool.yaml"
    (work / "tool.yaml").chmod(0o755)
    assert words("run tool.yaml").many("command") == ("tool.yaml",)


@pytest.mark.parametrize(
    "line",
    [
        "run -n4 x",
        "run -n 4 x",
        "run -n=4 x",
        "run --ranks 4 x",
        "run --ranks=4 x",
        "run -dn4 x",
        "run -qdn 4 x",
    ],
)
def test_a_value_may_be_written_in_every_usual_way(line: str) -> None:
    said = words(line)
    assert said.text("ranks") == "4"
    assert said.many("command") == ("x",)


def test_an_empty_value_and_one_that_looks_like_an_option_are_values() -> None:
    assert words("run --env= -n 2 x").many("env") == ("",)
    assert words("run --setup --help x").text("setup") == "--help"


def test_the_command_of_exec_keeps_its_own_options_with_and_without_two_dashes() -> None:
    for line in ("exec digits --rank 1 -- ls -l --all", "exec digits --rank 1 ls -l --all"):
        said = words(line)
        assert (said.text("run"), said.text("rank")) == ("digits", "1")
        assert said.many("cmd") == ("ls", "-l", "--all")
    assert words("exec digits -- sh -- x").many("cmd") == ("sh", "--", "x")


def test_several_runs_can_be_named() -> None:
    assert words("stop one two --kill three").many("run") == ("one", "two", "three")


@pytest.mark.parametrize("line", ["run --help", "run -n 2 -h", "status -h", "exec x --help -- y"])
def test_help_is_help_before_the_command(line: str) -> None:
    with pytest.raises(WantsHelp):
        words(line)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run --rnks 4 x", "run: there is no option --rnks; did you mean --ranks?"),
        ("logs --folow", "logs: there is no option --folow; did you mean --follow?"),
        ("ps --nonsense", "ps: there is no option --nonsense\n"),
        ("run -n", "run: -n needs a value: -n N"),
        ("run --detach=yes x", "run: --detach takes no value, got 'yes'"),
        ("run --stall kil x", "run: --stall: must be one of report, kill, got 'kil'; did you mean kill?"),
        ("status -o jsn", "status: -o: must be one of json, yaml, wide, got 'jsn'; did you mean json?"),
        ("ps extra", "ps: the word 'extra' is one too many"),
        ("exec", "exec: RUN is missing"),
        ("exec digits", "exec: CMD is missing"),
        ("exec digits --", "exec: CMD is missing"),
        ("completion", "completion: SHELL is missing"),
        ("run -xn 2", "run: there is no option -xn"),
    ],
)
def test_what_is_wrong_is_said_with_what_is_allowed(line: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        words(line)
    assert str(error.value).startswith(said)
    assert "\nusage: hora " in str(error.value)
    assert str(error.value).endswith(" --help")


def test_every_flag_of_the_job_file_reaches_the_overrides() -> None:
    for flag in FLAGS:
        value = "kill" if flag.field == "stall" else "7"
        overrides = overrides_of(words(f"run {flag.option} {value} x"))
        assert getattr(overrides, flag.field) in (value, (value,)), flag.option
    overrides = overrides_of(words("run -n 3 --set a=b --set c=d x y"))
    assert (overrides.ranks, overrides.sets, overrides.command) == ("3", ("a=b", "c=d"), ("x", "y"))


# --- the table -----------------------------------------------------------------------------------------

EVERY = pytest.mark.parametrize("command", commands.COMMANDS, ids=lambda command: command.name)


@EVERY
def test_every_command_has_a_function_and_a_group(command: Command) -> None:
    module, _, name = command.run.partition(":")
    assert callable(getattr(import_module(module), name))
    assert command.group in commands.GROUPS


@EVERY
def test_every_command_has_two_examples_that_it_understands(command: Command) -> None:
    assert len(command.examples) == 2
    for example in command.examples:
        line = example.replace('eval "$(', "").replace(')"', "")
        line = line.partition(" > ")[0].partition(" | ")[0]
        program, name, *rest = shlex.split(line)
        assert program == "hora"
        assert commands.find(name) is command
        parse(command, rest)


@EVERY
def test_no_two_options_of_a_command_are_called_alike(command: Command) -> None:
    names = [name for option in command.options for name in option.names]
    keys = [option.key for option in command.options] + [argument.key for argument in command.arguments]
    assert len(set(names)) == len(names)
    assert len(set(keys)) == len(keys)
    assert not {"-h", "--help"} & set(names)


@EVERY
def test_help_texts_name_every_option_and_fit_on_a_page(command: Command) -> None:
    text = texts.of(command)
    for option in command.options:
        assert texts.shown(option).strip() in text
    assert max(map(len, text.split("\n"))) <= 100


def test_names_and_aliases_are_unique() -> None:
    names = [name for command in commands.COMMANDS for name in (command.name, *command.aliases)]
    assert len(set(names)) == len(names)


def test_the_overview_names_every_command_in_80_columns() -> None:
    text = texts.overview()
    for command in commands.COMMANDS:
        assert f"\n  {command.name} " in text
    assert max(map(len, text.split("\n"))) <= 80


def test_the_reference_page_is_up_to_date() -> None:
    from hora.cli.reference import reference

    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md"
    assert page.read_text(encoding="utf-8") == reference(), "run scripts/docs-cli"
