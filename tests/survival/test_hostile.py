"""Names and texts that break what pastes text together arrive at the rank as they were given."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import hora as api
from helpers.cli import Cli
from helpers.runs import Runs, output_of, python
from hora.state import RunStatus

pytestmark = pytest.mark.leaks

TELL = (
    "import json, os, sys; json.dump({'argv': sys.argv[1:], 'cwd': os.getcwd(), 'env': dict(os.environ)},"
    " open(os.path.join(os.environ['TOLD'], os.environ['HORA_RANK']), 'w', encoding='utf-8'))"
)


@pytest.fixture
def told(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where each rank writes what it was given."""
    folder = home.parent / "told"
    folder.mkdir()
    monkeypatch.setenv("TOLD", str(folder))
    return folder


def of(told: Path, rank: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((told / str(rank)).read_text(encoding="utf-8"))
    return found


def succeeded(status: RunStatus) -> None:
    assert status.phase == "succeeded", (status.reason, status.first_failure)


def test_arguments_and_variables_arrive_through_the_api(
    runs: Runs, told: Path, hostile_names: dict[str, str]
) -> None:
    values = list(hostile_names.values())
    env = {f"H_{at}": value for at, value in enumerate(values)}
    _, status = runs.ended([sys.executable, "-c", TELL, *values], workers=2, env=env)
    succeeded(status)
    for rank in range(2):
        assert of(told, rank)["argv"] == values
        assert {name: of(told, rank)["env"][name] for name in env} == env


def test_arguments_and_variables_arrive_through_the_command_line(
    hora: Cli, told: Path, hostile_names: dict[str, str]
) -> None:
    values = list(hostile_names.values())
    given = [word for at, value in enumerate(values) for word in ("--env", f"H_{at}={value}")]
    hora("run", "-n", "1", *given, sys.executable, "-c", TELL, *values).check()
    assert of(told)["argv"] == values
    assert [of(told)["env"][f"H_{at}"] for at in range(len(values))] == values


def test_arguments_and_variables_arrive_through_a_job_file(
    hora: Cli, work: Path, told: Path, hostile_names: dict[str, str]
) -> None:
    values = list(hostile_names.values())
    job = {
        "name": "job",
        "command": [sys.executable, "-c", TELL, *values],
        "env": {f"H_{at}": value for at, value in enumerate(values)},
    }
    (work / "job.yaml").write_text(json.dumps(job, ensure_ascii=False), encoding="utf-8")
    hora("run", "job.yaml").check()
    assert of(told)["argv"] == values
    assert [of(told)["env"][f"H_{at}"] for at in range(len(values))] == values


def test_variables_of_the_caller_arrive(
    runs: Runs, told: Path, hostile_names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for at, value in enumerate(hostile_names.values()):
        monkeypatch.setenv(f"OWN_{at}", value)
    _, status = runs.ended([sys.executable, "-c", TELL])
    succeeded(status)
    assert [of(told)["env"][f"OWN_{at}"] for at in range(len(hostile_names))] == list(hostile_names.values())


def test_a_run_in_a_folder_with_a_hostile_name(hora: Cli, hostile_folder: Path, told: Path) -> None:
    (hostile_folder / "train.py").write_text(TELL)
    hora("run", "-n", "1", sys.executable, "train.py", cwd=hostile_folder).check()
    assert of(told)["cwd"] == str(hostile_folder)


def test_code_in_a_folder_with_a_hostile_name(runs: Runs, hostile_folder: Path, told: Path) -> None:
    (hostile_folder / "train.py").write_text(TELL)
    _, status = runs.ended([sys.executable, "train.py"], code=str(hostile_folder))
    succeeded(status)
    assert of(told)["cwd"] == str(hostile_folder)


def test_a_program_with_a_hostile_name(runs: Runs, hostile_folder: Path) -> None:
    program = hostile_folder / hostile_folder.name
    program.write_text("#!/bin/sh\necho started\n")
    program.chmod(0o755)
    run, status = runs.ended([str(program)])
    succeeded(status)
    assert output_of(run) == {"worker-0/0": b"started\n"}


def test_hostile_texts_in_the_output_and_in_the_last_lines(runs: Runs, hostile_names: dict[str, str]) -> None:
    code = "import sys; sys.stdout.buffer.write('|'.join(sys.argv[1:]).encode()); sys.stdout.flush(); sys.exit(3)"
    run, status = runs.ended([sys.executable, "-c", code, *hostile_names.values()])
    assert output_of(run)["worker-0/0"].decode() == "|".join(hostile_names.values())
    assert status.exit_code == 3 and "\n" not in status.reason and "\x1b" not in status.reason, status.reason


BYTES = b"caf\xe9-\xff\xfe"


def test_bytes_that_are_no_text_arrive_in_arguments_and_variables(
    hora: Cli, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environb, b"ODD", BYTES)
    tell = "import os, sys; os.write(1, os.fsencode(sys.argv[1]) + b' ' + os.environb[b'ODD'] + b' ' + os.environb[b'GIVEN'])"
    process = hora.start(
        "run",
        "-n",
        "1",
        "--no-prefix",
        "--env",
        "GIVEN=" + os.fsdecode(BYTES),
        sys.executable,
        "-c",
        tell,
        os.fsdecode(BYTES),
    )
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b" ".join([BYTES] * 3)), err


def test_a_folder_whose_name_is_no_text(hora: Cli, work: Path) -> None:
    folder = os.path.join(os.fsencode(work), BYTES)
    os.mkdir(folder)
    process = hora.start(
        "run",
        "-n",
        "1",
        "--no-prefix",
        sys.executable,
        "-c",
        "import os; os.write(1, os.getcwdb())",
        cwd=os.fsdecode(folder),
    )
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, folder), err


