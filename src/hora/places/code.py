"""The code folder as one archive, which the lead fans out.

Equal content gives an equal archive: names in order, no times, no owners.  So its hash names the code.
"""

from __future__ import annotations

import os
import stat

from hora.errors import PlaceError, UsageError
from hora.places import ignoring
from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from hora.spec import Code

LIMIT = 16 << 20  # bytes, packed
MOST_UNPACKED = 32  # times that: what would take minutes to pack, and to unpack on every host
HASH = 12  # hexadecimal digits
CHUNK = 1 << 20
NAMED = 5
WHEN = 315532800  # 1980, for all files: no archive format knows an earlier time
WAYS_OUT = (
    "name what the ranks don't need in .horaignore, put data on a volume, put what rarely changes into the image, "
    "or take only what git has, by `code: {git: URL}`"
)


class Packed(Record):
    hash: str
    data: bytes  # tar.gz
    files: int
    notes: tuple[str, ...] = ()  # what was left out, and why

    @property
    def summary(self) -> str:
        return f"code {self.hash} ({self.files} file{'s' * (self.files != 1)}, {size_of(len(self.data))})"

    def config(self, parts: Sequence[str]) -> dict[str, Any]:
        """What the lead is told of it: `parts` are the files that it finds the archive in."""
        return {"hash": self.hash, "bytes": len(self.data), "parts": list(parts), "told": self.summary}

    def parts(self, most: int) -> list[bytes]:
        """The archive in pieces of at most so many bytes."""
        return [self.data[at : at + most] for at in range(0, len(self.data), most)]


class Entry(Record):
    """One thing in the folder; `name` begins there."""

    name: str
    path: str
    kind: str  # file, folder, link
    mode: int = 0o777
    size: int = 0
    target: str = ""  # of a link


def packed(code: Code, limit: int = LIMIT) -> Packed:
    """The code that a job names: a folder, or a repository, which is cloned for this."""
    if code.git is None:
        return pack(code.path or ".", limit)
    import tempfile

    from hora.places.clone import clone

    with tempfile.TemporaryDirectory(prefix="hora-code-") as place:
        return pack(clone(code, os.path.join(place, "code")), limit)


def fresh(run: str, folder: str | None) -> Packed:
    """For `hora sync` on places that ship code: from `folder`, or from where the run's code was taken."""
    from hora.places import elsewhere
    from hora.spec import Code

    code = Code(path=folder) if folder is not None else elsewhere.code_of(run)
    if code is None:
        raise UsageError(
            f"sync: where the code of run {run} came from is not known on this computer: name its folder by --code"
        )
    return packed(code)


def pack(folder: str, limit: int = LIMIT) -> Packed:
    """UsageError, in one sentence, for what can't be shipped."""
    top = os.path.realpath(folder)
    walk = _Walk(top)
    walk.run()
    walk.refuse()
    total = sum(entry.size for entry in walk.entries)
    if total > limit * MOST_UNPACKED:
        raise _too_large(folder, walk.entries, limit)
    archive = _Archive(limit)
    for entry in walk.entries:
        try:
            archive.add(entry)
        except OSError as problem:
            raise _unreadable(folder, [f"{entry.name} ({problem.strerror})"]) from None
        if archive.too_large:
            raise _too_large(folder, walk.entries, limit)
    data = archive.end()
    if archive.too_large:
        raise _too_large(folder, walk.entries, limit)
    files = sum(entry.kind != "folder" for entry in walk.entries)
    return Packed(archive.hash, data, files, tuple(walk.notes))


# --- looking -----------------------------------------------------------------------------------------


class _Walk:
    """Everything in a folder that is not left out, in order."""

    def __init__(self, top: str) -> None:
        self.top = top
        self.entries: list[Entry] = []
        self._unreadable: list[str] = []
        self._leaving: list[str] = []  # links
        self._special: list[str] = []

    def run(self) -> None:
        self._folder(self.top, "", ignoring.from_above(self.top))

    def refuse(self) -> None:
        if self._unreadable:
            raise _unreadable(self.top, self._unreadable)
        if self._leaving:
            raise UsageError(
                f"code: symbolic links lead out of {self.top}: {_some(self._leaving)}; what they point to is not "
                "on the hosts: put it into the folder or on a volume, or name the links in .horaignore"
            )

    @property
    def notes(self) -> list[str]:
        found = []
        if self._special:
            what = (
                "is no file, folder or link" if len(self._special) == 1 else "are no files, folders or links"
            )
            found.append(f"code: left out {_some(self._special)}, which {what}")
        if not self.entries:
            found.append(f"code: {self.top} is empty, or .gitignore and .horaignore leave nothing of it")
        return found

    def _folder(self, place: str, path: str, rules: ignoring.Rules) -> None:
        try:
            with os.scandir(place) as listing:
                found = sorted(listing, key=lambda entry: os.fsencode(entry.name))
        except OSError as problem:
            self._unreadable.append(f"{path.rstrip('/') or place} ({problem.strerror})")
            return
        rules = rules.within(place, path, {entry.name for entry in found})
        for entry in found:
            name = path + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if rules.leave_out(name, is_folder):
                continue
            if is_folder:
                mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
                self.entries.append(Entry(name, entry.path, "folder", mode))
                self._folder(entry.path, f"{name}/", rules)
            else:
                self._other(entry, name)

    def _other(self, entry: os.DirEntry[str], name: str) -> None:
        if entry.is_symlink():
            target = _link(entry.path, self.top)
            if target is None:
                self._leaving.append(f"{name} -> {os.readlink(entry.path)}")
            else:
                self.entries.append(Entry(name, entry.path, "link", target=target))
        elif entry.is_file(follow_symlinks=False):
            about = entry.stat(follow_symlinks=False)
            mode = stat.S_IMODE(about.st_mode)
            self.entries.append(Entry(name, entry.path, "file", mode, about.st_size))
        else:
            self._special.append(name)


