"""Keys that also have a flag of their own on the command line: declared here once, with the words of help.

The models take a key's help from here and the command line its flags, without loading pydantic.
"""

from __future__ import annotations

from hora.record import Record


class Flag(Record):
    field: str  # of Overrides
    option: str  # as typed
    path: str  # the job file's key
    help: str
    value: str = ""  # placeholder for help texts
    everywhere: bool = False  # roles that set the key themselves are overridden too


FLAGS = (
    Flag("name", "--name", "name", "Name of the job and of all that is made for it.", "NAME"),
    Flag(
        "framework",
        "--framework",
        "framework",
        "What the ranks meet by; found from the script's imports where absent.",
        "NAME",
    ),
    Flag("workers", "--workers", "workers", "Number of workers.", "N"),
    Flag(
        "ranks_per_worker", "--ranks-per-worker", "ranksPerWorker", "Ranks (processes) in each worker.", "N"
    ),
    Flag(
        "image", "--image", "image", "Container image; needed on Kubernetes only.", "IMAGE", everywhere=True
    ),
    Flag("cpu", "--cpu", "resources.cpu", "CPUs of each member.", "N", everywhere=True),
    Flag("memory", "--memory", "resources.memory", "Memory of each member.", "SIZE", everywhere=True),
    Flag("gpu", "--gpu", "resources.gpu", "GPUs of each member.", "N", everywhere=True),
    Flag(
        "shm",
        "--shm",
        "resources.shm",
        "Shared memory (/dev/shm) of each member; counts into its memory.",
        "SIZE",
        everywhere=True,
    ),
    Flag("env", "--env", "env", "Environment of the ranks.", "NAME[=VALUE]", everywhere=True),
    Flag(
        "secrets",
        "--secret",
        "secrets",
        "Variables whose values stay out of the job file.",
        "NAME=env:VAR|file:PATH|secret:NAME/KEY",
        everywhere=True,
    ),
    Flag(
        "code",
        "--code",
        "code",
        "Folder shipped to every member, without what .gitignore and .horaignore name.",
        "DIR",
    ),
    Flag("setup", "--setup", "setup", "Shell command that runs once per host, before the ranks.", "COMMAND"),
    Flag("restarts", "--restarts", "restarts", "How often all ranks start again after a failure.", "N"),
    Flag(
        "output",
        "--output-limit",
        "output",
        "Output kept per member; past it the oldest goes, and a line says so.",
        "SIZE",
    ),
    Flag("keep", "--keep", "keep", "How long a finished run's objects and logs stay.", "DURATION"),
    Flag("timeouts", "--timeout", "timeouts", "Limits on the run's phases.", "KEY=DURATION"),
    Flag(
        "stall",
        "--stall",
        "stall",
        "What happens when nothing moves for timeouts.stall: say so, or end the run too.",
        "report|kill",
    ),
    Flag(
        "services",
        "--service",
        "services",
        "Services beside the run, each with a web page.",
        "NAME[:KEY=VALUE,...]",
    ),
)

_BY_PATH = {flag.path: flag for flag in FLAGS}


def help_of(path: str) -> str:
    return _BY_PATH[path].help
