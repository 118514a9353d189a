"""Calls that do not fit, missing attributes and missing names are explained."""

from __future__ import annotations

import copy
import pickle
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import graphexec
from graphexec import Limits
from graphexec._mistakes import explain_calls, explain_class
from graphexec.errors import SignatureError
from tests.parameters import cases


@explain_class("Box(size=1)", options={"width": "write size=..."}, attributes={"volume": "write box.size"}, item="no")
class Box:
    def __init__(self, *, size: int, lid: bool = False) -> None:
        self.size = size
        self.lid = lid

    def open(self) -> str:
        raise TypeError("the lid is stuck")


made: Any = Box


@cases(
    ("options", "message"),
    [
        ({"width": 3}, "Box has no option width; write size=..."),
        ({"sise": 3}, "Box has no option sise; did you mean size?"),
        ({"size": 3, "weight": 3}, "Box has no option weight; write Box(size=1)"),
        ({"sise": 3, "width": 3}, "Box has no option sise; did you mean size? Box has no option width; write size=..."),
        ({"size": 3, "weight": 3, "colour": 3}, "Box has no option weight or colour; write Box(size=1)"),
        ({}, "Box needs size; write Box(size=1)"),
    ],
)
def test_wrong_options_name_a_remedy(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SignatureError) as raised:
        made(**options)
    assert str(raised.value) == message
    assert isinstance(raised.value, TypeError)


def test_arguments_by_position_are_refused() -> None:
    with pytest.raises(SignatureError, match=r"^Box takes its arguments by name, .* given 2 by position; write Box\("):
        made(3, 4)


def test_type_error_within_a_call_is_kept() -> None:
    with pytest.raises(TypeError, match="the lid is stuck") as raised:
        Box(size=1).open()
    assert not isinstance(raised.value, SignatureError)

    def fail(value: object) -> object:
        return len(anything(value))

    explained = explain_calls("fail", "fail(value)", {})(fail)
    with pytest.raises(TypeError, match="has no len") as raised:
        explained(3)
    assert not isinstance(raised.value, SignatureError)


def anything(value: object) -> Any:
    """A value that a type checker lets pass."""
    return value


def test_type_error_of_a_call_that_fits_is_kept() -> None:
    explained = explain_calls("length", "length(value)", {})(len)
    with pytest.raises(TypeError, match="has no len"):
        explained(anything(3))


def test_missing_attribute_is_explained() -> None:
    with pytest.raises(AttributeError, match=r"^Box has no volume; write box\.size$"):
        _ = made(size=1).volume
    with pytest.raises(AttributeError, match=r"^'Box' object has no attribute 'colour'$") as raised:
        _ = made(size=1).colour
    assert raised.value.name == "colour"
    assert not hasattr(Box(size=1), "volume")


def test_explained_objects_are_copied_and_pickled() -> None:
    limits = Limits(iterations=3)
    assert copy.deepcopy(limits) == pickle.loads(pickle.dumps(limits)) == limits


@cases("name", ["nothing", "_nothing", "StateGraph"])
def test_package_has_no_missing_name(name: str) -> None:
    assert not hasattr(graphexec, name)
    with pytest.raises(ImportError):
        exec(f"from graphexec import {name}")


@given(st.text() | st.from_regex(r"\A[a-z_]{1,8}(\.[a-z_]{0,8}){1,3}\Z"))
@example("foo.bar")
@example("executor.")
@example("models.nothing")
@example(".")
@example("")
@example("class")
@example("a" * 5_000)
@example("\udc80\0")
def test_any_name_can_be_looked_up(name: str) -> None:
    # Every object has such attributes: `__class__`.
    assume(not hasattr(ModuleType, name))
    assert getattr(graphexec, name, None) is vars(graphexec).get(name)


def test_modules_are_imported_as_before() -> None:
    from graphexec import cli

    assert cli.__name__ == "graphexec.cli"
