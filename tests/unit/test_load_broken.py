"""Broken job files: each a clear error with its line, all errors at once, and never another exception."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from helpers.cli import Cli
from hora.errors import EXIT_USAGE, JobFileError
from hora.load import Overrides, load_job

OK = "command: [python, train.py]\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi")
)

BROKEN: dict[str, tuple[str | bytes, list[str]]] = {
    # --- not a job file at all
    "empty": ("", ["is empty", "command: [python, train.py]"]),
    "only a comment": ("# nothing\n", ["is empty"]),
    "null": ("~", ["job.yaml", "is empty", "write at least command"]),
    "list at the top": ("- command: x\n", ["job.yaml:1", "must be a map", "got a list"]),
    "text at the top": ("train.py\n", ["must be a map", "got 'train.py'"]),
    "number at the top": ("7\n", ["must be a map", "got 7"]),
    "several documents": (OK + "---\n" + OK, ["job.yaml:2", "several documents", "one job per file"]),
    "not UTF-8": (b"name: digits\nimage: caf\xe9\n", ["job.yaml:2", "byte 23 (0xe9)", "UTF-8"]),
    "UTF-16": ("command: x\n".encode("utf-16"), ["UTF-16", "save it as UTF-8"]),
    "binary": (bytes(range(256)) * 4, ["UTF-8"]),
    "a NUL character": ("command: x\nname: a\0b\n", ["job.yaml:2", "#x00"]),
    "a control character": ("command: x\n\nname: a\x07b\n", ["job.yaml:3", "#x07"]),
    "ten megabytes": ("# x\n" * 2_500_000, ["larger than 512 KiB"]),
    "JSON with a comma too many": ('{"command": "x",, }', ["job.yaml:1", "is not YAML"]),
    # --- YAML that can't be read
    "tab before a key": (OK + "\tname: x\n", ["job.yaml:2", "a tab where YAML wants spaces"]),
    "tab in a list": ("command:\n\t- x\n", ["job.yaml:2", "indent with spaces"]),
    "a bracket never closed": ("command: [python, train.py\n", ["is not YAML", "expected"]),
    "a quote never closed": (OK + "\nname: 'x\nimage: y\n", ["job.yaml:3", "quote is opened here"]),
    "a colon in plain text": ("command: x\nsetup: echo a: b\n", ["job.yaml:2", "quote text that holds ': '"]),
    "wrong indent": ("resources:\n  cpu: 1\n memory: 4Gi\n", ["job.yaml:3"]),
    "an at sign": (OK + "name: @x\n", ["job.yaml:2", "is not YAML", "'@'"]),
    "an alias without an anchor": ("command: *x\n", ["job.yaml:1", "undefined alias"]),
    "an alias that holds itself": (OK + "volumes: &v [*v]\n", ["job.yaml:2", "volumes[0] holds itself"]),
    "a map that holds itself": (OK + "roles: &r {worker: *r}\n", ["roles.worker holds itself"]),
    "a merge that holds itself": (OK + "env: &e {<<: *e}\n", ["env holds itself"]),
    "a bomb of aliases": (BOMB, ["more than 20000 values"]),
    "a thousand brackets": ("command: " + "[" * 1000, ["job.yaml:1", "nested deeper than 40 levels"]),
    "a hundred thousand brackets": ("[" * 100_000, ["nested deeper"]),
    "deep maps": ("a:\n" + "".join(" " * n + "a:\n" for n in range(1, 200)), ["job.yaml:40", "nested deeper"]),
    "deep by aliases": (
        "".join(f"k{n}: &k{n} [{'*k' + str(n - 1) if n else 'x'}]\n" for n in range(60)),
        ["nested deeper than 40 levels by an alias"],
    ),
    "a Python tag": ("command: !!python/object/apply:os.system [id]\n", ["job.yaml:1: command", "knows no tags"]),
    "an unknown tag": (OK + "name: !secret x\n", ["job.yaml:2: name", "!secret"]),
    "a map as key": (OK + "env: {[a]: b}\n", ["job.yaml:2: env", "keys are text"]),
    "a merge of a number": (OK + "env: {<<: 3}\n", ["job.yaml:2: env", "merges"]),
    "a key twice": (OK + "name: a\nname: b\n", ["job.yaml:3: name: is given twice, first in line 2"]),
    "a variable twice": (OK + "env:\n  A: 1\n  B: 2\n  A: 3\n", ["job.yaml:5: env.A", "first in line 3"]),
    # --- keys
    "no command": ("workers: 4\n", ["job.yaml", "command: is needed"]),
    "an unknown key": (OK + "framwork: mpi\n", ["job.yaml:2: framwork", "did you mean framework?"]),
    "snake case": (OK + "ranks_per_worker: 2\n", ["did you mean ranksPerWorker?"]),
    "capitals": (OK + "Name: x\n", ["did you mean name?"]),
    "a key from elsewhere": (OK + "slotsPerWorker: 2\n", ["did you mean ranksPerWorker?"]),
    "a key one level too high": (OK + "nodeSelector: {a: b}\n", ["did you mean placement.nodeSelector?"]),
    "a key of a role at the top": (OK + "replicas: 2\n", ["did you mean workers?"]),
    "a key of the job in a role": (OK + "roles: {w: {workers: 2}}\n", ["did you mean replicas?"]),
    "a deep unknown key": (OK + "placement: {nodeSelectors: {}}\n", ["placement.nodeSelectors", "nodeSelector?"]),
    "a key like no other": (OK + "network: {zzz: 1}\n", ["network.zzz", "allowed here: allowFrom, host,"]),
    "a key in a wrong list item": (OK + "volumes: [{mount: /a, pvc: b, x_y_z: 1}]\n", ["volumes[0].x_y_z"]),
    "a yes as key": (OK + "on: push\n", ["job.yaml:2: on: is not a key"]),
    "a number as key": (OK + "1: 2\n", ["job.yaml:2: 1: is not a key"]),
    "namespace in a role": (OK + "roles: {w: {kubernetes: {namespace: x}}}\n", ["w.kubernetes.namespace"]),
    "workers beside roles": (OK + "workers: 2\nroles: {worker: {}}\n", ["job.yaml:2", "roles.worker.replicas instead"]),
    "ranks beside roles": (OK + "ranksPerWorker: 2\nroles: {worker: {}}\n", ["roles.worker.ranks instead"]),
    # --- types and ranges
    "no workers": (OK + "workers: 0\n", ["job.yaml:2: workers: must be 1 or more, got 0"]),
    "half a worker": (OK + "workers: 1.5\n", ["must be a whole number, got 1.5"]),
    "workers in quotes": (OK + 'workers: "4"\n', ["without quotes, got '4'"]),
    "workers as text": (OK + "workers: four\n", ["must be a whole number, got 'four'"]),
    "workers as a list": (OK + "workers: [4]\n", ["must be a whole number, got a list"]),
    "workers in octal": (OK + "workers: 010\n", ["must be a whole number, got 010"]),
    "workers in base sixty": (OK + "workers: 1:30\n", ["must be a whole number, got 1:30"]),
    "too many workers": (OK + "workers: 1000000\n", ["must be 10000 or less"]),
    "no replicas": ("command: x\nroles:\n  worker:\n    replicas: 0\n", ["job.yaml:4: roles.worker.replicas: must be 1"]),
    "a role as a number": (OK + "roles: {worker: 4}\n", ["roles.worker: must be a map", "got 4"]),
    "roles as a list": (OK + "roles: [worker]\n", ["roles: must be a map", "got a list"]),
    "a role without a command": ("roles: {a: {command: x}, b: {}}\n", ["roles.b: has no command"]),
    "a role's name with capitals": (OK + "roles: {Worker: {}}\n", ["roles.Worker", "lower-case", "try worker"]),
    "a role's name too long": (OK + "roles: {parameterserver: {}}\n", ["at most 11 characters"]),
    "a role called lead": (OK + "roles: {lead: {}}\n", ["lead is the name of Hora's own part"]),
    "a job's name with capitals": (OK + "name: My Job\n", ["job.yaml:2: name", "try my-job"]),
    "a job's name too long": (OK + f"name: {'x' * 41}\n", ["at most 40 characters", "with 41"]),
    "a job's name that is no to YAML": (OK + "name: no\n", ["reads no as false", 'write "no"']),
    "an image that is a number": (OK + "image: 3.10\n", ["reads 3.10 as the number 3.1", 'write "3.10"']),
    "an unknown framework": (OK + "framework: pytorch\n", ["plain, mpi, torch, jax, tensorflow or dask"]),
    "a flag in quotes": (OK + 'network: {host: "true"}\n', ["network.host: must be true or false"]),
    "restarts below zero": (OK + "restarts: -1\n", ["must be 0 or more, got -1"]),
    "a word nearly right": (OK + "stall: kil\n", ["must be report or kill, got 'kil'; did you mean kill?"]),
    "a word in another case": (OK + "kubernetes: {imagePullPolicy: always}\n", ["did you mean Always?"]),
    "a framework by another name": (OK + "framework: pytorch\n", ["got 'pytorch'; did you mean torch?"]),
    "a framework nearly right": (OK + "framework: tensrflow\n", ["did you mean tensorflow?"]),
    "an unknown stall action": (OK + "stall: restart\n", ["must be report or kill, got 'restart'"]),
    "version two": (OK + "version: 2\n", ["version: this Hora reads version 1, got 2: install a newer one"]),
    "a role called like our own": (OK + "roles: {Lead: {}}\n", ["got 'Lead'"]),
    "a command as a map": ("command: {a: b}\n", ["list of words or one line of text, got a map"]),
    "an empty command": ("command: []\n", ["command: must not be empty"]),
    "a command with an open quote": ("command: echo 'a\n", ["split as a shell would", "never closed"]),
    "a command with a hole": ("command: [python, ~]\n", ["command: word 2 has no value"]),
    "a command with a list in it": ("command: [python, [a]]\n", ["word 2 is a list"]),
    "setup as a list": (OK + "setup: [a, b]\n", ["setup: must be text, got a list"]),
    # --- quantities and durations
    "memory in GB": (OK + "resources: {memory: 4GB}\n", ["resources.memory", "did you mean 4Gi?"]),
    "memory without unit": (OK + "resources: {memory: 4}\n", ["1Mi or more, got 4; did you mean 4Gi?"]),
    "memory in thousandths": (OK + "resources: {memory: 400m}\n", ["did you mean 400Mi?"]),
    "a CPU in words": (OK + "resources: {cpu: two}\n", ["2, 0.5 or 500m, got 'two'"]),
    "a CPU below zero": (OK + "resources: {cpu: -1}\n", ["resources.cpu"]),
    "resources as a number": (OK + "resources: 4\n", ["resources: must be a map", "got 4"]),
    "half a GPU": (OK + "resources: {gpu: 0.5}\n", ["resources.gpu: must be a whole number"]),
    "an unknown resource": (OK + "resources: {rdma: 1}\n", ["resources.rdma", "allowed here"]),
    "a resource without a count": (OK + 'resources: {"rdma/hca": }\n', ["rdma/hca: has no value"]),
    "a resource's name with a space": (OK + 'resources: {"r dma/hca": 1}\n', ["r dma/hca", "label's key"]),
    "a duration without unit": (OK + "timeouts: {total: 10}\n", ["timeouts.total", "did you mean 10s?"]),
    "a duration in words": (OK + "keep: forever\n", ["90s, 10m, 24h or 1h30m, or none"]),
    "no grace": (OK + "timeouts: {grace: none}\n", ["timeouts.grace: must be a duration"]),
    "an unknown limit": (OK + "timeouts: {totl: 1h}\n", ["did you mean total?"]),
    "output of nothing": (OK + "output: 0\n", ["output: must be 1Mi or more"]),
    # --- environment and secrets
    "a variable without value": (OK + "env: {LR: }\n", ['env.LR: has no value: write ""']),
    "a variable as a list": (OK + "env: {LR: [1]}\n", ["env.LR: must be text, got a list"]),
    "a variable's name with a space": (OK + "env: {'A B': x}\n", ["env.A B: must be a variable's name"]),
    "the environment as a list": (OK + "env: [A=1]\n", ["env: must be a map", "got a list"]),
    "a secret's value in the file": (OK + "secrets: {T: hunter2}\n", ["secrets.T", "never stands in a job file"]),
    "a secret from two places": (OK + "secrets: {T: {env: A, file: b}}\n", ["exactly one of", "got env and file"]),
    "a secret from nowhere": (OK + "secrets: {T: {}}\n", ["exactly one of", "got none"]),
    "a secret without key": (OK + "secrets: {T: {secret: a}}\n", ["secret and key together"]),
    "a variable that is a secret too": (OK + "env: {T: a}\nsecrets: {T: {env: T}}\n", ["job.yaml:2: env.T", "secrets too"]),
    "a role's variable that is a secret of the job": (
        OK + "secrets: {T: {env: T}}\nroles: {w: {env: {T: x}}}\n",
        ["job.yaml:3: roles.w.env.T: is under secrets too"],
    ),
    # --- volumes, code, network, placement, services, kubernetes
    "a volume without a kind": (OK + "volumes: [{mount: /a}]\n", ["volumes[0]: needs exactly one of pvc", "got none"]),
    "a volume of two kinds": (OK + "volumes: [{mount: /a, pvc: b, memory: 1Gi}]\n", ["got pvc and memory"]),
    "a volume without a mount": (OK + "volumes: [{pvc: b}]\n", ["volumes[0].mount: is needed"]),
    "a relative mount": (OK + "volumes: [{mount: a, pvc: b}]\n", ["absolute path"]),
    "two volumes in one place": (
        OK + "volumes:\n- {mount: /a, pvc: b}\n- {mount: /a, pvc: c}\n",
        ["job.yaml:4: volumes[1].mount: /a is taken by item 1"],
    ),
    "volumes as a map": (OK + "volumes: {mount: /a}\n", ["volumes: must be a list, got a map"]),
    "NFS without a server": (OK + "volumes: [{mount: /a, nfs: {path: /x}}]\n", ["nfs.server: is needed"]),
    "code that isn't there": (OK + "code: nowhere\n", ["job.yaml:2: code: no such folder"]),
    "code that is a file": (OK + "code: job.yaml\n", ["must be a folder", "is a file"]),
    "code from two places": (OK + "code: {path: ., git: x}\n", ["code: needs a folder, or git"]),
    "code by ref alone": (OK + "code: {path: ., ref: main}\n", ["code: has ref without git"]),
    "code as a list": (OK + "code: [a]\n", ["code: must be a folder, or a map"]),
    "ports the wrong way round": (OK + "network: {ports: 9-1}\n", ["the lower one first, got '9-1'"]),
    "two interfaces": (OK + "network: {interface: 'eth0,eth1'}\n", ["one network interface"]),
    "a stranger who may connect": (OK + "network: {allowFrom: [10.0.0.0/99]}\n", ["network.allowFrom[0]"]),
    "an unknown effect": (OK + "placement: {tolerations: [{effect: No}]}\n", ["tolerations[0].effect: must be"]),
    "affinity as text": (OK + "placement: {affinity: high}\n", ["placement.affinity: must be a map"]),
    "infinity for Kubernetes": (OK + "kubernetes: {podPatch: {a: .inf}}\n", ["only what JSON can"]),
    "a label's value with a space": (OK + "kubernetes: {labels: {a: b c}}\n", ["kubernetes.labels.a"]),
    "an unknown service": (OK + "services: {tensorbord: {}}\n", ["did you mean tensorboard?"]),
    "TensorBoard without logs": (OK + "services: {tensorboard: }\n", ["services.tensorboard.logdir: is needed"]),
}  # fmt: skip


def problems(path: Path | str, **given: object) -> list[str]:
    with pytest.raises(JobFileError) as caught:
        load_job(path, Overrides(**given))  # type: ignore[arg-type]
    assert caught.value.exit_code == EXIT_USAGE
    assert caught.value.problems
    assert all(problem.strip() for problem in caught.value.problems)
    return caught.value.problems


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_job_file_gets_a_clear_error(case: str, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    text, parts = BROKEN[case]
    Path("job.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    said = problems("job.yaml")
    assert any(all(part in problem for part in parts) for problem in said), said
    assert all(problem.startswith("job.yaml") for problem in said)
    assert len(said) <= 2  # the one thing that is wrong, not its echoes


@pytest.mark.parametrize("case", [*BROKEN][::9])
def test_the_command_line_prints_the_error_alone_and_ends_with_2(case: str, work: Path, hora: Cli) -> None:
    text, parts = BROKEN[case]
    (work / "job.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    done = hora("run", "job.yaml")
    assert (done.code, done.stdout) == (EXIT_USAGE, "")
    assert "Traceback" not in done.stderr
    assert any(all(part in line for part in parts) for line in done.stderr.splitlines())


def test_there_are_enough_broken_files() -> None:
    assert len(BROKEN) >= 60


def test_all_problems_come_at_once_in_the_order_of_the_lines(work: Path) -> None:
    file = work / "job.yaml"
    file.write_text(
        "workers: 0\nname: A\nname: b\nenv: {X: }\nbogus: 1\ntimeouts: {total: 5}\ncode: nowhere\n"
    )
    said = problems(file, cpu="many", sets=("placement.x=1",))
    lines = [problem.removeprefix(f"{file}:").split(":")[0] for problem in said]
    assert lines[:8] == ["1", "1", "2", "3", "4", "5", "6", "7"]
    assert said[8].startswith("--cpu: must be a number of CPUs")
    assert said[9].startswith("--set placement.x: is not a key")


def test_a_missing_file_says_how_to_begin(work: Path) -> None:
    assert problems(work / "job.yaml") == [
        f"{work}/job.yaml: no such file; `hora init` writes one to begin with"
    ]


def test_a_folder_is_no_job_file(work: Path) -> None:
    assert "is a folder" in problems(work)[0]


def test_a_file_without_permission_says_so(work: Path) -> None:
    file = work / "job.yaml"
    file.write_text(OK)
    load_job(file)  # once, so that the user below need not be able to import anything
    file.chmod(0)
    user = os.geteuid()
    if user == 0:  # root may read everything
        os.seteuid(65534)
    try:
        assert "permissions forbid it" in problems(file)[0]
    finally:
        os.seteuid(user)


def test_a_path_that_no_file_can_have_says_so() -> None:
    assert "can't be read" in problems("job\0.yaml")[0]
    assert "can't be read" in problems("x" * 5000)[0]


def test_an_endless_device_is_too_large() -> None:
    assert "larger than" in problems("/dev/zero")[0]


def test_a_byte_order_mark_does_no_harm(work: Path) -> None:
    (work / "job.yaml").write_bytes(b"\xef\xbb\xbf" + OK.encode())
    assert load_job(work / "job.yaml").spec.roles[0].command == ("python", "train.py")


def test_a_secret_is_never_repeated(work: Path) -> None:
    (work / "job.yaml").write_text(OK + "secrets: {T: hunter2}\n")
    assert "hunter2" not in "".join(problems(work / "job.yaml", secrets=("U=hunter2", "V=hunter2:x")))
