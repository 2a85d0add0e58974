"""What a user of Hora must be allowed in a namespace, each right with what needs it.

`hora rbac` prints it as a Role, `hora check` tries it, and the tests' user has this and nothing more.
"""

from __future__ import annotations

from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Right(Record):
    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str
    needed: bool = True  # else Hora does with less, and says so
    option: str = ""  # `--without` leaves it out


RIGHTS = (
    Right("batch", "jobs", ("create", "get", "list", "watch", "delete"), "a run is Jobs; its lead's owns the rest"),
    Right("", "pods", ("get", "list", "watch"), "where the members are, and what they wait for"),
    Right("", "configmaps", ("create",), "the plan, Hora's agent and the code"),
    Right("", "secrets", ("create", "get"), "the run's certificates, made for it alone"),
    Right("", "services", ("create",), "names for the lead and the members"),
    Right("networking.k8s.io", "networkpolicies", ("create",), "nobody else reaches the members"),
    Right("", "pods/portforward", ("get", "create"), "to ask the lead: status, output, shell, stop",
          needed=False, option="portforward"),
    Right("", "pods/log", ("get",), "output after the run has ended", needed=False, option="logs"),
    Right("", "events", ("list", "watch"), "why a pod isn't made or can't start", needed=False, option="events"),
    Right("", "resourcequotas", ("list",), "whether the run fits the quota, before it is sent", needed=False,
          option="quotas"),
    Right("", "limitranges", ("list",), "whether its members fit the limits", needed=False, option="quotas"),
    Right("", "persistentvolumeclaims", ("list",), "whether its claims are there and can be shared", needed=False,
          option="claims"),
)  # fmt: skip


def role(name: str, namespace: str | None, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The Role; rights with equal verbs of one group are one rule."""
    rules: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for right in RIGHTS:
        if right.option not in without or not right.option:
            rules.setdefault((right.group, right.verbs), []).append(right.resource)
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata,
        "rules": [
            {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
            for (group, verbs), resources in rules.items()
        ],
    }


def binding(name: str, namespace: str | None, kind: str, subject: str) -> dict[str, Any]:
    """Gives the Role to a `User`, a `Group` or a `ServiceAccount`."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    who: dict[str, Any] = {"kind": kind, "name": subject}
    if kind == "ServiceAccount":
        elsewhere, _, name_of_it = subject.rpartition("/")
        who = {"kind": kind, "name": name_of_it, "namespace": elsewhere or namespace or "default"}
    else:
        who["apiGroup"] = "rbac.authorization.k8s.io"
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [who],
    }
