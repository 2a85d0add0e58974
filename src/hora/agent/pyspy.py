"""py-spy, where somebody installed it: stacks of Pythons that have no handler of ours."""

from __future__ import annotations

import json
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import IO, Any


class Spy:
    """One `py-spy dump` on its way."""

    def __init__(self, process: subprocess.Popen[bytes], output: IO[bytes], until: float) -> None:
        self._process = process
        self._output = output
        self._until = until

    def ended(self) -> bool:
        if self._process.poll() is None and time.monotonic() > self._until:
            self.end()
        return self._process.poll() is not None

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
            self._output.close()

    def stacks(self) -> tuple[tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]]:
        """Frames of the main thread and of the others; empty when py-spy failed (most often: no right to)."""
        if self._output.closed:  # it was ended at the limit
            return (), ()
        with self._output as output:
            output.seek(0)
            try:
                return parse(json.loads(output.read().decode("utf-8", "replace")))
            except (ValueError, KeyError, TypeError):
                return (), ()


def start(pid: int, seconds: float) -> Spy | None:
    """None where there is no py-spy.  It reads the memory from outside and doesn't stop the process."""
    import shutil
    import subprocess
    import tempfile

    path = shutil.which("py-spy")
    if path is None:
        return None
    output = tempfile.TemporaryFile()  # noqa: SIM115  outlives this function
    command = [path, "dump", "--nonblocking", "--json", "--pid", str(pid)]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        output.close()
        return None
    return Spy(process, output, time.monotonic() + seconds)


def parse(data: Any) -> tuple[tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]]:
    main: tuple[str, ...] = ()
    others: list[tuple[str, tuple[str, ...]]] = []
    for thread in data:
        frames = tuple(
            "{}:{} {}".format(frame["filename"], frame["line"], frame["name"]) for frame in thread["frames"]
        )
        name = thread.get("thread_name") or ""
        if not main and (name == "MainThread" or thread.get("os_thread_id", 0) == thread.get("pid")):
            main = frames
        else:
            others.append((name or "thread {}".format(thread.get("thread_id")), frames))
    if not main and others:  # without names: py-spy lists the main thread last
        main = others.pop()[1]
    return main, tuple(others)
