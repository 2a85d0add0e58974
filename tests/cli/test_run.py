"""`hora run`: what comes on stdout, what on stderr, and the exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.cli import Cli

from .conftest import Rank

ID = r"[a-z][a-z0-9]{4}"


def test_output_is_on_stdout_and_one_line_of_verdict_on_stderr(hora: Cli, rank: Rank) -> None:
    done = hora("run", "-n", "2", *rank("print('out', rank); print('err', rank, file=sys.stderr)")).check()
    ranks = done.ranks()
    assert {label: sorted(lines) for label, lines in ranks.items()} == {
        "worker-0/0": ["err 0", "out 0"],
        "worker-1/0": ["err 1", "out 1"],
    }
    assert re.fullmatch(rf"hora: rank1 {ID} succeeded: all 2 ranks ended well after [0-9.]+ s\n", done.stderr)


def test_words_after_the_command_arrive_unchanged(hora: Cli, rank: Rank, hostile_name: str) -> None:
    words = ["--lr", "1", "-n", "9", "--", hostile_name]
    done = hora("run", "-n", "1", "--no-prefix", *rank("print(ascii(sys.argv[1:]))", *words)).check()
    assert done.stdout == ascii(words) + "\n"


def test_the_first_rank_that_fails_gives_the_exit_code_and_the_sentence(hora: Cli, rank: Rank) -> None:
    code = "print('about to fail', flush=True)\nif rank == 1: sys.exit(3)\ntime.sleep(600)"
    done = hora("run", "-n", "3", *rank(code)).check(3)
    first, *rest = done.stderr.splitlines()
    assert re.match(rf"hora: rank1 {ID} failed: worker-1/0 exited with code 3, ", first)
    assert first.endswith("; its last line: about to fail")
    run = first.split()[2]
    assert rest[-1] == f"  more: hora status {run} · hora logs {run} --rank 1"
    (echoes,) = [line.partition("ended because of it: ")[2] for line in rest if "because of it" in line]
    assert sorted(echoes.split(", ")) == ["worker-0/0", "worker-2/0"]


def test_a_rank_that_a_signal_ends_gives_128_and_the_signal(hora: Cli, rank: Rank) -> None:
    done = hora("run", "-n", "1", *rank("os.kill(os.getpid(), signal.SIGKILL)"))
    done.check(128 + 9)
    assert "SIGKILL" in done.stderr


def test_a_job_file_runs_and_flags_and_a_command_change_it(hora: Cli, work: Path, rank: Rank) -> None:
    command = rank("print(os.environ['WORD'], os.environ['HORA_WORLD_SIZE'], sys.argv[1:])")
    (work / "job.yaml").write_text(json.dumps({"command": command, "workers": 2, "env": {"WORD": "file"}}))
    done = hora("run", "job.yaml").check()
    assert done.ranks() == {"worker-0/0": ["file 2 []"], "worker-1/0": ["file 2 []"]}
    done = hora("run", "job.yaml", "-n", "1", "--env", "WORD=flag").check()
    assert done.ranks() == {"worker-0/0": ["flag 1 []"]}
    done = hora("run", "job.yaml", "-n", "1", *command, "--more").check()
    assert done.ranks() == {"worker-0/0": ["file 1 ['--more']"]}


def test_the_framework_that_was_found_is_said(hora: Cli, work: Path) -> None:
    (work / "train.py").write_text("import os\nif os.environ.get('NEVER'):\n    import torch\n")
    done = hora("run", "-n", "1", sys.executable, "train.py").check()
    assert "hora: framework torch: " in done.stderr.splitlines()[0]
    quiet = hora("run", "-q", "-n", "1", sys.executable, "train.py").check()
    assert quiet.stderr == ""


def test_json_is_one_object_on_stdout_and_the_output_goes_to_stderr(hora: Cli, rank: Rank) -> None:
    code = """
print('hello', flush=True)
if rank == 0:
    open('printed', 'w').close()
