"""What the nodes keep between one cluster and the next: the images, in the stores of their containerds."""

from __future__ import annotations

import shutil
from pathlib import Path

from cluster.kube import build, images, layout
from cluster.kube.node import Node
from cluster.kube.recipe import KEY

IMPORT_TIMEOUT = 600.0


def _holds(node: Node) -> Path:
    return node.disk / "images"  # whose key


def _used(node: Node) -> Path:
    return node.disk / "used"


def fill() -> None:
    """Each node's disk gets the images, unless it has these very ones."""
    archive = images.archive()
    for node in map(Node, layout.NODES):
        if _holds(node).exists() and _holds(node).read_text() == KEY:
            continue
        if node.pid():
            node.power_cut()  # it runs with the images of another recipe
        shutil.rmtree(node.disk, ignore_errors=True)
        build.say(f"importing the images to node {node.name}; usually ten seconds, once")
        import_archive(node, archive)
        _holds(node).write_text(KEY)


def import_archive(node: Node, archive: Path) -> None:
    """Into a node that runs, or into one that is switched on for it."""
    if node.pid():
        node.ctr("images", "import", archive, timeout=IMPORT_TIMEOUT)
        return
    node.power_on()
    try:
        node.start_containerd(pods=False)
        node.ctr("images", "import", archive, timeout=IMPORT_TIMEOUT)
        node.stop_containerd()
    finally:
        node.close()
        node.power_cut()


def used(node: Node) -> bool:
    """Whether pods of an earlier cluster may have left something."""
    return _used(node).exists()


def set_used(node: Node) -> None:
    _used(node).touch()


def references(node: Node) -> list[str]:
    """The images that a running node has."""
    return sorted(name for name in node.ctr("images", "list", "--quiet").split() if "sha256:" not in name)
