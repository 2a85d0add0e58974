"""What is made from the models: the JSON Schema for editors, the reference page, the start file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers import json_schema
from hora import load
from hora.load.flags import FLAGS
from hora.load.keys import walk
from hora.load.reference import reference
from hora.load.unknown import unknown_key

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = load.json_schema()
FILES = [Path(__file__).parent / "data" / "every-key.yaml", *sorted(ROOT.glob("examples/*/job.yaml"))]


def objections(text: str) -> list[str]:
    return json_schema.problems(yaml.safe_load(text), SCHEMA, SCHEMA)


@pytest.fixture(autouse=True)
def _in_work(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)


# --- the schema


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_the_schema_takes_the_job_files_of_the_repository(file: Path) -> None:
    assert objections(file.read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        "command: python train.py",
        "command: [python, -n, 3, true, 0.5]",
        "code: {git: 'https://example.org/x', ref: main}",
        "resources: {cpu: 2, memory: 4Gi, rdma/hca: 1}",
        "resources: {cpu: 500m, memory: 1000000000}",
        "roles: {ps: {replicas: 2, kubernetes: {user: 0}}, worker: {command: [x]}}",
        "services: {jupyter: , dask: {workers: 3}}",
        "services: {tensorboard: {logdir: /l, env: {A: 1}}}",
        "env: {A: 1, B: true, C: x}",
        "timeouts: {total: none, grace: 5s}",
        "secrets: {T: {file: x}}",
        "framework: of-somebody-else",
        "network: {ports: 80}",
        "version: 1",
    ],
)
def test_the_schema_takes_what_loading_takes(text: str) -> None:
    assert objections(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "commnd: x",
        "workers: 0",
        "workers: four",
        "command: []",
        "command: {a: b}",
        "name: Upper",
        f"name: {'x' * 41}",
        "roles: {Worker: {}}",
        "roles: {parameterserver: {}}",
        "roles: {worker: {workers: 1}}",
        "roles: {worker: {kubernetes: {namespace: x}}}",
        "stall: restart",
        "volumes: {mount: /a}",
        "volumes: [{pvc: b}]",
        "volumes: [{mount: a, pvc: b}]",
        "resources: {gpu: 0.5}",
        "resources: {gpus: 1}",
        "services: {tensorboard: {}}",
        "env: {A: [1]}",
        "env: {'A B': x}",
        "code: [a]",
        "secrets: {T: hunter2}",
        "network: {host: maybe}",
        "version: 2",
        "timeouts: {totl: 1h}",
        "[]",
    ],
)
def test_the_schema_refuses_what_loading_refuses(text: str) -> None:
    assert objections(text) != []


def test_the_schema_names_every_key_with_its_help() -> None:
    def at(path: str) -> Any:
        node: Any = SCHEMA
        for part in path.replace("[]", ".[]").split("."):
            node = _entered(node)
            if part == "[]":
                node = node["items"]
            elif part == "NAME":
                node = next(iter(node.get("patternProperties", {}).values()), node["additionalProperties"])
            else:
                node = node["properties"][part]
        return node

    for path, key in walk():
        if not path.endswith("DOMAIN/NAME"):
            assert at(path)["description"] == key.info.description, path


def _entered(node: Any) -> Any:
    """Through $ref and anyOf to the map that has keys."""
    if "$ref" in node:
        return _entered(SCHEMA["$defs"][node["$ref"].removeprefix("#/$defs/")])
    if "anyOf" in node:
        maps = [_entered(each) for each in node["anyOf"]]
        return next(each for each in maps if {"properties", "items", "patternProperties"} & set(each))
    return node


def test_the_schema_is_json_and_has_no_inner_words() -> None:
    text = json.dumps(SCHEMA)
    assert "x-example" not in text
    assert "DOMAIN/NAME" not in text
    assert SCHEMA["title"] == "Hora job file"


# --- the reference page


def test_the_reference_is_up_to_date() -> None:
    page = ROOT / "docs" / "reference" / "job-file.md"
    assert page.read_text(encoding="utf-8") == reference(), "run scripts/docs-job-file"


def test_the_reference_has_every_key_and_every_flag() -> None:
    page = reference()
    for path, key in walk():
        assert f"| `{key.name}` |" in page, path
    for flag in FLAGS:
        assert flag.option in page


# --- the start file


@pytest.mark.parametrize("script", [None, "train.py", "deep/My Script.py", "a b'\n.py", "missing.py", "é.py"])
@pytest.mark.parametrize("framework", [None, "mpi"])
def test_the_start_file_loads_as_it_is(script: str | None, framework: str | None) -> None:
    Path("train.py").write_text("import torch\n")
    text = load.start_file(script, 3, framework)
    Path("job.yaml").write_text(text)
    spec = load.load_job("job.yaml").spec
    assert spec.roles[0].command == ("python", script or "train.py")
    assert spec.roles[0].replicas == 3
    found = "torch" if script in (None, "train.py") else "plain"
    assert spec.framework == (framework or found)
    assert objections(text) == []


def test_the_start_file_says_why_it_is_this_framework() -> None:
    Path("train.py").write_text("import os\nimport torch\n")
    assert "imports torch" in load.start_file("train.py")
    Path("other.py").write_text("import os\n")
    assert "it imports no other" in load.start_file("other.py")
    assert "# framework: torch" in load.start_file("missing.py")


def test_every_comment_of_the_start_file_that_holds_a_key_is_a_key() -> None:
    lines = [line[2:] for line in load.start_file().split("\n") if line.startswith("# ")]
    written = [line for line in lines if ": " in line and line.split(":")[0].isalpha()]
    keys = {line.split(":")[0]: line for line in written if not line.startswith("All keys")}
    assert len(keys) > 8
    for name, line in keys.items():
        if name not in ("framework", "volumes"):
            assert objections(line) == [], line


# --- keys that go


def test_a_removed_key_names_its_successor() -> None:
    assert unknown_key(("slots",), {"slots": "write ranksPerWorker"}) == "is gone: write ranksPerWorker"
    assert unknown_key(("zzzz", "y"), {}) == "is not a key"
    assert "allowed here: " in unknown_key(("zzzzzzzz",), {})
