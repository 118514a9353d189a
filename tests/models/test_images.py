"""Images: what each protocol sends for them, and what servers answer that refuse them."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import httpx
import pytest

from graphexec.errors import (
    AuthenticationError,
    BadRequestError,
    ModelError,
    ModelNotFoundError,
    RateLimitError,
    ServerError,
)
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphexec.models import LocalModel, MemoryCache, ScriptedModel, cached
from graphexec.models.http.dialect import Sampling
from graphexec.models.http.json_bodies import write
from graphexec.models.providers import anthropic_request, openai_compatible, openai_responses
from tests.models.actors import HELLO, scripted_server
from tests.models.call_modes import all_modes
from tests.models.pictures import ADDRESS, CAT, DOG
from tests.parameters import cases


# Any: a request's JSON.
def encode(protocol: ModuleType, *messages: Message) -> Any:
    return json.loads(write(protocol.encode(ChatRequest(messages), Sampling("tiny", max_tokens=9), stream=False)))


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


@cases("protocol", [openai_compatible, openai_responses, anthropic_request])
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


@cases(("status", "error"), [(401, AuthenticationError), (429, RateLimitError), (503, ServerError)])
def test_other_errors_keep_their_class(status: int, error: type[ModelError]) -> None:
    answer = httpx.Response(status, json={"error": {"message": "no images today" if status < 500 else "busy"}})
    with pytest.raises(error):
        scripted_server(*[answer] * 3).complete(ChatRequest([QUESTION]))
    with pytest.raises(ServerError):
        scripted_server(*[httpx.Response(500, json={"error": "the image service failed"})] * 3).complete(HELLO)
