"""Values that fit a tool's JSON schema."""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter

from graphexec.verify.explorer.oracle import example_of
from tests.parameters import cases


class Colour(enum.Enum):
    RED = "red"


class Point(BaseModel):
    x: int
    y: Annotated[float, Field(ge=5)] = 7
    colour: Colour
    next: Point | None


@cases(
    "kind",
    [
        str,
        Annotated[str, Field(min_length=3)],
        int,
        Annotated[int, Field(ge=10)],
        Annotated[float, Field(le=-1)],
        bool,
        None,
        Literal["a"],
        Literal["a", "b"],
        Annotated[str, Field(examples=["2020-01-01"])],
        list[int],
        Annotated[list[int], Field(min_length=2)],
        int | str,
        Point,
        dict[str, int],
    ],
)
def test_an_example_fits_its_schema(kind: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    adapter.validate_python(example_of(adapter.json_schema()), strict=False)


def test_an_unknown_reference_is_a_string() -> None:
    assert example_of({"$ref": "elsewhere"}) == "x"
