"""What a pod names and the namespace doesn't have: Secrets, ConfigMaps and keys in them."""

from __future__ import annotations

import re

from hora.places.kubernetes.why.kinds import Reason

_GONE = "somebody deleted it: end the run with `hora rm`, and run it again"


def missing(message: str, base: str) -> Reason | None:
    """`base`: the run's own objects are called so, and nobody but Hora could make them again."""
    found = re.search(r'\b(secret|configmap)s? "([^"]+)" not found', message)
    if found:
        return _object(found[1], found[2], base)
    found = re.search(r"couldn't find key (\S+) in (Secret|ConfigMap) [^/\s]+/(\S+)", message)
    if found:
        return _key(found[2].lower(), found[3], found[1])
    found = re.search(r"references non-existent (secret|config) key: (\S+)", message)
    if found:
        return _key("secret" if found[1] == "secret" else "configmap", "", found[2])
    return None


def _object(kind: str, name: str, base: str) -> Reason:
    word = "Secret" if kind == "secret" else "ConfigMap"
    if name == base or name.startswith(f"{base}-"):
        return Reason(f"{kind}-missing", f"the run's own {word} {name} is gone", _GONE, final=True)
    make = "secret generic" if kind == "secret" else "configmap"
    where = "secrets or volumes" if kind == "secret" else "volumes"
    step = f"create it (kubectl create {make} {name} …), or correct its name in {where}"
    return Reason(f"{kind}-missing", f"there is no {word} {name} in the namespace", step)


def _key(kind: str, name: str, key: str) -> Reason:
    word = "Secret" if kind == "secret" else "ConfigMap"
    what = f"the {word} {name} has no key {key}" if name else f"a {word} that it mounts has no key {key}"
    where = "secrets" if kind == "secret" else "kubernetes.podPatch"
    return Reason(f"{kind}-key", what, f"add the key to it, or correct key in {where}")
