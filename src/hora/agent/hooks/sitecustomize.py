# Runs at the start of every Python in a rank, since the agent puts this folder first on PYTHONPATH.
# Registers faulthandler, so that `hora stacks` can see where the process is, lets the process write whole lines,
# then makes way for the sitecustomize that Python would have found without it.
#
# Any Python from 2.7 on must be able to parse and run this, in well under 2 ms, and it must never break a
# start: whoever can't be prepared is described from outside instead.
#
# The file for the stacks is open from the start (a signal handler can't open one), close-on-exec, and
# unlinked at once: the agent reads it as /proc/PID/fd/N, and nothing stays behind however the process ends.
# A forked child (multiprocessing) keeps handler and file.  That is wanted: a file per fork would cost every
# fork, and the agent finds the file through the child's own descriptors, so it knows whose dump it reads.
# Who closes all descriptors (daemons do) is not asked: the number may serve another file by then.

import os
import sys


def _prepare_stacks():
    signum = int(os.environ.get("HORA_STACK_SIGNAL") or 0)
    folder = os.environ.get("HORA_STACK_FOLDER")
    if signum <= 0 or not folder:
        return
    import _signal  # `signal` itself imports enum, which costs more than all the rest
    import faulthandler

    if hasattr(faulthandler, "_hora"):  # a run inside a run: one is enough
        return
    path = os.path.join(folder, "%d.txt" % os.getpid())  # noqa: UP031  for old Pythons
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)
    fd = os.open(path, flags, 0o600)
    os.unlink(path)
    if fd < 3:  # standard streams are closed: their numbers belong to the program
        os.close(fd)
        return
    # One signal for the main thread, the next for all: faulthandler crashes on a thread that is being made,
    # so the agent asks for all threads only while the process sleeps.
    for number, everything in ((signum, False), (signum + 1, True)):
        # Chained to SIG_DFL, faulthandler would end the process after the dump.
        chain = _signal.getsignal(number) not in (_signal.SIG_DFL, _signal.SIG_IGN)
        faulthandler.register(number, file=fd, all_threads=everything, chain=chain)
    faulthandler._hora = fd


def _write_lines():
    """Unbuffered, as Hora and many images want Python, it writes a line and its end one by one: ranks that share
    a pipe (torchrun's) then mix them, and each line costs two calls.  Whole lines are as prompt, since nobody
    sees less than a line of a rank.
    """
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "write_through", False):  # Python 3.7 or newer, and the stream is open
            stream.reconfigure(line_buffering=True, write_through=False)


def _make_way():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    return sys.modules.pop("sitecustomize", None)


try:
    _prepare_stacks()
except Exception:  # noqa: BLE001
    pass
try:
    _write_lines()
except Exception:  # noqa: BLE001
    pass

_this = _make_way()  # the reference keeps Python 2 from clearing this module's names under it

# As if this file weren't there: errors go to site.py, which shows them as ever, and where there is no
# other sitecustomize this is the ImportError that site.py expects.
import sitecustomize  # noqa
