"""Convert observations to text for a model, with labels for the images in them; measure and shorten long values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
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


# Beyond its limit, a value is measured to the end only if it has few parts: a long string is, but no list of a million.
_MOST_PARTS = 10_000
_MOST_BITS = 1_000


# The arguments of most calls have fewer characters.
FEW = 2_000
_FEW_PARTS, _SHORT, _SMALL = 8, 100, 10**18
_SHORT_KINDS = frozenset[type]({str, bool, float, type(None)})


def has_few_characters(value: Any) -> bool:
    """Return whether a value is an object of a few short parts, with certainly fewer characters than `FEW`.

    It calls no other function, because each step of a run would pay for the calls.
    """
    if value.__class__ is not dict:
        return False
    left = _FEW_PARTS
    for name in value:
        part = value[name]
        kind = part.__class__
        left -= 1
        if not left or name.__class__ is not str or name[_SHORT:]:
            return False
        if not (-_SMALL < part < _SMALL if kind is int else kind in _SHORT_KINDS):
            return False
        if kind is str and part[_SHORT:]:
            return False
    return True


def measure_json(value: Any, most: int) -> tuple[int, bool]:
    """Return the characters of a value as JSON without spaces and escapes, and whether that is all of it.

    Beyond `most` the rest of a value with many parts is not measured. A list or an object that occurs again, perhaps in
    itself, counts once.
    """
    length = parts = 0
    waiting = [value]
    seen: set[int] = set()
    while waiting:
        if length > most and parts > _MOST_PARTS:
            return length, False
        parts += 1
        part = waiting.pop()
        if isinstance(part, str):
            length += len(part) + 2
        elif isinstance(part, (Mapping, list, tuple)):
            if id(part) in seen:  # pyright: ignore[reportUnknownArgumentType]
                continue
            seen.add(id(part))  # pyright: ignore[reportUnknownArgumentType]
            inner: list[Any] = [*part, *part.values()] if isinstance(part, Mapping) else list(part)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType, reportUnknownVariableType]
            waiting += inner
            # Its brackets, and a comma or a colon before each part but the first.
            length += max(2, len(inner) + 1)
        elif isinstance(part, int) and not isinstance(part, bool):
            bits = part.bit_length()
            # Python refuses to write a number of more than 4,300 digits.
            length += len(str(part)) if bits <= _MOST_BITS else math.ceil(bits * math.log10(2))
        elif isinstance(part, bytes):
            length += len(part) + 2
        else:
            length += len(repr(part)) if part is None or isinstance(part, (bool, float)) else 2
    return length, True
