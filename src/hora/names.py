"""Every rule about names, in one place: what may be a name, how one is made from text, how long it may get.

Pure, and cheap to import: `hora run` asks it before anything else is loaded.
"""

from __future__ import annotations

import re

JOB_MAX = 40
RUN_LENGTH = 5
ROLE_MAX = 11
INDEX_MAX = 9999
LABEL_MAX = (
    63  # of a DNS label, so of a host name, a Service, a label value and of a Job whose pods have host names
)
SUBDOMAIN_MAX = 253
VARIABLE_MAX = 256

RESERVED_ROLES = ("lead",)  # its objects stand beside those of the roles

# No vowels, so that no words come out; no 0, 1, 3 and l, which look like o, l, e (as Kubernetes does it).
_LETTERS = "bcdfghjkmnpqrstvwxz"
_RUN_ALPHABET = _LETTERS + "2456789"
_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class NameTooLong(ValueError):
    """A name that Hora would generate is longer than Kubernetes takes."""


def run_id(random_bytes: bytes) -> str:
    """Five characters that begin with a letter, so that YAML and shells never take them for a number."""
    if len(random_bytes) < RUN_LENGTH:
        raise ValueError(f"a run id needs {RUN_LENGTH} random bytes or more, got {len(random_bytes)}")
    number = int.from_bytes(random_bytes, "big")
    number, first = divmod(number, len(_LETTERS))
    text = _LETTERS[first]
    for _ in range(RUN_LENGTH - 1):
        number, digit = divmod(number, len(_RUN_ALPHABET))
        text += _RUN_ALPHABET[digit]
    return text


def is_run_id(text: str) -> bool:
    return len(text) == RUN_LENGTH and text[0] in _LETTERS and all(char in _RUN_ALPHABET for char in text)


def check_dns_label(text: str, limit: int = LABEL_MAX) -> str:
    """The text itself, if it is a DNS label that may also name a Service (so it begins with a letter)."""
    if not text:
        raise ValueError("must not be empty")
    if len(text) > limit:
        raise ValueError(f"must be at most {limit} characters, got {_shown(text)} with {len(text)}")
    if not _LABEL.match(text):
        proposal = label(text, limit, "")
        if proposal in RESERVED_ROLES and limit == ROLE_MAX:
            proposal = ""
        hint = f"; try {proposal}" if proposal else ""
        raise ValueError(
            "must be lower-case letters, digits and '-', begin with a letter and not end with '-', "
            f"got {_shown(text)}{hint}"
        )
    return text


def check_job_name(text: str) -> str:
    return check_dns_label(text, JOB_MAX)


def check_role_name(text: str) -> str:
    if text in RESERVED_ROLES:
        raise ValueError(f"{text} is the name of Hora's own part of a run: give the role another one")
    return check_dns_label(text, ROLE_MAX)


def check_object(text: str) -> str:
    """The text itself, if a Secret, ConfigMap or claim that exists already may be called so."""
    if not _SUBDOMAIN.match(text) or len(text) > SUBDOMAIN_MAX:
        raise ValueError(
            f"must be a Kubernetes name (lower-case letters, digits, '-' and '.', at most {SUBDOMAIN_MAX}), "
            f"got {_shown(text)}"
        )
    return text


def check_namespace(text: str) -> str:
    if "." in text or len(text) > LABEL_MAX:
        raise ValueError(f"must be a namespace (at most {LABEL_MAX} characters, no '.'), got {_shown(text)}")
    return check_object(text)


def check_variable(text: str) -> str:
    """The text itself, if every shell can set it as an environment variable."""
    if not _VARIABLE.match(text):
        raise ValueError(
            "must be a variable's name: letters, digits and '_', not beginning with a digit, "
            f"got {_shown(text)}"
        )
    if len(text) > VARIABLE_MAX:
        raise ValueError(f"must be at most {VARIABLE_MAX} characters, got {len(text)}")
    return text


def label(text: str, limit: int = LABEL_MAX, empty: str = "job") -> str:
    """The DNS label that comes nearest to any text; `empty` where nothing of it can stay."""
    if not text.isascii():
        import unicodedata  # its tables cost a millisecond that ASCII needn't pay

        text = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode("ascii")
    text = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not text:
        return empty
    if text[0].isdigit():
        text = f"{empty or 'job'}-{text}"
    return text[:limit].rstrip("-")


def job_name(text: str) -> str:
    """A job's name from a script, a folder or any other text."""
    return label(text, JOB_MAX)


def object_name(job: str, run: str, role: str | None = None, index: int | None = None) -> str:
    """Name of what a place makes: `<job>-<run>`, `<job>-<run>-<role>`, `<job>-<run>-<role>-<index>`."""
    parts = [job, run]
    if role is not None:
        parts.append(role)
    if index is not None:
        parts.append(str(index))
    name = "-".join(parts)
    if len(name) > LABEL_MAX:
        raise NameTooLong(
            f"{name} has {len(name)} characters, Kubernetes takes {LABEL_MAX}: "
            f"shorten the job's name by {len(name) - LABEL_MAX}"
        )
    return name


def longest_name(job: str, run: str, roles: dict[str, int]) -> str:
    """The longest name that a run generates, checked: pods use `<job>-<run>-<role>-<index>` as host name."""
    names = [object_name(job, run, reserved) for reserved in RESERVED_ROLES]
    for role, replicas in roles.items():
        names.append(object_name(job, run, role, max(replicas - 1, 0)))
    return max(names, key=len)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
