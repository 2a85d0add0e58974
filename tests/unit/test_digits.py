"""The example that `hora demo` runs: real ranks, started by hand as Hora would start them."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hora import demo
from hora.errors import UsageError

REPO = Path(__file__).resolve().parents[2]
TRAIN = REPO / "examples" / "digits" / "train.py"


def free_ports(count: int) -> list[int]:
    socks = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in socks]
    for sock in socks:
        sock.close()
    return ports


def train(world: int, host: str = "127.0.0.1", script: Path = TRAIN) -> list[tuple[int, str]]:
    """Exit code and output of every rank."""
    ports = free_ports(world)
    peers = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for port in ports)
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env={
                **os.environ,
                "HORA_RANK": str(rank),
                "HORA_WORLD_SIZE": str(world),
                "HORA_PEERS": peers,
                "HORA_PORT_PEER": str(ports[rank]),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(world)
    ]
    try:
        return [(rank.returncode, output) for rank in ranks for output in [rank.communicate(timeout=60)[0]]]
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
                rank.communicate()


def accuracy(output: str) -> float:
    found = re.search(r"accuracy ([\d.]+)%", output)
    assert found, output
    return float(found[1])


@pytest.mark.parametrize("world", [2, 3, 4])
def test_all_ranks_end_with_the_same_weights_and_have_learnt(world: int) -> None:
    results = train(world)
    assert [code for code, _ in results] == [0] * world, results
    hashes = {re.search(r"weights (\w{16}) equal", output)[1] for _, output in results}
    assert len(hashes) == 1
    assert accuracy(results[0][1]) > 95
    assert "epoch" not in "".join(output for _, output in results[1:]), "only rank 0 tells of the epochs"


def test_one_rank_needs_neither_hora_nor_peers() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HORA_")}
    done = subprocess.run(
        [sys.executable, str(TRAIN)], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert accuracy(done.stdout) > 90


def test_ranks_meet_over_ipv6_too() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"no IPv6 on this machine: {error}")
    assert [code for code, _ in train(2, host="::1")] == [0, 0]


def test_a_rank_whose_weights_went_astray_is_noticed_by_its_neighbour(tmp_path: Path) -> None:
    text = TRAIN.read_text(encoding="utf-8")
    needle = "    weights = train(sum_all)\n"
    assert needle in text
    broken = tmp_path / "train.py"
    broken.write_text(
        text.replace(needle, needle + "    weights[7] += 1e-9 * (RANK == 1)\n"), encoding="utf-8"
    )
    results = train(3, script=broken)
    assert [code for code, _ in results] == [0, 1, 1], results
    assert "differ" in results[2][1]


def test_the_script_is_short_and_needs_the_standard_library_only() -> None:
    text = TRAIN.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 190
    imported = set(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE))
    assert imported <= set(sys.stdlib_module_names)


def test_the_example_has_its_three_files() -> None:
    files = demo.example_files()
    assert set(files) == {"train.py", "job.yaml", "README.md"}
    assert files["train.py"] == TRAIN.read_text(encoding="utf-8")


def test_save_writes_the_example_and_says_what_it_wrote(tmp_path: Path) -> None:
    target = tmp_path / "a new" / "digits"
    assert demo.save(target) == [target / "train.py", target / "job.yaml", target / "README.md"]
    assert {path.name: path.read_text(encoding="utf-8") for path in target.iterdir()} == demo.example_files()


def test_save_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("mine")
    with pytest.raises(UsageError, match=r"already holds train\.py .* name another folder"):
        demo.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
    assert (tmp_path / "train.py").read_text() == "mine"


def test_save_says_when_the_folder_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "digits").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        demo.save(tmp_path / "digits")


def test_save_says_when_the_folder_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        demo.save(tmp_path / "file" / "digits")
