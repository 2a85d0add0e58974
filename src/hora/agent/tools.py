"""Small programs that Hora's own commands name: written on the host, first on the PATH of a launcher."""

from __future__ import annotations

import os
import shlex
import sys

PROGRAMS = {"hora-mpirun": "hora.agent.mpi", "hora-rank": "hora.agent.rank_shim"}
_CODE = "import sys; sys.path.insert(0, {place!r}); from {module} import main; sys.exit(main(sys.argv[1:]))"


def home() -> str:
    """What must be on sys.path for `import hora` to find this very copy: a folder, or the .pyz."""
    return os.path.abspath(__file__).rpartition(os.path.join("hora", "agent"))[0].rstrip(os.sep)


def write(folder: str) -> str:
    """Returns the folder."""
    os.makedirs(folder, exist_ok=True)
    for name, module in PROGRAMS.items():
        code = _CODE.format(place=home(), module=module)
        words = [sys.executable, "-S", "-E", "-c", code]
        path = os.path.join(folder, name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexec " + " ".join(shlex.quote(word) for word in words) + ' "$@"\n')
        os.chmod(path + ".new", 0o755)
        os.replace(path + ".new", path)
    return folder
