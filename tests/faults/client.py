"""A client of a run that doesn't belong to it: submits by the API, prints what `hora run` would, ends alike.

`python client.py JOB`: the job's keys as JSON.
"""

from __future__ import annotations

import json
import sys

import hora
from hora.agent.merge import Merger


def main() -> int:
    run = hora.submit(hora.Job(**json.loads(sys.argv[1])))
    merger = Merger()
    for chunk in run.chunks():
        write(merger.feed(chunk.label, chunk.data, 0.0, chunk.time))
    write(merger.end())
    return run.wait(check=False).exit_code or 0


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
