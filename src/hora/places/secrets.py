"""The values of a job's secrets that the caller has: in a variable or a file, as the job says."""

from __future__ import annotations

import os

from hora.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.spec import JobSpec, SecretSource


def values(spec: JobSpec) -> dict[str, dict[str, str]]:
    """By role and variable; those that lie in a cluster's Secret are not among them.  They go where the ranks
    are, never into the plan, a text or a file that others can read."""
    return {
        role.name: {name: _value(name, source) for name, source in role.secrets if source.secret is None}
        for role in spec.roles
    }


def _value(name: str, source: SecretSource) -> str:
    if source.env is not None:
        value = os.environ.get(source.env)
        if value is None:
            raise UsageError(f"secrets.{name}: the variable {source.env} is not set here: export it first")
        return value
    assert source.file is not None
    try:
        with open(os.path.expanduser(source.file), encoding="utf-8") as file:
            return file.read().rstrip("\n")
    except (OSError, UnicodeDecodeError) as problem:
        why = (problem.strerror if isinstance(problem, OSError) else "") or "it is not UTF-8 text"
        raise UsageError(f"secrets.{name}: {source.file} can't be read: {why}") from problem
