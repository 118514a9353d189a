"""Images: the values, their validation, and the bytes that each protocol sends for them."""

from __future__ import annotations

import base64
import json
from types import ModuleType
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from graphexec.errors import (
    AuthenticationError,
    BadRequestError,
    InputError,
    ModelError,
    ModelNotFoundError,
    RateLimitError,
    ServerError,
)
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    CompletionRequest,
    Image,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    images_of,
    transcript,
)
from graphexec.messages.images import image_from_json
from graphexec.models import LocalModel, MemoryCache, ScriptedModel, cached
from graphexec.models.http.dialect import Sampling
from graphexec.models.providers import anthropic_request, openai_compatible, openai_responses
from graphexec.tools.formatting import split_observation
from tests.models.actors import HELLO, scripted_server
from tests.models.call_modes import all_modes
from tests.models.pictures import ADDRESS, CAT, DOG, PNG

CAT_URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


# Any: a request's JSON.
def encode(protocol: ModuleType, *messages: Message) -> Any:
    return protocol.encode(ChatRequest(messages), Sampling("tiny", max_tokens=9), stream=False)


HEADS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x24\x00\x00\x00WEBPVP8 ",
}


@pytest.mark.parametrize("media_type", HEADS)
@given(rest=st.binary(max_size=60))
def test_bytes_name_their_format(media_type: str, rest: bytes) -> None:
    data = HEADS[media_type] + rest
    image = Image.from_bytes(data)
    assert image.media_type == media_type
    assert base64.b64decode(image.data) == data
    assert image == Image.from_bytes(data, media_type) == Image.from_bytes(bytearray(data))
    assert str(image) == f"{media_type}, {len(data)} bytes"


@pytest.mark.parametrize(
    "address", ["HTTPS://Example.com/Cat.png", "http://localhost:8000/a?b#c", "https://é.example/猫"]
)
def test_address_keeps_all_but_its_scheme(address: str) -> None:
    scheme, _, rest = address.partition(":")
    assert Image(address).url == f"{scheme.lower()}:{rest}"


def test_data_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    decode = base64.b64decode

    def count(data: str, *, validate: bool) -> bytes:
        decoded.append(data)
        return decode(data, validate=validate)

    monkeypatch.setattr(base64, "b64decode", count)
    assert Image.from_bytes(PNG) == CAT
    assert decoded == []
    assert Image(CAT.url) == CAT
    assert decoded == [CAT.data]


def test_image_is_bytes_or_an_address() -> None:
    assert CAT.url == CAT_URL
    assert (CAT.is_data, ADDRESS.is_data) == (True, False)
    assert (ADDRESS.media_type, ADDRESS.data) == ("", "")
    assert Image.from_bytes(b"BM1234", "image/bmp").media_type == "image/bmp"


@pytest.mark.parametrize("spelling", ["image/jpg", "image/JPEG", "IMAGE/jpeg;charset=utf-8"])
def test_media_type_has_one_spelling(spelling: str) -> None:
    image = Image.from_bytes(HEADS["image/jpeg"])
    assert Image(f"DATA:{spelling};BASE64,{image.data}") == image
    assert image.media_type == "image/jpeg"
    assert Image.from_bytes(HEADS["image/jpeg"], "image/JPG") == image


