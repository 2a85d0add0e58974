"""Files and folders as a stream, and back: `hora cp`, on both of its sides.

The stream is frames: `entry` for each file, folder or link, `data` for what is in a file, `end` when all has
come.  Who receives believes nothing: every name is one step below a folder that it made or found itself, and what
is not whole yet has another name.  Permissions and times are kept; links stay links.
"""

from __future__ import annotations

import os
import signal
import stat
import sys

from hora.agent import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any, Dict, Iterator, List, Optional, Tuple

CHUNK = 256 << 10
FILE, FOLDER, LINK = "file", "folder", "link"


class CopyError(Exception):
    """One sentence: what can't be copied, and why."""


# --- giving ------------------------------------------------------------------------------------------


def pieces(path: str) -> Iterator[bytes]:
    """The stream of a file or a folder; CopyError in the middle of it, where that can't be read."""
    count = {"files": 0, "bytes": 0}
    try:
        top = os.stat(path)  # a link that is named itself is followed
        if stat.S_ISDIR(top.st_mode):
            yield _entry("", FOLDER, top)
            yield from _below(path, "", count)
        elif stat.S_ISREG(top.st_mode):
            yield from _file(path, "", count)
        else:
            raise CopyError(f"{path} is neither file nor folder")
    except OSError as problem:
        raise CopyError(f"{_named(problem, path)}: {problem.strerror}") from None
    yield frames.encode({"t": "end", **count})


def _named(problem: OSError, path: str) -> str:
    return os.fsdecode(problem.filename) if problem.filename is not None else path


def _below(folder: str, name: str, count: Dict[str, int]) -> Iterator[bytes]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        below = f"{name}/{entry.name}" if name else entry.name
        about = entry.stat(follow_symlinks=False)
        if entry.is_symlink():
            count["files"] += 1
            yield _entry(below, LINK, about, target=os.readlink(entry.path))
        elif entry.is_dir(follow_symlinks=False):
            yield _entry(below, FOLDER, about)
            yield from _below(entry.path, below, count)
        elif stat.S_ISREG(about.st_mode):
            yield from _file(entry.path, below, count)
        else:
            yield frames.encode({"t": "note", "text": f"left out {below}, which is no file, folder or link"})


def _file(path: str, name: str, count: Dict[str, int]) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        about = os.fstat(file.fileno())
        left = about.st_size
        count["files"] += 1
        count["bytes"] += left
        yield _entry(name, FILE, about, size=left)
        while left:
            data = file.read(min(left, CHUNK))
            if not data:
                raise CopyError(f"{path} became shorter while it was read: try again")
            left -= len(data)
            yield frames.encode({"t": "data"}, data)


def _entry(name: str, kind: str, about: os.stat_result, **more: Any) -> bytes:
    head = {"t": "entry", "name": name, "kind": kind, "mode": stat.S_IMODE(about.st_mode) & 0o777}
    return frames.encode({**head, "mtime": about.st_mtime_ns, **more})


# --- taking ------------------------------------------------------------------------------------------


