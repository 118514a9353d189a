"""Values with images become JSON data and come back, whatever else they have; observations keep their text."""

import enum
import math
from collections import deque
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphexec.messages import Image, images
from graphexec.messages.observations import LABEL, dump_observation, format_observation
from graphexec.messages.stored import restore_value
from tests.models.pictures import PNG
from tests.parameters import cases

IMAGE, LINKED = Image.from_bytes(PNG), Image("https://example.org/cat.png")


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__


class Colour(enum.StrEnum):
    RED = "red"


# Texts that the marks of images begin with, and names that stored images have.
TEXTS = st.text("#1", max_size=3) | st.sampled_from(["kind", "data", "graphexec.image", "graphexec.data"])
LEAVES = TEXTS | st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([IMAGE, LINKED])
VALUES = st.recursive(
    LEAVES, lambda one: st.lists(one, max_size=3) | st.dictionaries(TEXTS, one, max_size=3), max_leaves=9
)


@given(VALUES)
@example({"kind": "graphexec.image"})
def test_dumped_value_is_restored(value: Any) -> None:
    assert restore_value(images.dump_with_images(value)) == value


@given(VALUES)
def test_each_image_is_replaced_in_its_place(value: Any) -> None:
    def plain(part: Any) -> Any:
        match part:
            case Image():
                return [part.url]
            case [*items]:
                return [plain(one) for one in items]
            case {**members}:
                return {name: plain(one) for name, one in members.items()}
            case _:
                return part

    assert images.replace_images(value, lambda image: [image.url]) == plain(value)


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


@cases(
    ("observation", "dumped"),
    (Colour.RED, "red"),
    (deque([1, 2]), [1, 2]),
    (b"\xff", "b'\\xff'"),
    (math.nan, "NaN"),
    (ENDLESS, "[[...]]"),
    ([Hostile()], "<list>"),
    (Hostile(), "<Hostile>"),
    ({"image": IMAGE, "b": b"\xff"}, f"{{'image': {IMAGE!r}, 'b': b'\\xff'}}"),
    ([IMAGE, ENDLESS, b"\xff", "text", 3], [dump_observation(IMAGE), "[[...]]", "b'\\xff'", "text", 3]),
)
def test_observation_without_json_is_its_text(observation: Any, dumped: Any) -> None:
    assert dump_observation(observation) == dumped


def test_deep_value_is_refused() -> None:
    deep: Any = IMAGE
    for _ in range(2_000):
        deep = [deep]
    with pytest.raises((ValueError, RecursionError)):
        images.dump_with_images(deep)


def test_a_label_stands_for_its_object() -> None:
    value = {LABEL: "a form", "state": "secret"}
    assert (format_observation(value), dump_observation(value)) == ("a form", value)
