"""A client: submits by the API, tells the run's id, follows the run to its end and ends as it ended.

`python client.py JOB ATTACHED OUT`: the job's keys as JSON; what it was told goes to the file OUT.
"""

from __future__ import annotations

import json
import os
import sys

import hora


def main() -> int:
    keys, attached, out = json.loads(sys.argv[1]), sys.argv[2] == "attached", sys.argv[3]
    run = hora.submit(hora.Job(**keys), attached=attached)
    with open(out + ".id.new", "w", encoding="ascii") as file:
        file.write(run.id)
    os.replace(out + ".id.new", out + ".id")
    with open(out, "wb", buffering=0) as told:
        for chunk in run.chunks():
            told.write(json.dumps([chunk.number, chunk.label]).encode() + b"\n")
    return run.wait(check=False).exit_code or 0


if __name__ == "__main__":
    sys.exit(main())