INVALID_URLS: dict[Any, str] = {
    "photo.png": "does not begin with https:// or data:",
    "": "does not begin with",
    "https://": "has no host",
    "https:///cat.png": "has no host",
    "https:cat.png": "has no host",
    "https://?cat": "has no host",
    "https://a b": "has a blank in it; write %20",
    "https://a/\n": "has a blank in it",
    "https://a/\0": "has a blank in it",
    " https://a/cat.png": "does not begin with",
    "file:///tmp/cat.png": "does not begin with https:// or data:; for a file, pass a pathlib.Path",
    "FILE:///tmp/cat.png": "does not begin with",
    "ftp://example.com/cat.png": "does not begin with",
    "gs://bucket/cat.png": "does not begin with",
    "javascript:alert(1)": "does not begin with",
    "blob:https://a/b": "does not begin with",
    "//example.com/cat.png": "does not begin with",
    "/cat.png": "does not begin with",
    "example.com/cat.png": "does not begin with",
    CAT.data: "does not begin with",
    "data:": "media type ''",
    "data:image/png": "not in base64",
    "data:image/png,abc": "not in base64",
    "data:image/png;base64,": "empty or not in base64",
    "data:image/png;base64,a": "not in base64",
    "data:image/png;base64,iVB$": "not in base64",
    "data:image/png;base64,\u2603": "not in base64",
    "data:;base64,aGk=": "media type ''",
    "data: image/png;base64,aGk=": "media type ' image/png'",
    "data:image/png;notbase64,aGk=": "not in base64",
    "data:image/png;base64;charset=utf-8,aGk=": "not in base64",
    "data:image/png;base64,aGk=\n": "not in base64",
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


@pytest.mark.parametrize("url", INVALID_URLS, ids=lambda url: str(url)[:40])
def test_invalid_url_is_an_input_error(url: Any) -> None:
    with pytest.raises(InputError) as raised:
        Image(url)
    assert INVALID_URLS[url] in str(raised.value)
    assert image_from_json({"kind": "graphexec.image", "url": url}) is None


@pytest.mark.parametrize(
    ("data", "media_type", "says"),
    [
        (b"hello", None, "not a PNG, JPEG, GIF or WebP image; pass their media_type"),
        (b"", None, "not a PNG"),
        (b"", "image/png", "empty"),
        (b"hello", "png", "media type 'png'; give that of an image, such as image/png"),
        (b"%PDF-1.7", "application/pdf", "media type 'application/pdf'"),
        (PNG, "image/gif", "its bytes are image/png"),
        (b"hello", "image/png", "its bytes are of another format"),
        ("photo.png", None, "was given 'photo.png'; give bytes"),
    ],
)
def test_invalid_bytes_are_an_input_error(data: Any, media_type: str | None, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Image.from_bytes(data, media_type)


@pytest.mark.parametrize(("size", "shown"), [(999, "999 bytes"), (12_345, "12 kB"), (3_400_000, "3.4 MB")])
def test_label_shows_type_and_size(size: int, shown: str) -> None:
    image = Image.from_bytes(PNG.ljust(size, b"\0"))
    assert image.label(2) == f"[image 2: image/png, {shown}]"
    assert repr(image) == f"<Image image/png, {shown}>"


def test_label_of_an_address_is_short() -> None:
    assert ADDRESS.label(1) == "[image 1: https://example.com/cat.png]"
    assert len(str(Image(f"https://example.com/{'a' * 500}"))) == 100


def test_transcript_shows_labels() -> None:
    label = "[image 1: image/png, 70 bytes]"
    conversation: list[Message] = [
        UserMessage("Who?", (CAT, ADDRESS)),
        ToolMessage("c", f"Look:\n{label}", (CAT,)),
        UserMessage("", (CAT,)),
    ]
    assert transcript(conversation) == (
        f"Human: Who?\n{label}\n[image 2: https://example.com/cat.png]\nTool: Look:\n{label}\nHuman: {label}"
    )


def test_images_of_a_request() -> None:
    messages: list[Message] = [UserMessage("", (CAT,)), AssistantMessage(""), ToolMessage("c", "", (ADDRESS, DOG))]
    assert list(images_of(ChatRequest(messages))) == [CAT, ADDRESS, DOG]
    assert list(images_of(CompletionRequest("a"))) == []


def test_image_is_read_from_its_json() -> None:
    assert image_from_json({"url": CAT.url, "kind": "graphexec.image"}) == CAT
    assert image_from_json({"url": CAT.url}) is None
    assert image_from_json({"url": CAT.url, "kind": "graphexec.image", "more": 1}) is None


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


QUESTION = UserMessage("Which?", (CAT, ADDRESS))
TURN = (
    AssistantMessage("", (ToolCall("c1", "look", "{}"), ToolCall("c2", "read", "{}"))),
    ToolMessage("c1", "A dog:", (DOG,)),
    ToolMessage("c2", "text"),
)


def test_openai_is_sent_images_with_the_question() -> None:
    (message,) = encode(openai_compatible, QUESTION)["messages"]
    assert message == {
        "role": "user",
        "content": [
            {"type": "image_url", "image_url": {"url": CAT.url}},
            {"type": "image_url", "image_url": {"url": ADDRESS.url}},
            {"type": "text", "text": "Which?"},
        ],
    }


def test_openai_is_sent_images_after_all_results() -> None:
    next_turn = UserMessage("And?")
    sent = encode(openai_compatible, QUESTION, *TURN, next_turn)["messages"]
    assert sent[2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "A dog:"},
        {"role": "tool", "tool_call_id": "c2", "content": "text"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "The images in the result of look (c1):"},
                {"type": "image_url", "image_url": {"url": DOG.url}},
            ],
        },
        {"role": "user", "content": "And?"},
    ]
    assert encode(openai_compatible, QUESTION, *TURN)["messages"] == sent[:-1]


