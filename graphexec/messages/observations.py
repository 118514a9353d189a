"""Convert observations to text for a model, with labels for the images in them, and shorten them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphexec.messages.images import (
    Image,
    ImageMarks,
    dump_observation,
    parts_with_images,
    replace_images,
    restore_images,
    write_json,
    write_repr,
)


def format_observation(observation: Any) -> str:
    """Return an observation as text for a model: a string unchanged, any other value as JSON or else as its `repr`.

    An image is written as its label, `[image 1: image/png, 12 kB]`. The parts of a list with images are written one
    below the other.
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
    marks = ImageMarks()
    text = write_json(value, marks)
    if text is not None and not marks.images:
        return text
    # What is stored has the same text.
    data: Any = parts_with_images(value) if text is None else restore_images(dump_observation(value))
    if data is None:
        return write_repr(value)
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
