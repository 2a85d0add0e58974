"""`hora demo`: the example of the repository, on this machine."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile

from hora import demo as example
from hora.cli import out
from hora.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.api import Run
    from hora.cli.words import Words

NEXT = """
What to try next:
  hora demo --save digits            the example and its job file, to read and change
  hora run digits/job.yaml -n 2      the same job on two ranks
  hora status                        what is known of the run that you just saw
  hora init train.py                 a job file for your own training
"""


def demo(words: Words) -> int:
    folder = words.text("save")
    if folder == "":
        raise UsageError("demo: --save: name a folder, new or without the example's files")
    if folder is not None:
        written = example.save(folder)
        job = next(path for path in written if path.suffix == ".yaml")
        out.result("\n".join(map(str, written)))
        out.tell(f"hora: now: hora run {shlex.quote(str(job))}")
        return 0
    temporary = tempfile.mkdtemp(prefix="hora-demo-")
    try:
        return _run(temporary)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _run(folder: str) -> int:
    from hora import api
    from hora.cli.attached import Attached
    from hora.cli.commands import COMMANDS
    from hora.cli.words import Words
    from hora.load import Overrides

    example.save(folder)
    python = (sys.executable, "train.py")  # the one that runs us: there may be no other
    job = api.Job.from_file(os.path.join(folder, "job.yaml"), Overrides(command=python))
    workers = job.loaded.spec.roles[0].replicas
    out.tell(
        f"hora: {workers} ranks on this machine train a digit classifier together; each has images of its own,\n"
        "      and after every step they add up their gradients over sockets"
    )
    run: Run = api.submit(job, attached=True)
    code = Attached(run, job.loaded.spec, Words(COMMANDS[0])).follow()
    if code == 0:
        out.result(_accuracy(run))
        out.tell(NEXT.rstrip("\n"))
    return code


def _accuracy(run: Run) -> str:
    """What the first rank said last, and that all ranks have the same weights."""
    texts = [line.text for line in run.logs(follow=False)]
    equal = sum(text.startswith("weights ") and " equal those of rank " in text for text in texts)
    result = next((text for text in reversed(texts) if "accuracy" in text), "")
    return f"\n{result}; the weights are equal on all {equal} ranks"
