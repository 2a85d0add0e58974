"""What would be sent, as YAML: the very objects."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

HEAD = """\
# {name} as run {run}: what `hora run` would send.
"""
WITHOUT = """\
# Without its certificates and the values of your secrets: with --with-identity it can be applied with kubectl.
"""
WITH = """\
# With the run's certificates and the values of your secrets: keep it to yourself.
"""


def text(objects: Iterable[dict[str, Any]], name: str, run: str, whole: bool) -> str:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    documents = yaml.dump_all(
        objects, Dumper=dumper, sort_keys=False, allow_unicode=True, width=10_000, explicit_start=True
    )
    head = HEAD.format(name=name, run=run) + (WITH if whole else WITHOUT)
    return head + str(documents).rstrip("\n")