def test_openai_is_sent_the_images_of_each_turn() -> None:
    sent = encode(openai_compatible, *TURN, *TURN)["messages"]
    assert [message["role"] for message in sent] == ["assistant", "tool", "tool", "user"] * 2


def test_responses_is_sent_images() -> None:
    items = encode(openai_responses, QUESTION, *TURN)["input"]
    assert items[0] == {
        "role": "user",
        "content": [
            {"type": "input_image", "image_url": CAT.url, "detail": "auto"},
            {"type": "input_image", "image_url": ADDRESS.url, "detail": "auto"},
            {"type": "input_text", "text": "Which?"},
        ],
    }
    assert items[-2:] == [
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [
                {"type": "input_image", "image_url": DOG.url, "detail": "auto"},
                {"type": "input_text", "text": "A dog:"},
            ],
        },
        {"type": "function_call_output", "call_id": "c2", "output": "text"},
    ]


def test_anthropic_is_sent_images() -> None:
    question, _, results = encode(anthropic_request, QUESTION, *TURN)["messages"]
    assert question["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": CAT.data}},
        {"type": "image", "source": {"type": "url", "url": ADDRESS.url}},
        {"type": "text", "text": "Which?"},
    ]
    dog = {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": DOG.data}}
    assert results["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": [dog, {"type": "text", "text": "A dog:"}]},
        {"type": "tool_result", "tool_use_id": "c2", "content": "text"},
    ]


@pytest.mark.parametrize("protocol", [openai_compatible, openai_responses, anthropic_request])
def test_images_without_text_are_sent_alone(protocol: ModuleType) -> None:
    sent = encode(protocol, UserMessage("", (CAT,)))
    (message,) = sent.get("messages") or sent["input"]
    assert len(message["content"]) == 1


def test_local_model_refuses_images() -> None:
    model = LocalModel(download=False)
    for request in (ChatRequest([QUESTION]), ChatRequest([UserMessage("?"), *TURN])):
        with pytest.raises(BadRequestError, match=r"cannot see the images .* llama-server --mmproj"):
            model.complete(request)


def test_cache_distinguishes_images() -> None:
    inner = ScriptedModel(["cat", "dog", "none"])
    model = cached(inner, MemoryCache(), name="m")
    requests = [ChatRequest([UserMessage("Which?", images)]) for images in ((CAT,), (DOG,), ())]
    assert [model.complete(request).content for request in requests * 2] == ["cat", "dog", "none"] * 2


# What servers answer to images that a model cannot see.
REFUSALS = {
    "llama.cpp": (
        500,
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    ),
    "OpenAI": (400, "Invalid content type. image_url is only supported by certain models."),
    "vLLM": (400, "tiny is not a multimodal model"),
    "OpenRouter": (404, "No endpoints found that support image input"),
}


@all_modes
@pytest.mark.parametrize("server", REFUSALS)
def test_refusal_of_images_names_them(ask: Any, server: str) -> None:
    status, reason = REFUSALS[server]
    model = scripted_server(httpx.Response(status, json={"error": {"message": reason}}))
    with pytest.raises(BadRequestError) as raised:
        ask(model, ChatRequest([QUESTION]))
    assert reason in str(raised.value)
    assert "use a model that accepts such images, or leave them out" in str(raised.value)


def test_other_refusal_of_a_request_with_images_names_them() -> None:
    refusal = httpx.Response(400, json={"error": {"message": "messages[0].content must be a string"}})
    with pytest.raises(BadRequestError, match=r"must be a string.; change what it names, or leave out the images if"):
        scripted_server(refusal).complete(ChatRequest([QUESTION]))
    with pytest.raises(BadRequestError, match=r"must be a string.; change what it names$"):
        scripted_server(refusal).complete(HELLO)


def test_missing_model_is_no_refusal_of_images() -> None:
    error = {"message": "The model gpt-image-9 does not exist", "code": "model_not_found"}
    with pytest.raises(ModelNotFoundError):
        scripted_server(httpx.Response(404, json={"error": error})).complete(ChatRequest([QUESTION]))


@pytest.mark.parametrize(("status", "error"), [(401, AuthenticationError), (429, RateLimitError), (503, ServerError)])
def test_other_errors_keep_their_class(status: int, error: type[ModelError]) -> None:
    answer = httpx.Response(status, json={"error": {"message": "no images today" if status < 500 else "busy"}})
    with pytest.raises(error):
        scripted_server(*[answer] * 3).complete(ChatRequest([QUESTION]))
    with pytest.raises(ServerError):
        scripted_server(*[httpx.Response(500, json={"error": "the image service failed"})] * 3).complete(HELLO)
