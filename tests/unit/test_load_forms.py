"""One job, many ways to write it: short and long form, file, flags, Python, and back to YAML."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hora import names
from hora.errors import JobFileError
from hora.load import Overrides, from_python, job_file, load_job
from hora.load.fast import load_fast
from hora.load.full import load_full
from hora.load.write import dump
from hora.record import replace
from hora.spec import (
    Code,
    JobSpec,
    Kubernetes,
    Network,
    Placement,
    Resources,
    RoleSpec,
    SecretSource,
    Service,
    Timeouts,
    Toleration,
    Volume,
)

DATA = Path(__file__).parent / "data"
EXAMPLES = settings.default.max_examples  # the profile's: more of them in the long run
_SETTINGS = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}
HEAVY = settings(max_examples=EXAMPLES * 2 // 5, **_SETTINGS)
LIGHT = settings(max_examples=EXAMPLES * 2, **_SETTINGS)


def load(folder: Path, text: str, **given: Any) -> JobSpec:
    file = folder / "job.yaml"
    file.write_text(text, encoding="utf-8")
    return load_job(file, Overrides(**given)).spec


# --- the files of the documentation


def test_the_example_with_every_key_loads() -> None:
    spec = load_job(DATA / "every-key.yaml").spec
    assert spec == JobSpec(
        name="digits",
        framework="mpi",
        roles=(
            RoleSpec(
                "worker",
                4,
                1,
                ("python", "train.py"),
                "python:3.12",
                Resources(2.0, 4 * 2**30, 0, 2**30, (("rdma/hca", "1"),)),
                (("LR", "0.1"),),
                (("TOKEN", SecretSource(secret="my-secret", key="token")),),
                (Volume("/ckpt", "nfs", (("server", "10.0.0.2"), ("path", "/export/ckpt"))),),
            ),
        ),
        code=Code(str(DATA)),
        setup="pip install -r requirements.txt",
        network=Network(ports=(30000, 30063)),
        services=(Service("tensorboard", (("logdir", "/ckpt/logs"),)),),
    )


def test_the_example_names_every_key_of_the_job() -> None:
    from hora.load.keys import keys_of
    from hora.load.models import JobKeys

    written = yaml.safe_load((DATA / "every-key.yaml").read_text(encoding="utf-8"))
    assert set(keys_of(JobKeys)) - set(written) == {"version"}


def test_every_example_of_the_reference_loads(work: Path) -> None:
    from hora.load.keys import MAP, walk

    for path, key in walk():
        extra = key.info.json_schema_extra
        assert isinstance(extra, dict)
        example = yaml.safe_load(str(extra["x-example"]))
        if key.model is not None and key.shape != MAP and isinstance(example, dict):
            key.model.model_validate(example)
        elif key.rule is not None and not key.shape:
            key.rule.read(example if not isinstance(example, float) else str(example))
        assert key.info.description, path


def test_nothing_but_a_command_is_a_job(work: Path) -> None:
    assert load(work, "command: true\n") == JobSpec("true", "plain", (RoleSpec("worker", 1, 1, ("true",)),))


def test_a_workbench_has_services_and_no_ranks(work: Path) -> None:
    spec = load(
        work, "name: bench\nservices: {jupyter: , dask: {workers: 3, port: 8787, resources: {cpu: 1}}}\n"
    )
    assert spec.roles == ()
    assert spec.services == (
        Service("jupyter"),
        Service("dask", (("workers", 3),), port=8787, resources=Resources(cpu=1.0)),
    )
    assert load(work, job_file(spec)) == spec


def test_keys_without_values_count_as_not_given(work: Path) -> None:
    text = "command: true\nimage:\nresources: ~\nplacement:\nvolumes: null\ntimeouts: {total: }\nroles:\n"
    assert load(work, text) == load(work, "command: true\n")


def test_numbers_and_flags_in_text_places_stay_as_they_are_written(work: Path) -> None:
    role = load(
        work,
        "command: [python, -u, x.py, --lr, 0.10, --on, yes, 1e3, 010, 1:30]\n"
        "env: {A: 0.10, B: yes, C: 1_000, D: 2026-11-18, NO: off, ON: '~'}\n"
        "placement: {nodeSelector: {gpu: true}}\n",
    ).roles[0]
    assert role.command == ("python", "-u", "x.py", "--lr", "0.10", "--on", "yes", "1e3", "010", "1:30")
    assert dict(role.env) == {
        "A": "0.10",
        "B": "yes",
        "C": "1_000",
        "D": "2026-11-18",
        "NO": "off",
        "ON": "~",
    }
    assert role.placement.node_selector == (("gpu", "true"),)


def test_anchors_and_merges_work(work: Path) -> None:
    spec = load(
        work,
        "env: &common {A: 1, B: 2}\nroles:\n  a: &a\n    command: x\n    env: {<<: *common, B: 3}\n"
        "  b: {<<: [*a], replicas: 2}\n",
    )
    assert [dict(role.env) for role in spec.roles] == [{"A": "1", "B": "3"}] * 2
    assert spec.roles[1].replicas == 2


def test_the_job_is_the_default_of_its_roles(work: Path) -> None:
    spec = load(
        work,
        """
