"""Values that fit a tool's JSON schema."""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter

from graphexec.testing.explorer.oracle import example_of
from tests.parameters import cases


class Colour(enum.Enum):
    RED = "red"


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


def test_an_unknown_reference_is_a_string() -> None:
    assert example_of({"$ref": "elsewhere"}) == "x"
