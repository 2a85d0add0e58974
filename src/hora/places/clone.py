"""`code: {git: URL, ref: main}`: the tree of a repository, fetched with the user's own git."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from hora.errors import PlaceError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.spec import Code

_COMMIT = re.compile(r"[0-9a-f]{4,64}\Z")
_OTHERS = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
)  # set inside hooks of another repository


class _GitError(Exception):
    pass


def clone(code: Code, folder: str) -> str:
    """The tree at `ref` (a branch, tag or commit; absent: what the repository calls HEAD), without history."""
    if shutil.which("git") is None:
        raise PlaceError(
            f"code: git is not on PATH, so {code.git} can't be cloned: install git, or name a folder as code"
        )
    url, ref = str(code.git), code.ref or "HEAD"
    try:
        _git("init", "--quiet", folder)
        _check_out(folder, url, ref)
        if os.path.exists(os.path.join(folder, ".gitmodules")):
            _git("-C", folder, "submodule", "--quiet", "update", "--init", "--recursive", "--depth", "1")
    except _GitError as problem:
        raise _explained(url, ref, str(problem)) from None
    return folder


def _check_out(folder: str, url: str, ref: str) -> None:
    fetch = ("-C", folder, "fetch", "--quiet")
    try:
        _git(*fetch, "--depth", "1", "--", url, ref)
        found = "FETCH_HEAD"
    except _GitError:
        if not _COMMIT.match(ref):
            raise
        # The beginning of a commit's name, or a server that gives no single commits: all of it, then look.
        _git(*fetch, "--tags", "--", url, "+refs/heads/*:refs/remotes/origin/*")
        found = _git("-C", folder, "rev-parse", "--verify", f"{ref}^{{commit}}")
    _git("-C", folder, "checkout", "--quiet", "--detach", found)


def _git(*words: str) -> str:
    """Git asks for passwords on the terminal itself; where there is none it fails rather than waits."""
    env = {name: value for name, value in os.environ.items() if name not in _OTHERS}
    done = subprocess.run(
        ["git", "-c", "advice.detachedHead=false", "-c", "init.defaultBranch=main", *words],
        env={**env, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode:
        raise _GitError(done.stderr)
    return done.stdout.strip()


def _explained(url: str, ref: str, said: str) -> PlaceError | UsageError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    fatal = next(
        (line for line in lines if line.startswith(("fatal:", "error:"))), (lines or ["it said nothing"])[-1]
    )
    why = re.sub(r"^(fatal|error): ", "", fatal)
    if any(
        text in why for text in ("couldn't find remote ref", "Needed a single revision", "invalid refspec")
    ):
        return UsageError(f"code: {url} has no branch, tag or commit {ref!r}: check code.ref")
    return PlaceError(
        f"code: {url} can't be cloned: {why.rstrip('.')}; try `git ls-remote {url}`, or name a folder as code"
    )
