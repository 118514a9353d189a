"""Observations as text for a model, with labels for their images, shortened, and as JSON data of the same text."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from graphexec.messages.images import Image, ImageMarks, dump_with_images, replace_images
from graphexec.messages.stored import Stored, restore_value


# Any: observations may be of any type, here and below.
def _convert(value: Any) -> list[Any] | str:
    """Return what JSON has instead of a value that pydantic does not know; its older releases do not know queues."""
    return [*value] if isinstance(value, deque) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def write_json(value: Any, marks: ImageMarks | None = None) -> str | None:
    """Return a value as JSON for a model; `None` for bytes that are not UTF-8, and for a list that contains itself.

    With `marks`, they keep the images.
    """
    import pydantic_core

    with suppress(ValueError):
        return pydantic_core.to_json(value, fallback=_convert, context=marks).decode()
    return None


def write_repr(value: Any) -> str:
    """Return the `repr` of a value, or the name of its class if that fails."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a user's __repr__ may raise any exception
        return f"<{type(value).__name__}>"


def dump_observation(observation: Any) -> Any:
    """Return an observation as JSON data with the same text for a model; if no data has it, the text itself.

    Data with images always have them: NaN and the infinities become `null` beside them, and what JSON cannot express
    in a list with images its `repr`.
    """
    if isinstance(observation, str):
        # Without the class of a string enumeration.
        return str.__str__(observation)
    text = write_json(observation)
    if text is None:
        parts: list[Any] = [*observation] if isinstance(observation, (list, tuple)) else []  # pyright: ignore[reportUnknownArgumentType]
        if not any(isinstance(one, Image) for one in parts):
            return write_repr(observation)
        return [
            dump_observation(one) if isinstance(one, str) or write_json(one) is not None else write_repr(one)
            for one in parts
        ]
    try:
        data: Any = dump_with_images(observation, fallback=_convert, inf_nan_mode="null")
    except Exception:  # noqa: BLE001 - a user's __str__ may raise any exception
        return text
    marks = ImageMarks()
    restored: Any = restore_value(data)
    same = write_json(restored, marks) == text
    # A string would be shown without its quotes.
    return data if marks.images or (same and not isinstance(restored, str)) else text


# The key of an object whose value here is all that models and people see of it, such as one that waits for a node.
LABEL = "graphexec_label"

# Any value that a tool returns. A resumed run has its JSON data, and the images in their places: their text for the
# model is the same.
Observation: TypeAlias = Annotated[Any, Stored(dump_observation, restore_value)]


def label_of(observation: Any) -> str | None:
    """Return the label that stands for an observation, if it has a `LABEL`."""
    label: Any = observation.get(LABEL) if type(observation) is dict else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return label if isinstance(label, str) else None


def format_observation(observation: Any) -> str:
    """Return an observation as text for a model: a string unchanged, any other value as JSON or else as its `repr`.

    An image is written as its label, `[image 1: image/png, 12 kB]`, and an object with a `LABEL` as that. The parts of
    a list with images are written one below the other.
    """
    return observation if isinstance(observation, str) else split_observation(observation)[0]


def split_observation(observation: Any) -> tuple[str, tuple[Image, ...]]:
    """Return an observation as text for a model, as `format_observation` does, and its images in their order.

    Only an `Image` is one: an object of JSON that looks like an image is data, which anybody may have written.
    """
    if isinstance(observation, str):
        return observation, ()
    images: list[Image] = []

    def label(image: Image) -> str:
        images.append(image)
        return image.label(len(images))

    return _format(observation, label), tuple(images)


def _format(value: Any, label: Callable[[Image], str]) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Image):
        return label(value)
    if (of_object := label_of(value)) is not None:
        return of_object
    marks = ImageMarks()
    text = write_json(value, marks)
    if text is not None and not marks.images:
        return text
    # What is stored has the same text.
    data: Any = restore_value(dump_observation(value))
    if isinstance(data, str):
        return data
    if isinstance(data, list) and any(isinstance(one, Image) for one in data):  # pyright: ignore[reportUnknownVariableType]
        return "\n".join([_format(one, label) for one in data])  # pyright: ignore[reportUnknownVariableType]
    import pydantic_core

    return pydantic_core.to_json(replace_images(data, label)).decode()


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What a model is shown of an observation: at most `max_text` characters (`None`: all), and a `note` after them.

    Labels of images count as text; the images are not cut.
    """

    max_text: int | None = None
    note: str = ""

    def of(self, observation: Any) -> str:
        """Return it of an observation."""
        text, most = format_observation(observation), self.max_text
        if most is None or len(text) <= most:
            return f"{text}{self.note}"
        return f"{text[:most]}\n[... {len(text) - most:,} more characters were cut; ask for less]{self.note}"


WHOLE = Excerpt()
