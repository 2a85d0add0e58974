"""Where the ranks of a run on this machine start."""

from __future__ import annotations

import os

from hora.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hora.spec import Code, JobSpec


def working_folder(spec: JobSpec, run_folder: str) -> str:
    """The code's folder, a new clone of it, or where the caller stands.  On failure there is no run."""
    try:
        return _working_folder(spec.code, run_folder)
    except BaseException:  # Ctrl-C while it clones, too
        from shutil import rmtree  # it loads every compressor there is

        rmtree(run_folder, ignore_errors=True)
        raise


def another_clone(git: Sequence[str | None], run_folder: str) -> str:
    """As the repository is now, beside the clone that the ranks are in."""
    from hora.places.clone import clone
    from hora.spec import Code

    code = Code(None, *git)
    return clone(code, os.path.join(run_folder, f"code-{os.urandom(4).hex()}"))


def _working_folder(code: Code | None, run_folder: str) -> str:
    if code is not None and code.git is not None:
        from hora.places.clone import clone

        return clone(code, os.path.join(run_folder, "code"))
    if code is not None and code.path is not None:
        return code.path
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise UsageError("the folder that you are in was removed: go to one that exists") from None
