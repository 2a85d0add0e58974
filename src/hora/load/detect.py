"""Which framework a command uses, found by reading: the command's first words, or its script's syntax tree.

Nothing is ever imported or run.  What can't be read (missing, huge, not Python) is plain, and that is said.
"""

from __future__ import annotations

import os
import re

from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

PLAIN = "plain"
MAX_SCRIPT = 2 * 1024 * 1024

# First words that are launchers themselves: such a command runs as its author wrote it.
LAUNCHERS = {
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "horovodrun"), "mpi"),
    **dict.fromkeys(("torchrun", "deepspeed"), "torch"),
}
_MODULES = {
    "torch.distributed.run": "torch",
    "torch.distributed.launch": "torch",
    "accelerate.commands.launch": "torch",
    "deepspeed": "torch",
    "mpi4py": "mpi",
    "mpi4py.run": "mpi",
}
# In order: with horovod beside torch the ranks meet by MPI; with jax beside torch, torch only loads the data.
_IMPORTS = (
    ("mpi", ("horovod", "mpi4py")),
    ("jax", ("jax", "flax")),
    ("torch", ("torch", "pytorch_lightning", "lightning", "accelerate", "deepspeed", "transformers")),
    ("tensorflow", ()),  # only tf.distribute makes TensorFlow distributed
    ("dask", ("dask", "distributed")),
)
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
_PREFIXES = ("env", "nice", "nohup", "time", "exec", "command")
_RUNNERS = ("uv", "poetry", "pipenv", "pdm", "rye")
_PYTHON = re.compile(r"(python|pypy)[0-9.]*\Z")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PYTHON_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


class Found(Record):
    framework: str
    why: str = ""  # empty where there is nothing to say
    read: bool = True  # False: a script that couldn't be read


class Script(Record):
    path: str = ""  # as the command names it
    module: str = ""  # instead of a path, after -m


def detect(command: tuple[str, ...], folder: str) -> Found:
    """The framework of a command that runs in a folder."""
    unread = Found(PLAIN)
    for words in simple_commands(command):
        found = _by_first_word(words)
        if found is None:
            script = script_of(words)
            found = _by_script(script, folder) if script else Found(PLAIN)
        if found.framework != PLAIN:
            return found
        if not found.read:
            unread = found
    return unread