def test_an_argument_of_100_kb_and_an_environment_of_900_kb(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        monkeypatch.setenv(f"BIG_{number}", str(number) * 100_000)
    code = "import os, sys; print(len(sys.argv[1]), sum(len(v) for n, v in os.environ.items() if n.startswith('BIG_')))"
    run, status = runs.ended([sys.executable, "-c", code, "x" * 100_000], workers=4)
    succeeded(status)
    assert output_of(run) == {f"worker-{i}/0": b"100000 900000\n" for i in range(4)}


def test_an_argument_that_the_system_refuses_is_one_sentence(runs: Runs, work: Path) -> None:
    limit = 128 << 10  # MAX_ARG_STRLEN
    _run, status = runs.ended(["true", "x" * (limit + 1)])
    assert status.phase == "failed" and status.exit_code == 126, status
    assert "Argument list too long" in status.reason or "too long" in status.reason, status.reason


def test_variables_with_odd_names_arrive(runs: Runs, told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BASH_FUNC_x%%", "a.b", "with space", "Größe", "-x"):
        monkeypatch.setenv(name, name)
    _, status = runs.ended([sys.executable, "-c", TELL])
    succeeded(status)
    for name in ("BASH_FUNC_x%%", "a.b", "with space", "Größe", "-x"):
        assert of(told)["env"][name] == name


# --- secrets -----------------------------------------------------------------------------------------

SECRETS = ("s3cr3t-from-env-9f1", "s3cr3t-from-file-7c2")


def test_secrets_arrive_and_are_kept_nowhere(
    hora: Cli, work: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "token").write_text(SECRETS[1] + "\n")
    code = """
        import hashlib, os, sys, time
        for name in ("FROM_ENV", "FROM_FILE"):
            print(name, hashlib.sha256(os.environ[name].encode()).hexdigest(), flush=True)
        while not os.path.exists("seen"):
            time.sleep(0.02)
    """
    job = {
        "name": "job",
        "command": python(code),
        "workers": 2,
        "secrets": {"FROM_ENV": {"env": "SOURCE"}, "FROM_FILE": {"file": "token"}},
    }
    (work / "job.json").write_text(json.dumps(job))
    env = {"SOURCE": SECRETS[0]}
    run = hora("run", "--detach", "job.json", env=env).check().stdout.split()[0]
    process = hora.start("logs", "-f", run)
    assert process.stdout is not None
    lines = [process.stdout.readline().decode() for _ in range(4)]
    import hashlib

    for secret in SECRETS:
        assert len([line for line in lines if hashlib.sha256(secret.encode()).hexdigest() in line]) == 2, (
            lines
        )
    seen = [
        hora("status", run).check().stdout,
        hora("status", run, "-o", "json").check().stdout,
        hora("ps", "-o", "json").check().stdout,
        hora("render", "job.json", env=env).stdout,
    ]
    seen += [
        Path(f"/proc/{entry}/cmdline").read_bytes().decode("utf-8", "replace")
        for entry in os.listdir("/proc")
        if entry.isdigit() and os.path.exists(f"/proc/{entry}/cmdline")
    ]
    (work / "seen").touch()
    hora("wait", run).check()
    kept = b"".join(path.read_bytes() for path in (home.parent / "state").rglob("*") if path.is_file())
    for secret in SECRETS:
        assert not any(secret in text for text in seen)
        assert secret.encode() not in kept


@pytest.mark.parametrize(
    ("secret", "told_"),
    [
        ({"env": "NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE is not set"),
        ({"file": "/no/such/file"}, "/no/such/file can't be read"),
        ({"secret": "mine", "key": "token"}, "Kubernetes Secret 'mine'"),
    ],
)
def test_a_secret_that_is_not_there_is_one_sentence(
    hora: Cli, work: Path, home: Path, secret: dict[str, str], told_: str
) -> None:
    job = {"name": "job", "command": ["true"], "secrets": {"TOKEN": secret}}
    (work / "job.json").write_text(json.dumps(job))
    result = hora("run", "job.json").check(2)
    assert len(result.stderr.strip().splitlines()) == 1, result
    assert "TOKEN" in result.stderr and told_ in result.stderr, result
    assert api.list_runs() == []
