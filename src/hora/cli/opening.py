"""`hora open`."""

from __future__ import annotations

from hora.cli import out
from hora.cli.look import chosen_run
from hora.errors import UsageError
from hora.opening import Forward

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.cli.words import Words

HIGHEST = 65535


def open_ports(words: Words) -> int:
    wanted = [_target(word) for word in words.many("[rank:]port")]
    local = words.text("port")
    if local is not None and len(wanted) > 1:
        raise UsageError("open: --port names one port here, and several are asked for: leave it out")
    run = chosen_run(words)
    quiet = words.flag("quiet")
    forward = Forward(run, lambda text: None if quiet else out.tell(f"hora: {text}"))
    try:
        for rank, port in wanted:
            label = run.label_of(rank)
            here = forward.listen(label, port, None if local is None else _number(local))
            if not quiet:
                other = f" is port {here} here" if here != port else ""
                out.tell(f"hora: port {port} beside {label} of {run.id}{other}; Ctrl-C ends this")
            out.result(f"http://127.0.0.1:{here}")
        forward.serve()
    finally:
        forward.close()
    if not quiet:
        status = run.status()
        out.tell(f"hora: run {run.id} {status.phase}: {status.reason}")
    return 0


def _target(word: str) -> tuple[str, int]:
    rank, _, port = word.rpartition(":")
    return rank or "0", _number(port)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= HIGHEST):
        raise UsageError(f"open: {text!r} is no port: a number from 1 to {HIGHEST}, or RANK:PORT")
    return int(text)
