"""What can go wrong between here and a cluster."""

from __future__ import annotations

import json

from hora.errors import PlaceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_WORDS = 300  # of an answer that is no Status object: a proxy's page may be long


class ApiError(PlaceError):
    """The server refused.  The text is the server's own."""

    def __init__(
        self, message: str, status: int, reason: str = "", details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status  # of HTTP
        self.reason = reason  # NotFound, AlreadyExists, Forbidden, …: as in the Status object
        self.details: dict[str, Any] = details or {}


class Expired(ApiError):
    """410: the server no longer knows this resourceVersion; list again."""


class Unauthorized(ApiError):
    """401, or a TLS alert that says the same: the credentials are missing, wrong or expired."""


class Unreachable(PlaceError):
    """No answer: refused, timed out, no such name, no trust, broken off."""


def refusal(status: int, phrase: str, body: bytes, url: str) -> ApiError:
    """The error for an answer that isn't a success."""
    found = _status_object(body)
    message = str(found.get("message") or "") or f"{url} answered {status} {phrase}{_words(body)}"
    reason = str(found.get("reason") or "")
    details = found.get("details")
    kind = Expired if status == 410 else Unauthorized if status == 401 else ApiError
    return kind(message, status, reason, details if isinstance(details, dict) else None)


def _status_object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) and found.get("kind") == "Status" else {}


def _words(body: bytes) -> str:
    """The first words of an answer that no API server has written."""
    import re

    text = re.sub(r"(?is)<(style|script|head).*?</\1>|<[^>]*>", " ", body.decode("utf-8", "replace"))
    text = " ".join(text.split())
    return f": {text[:MOST_WORDS]}{'…' if len(text) > MOST_WORDS else ''}" if text else ""