command: [python, train.py]
image: base
resources: {cpu: 1, gpu: 4, "a.b/c": 1}
env: {A: job, B: job}
secrets: {S: {env: X}, T: {env: X}}
volumes: [{mount: /a, pvc: one}, {mount: /b, pvc: two}]
placement: {nodeSelector: {x: y}, queue: q, tolerations: [{key: gpu, operator: Exists}]}
kubernetes: {namespace: here, labels: {l: "1"}, user: 5, podPatch: {z: 1, a: 2}}
roles:
  worker:
  ps:
    replicas: 2
    ranks: 3
    command: ps
    image: other
    resources: {gpu: 0, memory: 1Gi, "d.e/f": 2}
    env: {B: role}
    secrets: {T: {file: /t}}
    volumes: [{mount: /b, scratch: 1Gi}, {mount: /c, csi: {driver: d, volumeAttributes: {k: 1}}}]
    placement: {nodeSelector: {z: w}, priorityClass: high}
    kubernetes: {user: 0, labels: {m: "2"}, imagePullSecrets: [r]}
""",
    )
    worker, ps = spec.roles
    assert (worker.command, worker.image, worker.replicas) == (("python", "train.py"), "base", 1)
    assert worker.kubernetes == Kubernetes("here", (("l", "1"),), user=5, pod_patch='{"a": 2, "z": 1}')
    assert ps == RoleSpec(
        "ps",
        2,
        3,
        ("ps",),
        "other",
        Resources(1.0, 2**30, 0, None, (("a.b/c", "1"), ("d.e/f", "2"))),
        (("A", "job"), ("B", "role")),
        (("S", SecretSource(env="X")), ("T", SecretSource(file="/t"))),
        (
            Volume("/a", "pvc", (("claim", "one"),)),
            Volume("/b", "scratch", (("size", 2**30),)),
            Volume("/c", "csi", (("driver", "d"), ("volumeAttributes", (("k", "1"),)))),
        ),
        Placement((("x", "y"), ("z", "w")), (Toleration("gpu", "Exists"),), "{}", "high", "q", ""),
        Kubernetes(
            "here", (("l", "1"), ("m", "2")), image_pull_secrets=("r",), user=0, pod_patch='{"a": 2, "z": 1}'
        ),
    )
    assert load(work, job_file(spec)) == spec


def test_relative_paths_begin_at_the_job_file(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "job" / "src").mkdir(parents=True)
    (work / "job" / "job.yaml").write_text("command: true\ncode: src\nsecrets: {T: {file: token}}\n")
    monkeypatch.chdir(work)
    spec = load_job("job/job.yaml").spec
    assert spec.code == Code(str(work / "job" / "src"))
    assert spec.roles[0].secrets == (("T", SecretSource(file=str(work / "job" / "token"))),)


def test_the_home_folder_may_be_written_as_a_tilde(work: Path, home: Path) -> None:
    spec = load(work, "command: true\ncode: '~'\nsecrets: {T: {file: ~/token}}\n")
    assert spec.code == Code(str(home))
    assert spec.roles[0].secrets[0][1].file == str(home / "token")


@pytest.mark.parametrize(
    ("written", "git"),
    [
        ("https://example.org/x.git", "https://example.org/x.git"),
        ("git@example.org:team/x.git", "git@example.org:team/x.git"),
        ("/srv/x.git", "/srv/x.git"),
        ("../x.git", "{folder}/x.git"),
        ("~/x.git", "{home}/x.git"),
    ],
)
def test_a_repository_that_is_a_path_begins_at_the_job_file(
    work: Path, home: Path, written: str, git: str
) -> None:
    (work / "deep").mkdir()
    spec = load(work / "deep", f"command: true\ncode: {{git: '{written}'}}\n")
    assert spec.code == Code(git=git.format(folder=work, home=home))


def test_a_script_from_git_is_not_looked_for_here(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "train.py").write_text("import torch\n")
    monkeypatch.chdir(work)
    (work / "job.yaml").write_text("command: [python, train.py]\ncode: {git: 'https://example.org/x'}\n")
    loaded = load_job("job.yaml")
    assert loaded.spec.framework == "plain"
    assert loaded.notes == ("framework plain: the script comes from git; name another with --framework",)
    assert load_job("job.yaml", Overrides(command=("mpirun", "x"))).spec.framework == "mpi"


def test_code_may_come_from_git(work: Path) -> None:
    spec = load(work, "command: true\ncode: {git: https://example.org/x.git, ref: main}\n")
    assert spec.code == Code(None, "https://example.org/x.git", "main")
    assert load(work, job_file(spec)) == spec


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train_mnist.py --lr 1", "train-mnist"),
        ("python -m pkg.train", "pkg-train"),
        ("mpirun -n 2 python deep/path/Fit.py", "fit"),
        ("/usr/bin/true", "true"),
        ("./run_all.sh", "run-all-sh"),
        ("sh -c 'echo hi'", "echo"),
        ("python -c 'print(1)'", "my-folder"),
        ("sh", "my-folder"),
        ("7zip", "job-7zip"),
    ],
)
def test_a_job_without_a_name_gets_one_from_its_script_or_folder(work: Path, command: str, name: str) -> None:
    folder = work / "My Folder"
    folder.mkdir()
    assert load(folder, f'command: "{command}"\n').name == name


# --- short form and long form

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
variables = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
labels = (
    st.text("abz09-", min_size=1, max_size=12)
    .map(lambda text: names.label(text, 11, "x"))
    .filter(lambda t: t != "lead")
)
paths = st.text("abc/ é", max_size=8).map(lambda text: "/" + text)
sizes = st.integers(2**20, 2**50)
seconds = st.none() | st.integers(1, 10**9).map(lambda n: n / 1000)
pairs = st.dictionaries(variables, words, max_size=3).map(lambda found: tuple(found.items()))
label_pairs = st.dictionaries(labels, labels, max_size=2).map(lambda found: tuple(found.items()))
json_text = st.dictionaries(
    words, st.none() | st.booleans() | st.integers(-5, 5) | words | st.lists(words), max_size=2
)


def canonical(value: dict[str, Any]) -> str:
    import json

    return json.dumps(value, sort_keys=True)


resources = st.builds(
    Resources,
    cpu=st.none() | st.integers(1, 10**6).map(lambda n: n / 1000),
    memory=st.none() | sizes,
    gpu=st.integers(0, 8),
    shm=st.none() | sizes,
    other=st.sampled_from([(), (("rdma/hca", "1"),)]),
)
secret = st.one_of(
    st.builds(SecretSource, secret=labels, key=words.filter(bool)),
    st.builds(SecretSource, env=variables),
    st.builds(SecretSource, file=labels.map(lambda name: "/" + name)),
)
sources = st.one_of(
    st.tuples(st.just("pvc"), labels.map(lambda name: (("claim", name),))),
    st.tuples(st.just("nfs"), st.tuples(labels, paths).map(lambda p: (("server", p[0]), ("path", p[1])))),
    st.tuples(
        st.just("azureFile"),
        st.tuples(labels, labels).map(lambda p: (("secretName", p[0]), ("shareName", p[1]))),
    ),
    st.tuples(st.just("hostPath"), paths.map(lambda path: (("path", path),))),
    st.tuples(
        st.just("csi"),
        st.tuples(labels, pairs.filter(bool)).map(lambda p: (("driver", p[0]), ("volumeAttributes", p[1]))),
    ),
    st.tuples(st.sampled_from(["memory", "scratch"]), sizes.map(lambda size: (("size", size),))),
    st.tuples(st.sampled_from(["configMap", "secret"]), labels.map(lambda name: (("name", name),))),
)
volume = st.builds(
    lambda mount, source, sub_path, read_only: Volume(mount, *source, sub_path, read_only),
    paths,
    sources,
    st.none() | words.filter(bool),
    st.booleans(),
)
volumes = st.lists(volume, max_size=2, unique_by=lambda each: each.mount).map(tuple)
toleration = st.builds(
    Toleration,
    key=st.none() | labels,
    operator=st.sampled_from([None, "Equal", "Exists"]),
    value=st.none() | words,
    effect=st.sampled_from([None, "NoExecute"]),
    toleration_seconds=st.none() | st.integers(0, 99),
)
placement = st.builds(
    Placement,
    label_pairs,
    st.lists(toleration, max_size=2).map(tuple),
    json_text.map(canonical),
    words,
    words,
    words,
)
kubernetes = st.builds(
    Kubernetes,
    namespace=st.just(None),
    labels=label_pairs,
    annotations=label_pairs,
    service_account=st.none() | labels,
    image_pull_secrets=st.lists(labels, max_size=2).map(tuple),
    image_pull_policy=st.sampled_from([None, "Always", "IfNotPresent", "Never"]),
    user=st.none() | st.integers(0, 70000),
    group=st.none() | st.integers(0, 70000),
    fs_group=st.none() | st.integers(0, 70000),
    runtime_class=st.none() | labels,
    pod_patch=json_text.map(canonical),
)
role = st.builds(
    RoleSpec,
    name=labels,
    replicas=st.integers(1, 10000),
    ranks=st.integers(1, 64),
    command=st.tuples(words.filter(bool), words),
    image=st.none() | words.filter(bool),
    resources=resources,
    env=pairs,
    secrets=st.dictionaries(variables.map(lambda name: "S_" + name), secret, max_size=2).map(
        lambda d: tuple(d.items())
    ),
    volumes=volumes,
    placement=placement,
    kubernetes=kubernetes,
).filter(lambda each: not {name for name, _ in each.env} & {name for name, _ in each.secrets})
specs = st.builds(
    JobSpec,
    name=labels,
    framework=st.sampled_from(["plain", "mpi", "torch", "jax", "tensorflow", "dask"]),
    roles=st.lists(role, min_size=1, max_size=3, unique_by=lambda each: each.name).map(tuple),
    code=st.none() | st.builds(Code, git=words.map("https://".__add__), ref=st.none() | words.filter(bool)),
    setup=words,
    network=st.builds(
        Network,
        host=st.booleans(),
        interface=st.sampled_from(["auto", "eth0"]),
        ports=st.sampled_from([None, (1, 65535), (80, 80)]),
        allow_from=st.sampled_from([(), ("10.0.0.0/8", "team")]),
    ),
    timeouts=st.builds(Timeouts, seconds, seconds, seconds, seconds, st.integers(0, 10**6).map(lambda n: n / 1000)),
    restarts=st.integers(0, 9),
    keep=seconds,
    output=sizes,
    stall=st.sampled_from(["report", "kill"]),
    services=st.sampled_from([(), (Service("tensorboard", (("logdir", "/l"),), "i", 1, env=(("A", "b"),)),)]),
)  # fmt: skip


@HEAVY
@given(specs)
def test_a_spec_written_as_a_file_loads_as_the_equal_spec(work: Path, spec: JobSpec) -> None:
    assert load(work, job_file(spec)) == spec


@HEAVY
@given(specs, st.booleans())
def test_short_form_and_long_form_are_the_same_job(work: Path, spec: JobSpec, defaults_at_top: bool) -> None:
    one = replace(spec, roles=(replace(spec.roles[0], name="worker"),))
    short = yaml.safe_load(job_file(one))
    long = dict(short)
    role = {"replicas": long.pop("workers"), "ranks": long.pop("ranksPerWorker")}
    if not defaults_at_top:
        for key in ("command", "image", "resources", "env", "secrets", "volumes", "placement", "kubernetes"):
            if key in long:
                role[key] = long.pop(key)
    long["roles"] = {"worker": role}
    assert load(work, dump(long)) == load(work, job_file(one)) == one


some_flags = st.fixed_dictionaries(
    {},
    optional={
        "ranks": st.integers(0, 12),
        "workers": st.integers(1, 4),
        "ranks_per_worker": st.integers(1, 3),
        "image": st.just("other"),
        "memory": st.just("2Gi"),
        "gpu": st.integers(0, 2),
        "env": st.lists(st.sampled_from(["A=1", "B=", "S_A=x"]), max_size=2).map(tuple),
        "secrets": st.just(("S_A=env:X",)),
        "sets": st.sampled_from([(), ("placement.queue=q",)]),
        "command": st.just(("new", "words")),
    },
)


@HEAVY
@given(st.integers(1, 4), st.integers(1, 3), st.booleans(), some_flags)
def test_flags_mean_the_same_for_both_forms(
    work: Path, workers: int, ranks: int, at_top: bool, flags: dict[str, Any]
) -> None:
    shared: dict[str, Any] = {"command": ["x"], "image": "i", "env": {"A": "a"}}
    short = {"framework": "plain", "workers": workers, "ranksPerWorker": ranks, **shared}
    role = {"replicas": workers, "ranks": ranks, **({} if at_top else shared)}
    long = {"framework": "plain", **(shared if at_top else {}), "roles": {"worker": role}}

    def outcome(data: dict[str, Any]) -> JobSpec | None:
        try:
            spec = load(work, dump(data), **flags)
        except JobFileError:
            return None
        roles = tuple(
            replace(role, env=tuple(sorted(role.env))) for role in spec.roles
        )  # the order says nothing
        return replace(spec, roles=roles)

    assert outcome(short) == outcome(long)


def test_text_that_is_no_unicode_survives_as_escapes(work: Path) -> None:
    odd = b"\xff\xfe caf\xe9".decode("utf-8", "surrogateescape")
    spec = JobSpec("x", "plain", (RoleSpec("worker", 1, 1, ("echo", odd), env=(("A", odd + "\n\t\x1b"),)),))
    assert load(work, job_file(spec)) == spec


# --- Python


def test_python_keys_may_be_written_either_way(work: Path) -> None:
    loaded = from_python(
        command=["python", "-c", "1"],
        workers=4,
        ranks_per_worker=2,
        name="x",
        code=work,
        env={"LR": 0.1},
        resources={"memory": 2**30, "cpu": 0.5},
        timeouts={"total": None, "start": 5},
        keep=None,
        image=None,
        placement={"node_selector": {"a": "b"}, "priorityClass": "high"},
        kubernetes={"fs_group": 5},
    )
    assert loaded.spec == JobSpec(
        "x",
        "plain",
        (
            RoleSpec(
                "worker",
                4,
                2,
                ("python", "-c", "1"),
                env=(("LR", "0.1"),),
                resources=Resources(0.5, 2**30),
                placement=Placement((("a", "b"),), priority_class="high"),
                kubernetes=Kubernetes(fs_group=5),
            ),
        ),
        code=Code(str(work)),
        timeouts=Timeouts(start=5.0),
        keep=None,
    )
    assert from_python(command=["true"], ranksPerWorker=2).spec.roles[0].ranks == 2


def test_python_problems_name_the_key() -> None:
    with pytest.raises(JobFileError) as caught:
        from_python(command="", worker=2, timeouts={"total": "x"}, env=[1])
    assert sorted(problem.split(": ")[1] for problem in caught.value.problems) == [
        "command", "env", "timeouts.total", "worker",
    ]  # fmt: skip


# --- the fast path

FAST = [
    {"command": ("true",)},
    {"command": ("true",), "ranks": 64},
    {"command": ("true",), "ranks": "8", "ranks_per_worker": "4"},
    {"command": ("true",), "ranks": 8, "ranks_per_worker": 4, "workers": 2},
    {"command": ("true",), "workers": 3, "name": "mine"},
    {"command": ("python", "train.py", "--lr", "1"), "ranks": 2},
    {"command": ("python", "missing.py"), "ranks": 2},
    {"command": ("mpirun", "-n", "2", "x"), "framework": "plain"},
    {"command": ("torchrun", "train.py")},
    {"command": ("a b", "$X", "'", "\n", ""), "env": ("A=1", "B=", "C=a=b", "HOME")},
    {"command": ("true",), "timeouts": ("total=90s", "grace=0s", "stall=none"), "stall": "kill"},
    {"command": ("true",), "restarts": "3", "output": "1Gi", "keep": "none", "setup": "echo hi"},
    {"command": (b"\xff".decode("utf-8", "surrogateescape"),)},
]


@pytest.mark.parametrize("given", FAST, ids=str)
def test_the_fast_path_and_the_full_path_agree(
    given: dict[str, Any], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "train.py").write_text("import os\nimport torch\n")
    monkeypatch.chdir(work)
    fast = load_fast(Overrides(**given))
    assert fast is not None
    assert fast == load_full(None, Overrides(**given))


number_texts = st.integers(-1, 12) | st.sampled_from(["1", "2", "4", "x", "0", "010", " 1", ""])
overrides = st.fixed_dictionaries(
    {"command": st.lists(words, max_size=3).map(tuple)},
    optional={
        "ranks": number_texts,
        "workers": number_texts,
        "ranks_per_worker": number_texts,
        "restarts": number_texts,
        "name": st.sampled_from(["a", "A", "x" * 41, ""]),
        "framework": st.sampled_from(["plain", "mpi", "nope"]),
        "env": st.lists(st.sampled_from(["A=1", "A=2", "B=x y", "=1", "9=x", "HOME", "NOT_SET_AT_ALL", "C=\0"])).map(tuple),
        "timeouts": st.lists(st.sampled_from(["total=1s", "grace=none", "stall=none", "x=1s", "total", "start=0s"])).map(tuple),
        "stall": st.sampled_from(["kill", "no"]),
        "output": st.sampled_from(["1Gi", "1", "x"]),
        "keep": st.sampled_from(["none", "1h", "1"]),
        "setup": words | st.just("\0"),
    },
)  # fmt: skip


@LIGHT
@given(overrides)
def test_what_the_fast_path_takes_the_full_path_takes_alike(given: dict[str, Any]) -> None:
    fast = load_fast(Overrides(**given))
    try:
        full = load_full(None, Overrides(**given))
    except JobFileError:
        assert fast is None
    else:
        assert fast in (None, full)


def test_the_fast_path_loads_neither_pydantic_nor_yaml(work: Path) -> None:
    (work / "train.py").write_text("import torch\n")
    code = (
        "import sys; before = set(sys.modules); from hora.load import Overrides, load_job\n"
        "job = load_job(None, Overrides(command=('python', 'train.py'), ranks=64, env=('A=1',), timeouts=('total=1h',)))\n"
        "assert job.spec.framework == 'torch', job\n"
        "assert job.notes == ('framework torch: train.py:1 imports torch',), job.notes\n"
        "heavy = {'pydantic', 'pydantic_core', 'yaml', 'typing', 'dataclasses', 'inspect', 'importlib.metadata', 'shlex'}\n"
        "print(*sorted(heavy & (set(sys.modules) - before)))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=work, capture_output=True, text=True, check=True)
    assert out.stdout.split() == [], out.stdout


# --- anything at all


@LIGHT
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | words,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "name",
                        "framework",
                        "command",
                        "image",
                        "code",
                        "setup",
                        "workers",
                        "ranksPerWorker",
                        "resources",
                        "env",
                        "secrets",
                        "volumes",
                        "network",
                        "placement",
                        "timeouts",
                        "restarts",
                        "keep",
                        "services",
                        "roles",
                        "kubernetes",
                        "cpu",
                        "memory",
                        "worker",
                        "mount",
                        "nfs",
                        "a/b",
                    ]
                )
                | words,
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_any_data_is_a_job_or_a_job_file_error(work: Path, data: Any) -> None:
    try:
        spec = load(work, yaml.safe_dump(data, allow_unicode=True))
    except JobFileError as error:
        assert error.problems
    else:
        assert load(work, job_file(spec)) == spec


@LIGHT
@given(st.binary(max_size=60) | st.text("ab:-[]{}&*!|>'\"%@`#,?\n\t ~<0", max_size=40).map(str.encode))
def test_any_bytes_are_a_job_or_a_job_file_error(work: Path, raw: bytes) -> None:
    (work / "job.yaml").write_bytes(raw)
    try:
        load_job(work / "job.yaml")
    except JobFileError as error:
        assert error.problems


@LIGHT
@given(st.data())
def test_a_damaged_job_file_is_a_job_or_a_job_file_error(work: Path, data: st.DataObject) -> None:
    raw = bytearray((DATA / "every-key.yaml").read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=4))
    (work / "job.yaml").write_bytes(bytes(raw))
    try:
        load_job(work / "job.yaml")
    except JobFileError as error:
        assert all(problem.startswith(str(work)) for problem in error.problems)


def test_an_overlong_job_name_is_cut_to_what_fits(work: Path) -> None:
    assert len(load(work, f"command: [python, {'x' * 90}.py]\n").name) == names.JOB_MAX
