"""Make images without a container engine: debootstrap, overlay mounts, and an archive as `docker save` writes it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from cluster.kube import build, layout
from cluster.kube.problems import ClusterError
from cluster.kube.recipe import IMAGES, KEY, NOT_IN_IMAGES, PAUSE, PAUSE_SOURCE, SUITE, Image

PART = f"images-{KEY}"
ARCHIVE = "images.tar"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
OVERLAY = (
    "redirect_dir=off,metacopy=off,index=off"  # plain files and whiteouts: that is what a layer is made of
)


def archive() -> Path:
    """The file with all images."""
    return build.part(PART, _make, "two minutes") / ARCHIVE


def _make(folder: Path) -> None:
    layers: dict[str, Path] = {}
    for image in IMAGES:
        layers[image.name] = folder / image.name
        below = [layers[each.name] for each in chain(image)[:-1]]
        (_install if below else _bootstrap)(image, layers[image.name], below)
    saved = [
        (image.reference, [layers[each.name] for each in chain(image)], image.command) for image in IMAGES
    ]
    saved.append((PAUSE, [_pause(folder / "pause")], ("/pause",)))
    save(saved, folder / ARCHIVE)
    for used in folder.iterdir():
        if used.is_dir():
            shutil.rmtree(used)


def chain(image: Image) -> list[Image]:
    """The image after all those below it."""
    below = [each for each in IMAGES if each.name == image.below]
    return [*chain(below[0]), image] if below else [image]


def _bootstrap(image: Image, layer: Path, _below: list[Path]) -> None:
    """Debian's smallest.  Its mirror is debootstrap's own default."""
    exclude = "\n".join(f"path-exclude={pattern}" for pattern in NOT_IN_IMAGES)
    _root_script(
        f"debootstrap --variant=minbase {SUITE} '{layer}'\n"
        f"cat >'{layer}/etc/dpkg/dpkg.cfg.d/hora' <<'END'\n{exclude}\nEND\n"
        f"cd '{layer}' && rm -rf {' '.join(pattern.lstrip('/') for pattern in NOT_IN_IMAGES)} "
        "var/lib/apt/lists/* var/cache/apt/* var/log/* etc/resolv.conf etc/hostname",
        f"the layer of {image.name}",
    )


def _install(image: Image, layer: Path, below: list[Path]) -> None:
    """What the packages and the script of an image change, by an overlay mount over the layers below."""
    scratch = layer.parent / "scratch"
    (scratch / "work").mkdir(parents=True)
    (scratch / "merged").mkdir()
    layer.mkdir()
    lower = ":".join(map(str, reversed(below)))
    steps = []
    if image.packages:
        install = f"apt-get -qq install --yes --no-install-recommends {' '.join(image.packages)}"
        steps += ["apt-get -qq update", install, "apt-get clean", "rm -rf /var/lib/apt/lists/* /var/log/*"]
    steps += [image.script] if image.script else []
    _root_script(
        f"mount -t overlay -o 'lowerdir={lower},upperdir={layer},workdir={scratch}/work,{OVERLAY}' overlay "
        f"'{scratch}/merged'\n"
        f"cd '{scratch}/merged'\n"
        # Not in the layer, but needed by apt: /proc, /dev, and who to ask for addresses.
        "mount -t proc proc proc; mount --rbind /dev dev; cp /etc/resolv.conf etc/resolv.conf\n"
        + "".join(f"chroot . sh -ec '{step}'\n" for step in map(_quoted, steps))
        + "rm -f etc/resolv.conf",
        f"the layer of {image.name}",
    )
    shutil.rmtree(scratch)


def _quoted(step: str) -> str:
    return step.replace("'", "'\\''")


def _root_script(script: str, what: str) -> None:
    """In a mount namespace of its own, so that no mount is left, however it ends."""
    command = ["unshare", "--mount", "sh", "-eu", "-c", script]
    quiet = {
        "PATH": layout.SYSTEM_PATH,
        "DEBIAN_FRONTEND": "noninteractive",
        "LC_ALL": "C",
        **{name: os.environ[name] for name in ("http_proxy", "https_proxy") if name in os.environ},
    }
    done = subprocess.run(
        command,
        env=quiet,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.stderr.write(done.stdout)
        raise ClusterError(f"{what} could not be made (exit code {done.returncode}), see above")


def _pause(folder: Path) -> Path:
    """A layer with one static command."""
    folder.mkdir()
    source = folder / "main.go"
    source.write_text(PAUSE_SOURCE)
    environment = {**layout.environment(), "CGO_ENABLED": "0", "GO111MODULE": "off"}
    command = ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(folder / "pause"), str(source)]
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=True)
    source.unlink()
    return folder


# --- archives, also for images that tests make of these -----------------------------------------------------------


def save(images: list[tuple[str, list[Path], tuple[str, ...]]], file: Path) -> None:
    """Write images as `docker save` does; each is a reference, the folders of its layers, and its command."""
    packed: dict[Path, str] = {}
    manifest = []
    with tarfile.open(file, "w") as out:
        for reference, layers, command in images:
            for layer in layers:
                if layer not in packed:
                    packed[layer] = _add_layer(out, layer, file.parent)
            config = json.dumps(_config([packed[layer] for layer in layers], command)).encode()
            name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add_bytes(out, name, config)
            tars = [f"{packed[layer]}.tar" for layer in layers]
            manifest.append({"Config": name, "RepoTags": [reference], "Layers": tars})
        _add_bytes(out, "manifest.json", json.dumps(manifest).encode())


def _config(digests: list[str], command: tuple[str, ...]) -> dict[str, Any]:
    return {
        "architecture": MACHINES.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": {"Cmd": list(command), "Env": [f"PATH={layout.SYSTEM_PATH}"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
    }


def _add_bytes(out: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    out.addfile(entry, io.BytesIO(content))


def _add_layer(out: tarfile.TarFile, folder: Path, scratch: Path) -> str:
    """Add the folder as a layer; returns its digest, which is its name."""
    packed = scratch / "layer.tar"
    with tarfile.open(packed, "w", format=tarfile.GNU_FORMAT) as layer:
        _add_folder(layer, folder, "")
    with open(packed, "rb") as content:
        digest = _digest(content)
    out.add(packed, f"{digest}.tar")
    packed.unlink()
    return digest


def _digest(content: io.BufferedReader) -> str:
    """As hashlib.file_digest, which Python 3.10 lacks."""
    digest = hashlib.sha256()
    while block := content.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def _add_folder(layer: tarfile.TarFile, folder: Path, prefix: str) -> None:
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        name = f"{prefix}{entry.name}"
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
            # What overlayfs makes of a removal; a layer says it with a name.
            layer.addfile(tarfile.TarInfo(f"{prefix}.wh.{entry.name}"))
            continue
        layer.add(entry.path, name, recursive=False)
        if entry.is_dir(follow_symlinks=False):
            if _replaces(entry.path):
                layer.addfile(tarfile.TarInfo(f"{name}/.wh..wh..opq"))
            _add_folder(layer, Path(entry.path), f"{name}/")


def _replaces(folder: str) -> bool:
    """Whether a folder of an overlay hides the one below it."""
    try:
        return os.getxattr(folder, "trusted.overlay.opaque") == b"y"
    except OSError:
        return False
