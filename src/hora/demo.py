"""The example behind `hora demo`: one copy, in examples/digits of the repository, shipped in the package."""

from __future__ import annotations

from pathlib import Path

from hora.errors import HoraError, UsageError

NAMES = ("train.py", "job.yaml", "README.md")


def example_folder() -> Path:
    """Where the example lies: inside an installed package, or beside `src` in a checkout."""
    package = Path(__file__).parent
    candidates = (package / "_examples" / "digits", package.parent.parent / "examples" / "digits")
    for folder in candidates:
        if (folder / "job.yaml").is_file():
            return folder
    raise HoraError(
        f"the example of `hora demo` is missing: no job.yaml in {' or '.join(map(str, candidates))}; "
        "install Hora again"
    )


def example_files() -> dict[str, str]:
    """The example's files, name to text."""
    folder = example_folder()
    return {name: (folder / name).read_text(encoding="utf-8") for name in NAMES}


def save(folder: str | Path) -> list[Path]:
    """Write the example into a folder, made if it is missing; returns what was written.  Never overwrites."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file: name a folder, new or without {', '.join(NAMES)}")
    files = example_files()
    taken = [name for name in files if (target / name).exists()]
    if taken:
        raise UsageError(
            f"{target} already holds {', '.join(taken)} and nothing is overwritten: name another folder"
        )
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            with open(target / name, "x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"the example can't be written to {target}: {reason}; name another folder"
        ) from error
    return [target / name for name in files]
