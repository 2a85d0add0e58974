"""The words with which each family of MPI is started."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from hora.agent.mpi import INTEL, MPICH, OPENMPI, Mpi, compose, hostfile_text

FAMILIES = {
    "openmpi-5": Mpi(OPENMPI, (5, 0, 11), "/opt/bin/mpirun"),
    "openmpi-4": Mpi(OPENMPI, (4, 1, 4), "/usr/bin/mpirun"),
    "mpich-5": Mpi(MPICH, (5, 0, 2), "/opt/bin/mpirun"),
    "mpich-3": Mpi(MPICH, (3, 4), "/usr/bin/mpirun"),
    "intel-2021": Mpi(INTEL, (2021, 8), "/opt/intel/mpirun"),
}
ENVIRON = {
    "PATH": "/bin", "LR": "0.1", "HORA_AGENT_SOCKET": "/run/s", "OMPI_MCA_btl": "tcp,self",
    "PMIX_MCA_psec": "native",
    "PMI_RANK": "3", "PMIX_RANK": "3", "OMPI_COMM_WORLD_RANK": "3", "SLURM_JOB_ID": "7", "SLURM_PROCID": "0",
    "BASH_FUNC_x%%": "() { :; }", "HOSTNAME": "here",
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_mpirun_is_called_as_it_was(name: str, golden: Callable[[str, str], None]) -> None:
    mpi = FAMILIES[name]
    here, there = [("127.0.0.1", 4)], [("10.0.0.1", 2), ("10.0.0.2", 2)]
    one, env = compose(mpi, 4, here, ("hora-rank",), ENVIRON)
    root, _ = compose(mpi, 4, here, ("hora-rank",), ENVIRON, root=True)
    two, _ = compose(mpi, 4, there, ("hora-rank",), ENVIRON, hostfile="/f/hosts")
    text = {
        "one host": one,
        "as root": root,
        "two hosts": two,
        "environment": env,
        "host file": hostfile_text(mpi, there).splitlines(),
    }
    golden(f"mpirun/{name}.json", json.dumps(text, indent=1) + "\n")
