"""Values that fit a tool's JSON schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter

from graphexec.testing.explorer.oracle import example_of, unusual_arguments
from tests.parameters import cases
from tests.verify.errands import Colour


class Point(BaseModel):
    x: int
    y: Annotated[float, Field(ge=5)] = 7
    colour: Colour
    next: Point | None


PLAIN = [str, int, bool, None, Literal["a"], Literal["a", "b"], list[int], int | str, Point, dict[str, int]]
LIMITED = [Annotated[str, Field(min_length=3)], Annotated[int, Field(ge=10)], Annotated[float, Field(le=-1)]]
OTHERS = [Annotated[str, Field(examples=["2020-01-01"])], Annotated[list[int], Field(min_length=2)]]


@cases("kind", *PLAIN, *LIMITED, *OTHERS)
def test_an_example_fits_its_schema(kind: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    adapter.validate_python(example_of(adapter.json_schema()), strict=False)


BOUNDED = [Annotated[int, Field(gt=0)], Annotated[int, Field(multiple_of=7)], Annotated[float, Field(lt=0)]]
SHORT = [Annotated[list[str], Field(max_length=0)], Annotated[str, Field(pattern="a+")], set[int]]


@cases("kind", *PLAIN, *LIMITED, *OTHERS, *BOUNDED, *SHORT)
def test_unusual_arguments_fit_their_schema(kind: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    schema = adapter.json_schema()
    for arguments in unusual_arguments({"properties": {"it": schema}, "$defs": schema.get("$defs", {})}):
        adapter.validate_python(arguments["it"], strict=False)


@cases(
    ("kind", "values"),
    (str, [""]),
    (int, [0, -1, 100]),
    (bool, [False]),
    (Literal["a", "b"], ["b"]),
    (list[int], [[], [1]]),
)
def test_unusual_arguments_are_often_forgotten(kind: Any, values: list[object]) -> None:
    schema = TypeAdapter[Any](kind).json_schema()
    found = unusual_arguments({"properties": {"it": schema, "other": {"type": "boolean"}}})
    # A property without a further unusual value has its example.
    assert found == [{"it": value, "other": bool(number)} for number, value in enumerate(values)]


def test_an_unknown_reference_is_a_string() -> None:
    assert example_of({"$ref": "elsewhere"}) == "x"
