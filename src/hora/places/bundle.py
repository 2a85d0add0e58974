"""The agent as one file: a `.pyz` that runs on any Python from 3.8 on.

Compiled for the caller's own Python, too: where a host has the same version, which is the common case, it
starts in a fifth of the time.  Other versions compile the sources that lie beside.
"""

from __future__ import annotations

import io
import os
import sys
import zipfile
import zlib

from hora import agent as agent_package
from hora.agent.lead.documents import write_atomically

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# What travels besides `hora.agent`; the import contracts hold the agent to it.
MODULES = ("plan", "record", "scene", "starts", "state", "symbols")
OLDEST = (3, 8)
_WHEN = (1980, 1, 1, 0, 0, 0)  # the same sources give the same bytes

_PACKAGE = b'"""Hora, as far as it travels to hosts."""\n'
# Also read by Pythons that are too old for the rest, so that they can say so.
_MAIN = f"""\
import sys
if sys.version_info < {OLDEST}:
    sys.stderr.write("hora: Python {OLDEST[0]}.{OLDEST[1]} or newer is needed; this is %d.%d\\n" % sys.version_info[:2])
    sys.exit(127)
from hora.agent.__main__ import main
sys.exit(main(sys.argv[1:]))
""".encode()


def agent() -> bytes:
    """The file, compressed as a whole: as it travels, and as it is handed out (see agent/boot.py).

    Kept in the user's cache folder, since compiling takes longer than submitting.
    """
    sources = list(_files())
    path = os.path.join(_cache_folder(), f"agent-{_stamp(sources)}.z")
    try:
        return _read(path)
    except OSError:
        pass
    made = zlib.compress(build(), 9)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_atomically(path, made)
    except OSError:
        pass  # then it is made again the next time
    return made


def _cache_folder() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "hora", "agent")


def _stamp(sources: list[tuple[str, str]]) -> str:
    """Differs when any source does, or the Python that compiles them."""
    found = [f"{sys.implementation.cache_tag} {sys.hexversion}"]
    for name, path in sources:
        about = os.stat(path)
        found.append(f"{name} {about.st_size} {about.st_mtime_ns}")
    return f"{zlib.crc32(chr(10).join(found).encode()):08x}"


def build(compiled: bool = True) -> bytes:
    """The file's bytes, made anew."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "__main__.py", _MAIN)
        for name, source in _sources():
            _add(archive, name, source)
            if compiled and "/hooks/" not in name:
                _add(archive, name + "c", _code(name, source))
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _WHEN), data)


def _sources() -> Iterator[tuple[str, bytes]]:
    yield "hora/__init__.py", _PACKAGE
    for name, path in _files():
        yield name, _read(path)


def _files() -> Iterator[tuple[str, str]]:
    """(name in the file, path) of what travels, by name."""
    top = os.path.dirname(os.path.dirname(os.path.abspath(agent_package.__file__)))
    found = [(f"hora/{name}.py", os.path.join(top, f"{name}.py")) for name in MODULES]
    for folder, below, files in os.walk(os.path.join(top, "agent")):
        below[:] = [name for name in below if name != "__pycache__"]
        for file in files:
            if file.endswith(".py"):
                path = os.path.join(folder, file)
                found.append((f"hora/{os.path.relpath(path, top).replace(os.sep, '/')}", path))
    yield from sorted(found)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _code(name: str, source: bytes) -> bytes:
    """As a .pyc whose source nobody looks at again."""
    import importlib.util
    import marshal

    code = compile(source, name, "exec", dont_inherit=True)
    unchecked = (0b01).to_bytes(4, "little")
    return importlib.util.MAGIC_NUMBER + unchecked + importlib.util.source_hash(source) + marshal.dumps(code)
