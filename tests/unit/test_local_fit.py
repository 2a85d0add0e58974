"""What a job may ask of this machine: code from git, volumes, GPUs, and keys that only clusters read."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import hora
from helpers.cli import Cli
from helpers.runs import lines_of
from hora.errors import PlaceError, UsageError
from hora.load import from_python
from hora.places.local import fit, paths

pytestmark = pytest.mark.leaks

GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run([*GIT, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, text: str) -> str:
    (folder / "words.txt").write_text(text)
    git(folder, "add", "words.txt")
    git(folder, "commit", "-q", "-m", text)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(work: Path) -> Path:
    """A bare repository: `first` (tag v1), `second` (branch side), `third` (branch main)."""
    source = work / "source"
    source.mkdir()
    git(source, "init", "-q")
    commit(source, "first")
    git(source, "tag", "v1")
    git(source, "checkout", "-q", "-b", "side")
    commit(source, "second")
    git(source, "checkout", "-q", "main")
    commit(source, "third")
    git(work, "clone", "-q", "--bare", "source", "train.git")
    return work / "train.git"


def words_of_ranks(**code: str) -> list[list[str]]:
    run = hora.submit(hora.Job(command=["cat", "words.txt"], workers=2, name="git", code=code))
    run.wait()
    return list(lines_of(run).values())


# --- code from git


def test_ranks_start_in_a_clone_of_the_repository(repository: Path) -> None:
    assert words_of_ranks(git=str(repository)) == [["third"], ["third"]]


@pytest.mark.parametrize(("ref", "text"), [("main", "third"), ("side", "second"), ("v1", "first")])
def test_a_ref_may_be_a_branch_or_a_tag(repository: Path, ref: str, text: str) -> None:
    assert words_of_ranks(git=f"file://{repository}", ref=ref) == [[text], [text]]


@pytest.mark.parametrize("length", [40, 8])
def test_a_ref_may_be_a_commit_or_the_beginning_of_one(repository: Path, length: int) -> None:
    name = git(repository, "rev-parse", "side")
    assert words_of_ranks(git=f"file://{repository}", ref=name[:length]) == [["second"], ["second"]]


def test_a_clone_has_no_history(repository: Path) -> None:
    run = hora.submit(hora.Job(command=["git", "rev-list", "HEAD"], code={"git": f"file://{repository}"}))
    run.wait()
    assert [len(lines) for lines in lines_of(run).values()] == [1]


def test_submodules_come_along(repository: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COUNT": "1", "KEY_0": "protocol.file.allow", "VALUE_0": "always"}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)  # git trusts no submodules from folders
    outer = work / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "submodule", "--quiet", "add", f"file://{repository}", "inner")
    git(outer, "commit", "-q", "-m", "all")
    run = hora.submit(hora.Job(command=["cat", "inner/words.txt"], code={"git": str(outer)}))
    run.wait()
    assert list(lines_of(run).values()) == [["third"]]


def test_the_clone_goes_with_the_run(repository: Path) -> None:
    run = hora.submit(hora.Job(command=["true"], code={"git": str(repository)}))
    run.wait()
    run.delete()
    assert os.listdir(paths.runs_folder()) == []


def test_a_hook_of_another_repository_does_not_lead_git_astray(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(repository))
    monkeypatch.setenv("GIT_WORK_TREE", "/nowhere")
    assert words_of_ranks(git=str(repository), ref="v1") == [["first"], ["first"]]


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        ({"git": "{repository}", "ref": "nope"}, UsageError, "has no branch, tag or commit 'nope': check code.ref"),
        ({"git": "{repository}", "ref": "abcd1234"}, UsageError, "no branch, tag or commit 'abcd1234'"),
        ({"git": "{repository}", "ref": "a" * 40}, UsageError, "no branch, tag or commit 'aaaa"),
        ({"git": "{repository}", "ref": "--upload-pack=touch x"}, UsageError, "has no branch, tag or commit"),
        ({"git": "/nowhere/x.git"}, PlaceError, "can't be cloned: '/nowhere/x.git' does not appear to be"),
        ({"git": "nope://x/y"}, PlaceError, "can't be cloned: .*remote-nope.*; try `git ls-remote nope://x/y`"),
    ],
)  # fmt: skip
def test_code_that_cannot_be_cloned_is_one_sentence_and_leaves_no_run(
    repository: Path, code: dict[str, str], kind: type[Exception], said: str
) -> None:
    code = {key: value.format(repository=repository) for key, value in code.items()}
    with pytest.raises(kind, match=said) as caught:
        hora.submit(hora.Job(command=["true"], code=code))
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("code: ")
    assert os.listdir(paths.runs_folder()) == []
    assert not Path("x").exists()


def test_ctrl_c_while_it_clones_leaves_no_run(hora: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"git://127.0.0.1:{server.getsockname()[1]}/x.git"
        process = hora.start("run", "--set", f"code.git={url}", "true", start_new_session=True)
        server.settimeout(20)
        connection, _ = server.accept()
        with connection:  # git waits for an answer that never comes
            os.killpg(process.pid, signal.SIGINT)  # as the terminal does
            _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert said.decode().splitlines() == [f"hora: the ranks start in a new clone of {url}"]
    assert os.listdir(paths.runs_folder()) == []


def test_a_machine_without_git_says_so(repository: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(work))
    with pytest.raises(PlaceError, match=r"git is not on PATH.*install git, or name a folder as code"):
        hora.submit(hora.Job(command=["/bin/true"], code={"git": str(repository)}))


# --- where ranks start otherwise


def test_a_folder_that_was_removed_under_the_caller_is_one_sentence(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = work / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    job = hora.Job(command=["true"], name="gone", framework="plain")
    gone.rmdir()
    try:
        with pytest.raises(UsageError, match="the folder that you are in was removed"):
            hora.submit(job)
    finally:
        os.chdir(work)
    assert os.listdir(paths.runs_folder()) == []


# --- volumes

VOLUMES = {
    "pvc": ("ckpt", "pvc ckpt"),
    "nfs": ({"server": "10.0.0.2", "path": "/export"}, "nfs 10.0.0.2"),
    "azureFile": ({"secretName": "account", "shareName": "data"}, "azureFile account"),
    "hostPath": ("/elsewhere", "hostPath /elsewhere"),
    "csi": ({"driver": "csi.example.org"}, "csi csi.example.org"),
    "memory": ("1Gi", "memory"),
    "scratch": ("1Gi", "scratch"),
    "configMap": ("settings", "configMap settings"),
    "secret": ("keys", "secret keys"),
}


def notes_of(**keys: object) -> tuple[str, ...]:
    return fit.remarks(from_python(**{"command": ["true"], **keys}).spec)


@pytest.mark.parametrize("kind", VOLUMES)
def test_a_volume_is_a_folder_that_is_there_already(kind: str, work: Path) -> None:
    source, named = VOLUMES[kind]
    said = notes_of(volumes=[{"mount": str(work), kind: source}])
    assert said == (f"{work} is this machine's own folder, not the {named}",)


@pytest.mark.parametrize("kind", VOLUMES)
def test_a_volume_that_is_not_there_is_refused(kind: str, work: Path) -> None:
    source, named = VOLUMES[kind]
    with pytest.raises(UsageError) as caught:
        notes_of(volumes=[{"mount": str(work / "none"), kind: source}])
    assert str(caught.value) == (
        f"worker needs the volume {work}/none ({named}), and nothing can be mounted on this machine: "
        "make that folder, or run without it: --set volumes=[]"
    )


def test_a_folder_of_this_machine_in_its_own_place_needs_no_note(work: Path) -> None:
    (work / "link").symlink_to(work)
    assert notes_of(volumes=[{"mount": str(work), "hostPath": str(work)}]) == ()
    assert notes_of(volumes=[{"mount": str(work / "link"), "hostPath": str(work)}]) == ()


def test_a_job_with_a_missing_volume_never_becomes_a_run(work: Path) -> None:
    with pytest.raises(UsageError):
        hora.submit(hora.Job(command=["true"], volumes=[{"mount": str(work / "none"), "pvc": "x"}]))
    assert hora.list_runs() == []


# --- GPUs


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def have(count: int) -> None:
        monkeypatch.setattr(fit, "gpus_here", lambda: count)

    return have


@pytest.mark.parametrize(("count", "has"), [(0, "no GPU"), (1, "1 GPU"), (3, "3 GPUs")])
def test_more_gpus_than_this_machine_has_are_refused(
    here: Callable[[int], None], count: int, has: str
) -> None:
    here(count)
    with pytest.raises(
        UsageError, match=re.escape(f"asks for 4 (2 worker x 2), and this machine has {has}:")
    ):
        notes_of(workers=2, resources={"gpu": 2})


def test_gpus_that_are_there_are_fine(here: Callable[[int], None]) -> None:
    here(4)
    assert notes_of(workers=2, resources={"gpu": 2}) == ()


def test_hidden_gpus_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = fit.gpus_here()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert fit.gpus_here() <= shown
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7")
    assert fit.gpus_here() == shown


# --- keys for clusters


def test_keys_that_only_clusters_read_are_named_in_one_line() -> None:
    said = notes_of(
        image="python:3.12",
        placement={"queue": "team"},
        kubernetes={"namespace": "training"},
        services={"jupyter": {}},
    )
    assert said == ("without effect on this machine: image, placement, kubernetes, services",)
    said = notes_of(
        resources={"cpu": 1, "shm": "1Gi", "rdma/hca": 1}, network={"host": True, "allow_from": ["team"]}
    )
    keys = "resources.shm, resources.rdma/hca, network.host, network.allowFrom"
    assert said == (f"without effect on this machine: {keys}",)
    assert notes_of() == ()


def test_a_job_without_ranks_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no ranks, only services \(jupyter\).*give it a command"):
        fit.remarks(from_python(services={"jupyter": {}}).spec)


def test_the_notes_are_in_the_status_of_the_run() -> None:
    run = hora.submit(hora.Job(command=["true"], image="python:3.12"))
    assert "without effect on this machine: image" in run.wait().notes


def test_a_secret_of_a_cluster_says_how_to_give_it_here() -> None:
    job = hora.Job(command=["true"], secrets={"TOKEN": {"secret": "account", "key": "token"}})
    with pytest.raises(UsageError, match="--secret TOKEN=env:VARIABLE or --secret TOKEN=file:PATH"):
        hora.submit(job)
