"""Records behave as frozen dataclasses do."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hora.record import Record, fields, replace


class Point(Record):
    x: int
    y: int = 0


class Named(Point):
    name: str = "origin"
    y: int = 5  # a new default for an inherited field, in its old position


def test_fields_are_taken_by_position_and_by_name() -> None:
    assert Point(1) == Point(x=1, y=0)
    assert Point(1, 2) == Point(y=2, x=1)
    assert list(fields(Named)) == ["x", "y", "name"]
    assert Named(1) == Named(1, 5, "origin")


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="Point needs x"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Point has no field 'z'"):
        Point(1, z=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Point has 2 fields, got 3"):
        Point(1, 2, 3)  # type: ignore[call-arg]


def test_a_field_given_twice_is_an_error() -> None:
    with pytest.raises(TypeError, match="Point got 'x' twice"):
        Point(1, x=2)  # type: ignore[misc]


def test_records_can_not_be_changed() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match="frozen"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del point.x
    assert replace(point, x=2) == Point(2) and point == Point(1)


def test_equal_records_are_one_key_and_other_classes_are_others() -> None:
    assert {Point(1): "a"}[Point(1, 0)] == "a"
    assert Point(1, 5) != Named(1, 5)
    assert Point(1) != (1, 0)
    assert repr(Named(1)) == "Named(x=1, y=5, name='origin')"


def imported_by(*modules: str) -> set[str]:
    code = f"import sys; sys.path[:0] = {sys.path!r}; import {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_plan_needs_neither_typing_nor_dataclasses() -> None:
    heavy = {"typing", "dataclasses", "inspect", "subprocess", "asyncio", "importlib.metadata"}
    assert not heavy & imported_by("hora.plan", "hora.state")
