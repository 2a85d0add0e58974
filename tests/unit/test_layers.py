"""Who may import whom: the contracts of pyproject.toml bite, and what they can't say is checked here."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "hora"
CARRIED = ("plan", "record", "scene", "starts", "state", "symbols")  # what travels with the agent
API = (
    "api",
    "calling",
    "copying",
    "demo",
    "following",
    "job_keys",
    "on_rank",
    "opening",
    "session",
    "syncing",
)
KNOW_NO_PLACE = (*(f"{name}.py" for name in API), "importers", "services")
THIRD_PARTY = {"cloudpickle", "cryptography", "pathspec", "pydantic", "yaml"}
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def sources(*names: str) -> list[Path]:
    """The Python files of modules and packages of hora; those not built yet have none."""
    found = []
    for name in names:
        path = PACKAGE / name
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.exists() else []
    return found


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Every module that the file imports, wherever in it, and the line; `from a import b` gives a and a.b."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: imports are absolute"
            assert node.module is not None
            yield node.lineno, node.module
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def guarded(file: Path) -> set[int]:
    """Lines under `if TYPE_CHECKING:`, which never run."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for child in node.body:
                lines.update(range(child.lineno, (child.end_lineno or child.lineno) + 1))
    return lines


def test_what_travels_to_hosts_imports_the_standard_library_and_itself_alone() -> None:
    carried = {f"hora.{name}" for name in CARRIED}
    # For a name that is no module (`from hora.plan import Seat`), what counts is the module before it.
    wrong = []
    for file in sources("__init__.py", *(f"{name}.py" for name in CARRIED), "agent"):
        for line, module in imports(file):
            top, *rest = module.split(".")
            ours = top == "hora" and (
                not rest or rest[0] == "agent" or ".".join(module.split(".")[:2]) in carried
            )
            ours = ours or module == "hora.__version__"
            ours = ours or (file == PACKAGE / "__init__.py" and top == "hora")  # lazy, for hora.submit
            if not (
                ours or top in sys.stdlib_module_names or top == "sitecustomize" or line in guarded(file)
            ):
                wrong.append(f"{file.relative_to(ROOT)}:{line}: {module}")
    assert wrong == []


def test_importers_services_and_the_api_know_no_place_by_name() -> None:
    places = {f"hora.places.{path.parent.name}" for path in (PACKAGE / "places").glob("*/__init__.py")}
    assert "hora.places.local" in places
    [layer] = re.findall(r'"(api : .*)",', (ROOT / "pyproject.toml").read_text())
    assert tuple(name for name in layer.split(" : ") if "(" not in name) == API
    wrong = [
        f"{file.relative_to(ROOT)}:{line}: {module}"
        for file in sources(*KNOW_NO_PLACE)
        for line, module in imports(file)
        if any(module == place or module.startswith(f"{place}.") for place in places)
    ]
    assert wrong == []


def test_horovod_imports_nothing_of_the_rest() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{line}: {module}"
        for file in sources("horovod")
        for line, module in imports(file)
        if module.startswith("hora.") and not module.startswith("hora.horovod")
    ]
    assert wrong == []


def test_third_party_packages_are_those_of_the_decision_and_no_more() -> None:
    imported = {
        module.split(".")[0]
        for file in sources(".")
        for line, module in imports(file)
        if line not in guarded(file)
    }
    foreign = imported - set(sys.stdlib_module_names) - {"hora", "sitecustomize", "__main__", "pydantic_core"}
    assert foreign <= THIRD_PARTY
    project = (ROOT / "pyproject.toml").read_text().split("\ndependencies = [")[1].split("]")[0]
    declared = re.findall(r'"([\w-]+)>=', project)
    assert {name.lower().replace("pyyaml", "yaml") for name in declared} == THIRD_PARTY
    decision = (ROOT / "docs" / "decisions" / "0001-dependencies.md").read_text()
    for name in declared:
        assert f"| {name} |" in decision, f"{name} is not justified in docs/decisions"


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("frameworks/bad.py", "import hora.places.local", "Frameworks and places never meet"),
        ("places/bad.py", "from hora import frameworks", "Frameworks and places never meet"),
        ("agent/bad.py", "def f():\n    from hora.spec import JobSpec", "The agent needs"),
        ("agent/bad.py", "import cryptography.x509", "The agent needs"),
        ("state.py", "import yaml", "The agent needs"),
        ("plan.py", "import hora.frameworks", "Layers"),
        ("following.py", "import hora.places.local.paths", "The API knows no place by name"),
        ("api.py", "def f():\n    from hora.places.local import place", "The API knows no place by name"),
        ("names.py", "import pydantic", "The base and the frameworks are pure"),
        ("load/bad.py", "import hora.cli", "Layers"),
        ("horovod/bad.py", "import hora.plan", "Layers"),
        ("homeless.py", "", "Layers"),
    ],
)
def test_an_arrow_the_wrong_way_breaks_a_contract(work: Path, file: str, line: str, contract: str) -> None:
    shutil.copytree(PACKAGE, work / "hora", ignore=shutil.ignore_patterns("__pycache__"))
    target = work / "hora" / file
    target.parent.mkdir(exist_ok=True)
    (target.parent / "__init__.py").touch()
    with open(target, "a") as source:
        source.write(f"\n{line}\n")
    done = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--config", str(ROOT / "pyproject.toml")],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(work)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    broken = [text for text in done.stdout.splitlines() if text.endswith(" BROKEN")]
    assert done.returncode == 1, done.stdout + done.stderr
    assert any(text.startswith(contract) for text in broken), done.stdout
