"""`python -m hora.agent local OWNER_FD` on one machine; `lead` and `host` where there are many."""

from __future__ import annotations

import sys


def main(argv: "list[str]") -> int:
    if len(argv) == 2 and argv[0] == "local":
        from hora.agent import local

        return local.main(int(argv[1]))
    if argv == ["lead"]:
        from hora.agent import server

        return server.main()
    if argv == ["host"]:
        from hora.agent import host

        return host.main()
    print("hora-agent: started by hora, not by hand", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
