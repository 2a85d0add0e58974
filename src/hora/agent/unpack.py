"""From an archive of code to a folder.  In a child of the agent: it takes seconds, and its imports are its own.

The folder appears whole or not at all.  What ranks have left in the folder of the code before goes along, as
it would where the code's folder is used in place.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import tarfile
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Set

CHUNK = 1 << 20
READ = 16 << 10  # tarfile copies all of its buffer for every header: a large one costs more than it saves
UNKEPT = "__pycache__"


class BadArchive(Exception):
    """One sentence: why nothing of it is taken."""


def settle(base: str, digest: str, before: str) -> Dict[str, Any]:
    """Make `base/digest` from `base/digest.tar.gz`; `before`: the hash of the code until now.

    Safe to do again when it was killed in the middle.  Returns `problem`, a sentence, or nothing in it.
    """
    target = os.path.join(base, digest)
    try:
        if not os.path.isdir(target):
            _unpack_whole(os.path.join(base, f"{digest}.tar.gz"), target, digest)
        if before and before != digest:
            carry(base, before, digest)
            for path in (f"{before}.tar.gz", f"{before}.names"):
                _forget(os.path.join(base, path))
            shutil.rmtree(os.path.join(base, before), ignore_errors=True)
    except BadArchive as problem:
        return {"problem": f"code {digest} can't be unpacked: {problem}"}
    except OSError as problem:
        return {"problem": f"code {digest} can't be unpacked: {problem}"}
    return {}


def _unpack_whole(archive: str, target: str, digest: str) -> None:
    fresh = target + ".new"
    shutil.rmtree(fresh, ignore_errors=True)
    os.makedirs(fresh)
    try:
        names = unpack(archive, fresh, digest)
        with open(target + ".names", "w", encoding="ascii") as file:
            json.dump(names, file)
        os.rename(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


# --- the archive -------------------------------------------------------------------------------------


class _Hashed:
    """A file that is read once, front to back, and hashed on the way."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        data: bytes = self._file.read(size)
        self.digest.update(data)
        return data


def unpack(archive: str, folder: str, digest: str) -> List[str]:
    """All of it into an empty folder; the names of what was made."""
    names: List[str] = []
    links: Set[str] = set()
    try:
        with gzip.open(archive, "rb") as packed:
            source = _Hashed(packed)
            with tarfile.open(  # type: ignore[call-overload]
                fileobj=source, mode="r|", encoding="utf-8", errors="surrogateescape", bufsize=READ
            ) as tar:
                for member in tar:
                    name = _name_of(member, links)
                    _make(tar, member, os.path.join(folder, name))
                    names.append(name)
                    if member.issym():
                        links.add(name)
            while source.read(CHUNK):
                pass
    except (tarfile.TarError, EOFError, zlib.error) as problem:
        raise BadArchive(f"it is no archive: {problem}") from problem
    found = source.digest.hexdigest()
    if not found.startswith(digest):
        raise BadArchive(f"it came broken: its hash is {found[: len(digest)]}")
    for name in links:
        _look_where_it_leads(folder, name)
    return names


def _name_of(member: tarfile.TarInfo, links: Set[str]) -> str:
    """BadArchive for what must not be made."""
    name = member.name[:-1] if member.name.endswith("/") else member.name
    parts = name.split("/")
    if not name or name.startswith("/") or any(part in ("", ".", "..") for part in parts) or "\0" in name:
        raise BadArchive(f"{member.name!r} would lie outside of it")
    if any("/".join(parts[:end]) in links for end in range(1, len(parts) + 1)):
        raise BadArchive(f"{name!r} would be written through a link")
    if not (member.isdir() or member.isreg() or member.issym()):
        raise BadArchive(f"{name!r} is neither file, folder nor symbolic link")
    if member.issym() and member.linkname.startswith("/"):
        raise BadArchive(f"the link {name!r} leads to {member.linkname!r}, out of it")
    return name


def _make(tar: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
    if member.isdir():
        os.mkdir(path)
        os.chmod(path, member.mode & 0o777 | 0o700)
        return
    if member.issym():
        os.symlink(member.linkname, path)
        return
    source = tar.extractfile(member)
    assert source is not None
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        shutil.copyfileobj(source, file, CHUNK)
        os.fchmod(file.fileno(), member.mode & 0o777)


def _look_where_it_leads(folder: str, name: str) -> None:
    top = os.path.realpath(folder)
    real = os.path.realpath(os.path.join(top, name))
    if real != top and not real.startswith(top + "/"):
        raise BadArchive(f"the link {name!r} leads out of it")


# --- what was there before ---------------------------------------------------------------------------


def carry(base: str, before: str, digest: str) -> None:
    """Move what ranks have made in the last folder into the new one, where nothing of that name is."""
    try:
        with open(os.path.join(base, f"{before}.names"), encoding="ascii") as file:
            shipped = set(json.load(file))
    except (OSError, ValueError):
        return  # it was carried already
    _carry(os.path.join(base, before), os.path.join(base, digest), "", shipped)


def _carry(old: str, new: str, path: str, shipped: Set[str]) -> None:
    try:
        listing = sorted(os.scandir(os.path.join(old, path)), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in listing:
        name = os.path.join(path, entry.name)
        there = os.path.join(new, name)
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == UNKEPT:
            continue
        if is_folder and (name in shipped or os.path.isdir(there)):
            _carry(old, new, name, shipped)
        elif name not in shipped and not os.path.lexists(there):
            os.makedirs(os.path.dirname(there), exist_ok=True)
            os.rename(entry.path, there)


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
