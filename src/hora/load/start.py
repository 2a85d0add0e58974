"""The job file that `hora init` writes: short, commented, and it loads as it is."""

from __future__ import annotations

import os
import shlex

from hora import names
from hora.load.detect import detect
from hora.load.fast import found_framework
from hora.load.here import here
from hora.load.write import dump

_TEMPLATE = """\
# Run it here:            hora run {file}
# With other numbers:     hora run {file} -n 8 --env LR=0.2
# All keys with their help: `hora schema`, which editors read, too.

{name}# lower-case letters, digits and '-', at most 40 characters
{framework}
{command}# what each rank runs: a list, or one line split as a shell would
{workers}# members; each is a process here, a pod on Kubernetes
# ranksPerWorker: 1      # ranks (processes) in each member

# code: .                # folder shipped to every member, without what .gitignore and .horaignore name
# setup: pip install -r requirements.txt    # once per host, before the ranks

# env: {{LR: "0.1"}}
# secrets: {{TOKEN: {{env: TOKEN}}}}    # or {{file: PATH}}, or {{secret: NAME, key: KEY}}: never the value
# resources: {{cpu: 2, memory: 4Gi, gpu: 1, shm: 1Gi}}    # of each member

# restarts: 2            # how often all ranks start again after a failure
# timeouts: {{total: 24h, stall: 15m, grace: 30s}}

# Needed on Kubernetes only:
# image: python:3.12
# volumes:               # pvc, nfs, azureFile, hostPath, csi, memory, scratch, configMap, secret
#   - {{mount: /ckpt, pvc: checkpoints}}
# placement: {{nodeSelector: {{disk: nvme}}, queue: ""}}
# kubernetes: {{namespace: training}}
"""


def start_file(script: str | None, workers: int, framework: str | None, file: str) -> str:
    """A file for a script, or for a command to be replaced where there is none."""
    command = ["python", script or "train.py"]
    stem = os.path.splitext(os.path.basename(script or here()))[0]
    return _TEMPLATE.format(
        file="".join(char if char.isprintable() else "?" for char in shlex.quote(file)),
        name=_line("name", names.job_name(stem)),
        framework=_framework(tuple(command), script, framework),
        command=_line("command", command),
        workers=_line("workers", workers),
    )


def _line(key: str, value: object) -> str:
    return dump({key: value}).rstrip("\n").ljust(24) + " "


def _framework(command: tuple[str, ...], script: str | None, framework: str | None) -> str:
    if framework is not None:
        return _line("framework", framework).rstrip()
    found = detect(command, here()) if script else None
    if found is not None and found.read:
        name, notes = found_framework(command, here())
        why = " ".join(" ".join(notes).partition(": ")[2].split()) or "it imports no other"
        return f"{_line('framework', name)}# plain, mpi, torch, jax, tensorflow or dask: {why}"
    return "# framework: torch       # plain, mpi, torch, jax, tensorflow, dask; absent: by the imports"
