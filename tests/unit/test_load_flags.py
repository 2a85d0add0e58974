"""The command line over the job file: each flag, --set for any key, -n for all ranks, words for the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hora.errors import JobFileError
from hora.load import Overrides, load_job
from hora.load.flags import FLAGS
from hora.load.keys import walk
from hora.record import fields
from hora.spec import JobSpec, Resources, SecretSource, Service, Volume

COMMAND = "command: [python, train.py]\nframework: plain\n"
ROLES = """
command: [work]
framework: plain
image: top
roles:
  worker: {replicas: 2, image: own, env: {A: "1"}, resources: {cpu: 1, memory: 1Gi}}
  ps: {command: [serve], secrets: {T: {env: X}}}
"""


def load(text: str, **given: Any) -> JobSpec:
    Path("job.yaml").write_text(text)
    return load_job("job.yaml", Overrides(**given)).spec


def problems(text: str, **given: Any) -> list[str]:
    with pytest.raises(JobFileError) as caught:
        load(text, **given)
    return caught.value.problems


@pytest.fixture(autouse=True)
def _in_work(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)


EACH: list[tuple[dict[str, Any], str]] = [
    ({"name": "other"}, "name: other"),
    ({"framework": "torch"}, "framework: torch"),
    ({"workers": "3"}, "workers: 3"),
    ({"workers": 3}, "workers: 3"),
    ({"ranks_per_worker": "2"}, "ranksPerWorker: 2"),
    ({"image": "python:3.12"}, "image: python:3.12"),
    ({"cpu": "500m"}, "resources: {cpu: 500m}"),
    ({"memory": "4Gi"}, "resources: {memory: 4Gi}"),
    ({"gpu": "2"}, "resources: {gpu: 2}"),
    ({"shm": "1Gi"}, "resources: {shm: 1Gi}"),
    ({"env": ("A=b=c", "B=", "CALLER")}, "env: {A: b=c, B: '', CALLER: mine}"),
    (
        {"secrets": ("T=env:X", "U=file:/u", "V=secret:a/b/c")},
        "secrets: {T: {env: X}, U: {file: /u}, V: {secret: a, key: b/c}}",
    ),
    ({"code": "src"}, "code: src"),
    ({"setup": "echo 1; echo a: b"}, "setup: 'echo 1; echo a: b'"),
    ({"restarts": "2"}, "restarts: 2"),
    ({"output": "1Gi"}, "output: 1Gi"),
    ({"keep": "none"}, "keep: none"),
    ({"timeouts": ("total=24h", "grace=5s")}, "timeouts: {total: 24h, grace: 5s}"),
    ({"stall": "kill"}, "stall: kill"),
    (
        {"services": ("tensorboard:logdir=/l,port=1", "jupyter", "dask:resources.cpu=2")},
        "services: {tensorboard: {logdir: /l, port: 1}, jupyter: , dask: {resources: {cpu: 2}}}",
    ),
]


@pytest.mark.parametrize(("given", "text"), EACH, ids=str)
def test_a_flag_is_as_its_key_in_the_file(
    given: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLER", "mine")
    Path("src").mkdir()
    base = "command: [python, train.py]\n"
    assert load(base, **given) == load(base + text + "\n") != load(base)


def test_every_flag_was_tried() -> None:
    tried = {field for given, _ in EACH for field in given}
    assert {flag.field for flag in FLAGS} == tried


def test_flags_lead_to_keys_that_exist_and_to_fields_of_their_own() -> None:
    keys = {path for path, _ in walk()}
    assert {flag.path for flag in FLAGS} <= keys
    assert {flag.field for flag in FLAGS} | {"command", "ranks", "sets"} == set(fields(Overrides))
    assert len({flag.option for flag in FLAGS}) == len(FLAGS)


def test_a_flag_wins_over_the_file() -> None:
    spec = load(COMMAND + "workers: 4\nenv: {A: file, B: file}\n", workers=2, env=("A=flag",))
    assert spec.roles[0].replicas == 2
    assert dict(spec.roles[0].env) == {"A": "flag", "B": "file"}


def test_a_flag_reaches_the_roles_that_set_the_key_themselves() -> None:
    worker, ps = load(ROLES, image="new", env=("A=2",), cpu="3", secrets=("T=file:/t",)).roles
    assert (worker.image, ps.image) == ("new", "new")
    assert dict(worker.env) == dict(ps.env) == {"A": "2"}
    assert worker.resources == Resources(3.0, 2**30)
    assert ps.resources == Resources(3.0)
    assert dict(ps.secrets) == {"T": SecretSource(file="/t")}


def test_counts_mean_the_workers() -> None:
    worker, ps = load(ROLES, workers=5, ranks_per_worker="2").roles
    assert (worker.replicas, worker.ranks, ps.replicas, ps.ranks) == (5, 2, 1, 1)
    assert load("command: x\nroles: {only: {}}\n", workers=5).roles[0].replicas == 5


def test_counts_of_roles_without_a_worker_are_asked_back() -> None:
    said = problems("command: x\nroles: {a: {}, b: {}}\n", workers=2, ranks=4)
    assert said == [
        "--workers: which of the roles a, b? use --set roles.NAME.replicas=2",
        "-n: counts all ranks; with the roles a, b use --set roles.a.replicas=N",
    ]


@pytest.mark.parametrize(
    ("text", "given", "roles"),
    [
        ("", {"sets": ("roles.worker.replicas=3",)}, "roles: {worker: {replicas: 3}}"),
        ("workers: 2\n", {"sets": ("roles.worker.replicas=3",)}, "roles: {worker: {replicas: 3}}"),
        ("workers: 2\n", {"sets": ("roles.ps.replicas=1",)}, "roles: {worker: {replicas: 2}, ps: {replicas: 1}}"),
        ("ranksPerWorker: 2\n", {"workers": 3, "sets": ("roles.worker.image=i",)},
         "roles: {worker: {replicas: 3, ranks: 2, image: i}}"),
    ],
)  # fmt: skip
def test_setting_a_key_of_a_role_makes_the_long_form_of_a_short_job(
    text: str, given: dict[str, Any], roles: str
) -> None:
    assert load(COMMAND + text, **given) == load(COMMAND + roles)


def test_a_count_that_was_moved_to_its_role_is_still_blamed_where_it_stands() -> None:
    assert problems(COMMAND + "workers: 0\n", sets=("roles.worker.image=i",)) == [
        "job.yaml:3: roles.worker.replicas: must be 1 or more, got 0"
    ]
    assert problems(COMMAND, workers=0, sets=("roles.worker.image=i",)) == [
        "--workers: must be 1 or more, got 0"
    ]


def test_one_mistake_is_told_once() -> None:
    assert problems("comand: x\n") == ["job.yaml:1: comand: is not a key; did you mean command?"]
    assert problems(COMMAND, services=("tensorboard:logdir",)) == [
        "--service tensorboard: must be NAME:KEY=VALUE,KEY=VALUE, got 'tensorboard:logdir'"
    ]
    [said] = problems(COMMAND + "roles: {Lead: {}}\n")
    assert "try" not in said
    assert problems(COMMAND, code="") == ["--code: must not be empty: name a folder"]
    Path("folder.yaml").mkdir()
    with pytest.raises(JobFileError, match=r"^folder\.yaml: is a folder: name the job file in it$"):
        load_job("folder.yaml")


# --- the command


def test_words_replace_the_command() -> None:
    assert load(COMMAND, command=("python", "-c", "1 + 1")).roles[0].command == ("python", "-c", "1 + 1")
    assert load("name: x\n", command=("true",)).roles[0].command == ("true",)


def test_words_are_the_workers_command_and_leave_the_other_roles_alone() -> None:
    worker, ps = load(ROLES, command=("new",)).roles
    assert (worker.command, ps.command) == (("new",), ("serve",))
    own = load(
        "command: x\nroles: {worker: {command: y}, ps: {}, ev: {command: z}}\n", command=("new",)
    ).roles
    assert [role.command for role in own] == [("new",), ("x",), ("z",)]


def test_words_for_roles_that_each_have_their_command_are_asked_back() -> None:
    said = problems("roles: {a: {command: x}, b: {command: y}}\n", command=("new",))
    assert said == ["command: the roles a, b each have their own: use --set roles.a.command='...'"]


# --- -n


@pytest.mark.parametrize(
    ("text", "given", "members"),
    [
        ("", {"ranks": 6}, (6, 1)),
        ("", {"ranks": "6", "ranks_per_worker": 2}, (3, 2)),
        ("", {"ranks": "6", "ranks_per_worker": "2", "workers": "3"}, (3, 2)),
        ("workers: 4\n", {"ranks": 6}, (6, 1)),
        ("workers: 4\nranksPerWorker: 4\n", {"ranks": 8}, (2, 4)),
        ("roles: {only: {ranks: 2}}\n", {"ranks": 8}, (4, 2)),
        ("workers:\nranksPerWorker:\n", {"ranks": 8}, (8, 1)),
    ],
)
def test_n_is_the_number_of_all_ranks(text: str, given: dict[str, Any], members: tuple[int, int]) -> None:
    role = load(COMMAND + text, **given).roles[0]
    assert (role.replicas, role.ranks) == members


@pytest.mark.parametrize(
    ("text", "given", "said"),
    [
        ("", {"ranks": 6, "workers": 3}, "-n: 6 ranks and --workers 3 don't agree: 3 x 1 are 3"),
        (
            "ranksPerWorker: 4\n",
            {"ranks": 6},
            "-n: 6 ranks can't be shared out to members of 4 (job.yaml:3: ranksPerWorker)",
        ),
        (
            "",
            {"ranks": 6, "ranks_per_worker": 4},
            "-n: 6 ranks can't be shared out to members of 4 (--ranks-per-worker)",
        ),
        ("", {"ranks": 0}, "-n: must be 1 or more, got 0"),
        ("", {"ranks": "many"}, "-n: must be a whole number, got many"),
        ("ranksPerWorker: x\n", {"ranks": 6}, "job.yaml:3: ranksPerWorker: must be a whole number, got 'x'"),
        ("", {"ranks": 20_000}, "-n: must be 10000 or less, got 20000"),
        ("", {"workers": ""}, "--workers: must be a whole number, got nothing"),
    ],
)
def test_counts_that_do_not_agree_say_so(text: str, given: dict[str, Any], said: str) -> None:
    assert problems(COMMAND + text, **given) == [said]


# --- --set


@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        ("placement.nodeSelector.disk=nvme", "placement: {nodeSelector: {disk: nvme}}"),
        (r"placement.nodeSelector.example\.org/disk=a", "placement: {nodeSelector: {example.org/disk: a}}"),
        ("volumes.0.mount=/data", "volumes: [{mount: /data, pvc: b}]"),
        (
            "volumes.1={mount: /c, scratch: 1Gi}",
            "volumes: [{mount: /a, pvc: b}, {mount: /c, scratch: 1Gi}]",
        ),
        ("volumes=[]", "volumes: []"),
        ("command=python other.py --a 1", "command: python other.py --a 1"),
        ("env.A=0.10", 'env: {A: "0.10", B: b}'),
        ("env.A=", "env: {B: b}"),
        ("env.A=null", "env: {B: b}"),
        ("env.A=''", "env: {A: '', B: b}"),
        ("env.NEW=null", "env: {A: a, B: b}"),
        ("env=null", "env: {}"),
        ("timeouts.total.deeper=null", "name: same"),
        ("network.allowFrom=[10.0.0.0/8, team]", "network: {allowFrom: [10.0.0.0/8, team]}"),
        ("kubernetes.podPatch.spec.hostIPC=true", "kubernetes: {podPatch: {spec: {hostIPC: true}}}"),
        ("timeouts.total=none", "timeouts: {total: none}"),
    ],
)
def test_any_key_can_be_set(assignment: str, text: str) -> None:
    parts = {
        "name": "name: same",
        "framework": "framework: plain",
        "command": "command: [python, train.py]",
        "volumes": "volumes: [{mount: /a, pvc: b}]",
        "env": "env: {A: a, B: b}",
    }
    base = "\n".join(parts.values())
    changed = "\n".join({**parts, text.split(":")[0]: text}.values())
    assert load(base, sets=(assignment,)) == load(changed)


@pytest.mark.parametrize(
    ("assignments", "text"),
    [
        (("volumes.0.mount=/data", "volumes.0.pvc=ck"), "volumes: [{mount: /data, pvc: ck}]"),
        (("volumes.0={mount: /a, pvc: b}", "volumes.1={mount: /c, pvc: d}"),
         "volumes: [{mount: /a, pvc: b}, {mount: /c, pvc: d}]"),
        (("network.allowFrom.0=10.0.0.0/8",), "network: {allowFrom: [10.0.0.0/8]}"),
        (("placement.tolerations.0.key=gpu",), "placement: {tolerations: [{key: gpu}]}"),
        (("kubernetes.imagePullSecrets.0=a",), "kubernetes: {imagePullSecrets: [a]}"),
        (("kubernetes.labels.0=a",), 'kubernetes: {labels: {"0": a}}'),
        (("roles.worker.volumes.0={mount: /a, pvc: b}",), "roles: {worker: {volumes: [{mount: /a, pvc: b}]}}"),
    ],
)  # fmt: skip
def test_a_list_that_is_not_there_yet_begins_with_item_0(assignments: tuple[str, ...], text: str) -> None:
    assert load(COMMAND, sets=assignments) == load(COMMAND + text)


def test_a_command_can_be_set_without_a_file() -> None:
    for sets in (("command=[echo, hi]",), ("command.0=echo", "command.1=hi")):
        assert load_job(None, Overrides(sets=sets)).spec.roles[0].command == ("echo", "hi")


def test_later_assignments_win() -> None:
    spec = load(COMMAND, sets=("env.A=1", "env.A=2", "workers=3", "env={B: 4}"), workers=2)
    assert spec.roles[0].replicas == 3
    assert dict(spec.roles[0].env) == {"B": "4"}


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("workers", "--set workers: must be KEY=VALUE, as placement.nodeSelector.disk=nvme"),
        ("=3", "--set : must be KEY=VALUE, as placement.nodeSelector.disk=nvme"),
        ("workers=x", "--set workers: must be a whole number, got 'x'"),
        ("workrs=3", "--set workrs: is not a key; did you mean workers?"),
        ("placement.nodeSelectr.disk=a", "--set placement.nodeSelectr.disk: is not a key"),
        ("env.A=[1", "--set env.A: is not YAML: while parsing a flow sequence"),
        ("env.A={b: c}", "--set env.A: must be text, got a map"),
        ("name.x=3", "--set name.x: there is no x in 'same', which is no map"),
        (
            "volumes.7.mount=/x",
            "--set volumes.7.mount: is in a list: 7 must be a number from 0 to 1, the last of which appends",
        ),
        (
            "network.allowFrom.team=x",
            "--set network.allowFrom.team: is in a list: team must be a number from 0",
        ),
        ("volumes.first.mount=/x", "--set volumes.first.mount: is in a list: first must be a number"),
        ("volumes.0=null", "--set volumes.0: one item of a list can't be taken away: set the whole list"),
        ("volumes.0.pvc=A B", "--set volumes.0.pvc: must be a Kubernetes name"),
        ("volumes.0.pvc=null", "job.yaml:2: volumes[0]: needs exactly one of pvc"),
    ],
)
def test_a_bad_assignment_says_what_is_wrong(assignment: str, said: str) -> None:
    text = "command: [x]\nvolumes: [{mount: /a, pvc: b}]\nname: same\n"
    found = problems(text, sets=(assignment,))
    assert any(problem.startswith(said) for problem in found), found


# --- what else can be wrong with flags


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"env": ("NOT_SET",)}, "--env NOT_SET: is not set here: write --env NOT_SET=VALUE"),
        ({"env": ("9A=1",)}, "--env 9A: must be a variable's name"),
        ({"env": ("A=1",), "secrets": ("A=env:X",)}, "--env A: is under secrets too"),
        ({"secrets": ("T",)}, "--secret T: must be T=env:VARIABLE, T=file:PATH or T=secret:SECRET/KEY"),
        ({"secrets": ("T=secret:name",)}, "--secret T: must be"),
        ({"timeouts": ("total",)}, "--timeout total: must be KEY=DURATION, as total=24h"),
        ({"timeouts": ("totl=1s",)}, "--timeout totl: is not a key; did you mean total?"),
        ({"services": ("tensorbord",)}, "--service tensorbord: is not a key; did you mean tensorboard?"),
        ({"services": ("dask:workers",)}, "--service dask: must be NAME:KEY=VALUE,KEY=VALUE"),
        ({"services": ("dask:workers=0",)}, "--service dask: workers: must be 1 or more, got 0"),
        ({"services": ("tensorboard",)}, "--service tensorboard: logdir: is needed"),
        ({"code": "nowhere"}, "--code: no such folder"),
        ({"code": "job.yaml"}, "--code: must be a folder"),
        ({"memory": "4GB"}, "--memory: must be a size as"),
        ({"name": "My Job"}, "--name: must be lower-case"),
        ({"image": ""}, "--image: must not be empty"),
        ({"stall": "restart"}, "--stall: must be report or kill"),
    ],
    ids=str,
)
def test_a_bad_flag_names_itself(given: dict[str, Any], said: str) -> None:
    found = problems(COMMAND, **given)
    assert any(problem.startswith(said) for problem in found), found


def test_flags_without_a_file_need_a_command() -> None:
    with pytest.raises(JobFileError) as caught:
        load_job(None, Overrides(workers=2))
    assert caught.value.problems == ["command: is needed: what each rank runs, as [python, train.py]"]


def test_flags_without_a_file_make_a_whole_job() -> None:
    loaded = load_job(
        None, Overrides(command=("true",), image="i", sets=("volumes=[{mount: /m, memory: 1Gi}]",))
    )
    role = loaded.spec.roles[0]
    assert (role.command, role.image) == (("true",), "i")
    assert role.volumes == (Volume("/m", "memory", (("size", 2**30),)),)
    assert loaded.path is None


def test_a_service_of_the_file_keeps_what_a_flag_leaves_out() -> None:
    spec = load(COMMAND + "services: {dask: {workers: 3}}\n", services=("dask:port=1",))
    assert spec.services == (Service("dask", (("workers", 3),), port=1),)


def test_the_job_knows_the_file_it_came_from() -> None:
    Path("job.yaml").write_text(COMMAND)
    assert load_job("job.yaml").path == "job.yaml"
    assert load_job(Path("job.yaml")).path == "job.yaml"
