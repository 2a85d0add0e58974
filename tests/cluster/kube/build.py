"""Build what is slow to build, once: each part in a folder whose name says what is in it.

A part is made beside its place and then renamed, so that one which is there is whole; a lock keeps two builds apart.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cluster.kube import debian, layout
from cluster.kube.problems import ClusterError, run
from cluster.kube.versions import COREDNS, KUBERNETES, GoModule

NEEDED = (KUBERNETES, COREDNS)


def say(text: str) -> None:
    print(f"cluster: {text}", file=sys.stderr, flush=True)


@contextmanager
def lock(name: str) -> Iterator[None]:
    """One at a time; ends with its holder, however that ends."""
    layout.FOLDER.mkdir(parents=True, exist_ok=True)
    with open(layout.FOLDER / f".{name}.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another `scripts/cluster` that holds the lock {file.name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def part(name: str, make: Callable[[Path], None], usually: str) -> Path:
    """The folder of a part, which is made if it isn't there."""
    folder = layout.FOLDER / name
    if folder.exists():
        return folder
    with lock("build"):
        if folder.exists():  # another has built it while we waited
            return folder
        unfinished = layout.FOLDER / f".unfinished-{name}"
        shutil.rmtree(unfinished, ignore_errors=True)  # of a build that was interrupted
        unfinished.mkdir()
        say(f"building {name}; usually {usually} on two cores, once")
        began = time.monotonic()
        make(unfinished)
        unfinished.rename(folder)
        say(f"built {name} in {time.monotonic() - began:.0f} s")
    return folder


def go(module: GoModule) -> Path:
    """The folder with the commands of a Go module."""
    return part(module.key, lambda folder: _go_build(module, folder), module.usually)


def binary(name: str) -> Path:
    """A command of Kubernetes, or CoreDNS."""
    return layout.FOLDER / (COREDNS if name == "coredns" else KUBERNETES).key / name


def _go_build(module: GoModule, folder: Path) -> None:
    """By a module of our own that requires the other: `go install` refuses those with replaced modules."""
    if not _has_go():
        raise ClusterError(f"{module.key} is built from Go modules, and there is no `go` on PATH: install Go")
    sources = folder / "source"
    sources.mkdir()
    found = json.loads(
        run("go", "mod", "download", "-json", f"{module.module}@{module.version}", timeout=600)
    )
    (sources / "go.mod").write_text(_go_mod(module, Path(found["GoMod"])))
    stamps = " ".join(f"-X {name}={value}" for name, value in module.variables)
    packages = [f"{module.module}/{command}".rstrip("/") for command in module.commands]
    command = [
        "go",
        "build",
        "-mod=mod",
        "-trimpath",
        f"-ldflags=-s -w {stamps}",
        "-o",
        f"{folder}/",
        *packages,
    ]
    environment = {**layout.environment(), "CGO_ENABLED": "0"}
    if code := _call(command, f"go build of {module.key}", sources, environment):
        raise ClusterError(f"go build of {module.key} failed with exit code {code}, see above")
    for name in module.files:
        shutil.copyfile(Path(found["Dir"], name), folder / Path(name).name)
    shutil.rmtree(sources)


def _has_go() -> bool:
    return shutil.which("go", path=layout.environment()["PATH"]) is not None


def _call(command: Sequence[str], what: str, folder: Path, environment: dict[str, str]) -> int:
    """Its exit code; its own words go to the terminal, and a line each minute, since silence looks like a hang."""
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr
    ) as running:
        try:
            while True:
                try:
                    return running.wait(60)
                except subprocess.TimeoutExpired:
                    say(f"{what}: {(time.monotonic() - began) / 60:.0f} min so far")
        except BaseException:
            running.kill()
            raise


def _go_mod(module: GoModule, original: Path) -> str:
    """`replace` and `godebug` count only in the main module: what the other module wants is repeated in ours."""
    theirs = json.loads(run("go", "mod", "edit", "-json", original))
    lines = ["module hora.test/cluster", f"go {theirs['Go']}", f"require {module.module} {module.version}"]
    lines += [f"godebug {entry['Key']}={entry['Value']}" for entry in theirs.get("Godebug") or []]
    for entry in theirs.get("Replace") or []:
        old, new = entry["Old"]["Path"], entry["New"]
        if new["Path"].startswith("./staging/"):  # k8s.io/api and its like are published as v0.N.P of v1.N.P
            new = {"Path": old, "Version": f"v0.{module.version.partition('.')[2]}"}
        lines.append(f"replace {old} => {new['Path']} {new.get('Version', '')}")
    return "\n".join(lines) + "\n"


def missing() -> str | None:
    """Why what isn't built yet can't be built here, in words."""
    unbuilt = [module.key for module in NEEDED if not (layout.FOLDER / module.key).exists()]
    if unbuilt and not _has_go():
        return f"{' and '.join(unbuilt)} must be built, and there is no `go` on PATH"
    if debian.lacking() and not shutil.which("apt-get"):
        return f"the packages {', '.join(debian.lacking())} are not installed, and there is no apt-get"
    return None
