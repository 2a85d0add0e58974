"""The sitecustomize that the agent puts before all others, under every Python that is here."""

from __future__ import annotations

import glob
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from hora.agent import hook

PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
PYTHONS = sorted(
    {sys.executable, *map(str, PYENV.glob("versions/*/bin/python")), *glob.glob("/usr/bin/python3.*[0-9]")}
)
COUNT_FILES = (
    "import os; links = ['/proc/self/fd/%d' % n for n in range(3, 20)];"
    "print(sum('/stacks/' in os.readlink(link) for link in links if os.path.islink(link)))"
)
OWN = Path(hook.__file__).parent / "hooks" / "sitecustomize.py"


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    hook.install(str(tmp_path))
    return tmp_path


def run(
    python: str, code: str, folder: Path, options: Sequence[str] = (), **env: str
) -> subprocess.CompletedProcess[str]:
    base = {"PATH": os.environ["PATH"], **env}
    full = {**base, **hook.environment(str(folder), base)}
    return subprocess.run(
        [python, *options, "-c", code], env=full, capture_output=True, text=True, timeout=60, check=False
    )


def ok(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("python", PYTHONS)
def test_every_python_starts_and_those_with_faulthandler_catch_the_signal(
    python: str, prepared: Path
) -> None:
    code = (
        "import sys\n"
        "line = [l for l in open('/proc/self/status') if l.startswith('SigCgt')][0]\n"
        f"caught = int(line.split()[1], 16) >> {hook.SIGNAL - 1} & 1\n"
        "print('%d %d' % (sys.version_info >= (3, 3), caught))"
    )
    expected, caught = ok(run(python, code, prepared)).split()
    assert caught == expected


@pytest.mark.parametrize("python", PYTHONS)
def test_the_next_sitecustomize_runs_exactly_once_and_is_the_one_in_sys_modules(
    python: str, prepared: Path, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.mkdir()
    (users / "sitecustomize.py").write_text("print('once')\nmark = 'users'\n")
    code = (
        "import sys, sitecustomize\n"
        "print('%s %s' % (sitecustomize.mark, any('hooks' in p for p in sys.path)))"
    )
    assert ok(run(python, code, prepared, PYTHONPATH=str(users))).split() == ["once", "users", "False"]


@pytest.mark.parametrize("python", PYTHONS)
def test_without_another_sitecustomize_importing_it_fails_as_ever(python: str, prepared: Path) -> None:
    code = "try:\n import sitecustomize; print('there')\nexcept ImportError: print('none')"
    plain = subprocess.run(
        [python, "-c", code], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True
    )
    assert ok(run(python, code, prepared)) == plain.stdout


@pytest.mark.parametrize("python", [p for p in PYTHONS if "2.7" not in p])
@pytest.mark.parametrize("text", ["1/0", "import nothing_of_that_name", "def broken(:"])
def test_errors_of_the_next_sitecustomize_show_as_without_ours(
    python: str, text: str, prepared: Path, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.mkdir()
    (users / "sitecustomize.py").write_text(text + "\n")
    with_ours = run(python, "print('on')", prepared, PYTHONPATH=str(users))
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(users)}
    plain = subprocess.run([python, "-c", "print('on')"], env=env, capture_output=True, text=True)
    assert with_ours.returncode == plain.returncode
    assert with_ours.stdout == plain.stdout
    assert with_ours.stderr.splitlines()[-1:] == plain.stderr.splitlines()[-1:]


@pytest.mark.parametrize("options", [["-I"], ["-E"], ["-S"], ["-s"], ["-B"], ["-O"]])
def test_interpreter_options_don_t_matter(options: list[str], prepared: Path) -> None:
    assert ok(run(sys.executable, "print('on')", prepared, options)) == "on\n"


def test_a_folder_that_is_gone_or_not_writable_breaks_nothing(prepared: Path) -> None:
    os.rmdir(hook.stack_folder(str(prepared)))
    assert ok(run(sys.executable, "print('on')", prepared)) == "on\n"
    Path(hook.stack_folder(str(prepared))).write_text("a file in its place")
    assert ok(run(sys.executable, "print('on')", prepared)) == "on\n"


@pytest.mark.parametrize("number", ["", "0", "-3", "abc", "9", "4000"])
def test_a_senseless_signal_number_breaks_nothing(number: str, prepared: Path) -> None:
    env = {**os.environ, **hook.environment(str(prepared), {}), "HORA_STACK_SIGNAL": number}
    done = subprocess.run([sys.executable, "-c", "print('on')"], env=env, capture_output=True, text=True)
    assert ok(done) == "on\n"


def test_nothing_stays_in_the_folder(prepared: Path) -> None:
    ok(run(sys.executable, "import os; os._exit(0)", prepared))
    assert os.listdir(hook.stack_folder(str(prepared))) == []


def test_closed_standard_streams_are_not_taken_for_the_file(prepared: Path) -> None:
    code = "import os; print([n for n in (0, 2) if os.path.exists('/proc/self/fd/%d' % n)])"
    env = {**os.environ, **hook.environment(str(prepared), {})}
    command = f'exec "{sys.executable}" -c "{code}" <&- 2>&-'
    done = subprocess.run(["sh", "-c", command], env=env, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "[]\n"


def test_children_get_neither_the_file_nor_lose_their_own_hook(prepared: Path) -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {COUNT_FILES!r}], close_fds=False)"
    assert ok(run(sys.executable, code, prepared)) == "1\n"


def test_a_second_copy_of_the_hook_registers_nothing_again(prepared: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    hook.install(str(outer))
    done = run(sys.executable, COUNT_FILES, prepared, PYTHONPATH=str(outer / "hooks"))
    assert ok(done) == "1\n"


def test_an_existing_handler_in_c_is_chained(prepared: Path, tmp_path: Path) -> None:
    source = tmp_path / "before.c"
    source.write_text(
        "#include <signal.h>\n#include <unistd.h>\n"
        'static void seen(int n) { (void)n; if (write(1, "seen\\n", 5)) {} }\n'
        f"__attribute__((constructor)) static void init(void) {{ signal({hook.SIGNAL}, seen); }}\n"
    )
    library = tmp_path / "before.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    code = f"import os; os.kill(os.getpid(), {hook.SIGNAL}); os.write(1, b'on\\n')"
    assert ok(run(sys.executable, code, prepared, LD_PRELOAD=str(library))) == "seen\non\n"


def test_it_costs_less_than_two_milliseconds(prepared: Path) -> None:
    code = (
        "import time, sys\n"
        f"source = open({str(OWN)!r}).read().replace('import sitecustomize', '')\n"
        "compiled = compile(source, 'sitecustomize.py', 'exec')\n"
        f"begun = time.perf_counter(); exec(compiled, {{'__file__': {str(OWN)!r}}})\n"
        "print(time.perf_counter() - begun)"
    )
    env = {**os.environ, **hook.environment(str(prepared), {}), "PYTHONPATH": ""}
    times = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        times.append(float(done.stdout))
        time.sleep(0.01)
    assert min(times) < 0.002


def test_installed_out_of_a_zip_it_is_the_same(tmp_path: Path) -> None:
    import zipfile

    archive = tmp_path / "agent.pyz"
    root = Path(hook.__file__).parents[2]
    with zipfile.ZipFile(archive, "w") as target:
        for name in ("hora/__init__.py", "hora/agent/__init__.py", "hora/agent/hook.py"):
            target.writestr(name, "" if name.endswith("__init__.py") else (root / name).read_text())
        target.write(OWN, "hora/agent/hooks/sitecustomize.py")
    code = "import sys; from hora.agent import hook; hook.install(sys.argv[1])"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": "agent.pyz"}
    subprocess.run([sys.executable, "-S", "-c", code, str(tmp_path / "x")], env=env, cwd=tmp_path, check=True)
    assert (tmp_path / "x" / "hooks" / "sitecustomize.py").read_bytes() == OWN.read_bytes()


PRINT_TWICE = "import sys; print('a'); print('b', file=sys.stderr); sys.stdout.write('c'); sys.stdout.flush(); os._exit(0)"


@pytest.mark.parametrize("flags", [(), ("-u",)], ids=["by environment", "by flag"])
def test_unbuffered_means_whole_lines_at_once(flags: tuple[str, ...], prepared: Path) -> None:
    env = {
        **os.environ,
        **hook.environment(str(prepared), os.environ),
        "PYTHONUNBUFFERED": "" if flags else "1",
    }
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # keeps writes apart
    with ours, theirs:
        command = [sys.executable, *flags, "-c", f"import os; {PRINT_TWICE}"]
        subprocess.run(command, env=env, stdout=theirs, stderr=theirs, check=True)
        theirs.shutdown(socket.SHUT_WR)
        assert list(iter(lambda: ours.recv(100), b"")) == [b"a\n", b"b\n", b"c"]


def test_a_process_without_standard_streams_starts_all_the_same(prepared: Path) -> None:
    env = {**os.environ, **hook.environment(str(prepared), os.environ), "PYTHONUNBUFFERED": "1"}
    shell = f"exec {sys.executable} -c 'import sys; sys.exit(7 if sys.stdout is None else 8)' >&- 2>&-"
    assert subprocess.run(["sh", "-c", shell], env=env, check=False).returncode == 7