class Taker:
    """Makes of a stream what `cp -r` would make at `target`; `base` is the last part of the source's name."""

    def __init__(self, target: str, base: str) -> None:
        self.files = self.bytes = 0
        self.notes: List[str] = []
        self.whole = False
        self._target = target
        self._base = base
        self._top = ""  # the path of what is made
        self._fresh = ""  # where a new folder grows until it is whole
        self._folders: Dict[str, str] = {}  # path of each that the stream has named
        self._ended: List[Tuple[str, int, int]] = []  # folders: their modes and times come last
        self._file: Optional[IO[bytes]] = None
        self._path = ""  # of the file under way, and its name until it is whole
        self._part = ""
        self._about: Dict[str, Any] = {}
        self._left = 0

    def frame(self, header: frames.Header, body: bytes) -> None:
        """CopyError, after which `drop` removes what is not whole."""
        kind = header["t"]
        try:
            if kind == "entry":
                self._entry(header)
            elif kind == "data":
                self._data(body)
            elif kind == "note":
                self.notes.append(str(header["text"]))
            elif kind == "end":
                self._end(header)
            else:
                raise CopyError(str(header.get("text") or f"the other side said {kind!r}"))
        except OSError as problem:
            raise CopyError(f"{_named(problem, self._path or self._target)}: {problem.strerror}") from None
        except (KeyError, TypeError, ValueError) as problem:
            raise CopyError(f"the other side said what makes no sense: {problem!r}") from None

    # --- one thing ---

    def _entry(self, header: frames.Header) -> None:
        if self._file is not None or self.whole:
            raise CopyError("the other side began a file in the middle of another")
        name, kind = header["name"], header["kind"]
        if kind not in (FILE, FOLDER, LINK) or (not name) is bool(self._top) or (kind == LINK and not name):
            raise CopyError(f"the other side sent {name!r} where it can't be")
        path = self._path_of(name) if name else self._begin(kind)
        if kind == FOLDER:
            self._make_folder(name, path, header)
        elif kind == LINK:
            self._make_link(path, header)
        else:
            self._open(path, header)

    def _path_of(self, name: str) -> str:
        parent, _, last = name.rpartition("/")
        if parent not in self._folders or last in ("", ".", "..") or "\0" in last:
            raise CopyError(f"the other side sent a name that leads elsewhere: {name!r}")
        return os.path.join(self._folders[parent], last)

    def _begin(self, kind: str) -> str:
        """The path of what is copied, by the rules of cp."""
        target, base = self._target, self._base
        path = target
        if os.path.isdir(target):
            merges = kind == FOLDER and base in ("", ".", "..")
            path = target if merges else os.path.join(target, base)
        elif target.endswith("/") and kind != FOLDER:
            raise CopyError(f"{target} is no folder")
        path = path.rstrip("/") or "/"
        if kind == FILE:
            path = os.path.realpath(path)  # what a link points to is written, as cp does
            if os.path.isdir(path):
                raise CopyError(f"{path} is a folder, and what would take its place is a file")
        parent = os.path.dirname(path) or "."
        if not os.path.isdir(parent):
            raise CopyError(f"there is no folder {parent}: make it first")
        if kind == FOLDER and not os.path.lexists(path):
            self._fresh = os.path.join(parent, _part_name(os.path.basename(path)))
        elif kind == FOLDER and not os.path.isdir(path):
            raise CopyError(f"{path} is a file, and what would take its place is a folder")
        self._top = path
        return self._fresh or path

    def _make_folder(self, name: str, path: str, header: frames.Header) -> None:
        mode, mtime = int(header["mode"]), int(header["mtime"])
        if os.path.lexists(path):
            if name and not stat.S_ISDIR(os.lstat(path).st_mode):
                raise CopyError(f"{path} is no folder, and what would take its place is one")
        else:
            os.mkdir(path, 0o700)
            self._ended.append((path, mode, mtime))
        self._folders[name] = path

    def _make_link(self, path: str, header: frames.Header) -> None:
        part = os.path.join(os.path.dirname(path), _part_name(os.path.basename(path)))
        os.symlink(header["target"], part)
        self._part = part
        if os.utime in os.supports_follow_symlinks:
            os.utime(part, ns=(int(header["mtime"]),) * 2, follow_symlinks=False)
        os.replace(part, path)
        self._part = ""
        self.files += 1

    def _open(self, path: str, header: frames.Header) -> None:
        self._path, self._about, self._left = path, header, int(header["size"])
        part = os.path.join(os.path.dirname(path), _part_name(os.path.basename(path)))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.fdopen(os.open(part, flags, 0o600), "wb", buffering=0)
        self._part = part
        if not self._left:
            self._close()

    def _data(self, body: bytes) -> None:
        if self._file is None or len(body) > self._left:
            raise CopyError("the other side sent more than there should be")
        view = memoryview(body)
        while view:
            view = view[self._file.write(view) or 0 :]
        self._left -= len(body)
        self.bytes += len(body)
        if not self._left:
            self._close()

    def _close(self) -> None:
        assert self._file is not None
        os.fchmod(self._file.fileno(), int(self._about["mode"]) & 0o777)
        self._file.close()
        self._file = None
        os.utime(self._part, ns=(int(self._about["mtime"]),) * 2)
        os.replace(self._part, self._path)
        self._part = ""
        self.files += 1

    # --- the end ---

    def _end(self, header: frames.Header) -> None:
        if self._file is not None or not self._top or self.files != header["files"]:
            raise CopyError("the other side ended before all had come")
        for path, mode, mtime in reversed(self._ended):
            os.chmod(path, mode & 0o777)
            os.utime(path, ns=(mtime, mtime))
        if self._fresh:
            os.rename(self._fresh, self._top)
            self._fresh = ""
        self.whole = True

    def drop(self) -> None:
        """What is not whole goes; files that were whole in a folder that was there before stay."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._part:
            try:
                os.unlink(self._part)
            except OSError:
                pass
        if self._fresh:
            import shutil

            shutil.rmtree(self._fresh, ignore_errors=True)
        self._part = self._fresh = ""


def _part_name(name: str) -> str:
    """Of what is not whole: seen as such by whoever finds it, and never too long."""
    short = os.fsdecode(os.fsencode(name)[:200])
    return f".{short}.hora-{os.urandom(4).hex()}"


# --- beside a rank: a child of the agent, with pipes to the client ------------------------------------


class _Left(BaseException):
    """The client has gone."""


def _leave(_number: int, _frame: object) -> None:
    raise _Left


def give(path: str) -> int:
    _hear_who_leaves()
    try:
        for piece in pieces(path):
            _say(piece)
    except CopyError as problem:
        _say(frames.encode({"t": "problem", "text": str(problem)}))
        return 1
    except (_Left, BrokenPipeError):
        return 1
    return 0


def take(path: str, base: str) -> int:
    _hear_who_leaves()
    taker, decoder = Taker(path, base), frames.Decoder()
    try:
        while not taker.whole:
            data = os.read(0, CHUNK)
            if not data:
                raise CopyError("the other side went before all had come")
            for header, body in decoder.feed(data):
                taker.frame(header, body)
        done = {"t": "done", "files": taker.files, "bytes": taker.bytes, "notes": taker.notes}
        _say(frames.encode(done))
    except (CopyError, frames.FrameError) as problem:
        taker.drop()
        _say(frames.encode({"t": "problem", "text": str(problem)}))
        return 1
    except BaseException as problem:  # noqa: BLE001 - whatever it is, nothing half may stay
        taker.drop()
        if not isinstance(problem, (_Left, BrokenPipeError)):
            print(f"hora: {problem!r}", file=sys.stderr, flush=True)
        return 1
    return 0


def _hear_who_leaves() -> None:
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, _leave)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # told as an error


def _say(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]
