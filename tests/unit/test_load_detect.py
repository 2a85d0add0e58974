"""The framework found from the command: by its first word, or by reading the script, which is never run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hora.load import Overrides, load_job
from hora.load.detect import MAX_SCRIPT, Found, Script, default_name, detect, script_of, simple_commands


@pytest.fixture(autouse=True)
def _in_work(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)


def found(text: str, *command: str) -> Found:
    Path("train.py").write_text(text)
    return detect(command or ("python", "train.py"), ".")


# --- by the imports


@pytest.mark.parametrize(
    ("text", "framework", "why"),
    [
        ("import torch\n", "torch", "train.py:1 imports torch"),
        ("import os\nimport torch.distributed as dist\n", "torch", "train.py:2 imports torch"),
        ("from torch import nn\n", "torch", "train.py:1 imports torch"),
        ("def f():\n    import torch\n", "torch", "train.py:2 imports torch"),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\n", "torch", "train.py:2 imports torch"),
        ("import lightning as L\n", "torch", "train.py:1 imports lightning"),
        ("import torch\nimport horovod.torch as hvd\n", "mpi", "train.py:2 imports horovod"),
        ("from mpi4py import MPI\n", "mpi", "train.py:1 imports mpi4py"),
        ("import torch\nimport jax\n", "jax", "train.py:2 imports jax"),
        ("import tensorflow as tf\ns = tf.distribute.Strategy()\n", "tensorflow", "train.py:2 uses tf.distribute"),
        ("import tensorflow\ntensorflow.distribute.x\n", "tensorflow", "train.py:2 uses tf.distribute"),
        ("import tensorflow.distribute as d\n", "tensorflow", "train.py:1 uses tf.distribute"),
        ("from tensorflow import distribute\n", "tensorflow", "train.py:1 uses tf.distribute"),
        ("import tensorflow as tf\n", "plain", ""),
        ("import other as tf\ntf.distribute\n", "plain", ""),
        ("import dask.array\n", "dask", "train.py:1 imports dask"),
        ("import numpy\n", "plain", ""),
        ("# import torch\ntext = 'import torch'\n", "plain", ""),
        ("from . import torch\n", "plain", ""),
        ("from .torch import x\n", "plain", ""),
        ("", "plain", ""),
    ],
)  # fmt: skip
def test_the_imports_tell_the_framework(text: str, framework: str, why: str) -> None:
    assert found(text) == Found(framework, why)


def test_the_script_is_never_run() -> None:
    assert found("open('ran', 'w')\nimport torch\nraise SystemExit(1)\n").framework == "torch"
    assert not Path("ran").exists()


def test_modules_beside_the_script_are_read_too() -> None:
    Path("model.py").write_text("\n\nimport torch\n")
    assert found("import model\n") == Found("torch", "model.py:3 imports torch")
    Path("pkg/sub").mkdir(parents=True)
    Path("pkg/sub/__init__.py").write_text("from mpi4py import MPI\n")
    assert found("from pkg import sub\n") == Found("mpi", "pkg/sub/__init__.py:1 imports mpi4py")


def test_a_module_that_imports_its_script_ends() -> None:
    Path("model.py").write_text("import train\n")
    assert found("import model\nimport train\n") == Found("plain")


def test_a_broken_module_beside_the_script_is_passed_over() -> None:
    Path("broken.py").write_text("def (:\n")
    Path("model.py").write_text("import torch\n")
    assert found("import broken\nimport model\n").framework == "torch"


def test_relative_imports_are_found_from_the_module() -> None:
    Path("pkg/inner").mkdir(parents=True)
    Path("pkg/model.py").write_text("import torch\n")
    Path("pkg/inner/train.py").write_text("from ..model import net\n")
    why = Found("torch", "pkg/model.py:1 imports torch")
    assert detect(("python", "-m", "pkg.inner.train"), ".") == why


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (lambda file: None, "train.py isn't there to read"),
        (lambda file: file.write_text("def (:\n"), "train.py isn't Python that this version can read"),
        (lambda file: file.write_bytes(b"\xff\0"), "train.py isn't Python that this version can read"),
        (lambda file: file.write_text("(" * 5000), "train.py isn't Python that this version can read"),
        (lambda file: file.write_text("#" * (MAX_SCRIPT + 1)), "train.py is larger than 2 MiB"),
        (lambda file: os.mkfifo(file), "train.py isn't there to read"),
    ],
)
def test_what_cannot_be_read_is_plain_and_that_is_said(prepare, why) -> None:  # type: ignore[no-untyped-def]
    prepare(Path("train.py"))
    assert detect(("python", "train.py"), ".") == Found("plain", why, read=False)


def test_a_script_that_may_not_be_read_says_so() -> None:
    Path("train.py").write_text("import torch\n")
    Path("train.py").chmod(0)
    Path(".").chmod(0o755)
    user = os.geteuid()
    if user == 0:  # root may read everything
        os.seteuid(65534)
    try:
        where = detect(("python", "train.py"), os.getcwd())
    finally:
        os.seteuid(user)
    assert where.framework == "plain"
    assert not where.read


def test_a_found_framework_wins_over_a_script_that_could_not_be_read() -> None:
    assert detect(("sh", "-c", "python prepare.py && torchrun x.py"), ".").framework == "torch"
    assert detect(("sh", "-c", "python prepare.py && true"), ".").why == "prepare.py isn't there to read"


# --- by the first words


@pytest.mark.parametrize(
    ("command", "framework", "why"),
    [
        ("mpirun -n 4 python x.py", "mpi", "the command begins with mpirun"),
        ("/opt/openmpi/bin/mpirun x", "mpi", "the command begins with mpirun"),
        ("mpiexec.hydra x", "mpi", "the command begins with mpiexec.hydra"),
        ("horovodrun -np 2 python x.py", "mpi", "the command begins with horovodrun"),
        ("torchrun --nproc-per-node 2 x.py", "torch", "the command begins with torchrun"),
        ("deepspeed x.py", "torch", "the command begins with deepspeed"),
        ("accelerate launch x.py", "torch", "the command begins with accelerate launch"),
        ("accelerate config", "plain", ""),
        ("python -m torch.distributed.run x.py", "torch", "the command runs python -m torch.distributed.run"),
        ("python -mmpi4py.run x.py", "mpi", "the command runs python -m mpi4py.run"),
        ("python -m http.server", "plain", ""),
        ("python -c 1", "plain", ""),
        ("python", "plain", ""),
        ("env A=1 nice -n 5 torchrun x.py", "torch", "the command begins with torchrun"),
        ("A=1 B=2 mpirun x", "mpi", "the command begins with mpirun"),
        ("uv run torchrun x.py", "torch", "the command begins with torchrun"),
        ("env", "plain", ""),
        ("./train", "plain", ""),
    ],
)
def test_the_first_words_tell_the_framework(command: str, framework: str, why: str) -> None:
    assert detect(tuple(command.split()), ".") == Found(framework, why)


@pytest.mark.parametrize(
    "line",
    [
        "torchrun x.py",
        "cd /x && torchrun x.py",
        "pip install x; exec torchrun x.py",
        "A=1 torchrun x.py | tee log",
        "(torchrun x.py)",
        "true || nohup torchrun x.py &",
    ],
)
def test_shell_lines_are_looked_into(line: str) -> None:
    assert detect(("bash", "-ec", line), ".").framework == "torch"


@pytest.mark.parametrize(
    "line", ["echo torchrun", "echo 'torchrun", "# torchrun x", "", "'", "cd x && ./torch"]
)
def test_a_word_that_is_no_command_tells_nothing(line: str) -> None:
    assert detect(("sh", "-c", line), ".") == Found("plain")


@pytest.mark.parametrize(
    ("words", "script"),
    [
        ("python train.py", Script("train.py")),
        ("python3.12 -u -W error -X dev train.py --lr 1", Script("train.py")),
        ("./train.py", Script("./train.py")),
        ("pypy3 -m pkg.train", Script(module="pkg.train")),
        ("python -", None),
        ("python -uc 1", None),
        ("python -u", None),
        ("bash x.sh", None),
        ("", None),
    ],
)
def test_the_script_of_a_command_is_found(words: str, script: Script | None) -> None:
    assert script_of(tuple(words.split())) == script


def test_a_folder_is_run_by_its_main_module() -> None:
    Path("app").mkdir()
    Path("app/__main__.py").write_text("import jax\n")
    assert detect(("python", "app"), ".").framework == "jax"
    assert detect(("python", "-m", "app"), ".").framework == "jax"


@pytest.mark.parametrize(
    ("code", "framework", "why"),
    [
        ("import dask\n", "dask", "train.py:1 imports dask"),
        ("import flax\n", "jax", "train.py:1 imports flax"),
        ("import tensorflow as tf\ntf.distribute\n", "tensorflow", "train.py:2 uses tf.distribute"),
    ],
)
def test_a_framework_that_was_only_found_and_comes_later_does_not_refuse_the_run(
    code: str, framework: str, why: str
) -> None:
    Path("train.py").write_text(code)
    Path("job.yaml").write_text("command: python train.py\n")
    fast = load_job(None, Overrides(command=("python", "train.py")))
    full = load_job("job.yaml")
    assert fast.spec.framework == full.spec.framework == "plain"
    [note] = fast.notes
    assert full.notes == fast.notes
    assert note.startswith(f"framework plain: {why}, and {framework!r} comes with a later version of Hora;")


@given(
    st.lists(st.text(max_size=8) | st.sampled_from(["sh", "-c", "env", "python", "-m", "a;b", "uv", "run"]))
)
def test_any_command_has_a_framework_and_a_name(words: list[str]) -> None:
    command = tuple(words)
    assert detect(command, "/nowhere").framework
    assert all(simple_commands(command))
    assert isinstance(default_name(command, "/some/folder"), str)
