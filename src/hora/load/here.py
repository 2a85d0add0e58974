"""The folder where the user is: commands run there, and relative paths begin there."""

from __future__ import annotations

import os

from hora.errors import UsageError


def here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise UsageError("the folder that you are in was removed: go to one that exists") from None
