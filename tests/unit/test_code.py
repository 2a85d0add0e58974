"""The code folder as an archive, and back: what is in it, what is refused, and that equal code has an equal hash."""

from __future__ import annotations

import gzip
import io
import json
import os
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hora.agent import unpack
from hora.agent.archive import Archive
from hora.errors import UsageError
from hora.places.code import Entry as Kept
from hora.places.code import Packed, largest, pack, packed
from hora.spec import Code


def tree(folder: Path, **files: str) -> Path:
    """`a__b=...` is a/b; a trailing slash is not needed for folders."""
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names(found: Packed) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(found.data)) as tar:
        return tar.getnames()


def out(found: Packed, folder: Path) -> Path:
    """Unpacked as an agent does it."""
    (folder / f"{found.hash}.tar.gz").write_bytes(found.data)
    assert unpack.settle(str(folder), found.hash, "") == {}
    return folder / found.hash


# --- what is in it ---


def test_files_folders_links_and_modes_come_out_as_they_went_in(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tree(tmp_path, train="import lib", lib__nn="1")
    (tmp_path / "train").chmod(0o755)
    (tmp_path / "lib" / "nn").chmod(0o600)
    (tmp_path / "empty").mkdir()
    (tmp_path / "again").symlink_to("lib/nn")
    (tmp_path / "by its full name").symlink_to(tmp_path / "lib")
    found = pack(str(tmp_path))
    assert found.files == 4
    there = out(found, tmp_path_factory.mktemp("host"))
    assert (there / "again").read_text() == "1"
    assert os.readlink(there / "by its full name") == "lib"
    assert [(there / name).stat().st_mode & 0o777 for name in ("train", "lib/nn")] == [0o755, 0o600]
    assert (there / "empty").is_dir()


def test_equal_content_has_an_equal_hash_wherever_and_whenever_it_was_written(tmp_path: Path) -> None:
    one, other = tree(tmp_path / "one", b="2", a="1"), tree(tmp_path / "other", a="1", b="2")
    os.utime(other / "a", (1, 1))
    assert pack(str(one)).hash == pack(str(other)).hash
    assert pack(str(one)).data == pack(str(other)).data
    (other / "a").chmod(0o700)
    assert pack(str(one)).hash != pack(str(other)).hash


@given(st.dictionaries(st.binary(min_size=1, max_size=30).filter(lambda n: b"/" not in n and b"\0" not in n and n not in (b".", b"..", b".git", b".gitignore", b".horaignore", b"__pycache__")), st.binary(max_size=2000), max_size=8))  # fmt: skip
@settings(deadline=None)
def test_any_name_and_any_content_arrive(files: dict[bytes, bytes]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as host:
        for name, data in files.items():
            with open(os.path.join(os.fsencode(here), name), "wb") as file:
                file.write(data)
        there = out(pack(here), Path(host))
        assert {os.fsencode(file.name): file.read_bytes() for file in there.iterdir()} == files


def test_names_that_are_hostile_arrive(tmp_path: Path, hostile_names: dict[str, str], work: Path) -> None:
    good = [
        name
        for name in hostile_names.values()
        if "/" not in name and "\0" not in name and 0 < len(os.fsencode(name)) < 200
    ]
    for name in good:
        (tmp_path / name).write_text(name, errors="surrogateescape")
    there = out(pack(str(tmp_path)), work)
    assert sorted(os.listdir(there)) == sorted(good)


# --- what is left out ---


def test_gitignore_is_read_as_git_reads_it(tmp_path: Path) -> None:
    """The same question to git itself."""
    tree(
        tmp_path, **{
            ".gitignore": "*.log\nbuild/\n/data\n!keep.log\n# a comment\n\\#odd\ntrailing \nsub/**/deep\n[!a]x\n",
            "a.log": "", "keep.log": "", "build__x": "", "data__x": "", "sub__data__x": "", "sub__build": "",
            "sub__.gitignore": "!a.log\n*.tmp\n", "sub__a.log": "", "sub__b.log": "", "sub__c.tmp": "", "#odd": "",
            "sub__one__two__deep": "", "ax": "", "bx": "", "trailing": "", "c.tmp": "", "x.py": "",
        }
    )  # fmt: skip
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    listed = subprocess.run(
        ["git", "-C", tmp_path, "ls-files", "-co", "--exclude-standard", "-z"],
        capture_output=True,
        check=True,
    )
    wanted = sorted(name for name in listed.stdout.decode().split("\0") if name)
    with tarfile.open(fileobj=io.BytesIO(pack(str(tmp_path)).data)) as tar:
        assert sorted(member.name for member in tar if member.isfile()) == wanted


def test_horaignore_has_the_last_word(tmp_path: Path) -> None:
    tree(tmp_path, **{".gitignore": "weights.bin\n", ".horaignore": "!weights.bin\nnotebooks/\n", "weights.bin": "", "notebooks__a": "", "x": ""})  # fmt: skip
    assert names(pack(str(tmp_path))) == [".gitignore", ".horaignore", "weights.bin", "x"]


def test_history_and_what_python_compiled_never_travel(tmp_path: Path) -> None:
    tree(tmp_path, **{".git__config": "", "lib__.git": "", "lib____pycache____x.pyc": "", "lib__x.py": ""})
    (tmp_path / "lib" / "__pycache__").mkdir(exist_ok=True)
    (tmp_path / "lib" / "__pycache__" / "x.pyc").write_text("")
    assert [name for name in names(pack(str(tmp_path))) if ".git" in name or "__pycache__" in name] == []


def test_a_part_of_a_repository_follows_the_rules_of_the_whole(tmp_path: Path) -> None:
    tree(tmp_path, **{".git__HEAD": "", ".gitignore": "*.ckpt\n/jobs/secret\nscratch/\n", "jobs__a.ckpt": "", "jobs__secret": "", "jobs__x": "", "scratch__y": ""})  # fmt: skip
    assert names(pack(str(tmp_path / "jobs"))) == ["x"]
    assert names(pack(str(tmp_path / "scratch"))) == ["y"]  # who names it wants it


def test_special_files_are_left_out_with_a_note(tmp_path: Path) -> None:
    tree(tmp_path, x="")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        old = os.getcwd()
        os.chdir(tmp_path)
        sock.bind("door")
        os.chdir(old)
    found = pack(str(tmp_path))
    assert names(found) == ["x"]
    assert found.notes == ("code: left out door, pipe, which are no files, folders or links",)


def test_a_folder_of_which_nothing_is_left_is_said(tmp_path: Path) -> None:
    found = pack(str(tmp_path))
    assert found.files == 0
    assert "is empty" in found.notes[0]


# --- what is refused ---


def test_links_that_lead_out_are_named(tmp_path: Path) -> None:
    inside = tree(tmp_path / "in", x="")
    (inside / "a").symlink_to("/etc/passwd")
    (inside / "b").symlink_to("../other")
    (inside / "c").symlink_to("x")
    with pytest.raises(UsageError) as caught:
        pack(str(inside))
    assert "a -> /etc/passwd, b -> ../other;" in str(caught.value)
    (inside / ".horaignore").write_text("a\nb\n")
    assert pack(str(inside)).files == 3


def test_a_folder_that_is_too_large_is_refused_with_its_largest_parts(tmp_path: Path) -> None:
    tree(tmp_path, src__a="x" * 100, src__b="y" * 100)
    for name, size in (("data/train.bin", 3_000_000), ("data/test.bin", 2_000), ("one.bin", 2_000_000)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(os.urandom(size))
    with pytest.raises(UsageError) as caught:
        pack(str(tmp_path), limit=4 << 20)
    said = str(caught.value)
    assert "4.8 MiB in 5 files, and 4 MiB fit once packed" in said
    assert "The largest: data/train.bin (2.9 MiB), one.bin (1.9 MiB), src/ (200 bytes)" in said
    for way in (".horaignore", "volume", "image", "git: URL"):
        assert way in said
    assert pack(str(tmp_path), limit=6 << 20).files == 5


def test_what_would_take_minutes_to_pack_is_refused_at_once(tmp_path: Path) -> None:
    with (tmp_path / "zeros").open("wb") as file:
        file.truncate(20 << 30)
    began = time.monotonic()
    with pytest.raises(UsageError, match=r"zeros \(20 GiB\)"):
        pack(str(tmp_path))
    assert time.monotonic() - began < 2


def test_the_largest_are_told_by_what_is_in_them() -> None:
    sizes = {"a/b/c": 90, "a/b/d": 5, "a/e": 5, "f/1": 30, "f/2": 30, "g": 10}
    found = largest([Kept(name, "", "file", size=size) for name, size in sizes.items()])
    assert found == [("a/b/c", 90), ("f/", 60), ("g", 10)]


@pytest.fixture
def ordinary(work: Path) -> Iterator[Path]:
    """A folder of an ordinary user, who is nobody where the tests run as root."""
    pack(str(tree(work / "warm", **{".gitignore": "x"})))  # what it imports may lie where only root may look
    folder = work / "theirs"
    folder.mkdir()
    was = os.geteuid()
    if was == 0:
        for place in (folder, work, work.parent):
            os.chown(place, 65534, -1)
        os.seteuid(65534)
    yield folder
    os.seteuid(was)


def test_files_that_cannot_be_read_are_named_in_one_sentence(ordinary: Path) -> None:
    tree(ordinary, good="", secret="x", hidden__y="")
    (ordinary / "hidden").chmod(0)
    with pytest.raises(UsageError, match=r"can be read: hidden \(Permission denied\); make it readable"):
        pack(str(ordinary))
    (ordinary / "hidden").chmod(0o700)
    (ordinary / "secret").chmod(0)
    with pytest.raises(UsageError, match=r"can be read: secret \(Permission denied\)"):
        pack(str(ordinary))


def test_twenty_thousand_small_files_take_less_than_three_seconds(tmp_path: Path) -> None:
    for number in range(20_000):
        folder = tmp_path / str(number % 200)
        if number < 200:
            folder.mkdir()
        (folder / f"{number}.py").write_text(f"x = {number}\n")
    (tmp_path / ".gitignore").write_text("*.pyc\nbuild/\n!keep\n/dist\n")
    began = time.process_time()
    assert pack(str(tmp_path)).files == 20_001
    assert time.process_time() - began < 3


def test_a_repository_is_cloned_and_packed_without_its_history(tmp_path: Path) -> None:
    tree(tmp_path, x="1")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=me", "-c", "user.email=me@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    tree(tmp_path, y="not yet in git")
    assert names(packed(Code(git=str(tmp_path), ref="HEAD"))) == ["x"]
    assert names(packed(Code(path=str(tmp_path)))) == ["x", "y"]


# --- what an agent refuses ---


def archive(*members: tuple[str, bytes, str]) -> bytes:
    """Of (name, type, where a link leads), as nobody would pack it."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, kind, target in members:
            about = tarfile.TarInfo(name)
            about.type, about.linkname = kind, target
            tar.addfile(about)
    return data.getvalue()


@pytest.mark.parametrize(
    "members",
    [
        [("../x", tarfile.REGTYPE, "")],
        [("/tmp/x", tarfile.REGTYPE, "")],
        [("a/../../x", tarfile.REGTYPE, "")],
        [("", tarfile.REGTYPE, "")],
        [("null", tarfile.CHRTYPE, "")],
        [("pipe", tarfile.FIFOTYPE, "")],
        [("hard", tarfile.LNKTYPE, "/etc/passwd")],
        [("a", tarfile.SYMTYPE, "/etc")],
        [("a", tarfile.SYMTYPE, "..")],
        [("a", tarfile.SYMTYPE, "."), ("a/x", tarfile.REGTYPE, "")],
        [("d", tarfile.SYMTYPE, "."), ("e", tarfile.SYMTYPE, "d/x/../..")],
        [("x", tarfile.REGTYPE, ""), ("x", tarfile.REGTYPE, "")],
    ],
)
def test_an_archive_that_would_leave_its_folder_is_refused_whole(
    work: Path, members: list[tuple[str, bytes, str]]
) -> None:
    import hashlib

    data = archive(*members)
    digest = hashlib.sha256(gzip.decompress(data)).hexdigest()[:12]
    (work / f"{digest}.tar.gz").write_bytes(data)
    said = unpack.settle(str(work), digest, "")["problem"]
    assert said.startswith(f"code {digest} can't be unpacked: ")
    assert sorted(os.listdir(work)) == [f"{digest}.tar.gz"]


@pytest.mark.parametrize("cut", [0, 5, 60])
def test_an_archive_that_is_cut_short_is_refused_whole(work: Path, tmp_path: Path, cut: int) -> None:
    found = pack(str(tree(tmp_path, x="1" * 5000, y="2")))
    (work / f"{found.hash}.tar.gz").write_bytes(found.data[:cut])
    assert "can't be unpacked" in unpack.settle(str(work), found.hash, "")["problem"]
    assert sorted(os.listdir(work)) == [f"{found.hash}.tar.gz"]


# --- new code in the place of old ---


def test_what_ranks_left_in_the_old_folder_goes_along_into_the_new_one(tmp_path: Path, work: Path) -> None:
    first = pack(str(tree(tmp_path / "1", train="one", lib__a="1", gone__x="", same__y="")))
    there = out(first, work)
    tree(there, model="weights", lib__cache="c", gone__made="m", runs__log="l", train="changed by a rank")
    (there / "lib" / "__pycache__").mkdir()
    second = pack(str(tree(tmp_path / "2", train="two", lib__a="2", same__y="")))
    (work / f"{second.hash}.tar.gz").write_bytes(second.data)
    assert unpack.settle(str(work), second.hash, first.hash) == {}
    found = work / second.hash
    texts = {str(path.relative_to(found)): path.read_text() for path in found.rglob("*") if path.is_file()}
    assert texts == {
        "train": "two", "lib/a": "2", "same/y": "", "model": "weights", "lib/cache": "c", "gone/made": "m", "runs/log": "l",
    }  # fmt: skip
    assert sorted(os.listdir(work)) == sorted([second.hash, f"{second.hash}.names", f"{second.hash}.tar.gz"])
    assert unpack.settle(str(work), second.hash, first.hash) == {}  # again, as after a kill


def test_an_archive_in_parts_reads_as_one(work: Path) -> None:
    data = bytes(range(256)) * 10
    for at in range(0, len(data), 700):
        (work / f"{at}").write_bytes(data[at : at + 700])
    whole = Archive([str(work / f"{at}") for at in range(0, len(data), 700)])
    assert whole.size == len(data)
    assert whole.read(650, 1500) == data[650:2150]
    assert whole.read(2500) == data[2500:]
    assert whole.read(len(data)) == b""


def test_what_the_lead_is_told_of_the_code_is_plain(tmp_path: Path) -> None:
    found = pack(str(tree(tmp_path, x="1")))
    told = json.loads(json.dumps(found.config(["/a", "/b"])))
    assert (told["hash"], told["parts"]) == (found.hash, ["/a", "/b"])
    assert told["told"] == f"code {found.hash} (1 file, {len(found.data)} bytes)"
    assert b"".join(found.parts(100)) == found.data
