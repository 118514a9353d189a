"""Images as values: their validation, their labels, and their JSON."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from graphexec.errors import InputError
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    CompletionRequest,
    Image,
    Message,
    ToolMessage,
    UserMessage,
    images_of,
    transcript,
)
from graphexec.messages.images import image_from_json
from graphexec.messages.observations import split_observation
from tests.kernel.machines import error_message
from tests.models.pictures import ADDRESS, CAT, DOG, PNG
from tests.parameters import cases

CAT_URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
HEADS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x24\x00\x00\x00WEBPVP8 ",
}


@cases("media_type", *HEADS)
@given(rest=st.binary(max_size=60))
def test_bytes_name_their_format(media_type: str, rest: bytes) -> None:
    data = HEADS[media_type] + rest
    image = Image.from_bytes(data)
    assert image.media_type == media_type
    assert base64.b64decode(image.data) == data
    assert image == Image.from_bytes(data, media_type) == Image.from_bytes(bytearray(data))
    assert str(image) == f"{media_type}, {len(data)} bytes"


@cases("address", "HTTPS://Example.com/Cat.png", "http://localhost:8000/a?b#c", "https://é.example/猫")
def test_address_keeps_all_but_its_scheme(address: str) -> None:
    scheme, _, rest = address.partition(":")
    assert Image(address).url == f"{scheme.lower()}:{rest}"


def test_image_is_bytes_or_an_address_also_in_json() -> None:
    assert CAT.url == CAT_URL
    assert (CAT.is_data, ADDRESS.is_data) == (True, False)
    assert (ADDRESS.media_type, ADDRESS.data) == ("", "")
    assert Image.from_bytes(b"BM1234", "image/bmp").media_type == "image/bmp"
    assert image_from_json({"url": CAT.url, "kind": "graphexec.image"}) == CAT
    assert image_from_json({"url": CAT.url}) is None
    assert image_from_json({"url": CAT.url, "kind": "graphexec.image", "more": 1}) is None


@cases("spelling", "image/jpg", "image/JPEG", "IMAGE/jpeg;charset=utf-8")
def test_media_type_has_one_spelling(spelling: str) -> None:
    image = Image.from_bytes(HEADS["image/jpeg"])
    assert Image(f"DATA:{spelling};BASE64,{image.data}") == image
    assert image.media_type == "image/jpeg"
    assert Image.from_bytes(HEADS["image/jpeg"], "image/JPG") == image


INVALID_URLS: dict[Any, str] = {
    "photo.png": "does not begin with https:// or data:",
    "file:///tmp/cat.png": "does not begin with https:// or data:; for a file, use Image.from_bytes",
    **dict.fromkeys(("", "/cat.png", "//example.com/cat.png", "example.com/cat.png", CAT.data), "does not begin with"),
    **dict.fromkeys((" https://a/cat.png", "FILE:///tmp/cat.png", "blob:https://a/b"), "does not begin with"),
    **dict.fromkeys(("ftp://example.com/cat.png", "gs://bucket/cat.png", "javascript:alert(1)"), "does not begin with"),
    **dict.fromkeys(("https://", "https:///cat.png", "https:cat.png", "https://?cat"), "has no host"),
    "https://a b": "has a blank in it; write %20",
    **dict.fromkeys(("https://a/\n", "https://a/\0"), "has a blank in it"),
    "data:image/png;base64,": "empty or not in base64",
    **dict.fromkeys(("data:image/png", "data:image/png,abc", "data:image/png;base64,a"), "not in base64"),
    **dict.fromkeys(("data:image/png;base64,iVB$", "data:image/png;base64,\u2603"), "not in base64"),
    **dict.fromkeys(("data:image/png;notbase64,aGk=", "data:image/png;base64,aGk=\n"), "not in base64"),
    "data:image/png;base64;charset=utf-8,aGk=": "not in base64",
    **dict.fromkeys(("data:", "data:;base64,aGk="), "media type ''"),
    "data: image/png;base64,aGk=": "media type ' image/png'",
    "data:text/html;base64,aGk=": "media type 'text/html'",
    "data:image/png/../html;base64,aGk=": "media type 'image/png/../html'",
    "data:text/plain;base64,aGk=": "media type 'text/plain'; give that of an image",
    "data:image/;base64,aGk=": "media type 'image/'",
    CAT_URL.replace("png", "jpeg", 1): "has the media type image/jpeg, but its bytes are image/png",
    "data:image/png;base64,aaaa": "has the media type image/png, but its bytes are of another format",
    "data:image/jpg;base64,aGVsbG8=": "has the media type image/jpeg, but its bytes are of another format",
    "data:image/webp;base64,UklGRgAAAABXQVZF": "its bytes are of another format; give its own media type",
    b"abc": "the image URL is b'abc'; give a string",
    None: "the image URL is None",
}


@cases("url", *INVALID_URLS)
def test_invalid_url_is_an_input_error(url: Any) -> None:
    assert INVALID_URLS[url] in error_message(InputError, Image, url)
    assert image_from_json({"kind": "graphexec.image", "url": url}) is None


@cases(
    ("data", "media_type", "says"),
    (b"hello", None, "not a PNG, JPEG, GIF or WebP image; pass their media_type"),
    (b"", None, "not a PNG"),
    (b"", "image/png", "empty"),
    (b"hello", "png", "media type 'png'; give that of an image, such as image/png"),
    (b"%PDF-1.7", "application/pdf", "media type 'application/pdf'"),
    (PNG, "image/gif", "its bytes are image/png"),
    (b"hello", "image/png", "its bytes are of another format"),
    ("photo.png", None, "was given 'photo.png'; give bytes"),
)
def test_invalid_bytes_are_an_input_error(data: Any, media_type: str | None, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Image.from_bytes(data, media_type)


@cases(("size", "shown"), (999, "999 bytes"), (12_345, "12 kB"), (3_400_000, "3.4 MB"))
def test_label_shows_type_and_size(size: int, shown: str) -> None:
    image = Image.from_bytes(PNG.ljust(size, b"\0"))
    assert image.label(2) == f"[image 2: image/png, {shown}]"
    assert repr(image) == f"<Image image/png, {shown}>"


def test_labels_are_short_and_shown() -> None:
    assert ADDRESS.label(1) == "[image 1: https://example.com/cat.png]"
    assert len(str(Image(f"https://example.com/{'a' * 500}"))) == 100
    label = "[image 1: image/png, 70 bytes]"
    conversation: list[Message] = [
        UserMessage("Who?", (CAT, ADDRESS)),
        ToolMessage("c", f"Look:\n{label}", (CAT,)),
        UserMessage("", (CAT,)),
    ]
    assert transcript(conversation) == (
        f"Human: Who?\n{label}\n[image 2: https://example.com/cat.png]\nTool: Look:\n{label}\nHuman: {label}"
    )
    messages: list[Message] = [UserMessage("", (CAT,)), AssistantMessage(""), ToolMessage("c", "", (ADDRESS, DOG))]
    assert list(images_of(ChatRequest(messages))) == [CAT, ADDRESS, DOG]
    assert list(images_of(CompletionRequest("a"))) == []


class Shot(BaseModel):
    image: Image
    others: list[Any] = []


def test_image_is_a_field_of_a_model() -> None:
    shot = Shot(image=CAT, others=[DOG])
    assert json.loads(shot.model_dump_json()) == {
        "image": {"url": CAT.url, "kind": "graphexec.image"},
        "others": [{"url": DOG.url, "kind": "graphexec.image"}],
    }
    assert Shot.model_validate_json(shot.model_dump_json()).image == CAT
    assert shot.model_dump()["others"] == [DOG]
    assert split_observation(shot)[1] == (CAT, DOG)
