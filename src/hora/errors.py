"""One error tree.  A message says what is wrong, where, what is allowed and what to do next."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EXIT_USAGE = 2
EXIT_TIMEOUT = 124
EXIT_HORA = 125
EXIT_INTERRUPTED = 130


class HoraError(Exception):
    """Everything that Hora raises on purpose.  `exit_code` is what `hora` ends with."""

    exit_code = EXIT_HORA


class UsageError(HoraError):
    """The command line or a call asks for something that can't be."""

    exit_code = EXIT_USAGE


class JobFileError(UsageError):
    """A job file, or what the command line changed in it, is wrong.  Holds every problem at once."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems

    def __reduce__(self) -> tuple[type[JobFileError], tuple[list[str]]]:  # its text is no list of problems
        return type(self), (self.problems,)


class PlaceError(HoraError):
    """The place (this machine, a host, a cluster) refused or can't be reached."""


class CannotStart(HoraError):
    """`Run.exec`: the command was not found beside the rank (127), or can't be run (126), as a shell would say."""

    def __init__(self, message: str, code: int = EXIT_HORA) -> None:
        super().__init__(message)
        self.exit_code = code


class RunNotFound(UsageError):
    """No such run."""


class LeadGone(PlaceError):
    """The lead of a run doesn't answer."""


class RunEnded(LeadGone):
    """What needs living ranks was asked of a run that has ended."""

    exit_code = EXIT_USAGE


class WaitTimeout(HoraError):
    """A wait reached its limit."""

    exit_code = EXIT_TIMEOUT


class JobFailed(HoraError):
    """A run ended without success.  `status` is its last status, with the first failure's report."""

    def __init__(self, message: str, status: Any = None) -> None:
        super().__init__(message)
        self.status = status

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        code = getattr(self.status, "exit_code", None)
        return EXIT_HORA if code is None else int(code)


class RemoteError(JobFailed):
    """A function called on the ranks failed: with the remote traceback, the cause of the exception that travelled."""
