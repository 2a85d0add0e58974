"""What a person meant by a key that doesn't exist."""

from __future__ import annotations

from collections.abc import Mapping

from hora.load.keys import keys_of, model_at, walk
from hora.load.models import JobKeys, RoleKeys
from hora.load.source import Path

# Keys that earlier versions of the job file had, by path, with what to write instead.
REMOVED: Mapping[str, str] = {}

# What other systems call a key, with our name for it.  Looked up without case, '_' and '-'.
ELSEWHERE: Mapping[str, str] = {
    "np": "workers",
    "numproc": "workers",
    "nodes": "workers",
    "nnodes": "workers",
    "numnodes": "workers",
    "parallelism": "workers",
    "replicas": "workers",
    "workercount": "workers",
    "slots": "ranksPerWorker",
    "slotsperworker": "ranksPerWorker",
    "nprocpernode": "ranksPerWorker",
    "procspernode": "ranksPerWorker",
    "ranks": "ranksPerWorker",
    "ranksperworker": "ranksPerWorker",
    "workers": "workers",
    "entrypoint": "command",
    "cmd": "command",
    "args": "command",
    "run": "command",
    "script": "command",
    "environment": "env",
    "envs": "env",
    "gpus": "resources.gpu",
    "cpus": "resources.cpu",
    "mem": "resources.memory",
    "limits": "resources",
    "requests": "resources",
    "nvidia.com/gpu": "resources.gpu",
    "storage": "volumes",
    "mounts": "volumes",
    "volumemounts": "volumes",
    "workdir": "code",
    "workingdir": "code",
    "maxrestarts": "restarts",
    "maxretries": "restarts",
    "backofflimit": "restarts",
    "activedeadlineseconds": "timeouts.total",
    "timeout": "timeouts.total",
    "ttlsecondsafterfinished": "keep",
    "ttl": "keep",
    "hostnetwork": "network.host",
    "terminationgraceperiodseconds": "timeouts.grace",
}

_IN_ROLES = {"workers": "replicas", "ranksPerWorker": "ranks"}


def unknown_key(path: Path, removed: Mapping[str, str] = REMOVED) -> str:
    """The sentence for an unknown key at a path."""
    *parents, last = path
    where = ".".join(str(part) for part in path)
    if where in removed:
        return f"is gone: {removed[where]}"
    model = model_at(tuple(parents))
    if model is None:
        return "is not a key"
    allowed = list(keys_of(model))
    meant = _nearest(str(last), allowed, in_role=model is RoleKeys, at_top=model is JobKeys)
    if meant:
        return f"is not a key; did you mean {meant}?"
    return f"is not a key; allowed here: {', '.join(sorted(allowed))}"


def _nearest(word: str, allowed: list[str], in_role: bool, at_top: bool) -> str | None:
    bare = _bare(word)
    for name in allowed:
        if _bare(name) == bare:
            return name
    elsewhere = ELSEWHERE.get(bare)
    if elsewhere and in_role:
        elsewhere = _IN_ROLES.get(elsewhere, elsewhere)
    if elsewhere and (elsewhere.split(".")[0] in allowed):
        return elsewhere
    import difflib

    lower = {name.lower(): name for name in allowed}
    close = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.65)
    if close:
        return lower[close[0]]
    return _deeper(bare, allowed) if bare and (in_role or at_top) else None


def _deeper(bare: str, allowed: list[str]) -> str | None:
    """A key of that name one level down: nodeSelector is placement.nodeSelector."""
    for path, _ in walk():
        top, _, rest = path.partition(".")
        if top in allowed and "." not in rest and _bare(rest) == bare and top not in ("roles", "services"):
            return path
    return None


def _bare(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()
