"""`hora rbac`: what concerns clusters alone."""

from __future__ import annotations

from hora.cli import out
from hora.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.cli.words import Words

NAME = "hora"


def rbac(words: Words) -> int:
    """The Role, and its binding where a subject is named."""
    import yaml

    from hora.places.kubernetes import rights

    without = words.many("without")
    namespace, name = words.text("namespace"), words.text("name") or NAME
    objects = [rights.role(name, namespace, without)]
    for kind, key in (("User", "user"), ("Group", "group"), ("ServiceAccount", "service_account")):
        subject = words.text(key)
        if subject is not None:
            objects.append(rights.binding(name, namespace, kind, subject))
    if len(objects) > 2:
        raise UsageError("rbac: name one of --user, --group and --service-account")
    out.result(yaml.safe_dump_all(objects, sort_keys=False).rstrip("\n"))
    return 0
