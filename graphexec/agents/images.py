"""The images of a run: those in its inputs, and those in the observations of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphexec.actions import AgentStep, Steps
from graphexec.errors import InputError, format_value
from graphexec.messages.images import Image, image_from_json
from graphexec.messages.observations import split_observation

# The name of the input with images, which is optional.
IMAGES = "images"
# Names that users write for it.
_OTHER_NAMES = (
    *("image", "img", "imgs", "image_url", "image_urls", "picture", "pictures", "photo", "photos"),
    *("file", "files", "attachment", "attachments"),
)
# The end of an image's file or address.
_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_FORMS = "an Image, bytes or a URL, or a list of them"


def read_images(given: object) -> tuple[Image, ...]:
    """Return images from the input `images`: one or a list, each an `Image`, bytes or a URL.

    Raises `InputError`, which lists every value that is not an image, and for an empty list.
    """
    several = _items(given)
    if not several:
        raise InputError(f"the input {IMAGES} is empty; leave it out, or give {_FORMS}")
    images: list[Image] = []
    problems: list[str] = []
    for place, one in enumerate(several):
        try:
            images.append(_read_image(one))
        except InputError as error:
            where = f"{IMAGES}[{place}]" if isinstance(given, (list, tuple)) else IMAGES
            problems.append(f"the input {where}: {error}")
    if problems:
        raise InputError("; ".join(problems))
    return tuple(images)


# Any: the value may be of any type.
def _items(value: Any) -> list[Any]:
    """Return the items of a list or a tuple; any other value is the only item."""
    return list(value) if isinstance(value, (list, tuple)) else [value]  # pyright: ignore[reportUnknownArgumentType]


def _read_image(given: object) -> Image:
    match given:
        case Image():
            return given
        case Mapping() if (image := image_from_json(given)) is not None:
            return image
        case str():
            return Image(given)
        case bytes() | bytearray() | memoryview():
            return Image.from_bytes(bytes(given))  # pyright: ignore[reportUnknownArgumentType] - any memoryview
        case _ if _is_file(given):
            raise InputError(f"{format_value(str(given))} is a file; give its bytes: path.read_bytes()")
        case _:
            raise InputError(f"{format_value(given)} is not an image; give {_FORMS}")


def _is_file(value: object) -> bool:
    return hasattr(value, "__fspath__")


def input_images(inputs: Mapping[str, Any], variables: Sequence[str]) -> tuple[Image, ...]:
    """Return the images in the inputs of a run, none if a template has the variable `images`.

    Raises `InputError` as `read_images` does.
    """
    return read_images(inputs[IMAGES]) if IMAGES in inputs and IMAGES not in variables else ()


def prepare_inputs(inputs: Mapping[str, Any], *, variables: Sequence[str], sees: bool) -> Mapping[str, Any]:
    """Return the inputs of a run with its images read, before its first model call.

    `variables` are those of the agent's templates, which hold text only; `sees` is false if its requests hold text
    only. Raises `InputError` for images that the agent cannot send, and as `read_images` does.
    """
    for name in variables:
        if any(isinstance(one, Image) for one in _items(inputs.get(name))):
            remedy = f"pass text as {name}, and the image in the input {IMAGES}"
            if name == IMAGES:
                remedy = f"remove {{{name}}} from the template"
            raise InputError(f"the input {name} is an image, but it is written into a text; {remedy}")
    for name, value in inputs.items():
        if name not in (*variables, IMAGES) and any(_looks_lost(name, one) for one in _items(value)):
            raise InputError(
                f"the input {name} is not sent to the model; name it {IMAGES}, or write the text of a file into another"
                " input"
            )
    if IMAGES not in inputs or IMAGES in variables:
        return inputs
    images = input_images(inputs, variables)
    if not sees:
        raise InputError(
            f"the agent cannot send the input {IMAGES}: its requests are completions, which hold text only; make it "
            "with protocol='chat'"
        )
    return {**inputs, IMAGES: [*images]}


def _looks_lost(name: str, value: object) -> bool:
    """Return whether an input that no template has looks like an image or a file for the model."""
    if isinstance(value, Image):
        return True
    if name not in _OTHER_NAMES:
        return False
    is_address = isinstance(value, str) and (value.startswith("data:image/") or value.lower().endswith(_SUFFIXES))
    return is_address or isinstance(value, bytes) or _is_file(value)


def observation_images(step: AgentStep) -> tuple[Image, ...]:
    """Return the images in the observation of a step."""
    return split_observation(step.observation)[1]


def reject_images(steps: Steps) -> None:
    """Raise `InputError` for a step with images, if a request has all steps in one text. Looks at each step once."""
    steps.derive(reject_images, _reject_images, nothing=None)


def _reject_images(_: None, further: Sequence[AgentStep]) -> None:
    for step in further:
        if observation_images(step):
            raise InputError(
                f"the tool {step.action.tool} returned an image, but the agent's requests have the steps in one text; "
                "take create_tool_calling_agent or create_structured_agent, or return text"
            )
