"""The control groups above those of a node's pods, in either version of the kernel's interface."""

from __future__ import annotations

from pathlib import Path

from cluster.kube.problems import wait_until

ROOT = Path("/sys/fs/cgroup")


def _unified() -> bool:
    return (ROOT / "cgroup.controllers").exists()


def _trees() -> list[Path]:
    """Version 2 has one tree; version 1 one for each controller, some reached by several names."""
    if _unified():
        return [ROOT]
    return sorted({tree.resolve() for tree in ROOT.iterdir() if tree.is_dir()})


def make(group: str) -> None:
    for tree in _trees():
        folder = tree
        for name in Path(group.lstrip("/")).parts:
            above, folder = folder, folder / name
            if _unified():
                controllers = (above / "cgroup.controllers").read_text().split()
                (above / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in controllers))
            folder.mkdir(exist_ok=True)
            for setting in ("cpuset.cpus", "cpuset.mems"):
                # In version 1 a new group has no processor and no memory, and nothing can run in it.
                if (
                    not _unified()
                    and (folder / setting).exists()
                    and not (folder / setting).read_text().strip()
                ):
                    (folder / setting).write_text((above / setting).read_text())


def remove(group: str) -> None:
    """The group and all below it, whose last processes may still be ending; and those above that are empty then."""
    wait_until(
        lambda: not _remaining(group),
        f"the end of the control group {group}",
        20,
        lambda: "; ".join(_remaining(group)),
    )
    for tree in _trees():
        for above in list(Path(group.lstrip("/")).parents)[:-1]:
            try:
                (tree / above).rmdir()
            except OSError:
                pass  # another node is in it, or it is gone


def _remaining(group: str) -> list[str]:
    """What could not be removed, after a try."""
    left = []
    for tree in _trees():
        top = tree / group.lstrip("/")
        below = sorted((each for each in top.rglob("*") if each.is_dir()), reverse=True)
        for folder in [*below, *([top] if top.exists() else [])]:
            try:
                folder.rmdir()
            except OSError as problem:
                left.append(f"{folder}: {problem.strerror}")
    return left


def names() -> set[str]:
    """Every group there is, of whomever."""
    return {str(folder) for tree in _trees() for folder in tree.rglob("*") if folder.is_dir()}
