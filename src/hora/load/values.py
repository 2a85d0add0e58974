"""Single values of a job: from what a person writes to what a spec holds, or a ValueError that says why not.

No pydantic here: the command line's fast path uses the very same functions.
"""

from __future__ import annotations

import re

from hora import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


class Plain(str):
    """A YAML scalar written without quotes that YAML reads as something other than text.

    It is the text as written; `value` is what YAML makes of it.
    """

    value: Any

    def __new__(cls, text: str, value: Any) -> Plain:
        plain = super().__new__(cls, text)
        plain.value = value
        return plain


def shown(value: Any) -> str:
    """A value as an error message quotes it."""
    if value is None or (isinstance(value, Plain) and value == ""):
        return "nothing"
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = str(value) if isinstance(value, (Plain, int, float)) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def text(value: Any) -> str:
    """Text, where a number or a flag is a mistake."""
    if isinstance(value, Plain):
        raise ValueError(f'must be text, but YAML reads {value} as {_reading(value)}: write "{value}"')
    if not isinstance(value, str):
        raise ValueError(f"must be text, got {shown(value)}")
    return _no_nul(value)


def some_text(value: Any) -> str:
    if text(value) == "":
        raise ValueError("must not be empty")
    return str(value)


def as_written(value: Any) -> str:
    """Text, or a number or flag, kept as it is written: 0.1 stays "0.1", yes stays "yes"."""
    if isinstance(value, Plain):
        if value.value is None:
            raise ValueError('has no value: write "" for empty text')
        return str(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if value is None:
        raise ValueError('has no value: write "" for empty text')
    return text(value)


def _reading(value: Plain) -> str:
    read = value.value
    if read is None:
        return "nothing"
    if isinstance(read, bool):
        return "true" if read else "false"
    if isinstance(read, (int, float)):
        return f"the number {read}"
    return "a date"


def _no_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not hold a NUL character: no program can be given one")
    return value


def checked(check: Callable[[str], str]) -> Callable[[Any], str]:
    """Text that one of the rules in `names` must take too."""

    def parse(value: Any) -> str:
        return check(text(value))

    return parse


job_name = checked(names.check_job_name)
role_name = checked(names.check_role_name)
kubernetes_object = checked(names.check_object)
namespace = checked(names.check_namespace)


def variable(value: Any) -> str:
    return names.check_variable(as_written(value))


def command(value: Any) -> tuple[str, ...]:
    """A list of words, or one string split as a shell would."""
    if isinstance(value, (list, tuple)):
        words = []
        for position, word in enumerate(value):
            if isinstance(word, (dict, list, tuple)):
                raise ValueError(f"must be a list of words, but word {position + 1} is {shown(word)}")
            try:
                words.append(_no_nul(as_written(word)))
            except ValueError as error:
                raise ValueError(f"word {position + 1} {error}") from None
    elif isinstance(value, str):
        words = _split(as_written(value))
    else:
        raise ValueError(f"must be a list of words or one line of text, got {shown(value)}")
    if not words or not words[0]:
        raise ValueError("must not be empty: write the program and its arguments")
    return tuple(words)


def _split(line: str) -> list[str]:
    import shlex

    _no_nul(line)
    try:
        return shlex.split(line)
    except ValueError as error:
        what = (
            "a quote is opened and never closed" if "quotation" in str(error) else "it ends with a backslash"
        )
        raise ValueError(f"can't be split as a shell would: {what} in {shown(line)}") from None


def absolute_path(value: Any) -> str:
    if not some_text(value).startswith("/"):
        raise ValueError(f"must be an absolute path (/...), got {shown(value)}")
    return str(value)


def interface(value: Any) -> str:
    if not re.fullmatch(r"[^\s/,]{1,15}", some_text(value)):
        raise ValueError(f"must be auto or the name of one network interface, got {shown(value)}")
    return str(value)


def peer(value: Any) -> str:
    """Who may connect to a run: a block of addresses, or a namespace."""
    import ipaddress

    try:
        return str(ipaddress.ip_network(text(value), strict=False))
    except ValueError:
        pass
    try:
        return names.check_namespace(text(value))
    except ValueError:
        raise ValueError(f"must be addresses (10.0.0.0/8) or a namespace, got {shown(value)}") from None


def label_key(value: Any) -> str:
    """Key of a Kubernetes label or annotation: a name, perhaps after a domain and a slash."""
    domain, _, name = as_written(value).rpartition("/")
    good = re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", name) is not None
    if domain or "/" in value:
        good = good and re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", domain) is not None
    if not good:
        raise ValueError(f"must be a label's key (name, or domain/name), got {shown(value)}")
    return str(value)


def label_value(value: Any) -> str:
    if not re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?", as_written(value)):
        raise ValueError(
            "must be a label's value: at most 63 letters, digits, '-', '_' and '.', with a letter or digit "
            f"at both ends, got {shown(value)}"
        )
    return as_written(value)


def choice(*allowed: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in allowed or not isinstance(value, str):
            raise ValueError(f"must be {one_of(allowed)}, got {shown(value)}{_meant(value, allowed)}")
        return str(value)

    return parse


def one_of(allowed: tuple[str, ...]) -> str:
    return allowed[0] if len(allowed) == 1 else f"{', '.join(allowed[:-1])} or {allowed[-1]}"


def _meant(value: Any, allowed: tuple[str, ...], elsewhere: Mapping[str, str] | None = None) -> str:
    """The word that was probably meant, as the end of a sentence."""
    import difflib

    if not isinstance(value, str):
        return ""
    lower = {word.lower(): word for word in allowed}
    near = difflib.get_close_matches(value.lower(), lower, n=1)
    meant = (elsewhere or {}).get(value.lower()) or (lower[near[0]] if near else "")
    return f"; did you mean {meant}?" if meant else ""


# What people call a framework.
_FRAMEWORKS: Mapping[str, str] = {
    "pytorch": "torch",
    "ddp": "torch",
    "torchrun": "torch",
    "tf": "tensorflow",
    "keras": "tensorflow",
    "horovod": "mpi",
    "openmpi": "mpi",
    "mpirun": "mpi",
    "flax": "jax",
}


def framework(value: Any) -> str:
    from hora.spec import FRAMEWORKS

    if isinstance(value, str) and (value in FRAMEWORKS or value in third_party_frameworks()):
        return str(value)
    allowed = tuple(dict.fromkeys(FRAMEWORKS + third_party_frameworks()))
    raise ValueError(f"must be {one_of(allowed)}, got {shown(value)}{_meant(value, allowed, _FRAMEWORKS)}")


def third_party_frameworks() -> tuple[str, ...]:
    from importlib.metadata import entry_points

    return tuple(sorted({entry.name for entry in entry_points(group="hora.frameworks")}))
