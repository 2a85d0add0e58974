"""The job files that the documentation shows are job files: they load, and editors find nothing wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from helpers import json_schema
from helpers.markdown import Block, blocks
from hora.load import job_file, load_job
from hora.load import json_schema as the_schema

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/guides/*.md"))]
SHOWN = [
    block for page in PAGES for block in blocks(page) if block.language == "yaml" and "file" in block.marks
]
WRONG = "wrong.yaml"  # what mistakes look like


@pytest.mark.parametrize(
    "block", [block for block in SHOWN if block.marks["file"] != WRONG], ids=lambda b: b.where
)
def test_a_job_file_of_the_documentation_loads(block: Block, work: Path) -> None:
    file = work / "job.yaml"
    file.write_text(block.text)
    spec = load_job(file).spec
    schema = the_schema()
    assert json_schema.problems(yaml.safe_load(block.text), schema, schema) == []
    (work / "again.yaml").write_text(job_file(spec))
    assert load_job(work / "again.yaml").spec == spec


def test_the_wrong_one_is_wrong_to_editors_too() -> None:
    (wrong,) = [block for block in SHOWN if block.marks["file"] == WRONG]
    schema = the_schema()
    assert json_schema.problems(yaml.safe_load(wrong.text), schema, schema)
