"""What `hora cp` sends and takes: everything arrives, nothing half, and nothing where it shall not be."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hora.agent import frames
from hora.agent.copying import CopyError, Taker, pieces
from hora.cli.copying import Beside, beside
from hora.copying import base_of


def copied(source: Path | str, target: Path | str) -> Taker:
    taker = Taker(str(target), base_of(str(source)))
    decoder = frames.Decoder()
    try:
        for piece in pieces(str(source)):
            for header, body in decoder.feed(piece):
                taker.frame(header, body)
    finally:
        taker.drop()
    assert taker.whole
    return taker


def tree(folder: Path) -> dict[str, Any]:
    """Everything in it: type, permissions, time, content."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        what = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        mode = None if path.is_symlink() else stat.S_IMODE(about.st_mode)
        found[str(path.relative_to(folder))] = (mode, about.st_mtime_ns, what)
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "script").write_text("#!/bin/sh\n")
    (folder / "script").chmod(0o755)
    (folder / "deep" / "er" / "large").write_bytes(os.urandom(3_000_000))
    (folder / "nothing").touch()
    (folder / "link").symlink_to("deep/er/large")
    (folder / "astray").symlink_to("/no/such/file")
    os.utime(folder / "script", ns=(10**18, 10**18 + 7))
    os.utime(folder / "deep", ns=(10**18, 10**18 + 9))
    (folder / "empty").chmod(0o500)
    return folder


# --- the rules of cp ---


def test_a_folder_arrives_with_permissions_times_and_links(source: Path, work: Path) -> None:
    taker = copied(source, work / "new")
    assert tree(work / "new") == tree(source)
    assert (taker.files, taker.bytes) == (5, 3_000_010)
    assert sorted(os.listdir(work)) == ["new"]


@pytest.mark.parametrize(
    ("given_as", "target", "place"),
    [
        ("source", "new", "new"),
        ("source/", "new", "new"),
        ("source", "new/", "new"),
        ("source", "there", "there/source"),
        ("source/", "there/", "there/source"),
        ("source/.", "there", "there"),
        ("source/.", "new", "new"),
    ],
)
def test_a_folder_lands_where_cp_would_put_it(
    tmp_path: Path, source: Path, work: Path, given_as: str, target: str, place: str
) -> None:
    (work / "there").mkdir()
    copied(f"{tmp_path}/{given_as}", f"{work}/{target}")
    assert (work / place / "deep" / "er" / "large").exists()


@pytest.mark.parametrize(
    ("target", "place"),
    [("new", "new"), ("there", "there/script"), ("there/", "there/script"), ("old", "old")],
)
def test_a_file_lands_where_cp_would_put_it(source: Path, work: Path, target: str, place: str) -> None:
    (work / "there").mkdir()
    (work / "old").write_text("old")
    copied(source / "script", f"{work}/{target}")
    assert (work / place).read_text() == "#!/bin/sh\n"


def test_into_a_folder_that_is_there_new_files_go_beside_the_old(source: Path, work: Path) -> None:
    (work / "source" / "deep").mkdir(parents=True)
    (work / "source" / "deep" / "kept").write_text("kept")
    (work / "source" / "script").write_text("old")
    copied(source, work)
    assert (work / "source" / "deep" / "kept").read_text() == "kept"
    assert (work / "source" / "script").read_text() == "#!/bin/sh\n"


def test_a_link_that_is_named_is_followed_and_one_at_the_target_written_through(
    source: Path, work: Path
) -> None:
    (work / "real").write_text("old")
    (work / "latest").symlink_to("real")
    copied(source / "link", work / "latest")
    assert (work / "real").stat().st_size == 3_000_000
    assert (work / "latest").is_symlink()


@pytest.mark.parametrize(
    ("name", "target", "why"),
    [
        ("script", "no/such", "there is no folder"),
        ("script", "new/", "is no folder"),
        ("deep", "file", "is a file, and what would take its place is a folder"),
        ("script", "taken", "is a folder, and what would take its place is a file"),
        ("absent", "new", "No such file"),
    ],
)
def test_what_cp_refuses_is_refused_in_one_sentence(
    source: Path, work: Path, name: str, target: str, why: str
) -> None:
    (work / "file").write_text("")
    (work / "taken" / "script").mkdir(parents=True)
    before = tree(work)
    with pytest.raises(CopyError, match=why):
        copied(source / name, f"{work}/{target}")
    assert tree(work) == before


def test_special_files_are_left_out_with_a_note(source: Path, work: Path) -> None:
    os.mkfifo(source / "pipe")
    taker = copied(source, work / "new")
    assert taker.notes == ["left out pipe, which is no file, folder or link"]


def test_hostile_names_arrive(tmp_path: Path, work: Path, hostile_names: dict[str, str]) -> None:
    folder = tmp_path / "names"
    folder.mkdir()
    good = [
        name
        for name in hostile_names.values()
        if "/" not in name and "\0" not in name and 0 < len(os.fsencode(name)) < 250
    ]
    for name in good:
        (folder / name).write_bytes(os.fsencode(name))
    copied(folder, work)
    assert tree(work / "names") == tree(folder)


# --- nothing half ---


