"""The values of a job's secrets on this machine, from where the job says they are."""

from __future__ import annotations

import os

from hora.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.spec import JobSpec, SecretSource


def secrets_of(spec: JobSpec) -> dict[str, dict[str, str]]:
    """Values of the secrets, by role; they go to the agent alone, never into the plan or onto the disk."""
    return {role.name: {name: _secret(name, source) for name, source in role.secrets} for role in spec.roles}


def _secret(name: str, source: SecretSource) -> str:
    if source.env is not None:
        value = os.environ.get(source.env)
        if value is None:
            raise UsageError(f"secrets.{name}: the variable {source.env} is not set here: export it first")
        return value
    if source.file is not None:
        try:
            with open(os.path.expanduser(source.file), encoding="utf-8") as file:
                return file.read().rstrip("\n")
        except (OSError, UnicodeDecodeError) as problem:
            why = (problem.strerror if isinstance(problem, OSError) else "") or "it is not UTF-8 text"
            raise UsageError(f"secrets.{name}: {source.file} can't be read: {why}") from problem
    raise UsageError(
        f"secrets.{name}: the Kubernetes Secret {source.secret!r} can't be read on this machine; "
        f"give it with --secret {name}=env:VARIABLE or --secret {name}=file:PATH"
    )