def simple_commands(command: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The commands inside a command, without `env A=1`, `nice`, `sh -c '... && ...'` around them."""
    words = _without_prefixes(command)
    if not words:
        return
    is_shell = os.path.basename(words[0]) in _SHELLS
    flag = next((at for at, word in enumerate(words) if at and re.match(r"-[a-z]*c\Z", word)), None)
    if not is_shell or flag is None or flag + 1 >= len(words):
        yield words
        return
    import shlex

    lexer = shlex.shlex(words[flag + 1], posix=True, punctuation_chars=True)
    lexer.commenters = "#"
    part: list[str] = []
    try:
        for token in lexer:
            if token.strip("();<>|&") == "" and token:
                yield from _simple(part)
                part = []
            else:
                part.append(token)
    except ValueError:  # an open quote: the shell will say so
        return
    yield from _simple(part)


def _simple(part: list[str]) -> Iterator[tuple[str, ...]]:
    words = _without_prefixes(tuple(part))
    if words:
        yield words


def _without_prefixes(words: tuple[str, ...]) -> tuple[str, ...]:
    while words:
        first = os.path.basename(words[0])
        if _ASSIGNMENT.match(words[0]) and "/" not in words[0].split("=")[0]:
            words = words[1:]
        elif first in _RUNNERS and words[1:2] == ("run",):
            words = words[2:]
        elif first in _PREFIXES:
            words = words[1:]
            while words and words[0].startswith("-"):
                words = words[2:] if words[0] in ("-n", "-u") else words[1:]
        else:
            return words
    return words


def _by_first_word(words: tuple[str, ...]) -> Found | None:
    first = os.path.basename(words[0])
    if first in LAUNCHERS:
        return Found(LAUNCHERS[first], f"the command begins with {first}")
    if first == "accelerate" and words[1:2] == ("launch",):
        return Found("torch", "the command begins with accelerate launch")
    return None


def script_of(words: tuple[str, ...]) -> Script | None:
    """The Python script that a simple command runs; None where it runs none."""
    if not words:
        return None
    if words[0].endswith(".py"):
        return Script(path=words[0])
    if not _PYTHON.match(os.path.basename(words[0])):
        return None
    at = 1
    while at < len(words):
        word = words[at]
        if word == "-m" and at + 1 < len(words):
            return Script(module=words[at + 1])
        if word.startswith("-m") and not word.startswith("--") and len(word) > 2:
            return Script(module=word[2:])
        if word in ("-", "-c") or re.match(r"-[a-zA-Z]*c", word):
            return None
        if not word.startswith("-"):
            return Script(path=word)
        at += 2 if word in _PYTHON_OPTIONS_WITH_VALUE else 1
    return None


def _by_script(script: Script, folder: str) -> Found:
    if script.module in _MODULES:
        return Found(_MODULES[script.module], f"the command runs python -m {script.module}")
    path = _module_file(script.module, folder) if script.module else os.path.join(folder, script.path)
    if path is None:  # an installed package, like http.server
        return Found(PLAIN)
    if os.path.isdir(path):
        path = os.path.join(path, "__main__.py")
    name = os.path.relpath(path, folder) if script.module else script.path
    try:
        tree = _tree(path)
    except _Unreadable as error:
        return Found(PLAIN, f"{name} {error}", read=False)
    beside = folder if script.module else os.path.dirname(path)
    trees = [(name, tree), *_local_trees(tree, os.path.dirname(path), beside, os.path.dirname(name))]
    for each_name, each in trees:
        found = _by_imports(each, each_name)
        if found is not None:
            return found
    return Found(PLAIN)


class _Unreadable(Exception):
    pass


def _tree(path: str) -> ast.Module:
    import ast
    import warnings

    if not os.path.isfile(path):
        raise _Unreadable("isn't there to read")
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_SCRIPT + 1)
    except OSError as error:
        raise _Unreadable(f"can't be read ({error.strerror})") from None
    if len(text) > MAX_SCRIPT:
        raise _Unreadable(f"is larger than {MAX_SCRIPT // 2**20} MiB")
    try:
        with warnings.catch_warnings():  # about the user's code, which is not being run
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _Unreadable("isn't Python that this version can read") from None


def _imports(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    """Every imported module, however deep in the code: name, line, level of a relative import."""
    import ast

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, 0
        elif isinstance(node, ast.ImportFrom):
            if node.module:
                yield node.module, node.lineno, node.level
            if node.level or node.module:
                for alias in node.names:
                    yield (
                        f"{node.module}.{alias.name}" if node.module else alias.name,
                        node.lineno,
                        node.level,
                    )


def _by_imports(tree: ast.Module, name: str) -> Found | None:
    seen: dict[str, tuple[str, int]] = {}
    for module, line, level in sorted(_imports(tree), key=lambda each: each[1]):
        if not level:
            seen.setdefault(module.split(".")[0], (module, line))
    for framework, packages in _IMPORTS:
        if framework == "tensorflow":
            used = _distribute(tree) if "tensorflow" in seen else None
            if used is not None:
                return Found(framework, f"{name}:{used} uses tf.distribute")
        hits = sorted((seen[package][1], package) for package in packages if package in seen)
        if hits:
            return Found(framework, f"{name}:{hits[0][0]} imports {hits[0][1]}")
    return None


def _distribute(tree: ast.Module) -> int | None:
    import ast

    aliases = {"tensorflow"}
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases.update(
                alias.asname for alias in node.names if alias.name == "tensorflow" and alias.asname
            )
    for module, line, level in _imports(tree):
        if not level and module.startswith("tensorflow.") and ".distribute" in module:
            lines.append(line)
    for node in ast.walk(tree):
        is_use = (
            isinstance(node, ast.Attribute) and node.attr == "distribute" and isinstance(node.value, ast.Name)
        )
        if is_use and node.value.id in aliases:  # type: ignore[attr-defined]
            lines.append(node.lineno)  # type: ignore[attr-defined]
    return min(lines, default=None)


def _module_file(module: str, folder: str) -> str | None:
    """The file of a module that lies in a folder."""
    base = os.path.join(folder, *module.split("."))
    for path in (base + ".py", os.path.join(base, "__main__.py"), os.path.join(base, "__init__.py")):
        if "\0" not in path and os.path.isfile(path):
            return path
    return None


def _local_trees(tree: ast.Module, own: str, beside: str, shown: str) -> Iterator[tuple[str, ast.Module]]:
    """Modules that lie beside the script and that it imports: one level deep is where frameworks hide."""
    done = set()
    for module, _, level in sorted(_imports(tree), key=lambda each: each[1]):
        folder = os.path.normpath(os.path.join(own, *[".."] * (level - 1))) if level else beside
        path = _module_file(module, folder)
        if path is None or path in done:
            continue
        done.add(path)
        try:
            yield os.path.normpath(os.path.join(shown, os.path.relpath(path, own))), _tree(path)
        except _Unreadable:
            continue


def default_name(command: tuple[str, ...], folder: str) -> str:
    """Text to name a job after: its script, else its program, else the folder."""
    program = ""
    for words in simple_commands(command):
        program = program or os.path.basename(words[0])
        for start in range(len(words)):  # mpirun -n 4 python train.py: the script comes after the launcher
            script = script_of(words[start:])
            if script is not None:
                return script.module or os.path.splitext(os.path.basename(script.path))[0]
    if not program or program in _SHELLS or _PYTHON.match(program):
        return os.path.basename(os.path.abspath(folder)) or program
    return program