@pytest.mark.parametrize("into", ["new", "there"])
def test_what_breaks_off_never_looks_whole(source: Path, work: Path, into: str) -> None:
    (work / "there").mkdir()
    data = b"".join(pieces(str(source)))
    for cut in (100, 500, 1_000_000, len(data) - 5):
        taker, decoder = Taker(str(work / into), "source"), frames.Decoder()
        for header, body in decoder.feed(data[:cut]):
            taker.frame(header, body)
        assert not taker.whole
        taker.drop()
        assert tree(work) == {"there": tree(work)["there"]}


def test_a_file_that_is_replaced_is_old_or_new_but_never_half(source: Path, work: Path) -> None:
    target = work / "large"
    target.write_bytes(b"old")
    data = b"".join(pieces(str(source / "deep" / "er" / "large")))
    taker = Taker(str(target), "large")
    for header, body in frames.Decoder().feed(data[:2_000_000]):
        taker.frame(header, body)
        assert target.read_bytes() == b"old"
    taker.drop()
    assert tree(work) == {"large": tree(work)["large"]}


# --- who sends is not believed ---


def entry(name: str, kind: str = "file", **more: Any) -> frames.Header:
    return {
        "t": "entry",
        "name": name,
        "kind": kind,
        "mode": 0o644,
        "mtime": 0,
        "size": 0,
        "target": "/etc",
        **more,
    }


END = {"t": "end", "files": 1, "bytes": 0}


@pytest.mark.parametrize(
    "told",
    [
        [entry("", "folder"), entry("../x")],
        [entry("", "folder"), entry("..")],
        [entry("", "folder"), entry("/etc/x")],
        [entry("", "folder"), entry("a/x")],
        [entry("", "folder"), entry("a\0b")],
        [entry("", "folder"), entry("link", "link"), entry("link/x")],
        [entry("", "folder"), entry("link", "link"), entry("link", "folder")],
        [entry("", "folder"), entry("")],
        [entry("", "link")],
        [entry("x")],
        [entry("", "device")],
        [entry("", size=5), {"t": "data", "body": b"123456"}],
        [{"t": "data", "body": b"1"}],
        [entry("", "folder"), END],
        [END],
        [entry("", mode="x")],
        [{"t": "entry"}],
        [{"t": "what"}],
    ],
)  # fmt: skip
def test_a_stream_that_leads_elsewhere_or_makes_no_sense_leaves_nothing(
    work: Path, told: list[frames.Header]
) -> None:
    taker = Taker(str(work / "new"), "new")
    with pytest.raises(CopyError):  # noqa: PT012
        for header in told:
            taker.frame(header, header.get("body", b""))
    taker.drop()
    assert os.listdir(work) == []


def test_links_that_were_at_the_target_before_are_not_followed_below_it(work: Path) -> None:
    outside = work / "outside"
    outside.mkdir()
    (work / "there").mkdir()
    (work / "there" / "data").symlink_to(outside)
    taker = Taker(str(work / "there"), ".")
    taker.frame(entry("", "folder"), b"")
    with pytest.raises(CopyError, match="is no folder"):
        taker.frame(entry("data", "folder"), b"")
    taker.drop()
    assert os.listdir(outside) == []


@given(st.lists(st.fixed_dictionaries({"t": st.sampled_from(["entry", "data", "end", "note", "x"])}, optional={
    "name": st.sampled_from(["", "a", "a/b", "..", "a/../..", "/x", "b\0"]), "kind": st.sampled_from(["file", "folder", "link", 7]),
    "mode": st.one_of(st.integers(0, 0o7777), st.none()), "mtime": st.integers(0, 2**62), "size": st.integers(-1, 9),
    "target": st.sampled_from(["..", "/etc", "a"]), "files": st.integers(0, 3), "text": st.text(max_size=5),
}), max_size=8), st.binary(max_size=9))  # fmt: skip
@settings(deadline=None)
def test_no_stream_whatever_it_says_writes_outside_of_its_target(
    told: list[dict[str, Any]], body: bytes
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        taker = Taker(os.path.join(place, "new"), "new")
        try:
            for header in told:
                taker.frame(header, body if header["t"] == "data" else b"")
        except CopyError:
            pass
        taker.drop()
        assert set(os.listdir(place)) <= {"new"}
        assert taker.whole or not os.path.isdir(os.path.join(place, "new"))


# --- the command line's words ---


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("digits:/ckpt/model.pt", Beside("digits", None, "/ckpt/model.pt")),
        ("digits:2:/ckpt", Beside("digits", "2", "/ckpt")),
        ("digits:worker-1/0:x", Beside("digits", "worker-1/0", "x")),
        ("digits:worker-1:x", Beside("digits", "worker-1", "x")),
        ("digits:", Beside("digits", None, ".")),
        ("digits:a:b", Beside("digits", None, "a:b")),
        ("digits:/a:b", Beside("digits", None, "/a:b")),
        ("./a:b", None),
        ("/a:b", None),
        ("data/x:y", None),
        ("model.pt", None),
        (":x", None),
    ],
)
def test_which_side_a_path_is_on(text: str, found: Beside | None) -> None:
    assert beside(text) == found
