"""Convert observations to text for a model, with labels for the images in them, and shorten texts that are too long."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json, to_json

from graphexec.actions import write_json, write_repr
from graphexec.messages import IMAGE_KIND, Image, to_image

# The part of an image's JSON that the JSON of a value without images does not contain.
_MARK = f'"kind":"{IMAGE_KIND}"'


def format_observation(observation: Any) -> str:
    """Return an observation as text for a model: a string unchanged, any other value as JSON or else as its `repr`.

    An image is written as its label, `[image 1: image/png, 12 kB]`. The parts of a list with images are written one
    below the other.
    """
    return split_observation(observation)[0]


def split_observation(observation: Any) -> tuple[str, tuple[Image, ...]]:
    """Return an observation as text for a model, as `format_observation` does, and its images in their order.

    Images that were stored as JSON are found, too.
    """
    if isinstance(observation, str):
        return observation, ()
    images: list[Image] = []
    return _format(observation, images), tuple(images)


def _format(value: Any, images: list[Image]) -> str:
    if isinstance(value, str):
        return value
    if (image := to_image(value)) is not None:
        return _add(image, images)
    text = write_json(value)
    if text is not None and _MARK not in text:
        return text
    parts: list[Any] = list(value) if isinstance(value, (list, tuple)) else []  # pyright: ignore[reportUnknownArgumentType]
    if any(to_image(one) is not None for one in parts):
        return "\n".join([_format(one, images) for one in parts])
    return write_repr(value) if text is None else to_json(_replace(from_json(text), images)).decode()


def _add(image: Image, images: list[Image]) -> str:
    images.append(image)
    return image.label(len(images))


# Any: JSON values.
def _replace(data: Any, images: list[Image]) -> Any:
    """Return JSON data with a label in place of each image, and append the images to `images`."""
    if (image := to_image(data)) is not None:
        return _add(image, images)
    if isinstance(data, dict):
        return {name: _replace(one, images) for name, one in data.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(data, list):
        return [_replace(one, images) for one in data]  # pyright: ignore[reportUnknownVariableType]
    return data


def shorten_observation(observation: Any, most: int | None) -> str | None:
    """Return the first `most` characters and the number of omitted ones; `None` if the observation fits.

    Labels of images count as text; the images are not cut.
    """
    if most is None:
        return None
    text = format_observation(observation)
    if len(text) <= most:
        return None
    return f"{text[:most]}\n[... {len(text) - most:,} more characters were cut; ask for less]"
