"""`hora init`, `schema`, `demo`, help and mistyped words."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from helpers.cli import Cli

from .conftest import status_of


def test_init_writes_a_job_file_that_runs_and_never_overwrites_one(hora: Cli, work: Path) -> None:
    (work / "train.py").write_text("print('trained')\n")
    done = hora("init", "train.py").check()
    assert (done.stdout, done.stderr) == (
        "",
        "hora: wrote job.yaml; look it through, then: hora run job.yaml\n",
    )
    assert hora("run", "job.yaml").check().ranks() == {f"worker-{n}/0": ["trained"] for n in range(2)}
    (work / "job.yaml").write_text("mine")
    assert "job.yaml exists and is not overwritten" in hora("init", "train.py").check(2).stderr
    assert (work / "job.yaml").read_text() == "mine"
    hora("init", "train.py", "--force", "-n", "3").check()
    assert len(hora("run", "job.yaml").check().ranks()) == 3


def test_init_finds_the_framework_and_can_write_elsewhere(hora: Cli, work: Path) -> None:
    (work / "train.py").write_text("import torch\n")
    assert re.search(
        r"^framework: torch\b", hora("init", "train.py", "--file", "-").check().stdout, re.MULTILINE
    )
    hora("init", "--file", "other.yaml", "--framework", "mpi").check()
    assert "framework: mpi" in (work / "other.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("missing.py",), "init: there is no file missing.py"),
        (("-n", "0"), "init: --workers: must be 1 or more, got 0"),
        (("-n", "99999"), "init: --workers: must be 10000 or less, got 99999"),
        (("--framework", "bogus"), "init: --framework: must be plain, mpi, torch"),
        (("--file", ""), "init: --file: a job file's name ends in .yaml, .yml, .json, got ''"),
        (("--file", "jobfile"), "init: --file: a job file's name ends in .yaml, .yml, .json, got 'jobfile'"),
        (("--file", "no/such/folder.yaml"), "init: no/such/folder.yaml can't be written: No such file"),
    ],
)
def test_init_refuses_in_one_sentence(hora: Cli, words: tuple[str, ...], said: str) -> None:
    assert hora("init", *words).check(2).stderr.startswith("hora: " + said)


def test_init_writes_what_can_run_also_for_a_framework_that_comes_later(hora: Cli, work: Path) -> None:
    (work / "dk.py").write_text("try:\n    import dask\nexcept ImportError:\n    print('without')\n")
    hora("init", "dk.py", "--file", "my job.yaml").check()
    text = (work / "my job.yaml").read_text()
    assert "hora run 'my job.yaml' -n 8" in text
    assert re.search(r"^framework: plain .*dk.py:2 imports dask", text, re.MULTILINE)
    hora("run", "my job.yaml").check()


def test_the_demo_wants_a_folder_to_save_to(hora: Cli) -> None:
    assert hora("demo", "--save", "").check(2).stderr.startswith("hora: demo: --save: name a folder")


def test_schema_is_a_json_schema_of_the_job_file(hora: Cli) -> None:
    schema = hora("schema").check().json
    assert schema["title"] == "Hora job file"
    assert {"command", "workers", "roles"} <= set(schema["properties"])


# --- demo ---------------------------------------------------------------------------------------------------


def test_the_demo_trains_on_four_equal_ranks_within_15_seconds(hora: Cli) -> None:
    began = time.monotonic()
    done = hora("demo").check()
    assert time.monotonic() - began < 15.0
    assert set(done.ranks()) == {f"worker-{number}/0" for number in range(4)}
    accuracy = re.search(
        r"^4 ranks: .* accuracy ([0-9.]+)%; the weights are equal on all 4 ranks$", done.stdout, re.MULTILINE
    )
    assert accuracy, done
    assert float(accuracy[1]) > 90.0
    assert "What to try next:" in done.stderr
    assert status_of(hora, "digits")["phase"] == "succeeded"


def test_the_demo_can_be_saved_and_run_by_hand(hora: Cli, work: Path) -> None:
    done = hora("demo", "--save", "my digits").check()
    assert sorted(done.lines) == [f"my digits/{name}" for name in ("README.md", "job.yaml", "train.py")]
    assert done.stderr == "hora: now: hora run 'my digits/job.yaml'\n"
    done = hora("run", "my digits/job.yaml", "-n", "2").check()
    assert "2 ranks: " in done.stdout
    assert "nothing is overwritten" in hora("demo", "--save", "my digits").check(2).stderr


# --- help, and words that nobody knows ------------------------------------------------------------------------


def test_help_is_reached_in_every_usual_way(hora: Cli) -> None:
    overview = hora("--help").check().stdout
    assert [hora(*words).check().stdout for words in ((), ("-h",), ("help",))] == [overview] * 3
    page = hora("run", "--help").check().stdout
    assert page.startswith("usage: hora run [OPTIONS] [JOB.yaml] [COMMAND...]\n")
    assert [hora(*words).check().stdout for words in (("help", "run"), ("run", "-n", "2", "-h"))] == [
        page
    ] * 2
    assert hora("why", "--help").stdout == hora("status", "--help").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("stauts",), "there is no command stauts; did you mean status?"),
        (("-n", "2", "python", "t.py"), "-n is an option of `hora run`: hora run -n ..."),
        (("--name=x", "true"), "--name=x is an option of `hora run`: hora run --name=x ..."),
        (("--hepl",), "there is no option --hepl; did you mean --help?"),
        (("python", "train.py"), "there is no command python; hora run python ... runs a program"),
        (("logs", "--tial", "3"), "logs: there is no option --tial; did you mean --tail?"),
        (("help", "rum"), "there is no command rum; did you mean rm?"),
    ],
)
def test_a_mistyped_word_is_met_with_the_nearest_one(hora: Cli, words: tuple[str, ...], said: str) -> None:
    done = hora(*words).check(2)
    assert (done.stdout, done.stderr.splitlines()[0]) == ("", "hora: " + said)


def test_version_is_one_line(hora: Cli) -> None:
    import hora as package

    assert hora("--version").check().stdout == f"hora {package.__version__}\n"


def test_a_full_or_closed_stdout_is_no_traceback(hora: Cli) -> None:
    process = hora.start("schema")
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (141, b"")
    with open("/dev/full", "wb") as full:
        process = hora.start("--help", stdout=full)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 125
    assert err == b"hora: the output can't be written: No space left on device\n"
