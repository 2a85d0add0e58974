"""cp and open: files and ports beside the ranks of a run that lives."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import hora
from helpers.places import User
from helpers.reader import Reader
from hora.errors import PlaceError

SERVES = """
    import http.server, os, socketserver, sys, threading
    rank = os.environ["HORA_RANK"]
    open(f"of-rank-{rank}", "w").write(f"written by rank {rank}")

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"page of rank {rank} ".encode() * (200_000 if self.path == "/large" else 1))
        def do_POST(self):
            size = int(self.headers["Content-Length"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(str(len(self.rfile.read(size))).encode())
        def log_message(self, *words): pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    print("port", server.server_address[1], flush=True)
    server.serve_forever()
"""


@pytest.fixture
def run(user: User) -> Iterator[str]:
    """A run of two ranks, each with a file and a page of its own."""
    (user.hora.cwd / "ranks").mkdir()
    run = user.detached("--code", user.hora.cwd / "ranks", "-n", "2", *user.python(SERVES))
    user.written(run, "worker-0/0 | port")
    user.written(run, "worker-1/0 | port")
    yield run
    user("stop", "--kill", run)


def ports(user: User, run: str) -> list[str]:
    found = user("logs", run).check().ranks()
    return [found[f"worker-{rank}/0"][0].split()[1] for rank in range(2)]


# --- cp ---


def test_a_file_comes_from_beside_a_rank(user: User, run: str) -> None:
    done = user("cp", f"{run}:of-rank-0", ".").check()
    assert (user.hora.cwd / "of-rank-0").read_text() == "written by rank 0"
    assert "copied 1 file" in done.stderr
    user("cp", f"{run}:1:of-rank-1", "mine", "--quiet").check()
    assert (user.hora.cwd / "mine").read_text() == "written by rank 1"
    user("cp", "--rank", "worker-1/0", f"{run}:of-rank-1", "mine too").check()


def test_a_folder_goes_beside_a_rank_and_comes_back_as_it_was(
    user: User, run: str, hostile_names: dict[str, str]
) -> None:
    data = user.hora.cwd / "data"
    (data / "deep").mkdir(parents=True)
    (data / "deep" / "large").write_bytes(os.urandom(20_000_000))
    (data / "link").symlink_to("deep/large")
    for name in hostile_names.values():
        if "/" not in name and "\0" not in name and 0 < len(os.fsencode(name)) < 200:
            (data / name).write_text("x")
    (data / "deep" / "large").chmod(0o640)
    user("cp", "data/", f"{run}:1:there").check()
    listed = user("exec", run, "--rank", "1", "--", "ls", "-a", "there/deep").check().stdout
    assert listed.split() == [".", "..", "large"]
    user("cp", f"{run}:1:there", "back").check()
    done = subprocess.run(["diff", "-r", "--no-dereference", data, user.hora.cwd / "back"], check=False)
    assert done.returncode == 0
    large = (user.hora.cwd / "back" / "deep" / "large").stat()
    assert (large.st_mode & 0o777, large.st_mtime_ns) == (0o640, (data / "deep" / "large").stat().st_mtime_ns)


def test_what_cannot_be_copied_is_said_in_one_sentence(user: User, run: str) -> None:
    for words, code, said in (
        ((f"{run}:no-such", "."), 125, "No such file"),
        ((f"{run}:of-rank-0", "no/such/folder"), 125, "there is no folder"),
        (("no-such", f"{run}:x"), 125, "No such file"),
        ((".", f"{run}:no/such/x"), 125, "there is no folder"),
        (("a", "b"), 2, "RUN:PATH"),
        ((f"{run}:a", f"{run}:b"), 2, "both"),
        ((f"{run}:5:a", "."), 2, "no rank 5"),
    ):
        done = user("cp", *words).check(code)
        assert said in done.stderr, done
        assert "Traceback" not in done.stderr
        assert done.stderr.count("\n") <= 2, done


def test_a_copy_that_is_killed_leaves_nothing_that_looks_whole(user: User, run: str) -> None:
    with (user.hora.cwd / "zeros").open("wb") as file:
        file.truncate(2 << 30)
    process = user.start("cp", "zeros", f"{run}:zeros")
    found = ""
    while "hora-" not in found:
        assert process.poll() is None
        found = user("exec", run, "--", "ls", "-a").check().stdout
    process.kill()
    process.wait()
    while "zeros" in found:
        found = user("exec", run, "--", "ls", "-a").check().stdout
        assert "\nzeros\n" not in found


# --- open ---


def opened(user: User, *words: str) -> tuple[subprocess.Popen[bytes], str]:
    process = user.start("open", *words)
    return process, Reader(process.stdout).until("http://").strip()


def get(url: str, path: str = "/", data: bytes | None = None) -> bytes:
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url + path, data, timeout=30) as answer:
        found: bytes = answer.read()
    return found


def test_a_page_beside_a_rank_opens_on_this_computer(user: User, run: str) -> None:
    here = ports(user, run)
    process, url = opened(user, run, here[0])
    assert get(url) == b"page of rank 0 "
    assert len(get(url, "/large")) == 15 * 200_000
    assert get(url, "/", os.urandom(5_000_000)) == b"5000000"
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    process, url = opened(user, run, f"1:{here[1]}")
    assert get(url) == b"page of rank 1 "
    user("stop", "--kill", run).check()
    assert process.wait(20) == 0


def test_the_port_here_may_be_chosen(user: User, run: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = socket.create_server(("127.0.0.1", 0))
        number = free.getsockname()[1]
        free.close()
        process, url = opened(user, run, ports(user, run)[0], "--port", str(number))
        assert url == f"http://127.0.0.1:{number}"
        assert get(url) == b"page of rank 0 "
        process.kill()
        used = str(taken.getsockname()[1])
        assert "can't be had here" in user("open", run, "6006", "--port", used).check(2).stderr


def test_a_port_where_nothing_listens_is_said_and_the_next_try_counts(user: User, run: str) -> None:
    process, url = opened(user, run, "1")
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 20) as sock:
        assert sock.recv(10) == b""
    Reader(process.stderr).until("nothing answers at port 1 beside worker-0/0")
    assert process.poll() is None
    process.kill()


def test_what_is_no_port_is_refused(user: User, run: str) -> None:
    for word in ("http", "0", "65536", "1:x"):
        assert "is no port" in user("open", run, word).check(2).stderr


def test_from_python_a_port_beside_a_rank_is_a_socket(user: User, run: str) -> None:
    found = hora.get_run(run, on=user.place.name)
    for rank, port in enumerate(ports(user, run)):
        with found.dial(int(port), rank) as sock:
            sock.settimeout(20)
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
            with sock.makefile("rb") as file:
                assert file.read().endswith(f"page of rank {rank} ".encode())
    with pytest.raises(PlaceError, match="nothing answers at port 1 "):
        found.dial(1)


def test_from_python_files_are_copied_both_ways(user: User, run: str, tmp_path: Path) -> None:
    found = hora.get_run(run, on=user.place.name)
    assert found.copy_from("of-rank-1", tmp_path, rank=1).files == 1
    done = found.copy_to(tmp_path / "of-rank-1", "again", rank="worker-0/0")
    assert (done.files, done.bytes, done.notes) == (1, 17, ())
    assert user("exec", run, "--", "cat", "again").check().stdout == "written by rank 1"
