"""Finding an MPI, reading what it says, and hora-mpirun's own words."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hora.agent import mpi
from hora.agent.mpi import INTEL, MPICH, OPENMPI, Mpi, Verdict, find, identify, main, read_hosts, verdict

OPEN_MPI_5 = "mpirun (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/\n"
HYDRA = """HYDRA build details:
    Version:                                 4.1.2
    Release Date:                            Wed Jun  7 15:22:45 CDT 2023
    CC:                              gcc
    Process Manager:                         pmi
"""
INTEL_2021 = (
    "Intel(R) MPI Library for Linux* OS, Version 2021.8 Build 20221129 (id: 339ec755a1)\n"
    "Copyright 2003-2022, Intel Corporation.\n"
)


@pytest.mark.parametrize(
    ("text", "flavour", "version"),
    [
        (OPEN_MPI_5, OPENMPI, (5, 0, 11)),
        ("mpirun (Open MPI) 4.1.2rc1\n", OPENMPI, (4, 1, 2, 1)),
        ("mpirun.real (OpenRTE) 2.1.1\n", OPENMPI, (2, 1, 1)),
        ("mpiexec (OpenRTE) 3.1.3\n\nReport bugs to x\n", OPENMPI, (3, 1, 3)),
        ("a warning first\nmpirun (Open MPI) 5.0.2\n", OPENMPI, (5, 0, 2)),
        (HYDRA, MPICH, (4, 1, 2)),
        (INTEL_2021, INTEL, (2021, 8)),
        (INTEL_2021 + HYDRA, INTEL, (2021, 8)),
    ],
)
def test_an_mpirun_is_known_by_what_it_says(text: str, flavour: str, version: tuple[int, ...]) -> None:
    assert identify("/bin/mpirun", text) == Mpi(flavour, version, "/bin/mpirun")


@pytest.mark.parametrize("text", ["", "mpirun: unknown option --version", "GNU bash, version 5.2", "MPI 3.1"])
def test_what_says_nothing_known_is_no_mpi(text: str) -> None:
    assert identify("/bin/mpirun", text) is None


def test_an_mpi_has_a_name_for_people() -> None:
    assert Mpi(OPENMPI, (5, 0, 11), "/x").name == "Open MPI 5.0.11"


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_first_usable_mpi_on_the_path_is_taken(tmp_path: Path) -> None:
    program(tmp_path / "broken" / "mpirun", "exit 1")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "mpirun").write_text("not executable")
    wanted = program(tmp_path / "good" / "mpiexec", "echo 'mpirun (Open MPI) 4.1.4'")
    program(tmp_path / "later" / "mpirun", "echo 'mpirun (Open MPI) 3.0.0'")
    path = os.pathsep.join(str(tmp_path / name) for name in ("missing", "broken", "plain", "good", "later"))
    assert find({"PATH": path + os.pathsep + os.defpath}) == Mpi(OPENMPI, (4, 1, 4), str(wanted))


def test_an_mpirun_that_does_not_answer_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpi, "_PATIENCE", 0.2)
    program(tmp_path / "stuck" / "mpirun", "exec sleep 60")
    wanted = program(tmp_path / "good" / "mpirun", "echo 'mpirun (Open MPI) 4.1.4'")
    found = find({"PATH": f"{tmp_path}/stuck:{tmp_path}/good:{os.defpath}"})
    assert found is not None and found.path == str(wanted)


def test_an_mpirun_is_asked_without_the_variables_of_an_outer_one(tmp_path: Path) -> None:
    program(tmp_path / "mpirun", 'test -z "$PMI_RANK$SLURM_JOB_ID" && echo "(Open MPI) 4.1.4 $LR"')
    found = find({"PATH": f"{tmp_path}:{os.defpath}", "PMI_RANK": "1", "SLURM_JOB_ID": "2"})
    assert found is not None and found.version == (4, 1, 4)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("   Process name: [prterun-vm-9950@1,2]\n   Exit code:    3\n", Verdict(rank=2, exit_code=3)),
        ("  Process name: [[28617,1],12]\n  Exit code:    77\n", Verdict(rank=12, exit_code=77)),
        (
            "prterun noticed that process rank 2 with PID 6814 on node vm exited on\nsignal 9 (Killed).",
            Verdict(rank=2, signal=9),
        ),
        (
            "mpirun noticed that process rank 0 with PID 0 on node a exited on signal 11 (Segmentation).",
            Verdict(rank=0, signal=11),
        ),
        (
            "=   BAD TERMINATION OF ONE\n=   PID 41 RUNNING AT vm\n=   EXIT CODE: 3\n",
            Verdict(exit_code=3),
        ),
        (
            (
                "=   BAD TERMINATION OF ONE\n=   PID 6832 RUNNING AT vm\n=   EXIT CODE: 9\n=   CLEANING\n"
                "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)"
            ),
            Verdict(signal=9),
        ),
        ("loss 0.1\nall well", None),
    ],
)  # fmt: skip
def test_mpirun_s_own_words_name_the_first_failure(text: str, what: Verdict | None) -> None:
    assert verdict(text) == what


def test_a_hosts_file_has_an_address_and_a_count_in_each_line(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("10.0.0.1 2\n\nfd00::1 4\n")
    assert read_hosts(str(tmp_path / "hosts")) == [("10.0.0.1", 2), ("fd00::1", 4)]


@pytest.mark.parametrize(
    "argv",
    [[], ["-n"], ["-n", "2"], ["-n", "x", "true"], ["-n", "0", "true"], ["true"], ["-n", "2", "--bind", "x"]],
)
def test_hora_mpirun_explains_its_words(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 127
    assert "usage: hora-mpirun -n RANKS [--hosts FILE] COMMAND ..." in capsys.readouterr().err


def test_without_an_mpi_hora_mpirun_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert main(["-n", "2", "true"]) == 127
    assert "no mpirun on PATH that is Open MPI, MPICH or Intel MPI; install one" in capsys.readouterr().err


def test_a_missing_hosts_file_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program(tmp_path / "mpirun", "echo '(Open MPI) 5.0.0'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    assert main(["-n", "2", "--hosts", str(tmp_path / "none"), "true"]) == 127
    assert "hora-mpirun: [Errno 2] No such file or directory" in capsys.readouterr().err


def test_hora_mpirun_becomes_mpirun_with_a_host_file_of_its_kind(tmp_path: Path) -> None:
    said = 'if [ "$1" = --version ]; then echo "(Open MPI) 4.1.4"; else echo "$$ $*"; fi'
    program(tmp_path / "mpirun", said)
    (tmp_path / "hosts").write_text("a 2\nb 1\n")
    code = "import sys; from hora.agent.mpi import main; sys.exit(main(sys.argv[1:]))"
    child = subprocess.Popen(
        [sys.executable, "-c", code, "-n", "3", "--hosts", str(tmp_path / "hosts"), "hora-rank"],
        env={"PATH": f"{tmp_path}:{os.defpath}", "PYTHONPATH": os.pathsep.join(sys.path), "LR": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    out, _ = child.communicate(timeout=30)
    pid, *words = out.split()
    assert int(pid) == child.pid, "it became mpirun, and did not start it"
    assert (tmp_path / "hosts.mpirun").read_text() == "a slots=2\nb slots=1\n"
    assert words[words.index("--hostfile") + 1] == f"{tmp_path}/hosts.mpirun"
    assert words[-1] == "hora-rank"