def _link(path: str, top: str) -> str | None:
    """Where a link points to, from where it is; None when that is not in the folder."""
    target = os.readlink(path)
    here = os.path.dirname(path)
    real = os.path.realpath(path)
    if not _is_in(real, top):
        return None
    if os.path.isabs(target) or not _is_in(os.path.normpath(os.path.join(here, target)), top):
        return os.path.relpath(real, here)  # by a way that is only here
    return target


def _is_in(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


# --- packing -----------------------------------------------------------------------------------------


class _Archive:
    """A tar in a gzip.  The hash is the tar's: another zlib may pack the same otherwise."""

    def __init__(self, limit: int) -> None:
        import gzip
        import hashlib
        import io

        self._limit = limit
        self._buffer = io.BytesIO()
        self._packed = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=self._buffer, mtime=0)
        self._digest = hashlib.sha256()

    @property
    def too_large(self) -> bool:
        return self._buffer.tell() > self._limit

    @property
    def hash(self) -> str:
        return self._digest.hexdigest()[:HASH]

    def add(self, entry: Entry) -> None:
        import tarfile

        about = tarfile.TarInfo(entry.name)
        about.mtime = WHEN
        about.mode = entry.mode & 0o777
        if entry.kind == "folder":
            about.type = tarfile.DIRTYPE
            self._write(_head(about))
        elif entry.kind == "link":
            about.type, about.linkname = tarfile.SYMTYPE, entry.target
            self._write(_head(about))
        else:
            with open(entry.path, "rb") as file:
                about.size = os.fstat(file.fileno()).st_size
                self._write(_head(about))
                for piece in _pieces(file.fileno(), about.size, entry.path):
                    self._write(piece)
                    if self.too_large:
                        return
            self._write(b"\0" * (-about.size % tarfile.BLOCKSIZE))

    def end(self) -> bytes:
        self._write(b"\0" * 1024)
        self._packed.close()
        return self._buffer.getvalue()

    def _write(self, data: bytes) -> None:
        self._digest.update(data)
        self._packed.write(data)


def _head(about: object) -> bytes:
    import tarfile

    assert isinstance(about, tarfile.TarInfo)
    return about.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _pieces(fd: int, size: int, path: str) -> Iterator[bytes]:
    while size:
        piece = os.read(fd, min(size, CHUNK))
        if not piece:
            raise PlaceError(f"code: {path} became shorter while it was read: try again")
        size -= len(piece)
        yield piece


# --- words -------------------------------------------------------------------------------------------


def size_of(count: int) -> str:
    """34 KiB, 1.5 MiB."""
    if count < 1024:
        return f"{count} bytes"
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if count >= factor:
            return f"{count / factor:.1f}".replace(".0", "") + f" {unit}"
    return f"{count / 1024:.0f} KiB"


def _too_large(folder: str, entries: Sequence[Entry], limit: int) -> UsageError:
    total = sum(entry.size for entry in entries)
    files = sum(entry.kind == "file" for entry in entries)
    named = ", ".join(f"{name} ({size_of(size)})" for name, size in largest(entries))
    return UsageError(
        f"code: {folder} is too large to be shipped: {size_of(total)} in {files} files, and {size_of(limit)} fit "
        f"once packed. The largest: {named}. What helps: {WAYS_OUT}"
    )


def largest(entries: Sequence[Entry], most: int = NAMED) -> list[tuple[str, int]]:
    """Files and folders; a folder that is mostly one thing stands back for it."""
    sizes: dict[str, int] = {}
    below: dict[str, set[str]] = {}
    for entry in entries:
        if entry.kind == "file":
            name = entry.name
            sizes[name] = entry.size
            while name:
                parent = name.rstrip("/").rpartition("/")[0]
                parent = f"{parent}/" if parent else ""
                below.setdefault(parent, set()).add(name)
                sizes[parent] = sizes.get(parent, 0) + entry.size
                name = parent
    found = [_narrowed(name, sizes, below) for name in below.get("", ())]
    return sorted(((name, sizes[name]) for name in found), key=lambda item: (-item[1], item[0]))[:most]


def _narrowed(name: str, sizes: dict[str, int], below: dict[str, set[str]]) -> str:
    while name in below:
        first = max(below[name], key=lambda child: (sizes[child], child))
        if sizes[first] < 0.8 * sizes[name]:
            break
        name = first
    return name


def _unreadable(folder: str, names: Sequence[str]) -> UsageError:
    return UsageError(
        f"code: not all of {folder} can be read: {_some(names)}; make it readable, or name it in .horaignore"
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
