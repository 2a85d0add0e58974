"""docs/reference/job-file.md, from the models: every key with its type, default and limits."""

from __future__ import annotations

from hora.load.flags import FLAGS
from hora.load.keys import LIST, MAP, ONE, Key, keys_of
from hora.load.models import JobKeys, Keys, RoleKeys, SharedKeys
from hora.load.unknown import ELSEWHERE, REMOVED

_INTRO = """\
# The job file

Made from the code by `scripts/docs-job-file`; don't edit it here.

A job file is YAML. Unknown keys are errors, and all errors are reported at once, each with its line. Editors
that know JSON Schema read `hora schema`. Relative paths begin at the job file's folder.

- **Sizes** are Kubernetes': `512Mi`, `4Gi` (powers of 2), `4G`, `1e9` (of 10); CPUs `2`, `0.5`, `500m`.
- **Durations**: `90s`, `10m`, `24h`, `1h30m`; `none` for no limit where that is allowed.
- **Text** that YAML reads as something else needs quotes: `"no"`, `"1.10"`. In `command`, `env`, labels and
  annotations numbers and flags are kept as they are written, without quotes too.
- A key without a value counts as not given.
- **Short form** `workers: 4` and **long form** `roles: {worker: {replicas: 4}}` are the same job. Keys at the
  top are the defaults of all roles: maps are merged and the role wins; `volumes` are merged by `mount`; other
  lists are replaced.
"""


def reference() -> str:
    parts = [_INTRO, _section("Keys of the job", JobKeys, "")]
    parts += _nested(JobKeys, "")
    parts.append(_roles())
    parts.append(_flags())
    parts.append(_words())
    return "\n".join(parts)


def _section(title: str, model: type[Keys], path: str, intro: str = "", skip: tuple[str, ...] = ()) -> str:
    rows = [_row(name, key) for name, key in keys_of(model).items() if name not in skip]
    head = ["| key | type | default | allowed | meaning | example |", "|---|---|---|---|---|---|"]
    return "\n".join([f"## {title}", "", *([intro, ""] if intro else []), *head, *rows, ""])


def _row(name: str, key: Key) -> str:
    if key.model is not None:
        link = "roles" if name == "roles" else key.model.__name__
        kind, allowed = (
            {ONE: "map", LIST: "list", MAP: "map of names"}[key.shape],
            f"[below](#{_anchor(link)})",
        )
    else:
        kind = key.rule.kind if key.rule and key.shape == ONE else "list" if key.shape == LIST else "map"
        allowed = key.rule.allowed if key.rule else ""
    extra = key.info.json_schema_extra
    example = str(extra["x-example"]) if isinstance(extra, dict) else ""
    cells = [f"`{name}`", kind, _default(key), allowed, key.info.description or "", f"`{name}: {example}`"]
    if name == "DOMAIN/NAME":
        cells[5] = f"`{example.strip('{}')}`"
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(key: Key) -> str:
    extra = key.info.json_schema_extra
    said = str(extra.get("x-default") or "") if isinstance(extra, dict) else ""
    if key.info.is_required():
        return "needed"
    default = key.info.default
    if said:
        return f"`{said}`" if said[0] in '{["0123456789' and " " not in said else said
    if default is None:
        return ""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if default == "":
        return '`""`'
    return "`[]`" if default == () else f"`{default}`"


def _anchor(text: str) -> str:
    return _TITLES.get(text, text).replace(".", "").replace("[", "").replace("]", "").lower()


_TITLES: dict[str, str] = {}


def _title(model: type[Keys], path: str) -> str:
    return _TITLES.setdefault(model.__name__, path)


def _collect() -> None:
    def visit(model: type[Keys], path: str) -> None:
        for name, key in keys_of(model).items():
            if key.model is not None and name != "roles":
                here = f"{path}.{name}" if path else name
                _title(key.model, here)
                visit(key.model, here)

    visit(JobKeys, "")


_collect()


def _nested(model: type[Keys], path: str) -> list[str]:
    """A section for every map of keys, where it appears first."""
    parts = []
    for name, key in keys_of(model).items():
        here = f"{path}.{name}" if path else name
        if key.model is None or _TITLES.get(key.model.__name__) != here:
            continue
        intro = {ONE: "", LIST: "A list; each item has:", MAP: "For each name:"}[key.shape]
        parts.append(_section(here, key.model, here, intro))
        parts += _nested(key.model, here)
    return parts


def _roles() -> str:
    shared = ", ".join(f"`{name}`" for name in keys_of(SharedKeys))
    intro = (
        f"For each name (at most 11 characters; not `lead`): {shared}\n"
        "and `kubernetes` (all but `namespace`) as for the job, for this role alone; and:"
    )
    return _section("roles", RoleKeys, "roles", intro, skip=(*keys_of(SharedKeys), "kubernetes"))


def _flags() -> str:
    rows = []
    for flag in FLAGS:
        value = flag.value.replace("|", "\\|")
        rows.append(f"| `{flag.option} {value}` | `{flag.path}` | {flag.help} |")
    return "\n".join(
        [
            "## On the command line",
            "",
            "Flags win over the file, in every role. `-n N` is the number of all ranks: members are",
            "N / `ranksPerWorker`. Words after the options replace `command`. `--set KEY=VALUE` sets any",
            "key, as `--set placement.nodeSelector.disk=nvme`; the value is read as YAML, `\\.` keeps",
            "a dot inside a key, list items go by number: `--set volumes.0.mount=/data`, and an empty value",
            "or `null` takes the key away: `--set env.LR=null`.",
            "",
            "| flag | key | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _words() -> str:
    lines = [
        "## Words from other systems",
        "",
        "Unknown keys are errors that name the nearest key. Some are known:",
        "",
    ]
    lines += ["| written | meant |", "|---|---|"]
    lines += [
        f"| `{word}` | `{meant}` |" for word, meant in sorted(ELSEWHERE.items()) if word != meant.lower()
    ]
    lines += [f"| `{word}` | gone: {said} |" for word, said in sorted(REMOVED.items())]
    return "\n".join([*lines, ""])