while not os.path.exists('printed'):
    time.sleep(0.01)
sys.exit(4 * rank)
"""
    done = hora("run", "-n", "2", "-o", "json", *rank(code)).check(4)
    found = done.json
    assert "worker-0/0 | hello\n" in done.stderr
    assert found["phase"] == "failed"
    assert (found["exitCode"], found["origin"], found["attempt"], found["place"]) == (4, "job", 1, "local")
    assert {"id", "name", "reason", "startedAt", "endedAt"} <= set(found)
    assert [member["name"] for member in found["members"]] == ["worker-0", "worker-1"]
    (second,) = found["members"][1]["ranks"]
    assert {"rank", "localRank", "pid", "state", "exitCode"} <= set(second)
    assert (second["rank"], second["state"], second["exitCode"]) == (1, "exited", 4)
    failure = found["firstFailure"]
    assert {"member", "rank", "cause", "exitCode", "signal", "lastLines"} <= set(failure)
    assert (failure["member"], failure["rank"], failure["lastLines"]) == ("worker-1", 1, ["hello"])


def test_yaml_says_the_same_as_json(hora: Cli, rank: Rank) -> None:
    import yaml

    found = yaml.safe_load(hora("run", "-n", "1", "-o", "yaml", *rank("")).check().stdout)
    assert hora("status", found["id"], "-o", "json").json == found


def test_json_of_words_that_are_not_utf_8_is_utf_8_all_the_same(hora: Cli, work: Path) -> None:
    word = os.fsdecode(b"caf\xe9")
    assert json.loads(hora("render", "true", word).check().stdout)["roles"][0]["command"] == ["true", word]
    for command in (
        ("run", "-n", "1", "-o", "json", "true", word),
        ("ps", "-o", "json"),
        ("status", "-o", "json"),
    ):
        with hora.start(*command, stderr=subprocess.DEVNULL) as process:
            out, _ = process.communicate(timeout=60)
        found = json.loads(out.decode("utf-8"))
        assert (found[0] if command[0] == "ps" else found)["command"] == ["true", word]


def test_any_key_may_be_set_without_a_job_file_also_the_command(hora: Cli) -> None:
    assert hora("run", "--set", "command=[echo, hi]", "-n", "1").check().lines == ["worker-0/0 | hi"]
    assert "command: is needed" in hora("run", "--set", "name=x").check(2).stderr


def test_timestamps_and_no_prefix_change_the_lines(hora: Cli, rank: Rank) -> None:
    command = rank("print('x')")
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z "
    assert re.fullmatch(stamp + r"worker-0/0 \| x\n", hora("run", "-n", "1", "--timestamps", *command).stdout)
    assert hora("run", "-n", "1", "--no-prefix", *command).stdout == "x\n"
    assert re.fullmatch(
        stamp + r"x\n", hora("run", "-n", "1", "--timestamps", "--no-prefix", *command).stdout
    )


def test_bytes_pass_unchanged(hora: Cli, rank: Rank, work: Path) -> None:
    command = rank("sys.stdout.buffer.write(bytes(range(256)) * 3)")
    process = hora.start("run", "-n", "1", "--no-prefix", *command)
    out, _ = process.communicate(timeout=60)
    assert out == bytes(range(256)) * 3


def test_a_last_line_without_an_end_gets_one(hora: Cli, rank: Rank) -> None:
    done = hora("run", "-n", "1", *rank("sys.stdout.write('no end')")).check()
    assert done.stdout == "worker-0/0 | no end\n"


def test_detached_prints_the_id_alone_and_the_run_goes_on(hora: Cli, rank: Rank) -> None:
    done = hora("run", "--detach", "-n", "1", *rank("print('done')")).check()
    assert re.fullmatch(ID + "\n", done.stdout)
    run = done.stdout.strip()
    assert done.stderr == f"hora: run {run} goes on: hora logs -f {run}; hora stop {run}\n"
    assert "succeeded" in hora("wait", run).check().stderr
    assert hora("logs", run).check().stdout == "worker-0/0 | done\n"


def test_a_detached_run_can_be_told_as_json(hora: Cli, rank: Rank) -> None:
    found = hora("run", "--detach", "-o", "json", "-n", "1", *rank("")).check().json
    hora("wait", found["id"]).check()


@pytest.mark.parametrize("words", [("run", "--dry-run"), ("render",)])
def test_a_dry_run_prints_the_plan_and_starts_nothing(hora: Cli, work: Path, words: tuple[str, ...]) -> None:
    done = hora(*words, "-n", "2", "touch", str(work / "started")).check()
    assert [role["replicas"] for role in done.json["roles"]] == [2]
    assert not (work / "started").exists()
    assert hora("ps").stdout == ""


def test_neither_a_command_nor_a_file_is_refused_with_the_way_out(hora: Cli, work: Path) -> None:
    done = hora("run", "-n", "2").check(2)
    assert done.stderr.startswith("hora: run: there is neither a command nor a job file\n")
    (work / "job.yaml").write_text("command: [true]\n")
    assert hora("run").check(2).stderr.endswith("`hora run job.yaml`?\n")


def test_a_broken_job_file_is_refused_with_every_problem_and_nothing_is_left(hora: Cli, work: Path) -> None:
    (work / "job.yaml").write_text("command: [true]\nworkers: 0\nnmae: x\n")
    done = hora("run", "job.yaml").check(2)
    assert done.stdout == ""
    assert "job.yaml:2: workers:" in done.stderr
    assert "job.yaml:3: nmae: is not a key; did you mean name?" in done.stderr
    assert "Traceback" not in done.stderr
    assert hora("run", "missing.yaml").check(2).stderr.startswith("hora: missing.yaml")


@pytest.mark.parametrize("command", ["run", "render"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train.py"], "train.py is a script, not a program: hora {} python train.py"),
        (["./Jobfile"], "./Jobfile looks like a job file: one is known by the end of its name, .yaml, .yml or .json"),
        (["Jobfile"], "Jobfile looks like a job file: one is known by the end of its name, .yaml, .yml or .json"),
        (["sh train.sh"], "'sh train.sh' is one word: leave the quotes out, as hora {} sh train.sh"),
        (["-"], "'-' is no command, and a job comes from a file: hora {} job.yaml"),
        (["job.yaml", "--", "--lr", "3"],
         "'--lr' is an option, not a program: the words after job.yaml replace its command, as python train.py --lr"),
    ],
)  # fmt: skip
def test_a_first_word_that_is_no_command_is_told_with_what_was_meant(
    hora: Cli, work: Path, command: str, words: list[str], said: str
) -> None:
    (work / "train.py").write_text("print('trained')\n")
    for name in ("Jobfile", "job.yaml"):
        (work / name).write_text("# mine\ncommand: [true]\n")
    assert hora(command, *words).check(2).stderr == f"hora: {command}: {said.format(command)}\n"
    assert hora("ps").stdout == ""


def test_programs_whose_names_look_odd_are_programs(hora: Cli, work: Path) -> None:
    for name in ("train.py", "sh x", "Jobfile"):
        (work / name).write_text("#!/bin/sh\n# next line\ncommand: 2>/dev/null\necho it ran\n")
        (work / name).chmod(0o755)
        assert hora("run", "-n", "1", "--framework", "plain", f"./{name}").check().lines == [
            "worker-0/0 | it ran"
        ]
    path = f"{work}{os.pathsep}{os.environ['PATH']}"
    assert hora("run", "-n", "1", "--framework", "plain", "train.py", env={"PATH": path}).check().lines


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--dry-run", "-o", "yaml"],
            "run: --dry-run prints what the place would be given, as it is: leave out --output",
        ),
        (
            ["--detach", "--timestamps"],
            "run: a run that is detached shows no output: hora logs RUN --timestamps",
        ),
        (["-d", "--no-prefix"], "run: a run that is detached shows no output: hora logs RUN --no-prefix"),
    ],
)
def test_options_that_would_be_passed_over_are_refused(hora: Cli, words: list[str], said: str) -> None:
    assert hora("run", *words, "true").check(2).stderr == f"hora: {said}\n"


def test_a_job_without_ranks_is_told_alike_by_run_and_render(hora: Cli, work: Path) -> None:
    (work / "s.yaml").write_text("services: {jupyter: {}}\n")
    said = [
        hora(*words).check(2).stderr.splitlines()[-1] for words in (("run", "s.yaml"), ("render", "s.yaml"))
    ]
    assert said[0] == said[1]
    assert "the job has no ranks, only services (jupyter)" in said[0]


def test_a_command_that_does_not_exist_is_127(hora: Cli) -> None:
    done = hora("run", "-n", "1", "no-such-program").check(127)
    assert "no-such-program" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_place_and_an_unknown_flag_name_what_there_is(hora: Cli) -> None:
    assert (
        "place 'moon': there is no such place; allowed: local"
        in hora("run", "--on", "moon", "true").check(2).stderr
    )
    assert "did you mean --restarts?" in hora("run", "--restart", "2", "true").check(2).stderr


def test_a_state_folder_that_can_not_be_written_is_one_sentence(hora: Cli, work: Path) -> None:
    (work / "file").write_text("")
    done = hora("run", "-n", "1", "true", env={"HORA_STATE": str(work / "file")}).check(125)
    assert "HORA_STATE" in done.stderr
    assert "Traceback" not in done.stderr


def test_closed_standard_files_are_no_problem(hora: Cli, work: Path, rank: Rank) -> None:
    script = 'exec "$@" <&- >&- 2>&-'
    done = hora("run", "-n", "2", *rank("print('x')"), prefix=("sh", "-c", script, "sh"))
    assert (done.code, done.stdout, done.stderr) == (0, "", "")


def test_hora_inside_hora_is_a_run_of_its_own(hora: Cli, rank: Rank) -> None:
    inner = rank("print('inner', os.environ['HORA_WORLD_SIZE'])")
    done = hora("run", "-n", "1", sys.executable, "-m", "hora", "run", "-n", "2", *inner).check()
    assert sorted(line for line in done.ranks()["worker-0/0"] if "inner" in line) == [
        "worker-0/0 | inner 2",
        "worker-1/0 | inner 2",
    ]


# --- quick -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [["--version"], ["--help"], ["run", "--help"], ["run", "-n", "1", sys.executable, "-c", ""]]
)
def test_what_must_be_quick_loads_nothing_heavy(hora: Cli, words: list[str]) -> None:
    done = hora(*words, env={"PYTHONPROFILEIMPORTTIME": "1"}).check()
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    heavy = {
        "pydantic",
        "yaml",
        "rich",
        "click",
        "cryptography",
        "asyncio",
        "dataclasses",
        "argparse",
        "subprocess",
        "shutil",
    }
    assert not imported & heavy
    if words == ["--version"]:
        assert not {"json", "re", "hora.cli.commands"} & imported


def test_a_defect_is_one_sentence_and_a_file(hora: Cli, work: Path) -> None:
    (work / "sitecustomize.py").write_text(
        "import hora.cli.look\ndef broken(words): raise ZeroDivisionError('by zero')\nhora.cli.look.ps = broken\n"
    )
    path = os.pathsep.join([str(work), os.environ["PYTHONPATH"]])
    done = hora("ps", env={"PYTHONPATH": path}).check(125)
    said, told = done.stderr.splitlines()
    assert said == "hora: a defect in Hora, not in your job: ZeroDivisionError: by zero"
    file = Path(told.split("report it with ")[1].partition(";")[0])
    assert "ZeroDivisionError: by zero" in file.read_text()
    done = hora("ps", env={"PYTHONPATH": path, "HORA_DEBUG": "1"}).check(125)
    assert "Traceback" in done.stderr
