"""Every test has a home of its own; suites that start processes must leave none behind."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from helpers import leftovers
from helpers.cli import COMMAND, Cli
from helpers.hostile import FOLDERS, HOSTILE
from helpers.terminal import Terminal

TESTS = Path(__file__).resolve().parent
REPO = TESTS.parent
LEAK_SUITES = ("conformance", "faults")  # elsewhere: @pytest.mark.leaks

settings.register_profile("fuzz", max_examples=2000, deadline=None, print_blob=True)  # for scripts/fuzz


def pytest_configure() -> None:
    """In the background of a shell, or under nohup, these are ignored, and whatever a test starts inherits that."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)  # still without effect here, the default in processes


@pytest.fixture(scope="session", autouse=True)
def _tmp_path_outlives_homes(tmp_path_factory: pytest.TempPathFactory) -> None:
    """pytest makes its folder on first use: that must not be under the TMPDIR of one test's home."""
    tmp_path_factory.getbasetemp()


@pytest.fixture(autouse=True)
def test_id(monkeypatch: pytest.MonkeyPatch) -> str:
    """Marks every process that the test starts, by its environment."""
    name = uuid.uuid4().hex
    monkeypatch.setenv(leftovers.VARIABLE, name)
    return name


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, test_id: str) -> Iterator[Path]:
    """A home, state, cache and temporary folder for this test alone.

    Short, since the path of a Unix socket has at most 108 bytes (macOS: 104), and pytest's tmp_path is long.
    """
    root = Path(tempfile.mkdtemp(prefix="h-", dir="/tmp")).resolve()
    for name in list(os.environ):
        if (
            name.startswith(("HORA_", "OMPI_", "PMI", "PRTE_", "TORCHELASTIC_"))
            and name != leftovers.VARIABLE
        ):
            monkeypatch.delenv(name)
    folders = {
        "HOME": "home",
        "XDG_STATE_HOME": "state",
        "XDG_CACHE_HOME": "cache",
        "XDG_CONFIG_HOME": "config",
        "XDG_DATA_HOME": "data",
        "XDG_RUNTIME_DIR": "run",
        "TMPDIR": "tmp",
    }
    for variable, name in folders.items():
        (root / name).mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(root / name))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PYTHONSTARTUP"):
        monkeypatch.delenv(name, raising=False)
    source = str(REPO / "src")  # so that `-m hora` is this checkout, whatever is installed
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
    )
    yield root / "home"
    shutil.rmtree(root, onerror=_make_writable)


def _make_writable(action: Callable[..., Any], path: str, _info: object) -> None:
    """Tests take rights away from folders; give them back to remove them."""
    try:
        os.chmod(os.path.dirname(path), 0o700)
        os.chmod(path, 0o700)
        action(path)
    except OSError:
        pass  # a stray folder under /tmp is no reason to fail


@pytest.fixture(autouse=True)
def leaks(request: pytest.FixtureRequest, home: Path, test_id: str) -> Iterator[None]:
    """Fails the test if one of its processes is left 10 s after its end; ends those in any case."""
    yield
    suite = request.path.relative_to(TESTS).parts[0]
    watched = suite in LEAK_SUITES or request.node.get_closest_marker("leaks") is not None
    left = leftovers.wait_gone(test_id, timeout=10.0) if watched else []
    leftovers.kill(test_id)
    if left:
        pytest.fail("left behind 10 s after the test:\n" + "\n".join(map(str, left)), pytrace=False)


@pytest.fixture
def work(home: Path) -> Path:
    """An empty folder with a short path, to work in."""
    folder = home.parent / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def hora(leaks: None, work: Path) -> Iterator[Cli]:
    """The command line: `hora("run", "-n", "2", "true").check()`; runs in the folder `work`."""
    cli = Cli(work)
    yield cli
    cli.close()


@pytest.fixture
def pty_run(leaks: None, work: Path) -> Iterator[Callable[..., Terminal]]:
    """The command line on a real terminal: `pty_run("run", "-n", "2", "cat", rows=24, columns=80)`."""
    opened: list[Terminal] = []

    def run(*args: str | Path, **options: Any) -> Terminal:
        terminal = Terminal([*COMMAND, *map(str, args)], **{"cwd": work, **options})
        opened.append(terminal)
        return terminal

    yield run
    for terminal in opened:
        terminal.close()


@pytest.fixture(params=list(HOSTILE.values()), ids=list(HOSTILE))
def hostile_name(request: pytest.FixtureRequest) -> str:
    """Every hostile text in turn, as an argument or a value."""
    return str(request.param)


@pytest.fixture
def hostile_names() -> dict[str, str]:
    """All hostile texts at once."""
    return dict(HOSTILE)


@pytest.fixture(params=list(FOLDERS.values()), ids=list(FOLDERS))
def hostile_folder(request: pytest.FixtureRequest, work: Path) -> Path:
    """An existing folder with a hostile name, each in turn."""
    folder = work / str(request.param)
    folder.mkdir()
    return folder
