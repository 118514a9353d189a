"""Images for models, and values with images as JSON data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

from graphexec._parsing import compile_lazily
from graphexec.errors import InputError, format_value

if TYPE_CHECKING:
    from pydantic_core import SchemaSerializer, core_schema

# The first bytes of the image formats that models read. A WebP file has its length after the first four.
_FORMATS = {
    "image/png": compile_lazily(rb"\x89PNG"),
    "image/jpeg": compile_lazily(rb"\xff\xd8\xff"),
    "image/gif": compile_lazily(rb"GIF8"),
    "image/webp": compile_lazily(rb"RIFF.{4}WEBP", re.DOTALL),
}
# Bytes that are enough to recognize a format.
_HEAD = 16
# Of a file: more than any provider takes in a request.
MOST_IMAGE_BYTES = 100_000_000
# After the scheme: a host, and what follows, without blanks and control characters.
_ADDRESS = compile_lazily(r"//[^\s\x00-\x1f\x7f/?#][^\s\x00-\x1f\x7f]*")
_MEDIA_TYPE = compile_lazily(r"image/[a-z0-9][a-z0-9!#$&^_.+-]*")
# A common misspelling, which some providers reject.
_SPELLINGS = {"image/jpg": "image/jpeg"}
# Characters of an address that a label shows.
_SHOWN = 100
_KILO = 1_000
# Levels of stored data: pydantic reads 200, and those of a snapshot around the data count.
DEEPEST = 150

# Distinguishes an image from other JSON, such as the stored result of a tool.
ImageKind: TypeAlias = Literal["graphexec.image"]
IMAGE_KIND: ImageKind = "graphexec.image"
# The kind of an object that holds another one, which has one of these kinds but is data.
DATA_KIND = "graphexec.data"
# The kinds of objects with a value of another type than JSON has, or with an answer of a type; see `stored`.
VALUE_KIND = "graphexec.value"
ANSWER_KIND = "graphexec.answer"
OWN_KINDS = (IMAGE_KIND, DATA_KIND, VALUE_KIND, ANSWER_KIND)


@final
class ImageMarks:
    """The `context` in which pydantic writes each image as a string, the mark with a number, and keeps the image."""

    __slots__ = ("images", "mark")

    def __init__(self, mark: str = "") -> None:
        self.mark = mark
        self.images: dict[str, Image] = {}

    def add(self, image: Image) -> str:
        """Keep an image, and return the string that stands for it."""
        string = f"{self.mark}{len(self.images)}"
        self.images[string] = image
        return string


def _serialize(image: Image, info: Any) -> Any:
    """Return an image as JSON data. Pydantic does not export the type of `info`."""
    marks: object = info.context
    return marks.add(image) if isinstance(marks, ImageMarks) else _to_json(image)


def _serialization() -> core_schema.SerSchema:
    from pydantic_core import core_schema

    return core_schema.plain_serializer_function_ser_schema(_serialize, info_arg=True, when_used="json")


@cache
def _serializer() -> SchemaSerializer:
    from pydantic_core import SchemaSerializer, core_schema

    return SchemaSerializer(core_schema.any_schema(serialization=_serialization()))


@dataclass(frozen=True, slots=True, repr=False)
class Image:
    """An image for a model. `url` is an address that the provider can fetch, or a `data:` URL with the image itself.

    A `data:` URL is sent whole in each request, and stored whole in each snapshot, so shrink large images first.
    Raises `InputError` for any other string, for a `data:` URL that is not base64, and for one that is not an image.
    """

    url: str
    kind: ImageKind = field(default=IMAGE_KIND, init=False)

    def __post_init__(self) -> None:
        # Users may pass a path, bytes or any other value.
        if not isinstance(self.url, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"the image URL is {format_value(self.url)}; give a string, or use Image.from_bytes(data) for bytes"
            )
        object.__setattr__(self, "url", _normalize_url(self.url))

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview, media_type: str | None = None) -> Image:
        """Return an image as a `data:` URL. `media_type` is needed only for a format that models seldom read.

        Raises `InputError` if neither you nor the data names the media type, or if they differ.
        """
        # Users may pass a path, a string or an image of another library.
        if not isinstance(data, (bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"Image.from_bytes was given {format_value(data)}; give bytes, such as path.read_bytes()")
        content = bytes(data)
        found = _find_format(content[:_HEAD]) if media_type is None else str(media_type).lower()
        if found is None:
            raise InputError(
                "the bytes are not a PNG, JPEG, GIF or WebP image; pass their media_type, such as image/png"
            )
        from base64 import b64encode

        return cls(f"data:{found};base64,{b64encode(content).decode()}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: Any) -> core_schema.CoreSchema:
        """Validate as a dataclass. Pydantic does not export the type of `handler`."""
        schema: core_schema.DataclassSchema = handler(source)
        return {**schema, "serialization": _serialization()}

    @property
    def __pydantic_serializer__(self) -> SchemaSerializer:
        """How pydantic serializes an image within a value whose class it does not know."""
        return _serializer()

    @property
    def is_data(self) -> bool:
        """True for a `data:` URL, which has the image itself, and false for an address."""
        return self.url.startswith("data:")

    @property
    def media_type(self) -> str:
        """The media type of a `data:` URL, such as `image/png`; empty for an address."""
        return self.url[5 : self.url.index(";")] if self.is_data else ""

    @property
    def data(self) -> str:
        """The base64 of a `data:` URL; empty for an address."""
        return self.url.partition(",")[2] if self.is_data else ""

    def label(self, number: int) -> str:
        """Return the text that stands for the image in prompts and traces: `[image 1: image/png, 12 kB]`."""
        return f"[image {number}: {self}]"

    def __str__(self) -> str:
        if not self.is_data:
            return self.url if len(self.url) <= _SHOWN else f"{self.url[: _SHOWN - 1]}…"
        length = len(self.url) - self.url.index(",") - 1
        return f"{self.media_type}, {_format_size(length * 3 // 4 - self.url[-2:].count('='))}"

    def __repr__(self) -> str:
        return f"<Image {self}>"


def _normalize_url(url: str) -> str:
    """Return a URL with its scheme and its media type as providers expect them. Raises `InputError` for other URLs."""
    scheme, _, rest = url.partition(":")
    match scheme.lower():
        case "data":
            return _normalize_data(rest)
        case ("https" | "http") as known if _ADDRESS().fullmatch(rest) is not None:
            return f"{known}:{rest}"
        case "https" | "http":
            raise InputError(
                f"the image URL {format_value(url)} has no host, or has a blank in it; write %20 for a blank"
            )
        case _:
            raise InputError(
                f"the image URL {format_value(url)} does not begin with https:// or data:; for a file, use "
                "Image.from_bytes(path.read_bytes())"
            )


def _normalize_data(rest: str) -> str:
    """Return the `data:` URL of an image in base64, given what follows the scheme."""
    from base64 import b64decode

    header, _, data = rest.partition(",")
    name, *options = header.lower().split(";")
    media_type = _SPELLINGS.get(name, name)
    if _MEDIA_TYPE().fullmatch(media_type) is None:
        raise InputError(f"the image has the media type {format_value(name)}; give that of an image, such as image/png")
    try:
        head = b64decode(data, validate=True)[:_HEAD] if options[-1:] == ["base64"] else b""
    except ValueError:
        head = b""
    if not head:
        raise InputError("the image's data: URL is empty or not in base64; use Image.from_bytes(data)")
    found = _find_format(head)
    if found is not None and found != media_type:
        raise InputError(f"the image has the media type {media_type}, but its bytes are {found}; give {found}")
    if found is None and media_type in _FORMATS:
        raise InputError(
            f"the image has the media type {media_type}, but its bytes are of another format; give its own media type"
        )
    return f"data:{media_type};base64,{data}"


def _find_format(head: bytes) -> str | None:
    return next((kind for kind, start in _FORMATS.items() if start().match(head)), None)


def _format_size(size: int) -> str:
    if size < _KILO:
        return f"{size} bytes"
    return f"{size / _KILO:.0f} kB" if size < _KILO**2 else f"{size / _KILO**2:.1f} MB"


def _to_json(image: Image) -> dict[str, Any]:
    return {"url": image.url, "kind": image.kind}


# Any, here and below: JSON values.
def image_from_json(data: Any) -> Image | None:
    """Return the image that a JSON object describes, or `None` for any other value.

    Use it only for data that must be images: anybody can write such an object, also a tool.
    """
    match data:
        case {"kind": "graphexec.image", "url": str(url), **others} if not others:
            with suppress(InputError):
                return Image(url)
        case _:
            pass
    return None


# Converts a value that pydantic cannot, and what it writes for NaN and the infinities.
Fallback: TypeAlias = Callable[[Any], Any]
InfNanMode: TypeAlias = Literal["null", "constants", "strings"]


def replace_images(value: Any, change: Callable[[Image], Any], fallback: Fallback | None = None) -> Any:
    """Return a value as JSON data, with `change(image)` in place of each `Image` in it, in their order."""
    data, images = _mark_images(value, fallback, "constants")
    return _replace_marks(data, images, change) if images else data


def dump_with_images(value: Any, fallback: Fallback | None = None, inf_nan_mode: InfNanMode = "constants") -> Any:
    """Return a value as JSON data from which `restore_value` restores each `Image`, and no other object.

    An object that looks like an image, but is not, is stored within another one. Raises `ValueError` for data that are
    nested too deeply to be read again, and for values that pydantic cannot convert.
    """
    data, images = _mark_images(value, fallback, inf_nan_mode)
    quoted = _quote(data)
    return _replace_marks(quoted, images, _to_json) if images else quoted


def restore_object(dumped: dict[Any, Any]) -> Image | dict[Any, Any]:
    """Return what `dump_with_images` has dumped as this object: an image, or an object whose values are dumped ones."""
    match dumped:
        case {"kind": "graphexec.data", "data": {**members}, **others} if not others:
            return members
        case _:
            image = image_from_json(dumped)
            return dumped if image is None else image


def _mark_images(value: Any, fallback: Fallback | None, inf_nan_mode: InfNanMode) -> tuple[Any, Mapping[str, Image]]:
    """Return JSON data with a string in place of each image that is nowhere else, and the images by these strings."""
    from pydantic_core import to_jsonable_python

    marks = ImageMarks()
    data = to_jsonable_python(value, fallback=fallback, inf_nan_mode=inf_nan_mode, context=marks)
    if not marks.images:
        return data, {}
    mark, written = "#", repr(data)
    while mark in written:
        mark += "#"
    marks = ImageMarks(mark)
    return to_jsonable_python(value, fallback=fallback, inf_nan_mode=inf_nan_mode, context=marks), marks.images


def _replace_marks(data: Any, images: Mapping[str, Image], change: Callable[[Image], Any]) -> Any:
    match data:
        case str():
            return change(images[data]) if data in images else data
        case [*items]:
            return [_replace_marks(one, images, change) for one in items]
        case {**members}:
            return {name: _replace_marks(one, images, change) for name, one in members.items()}
        case _:
            return data


def _quote(data: Any, depth: int = 0) -> Any:
    if depth > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    # Most values are texts.
    if isinstance(data, str):
        return data
    match data:
        case [*items]:
            return [_quote(one, depth + 1) for one in items]
        case {**members}:
            is_like_own = members.get("kind") in OWN_KINDS
            quoted = {name: _quote(one, depth + 1 + is_like_own) for name, one in members.items()}
            return {"kind": DATA_KIND, "data": quoted} if is_like_own else quoted
        case _:
            return data
