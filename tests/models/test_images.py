"""Images: what each protocol sends for them, and what servers answer that refuse them."""

from typing import Any

import httpx
import pytest

from graphexec import errors
from graphexec.messages import AssistantMessage, ChatRequest, Image, Message, ToolCall, ToolMessage, UserMessage
from graphexec.models.http.dialect import Dialect
from graphexec.models.providers.anthropic import MESSAGES
from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS
from graphexec.models.providers.openai_responses import RESPONSES
from tests.models import actors
from tests.models.actors import HELLO, scripted_server
from tests.models.call_modes import Ask, all_modes
from tests.models.pictures import ADDRESS, CAT, DOG
from tests.parameters import cases


def encode(protocol: Dialect, *messages: Message) -> Any:
    return actors.encode(protocol, ChatRequest(messages))


QUESTION = UserMessage("Which?", (CAT, ADDRESS))
ASKED = ChatRequest([QUESTION])
TURN = (
    AssistantMessage("", (ToolCall("c1", "look", "{}"), ToolCall("c2", "read", "{}"))),
    ToolMessage("c1", "A dog:", (DOG,)),
    ToolMessage("c2", "text"),
)


def shown(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": image.url}}


def shown_to_gpt(image: Image) -> dict[str, Any]:
    return {"type": "input_image", "image_url": image.url, "detail": "auto"}


def shown_to_claude(image: Image, kind: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": image.data}}


def test_openai_is_sent_images_with_the_question_and_after_all_results() -> None:
    first, _, *sent = encode(CHAT_COMPLETIONS, QUESTION, *TURN, UserMessage("And?"))["messages"]
    assert first == {"role": "user", "content": [shown(CAT), shown(ADDRESS), {"type": "text", "text": "Which?"}]}
    named = {"type": "text", "text": "The images in the result of look (c1):"}
    assert sent == [
        {"role": "tool", "tool_call_id": "c1", "content": "A dog:"},
        {"role": "tool", "tool_call_id": "c2", "content": "text"},
        {"role": "user", "content": [named, shown(DOG)]},
        {"role": "user", "content": "And?"},
    ]
    assert encode(CHAT_COMPLETIONS, QUESTION, *TURN)["messages"][2:] == sent[:-1]
    turns = encode(CHAT_COMPLETIONS, *TURN, *TURN)["messages"]
    assert [message["role"] for message in turns] == ["assistant", "tool", "tool", "user"] * 2


def test_responses_is_sent_images() -> None:
    items = encode(RESPONSES, QUESTION, *TURN)["input"]
    texts = [{"type": "input_text", "text": text} for text in ("Which?", "A dog:")]
    assert items[0] == {"role": "user", "content": [shown_to_gpt(CAT), shown_to_gpt(ADDRESS), texts[0]]}
    assert items[-2:] == [
        {"type": "function_call_output", "call_id": "c1", "output": [shown_to_gpt(DOG), texts[1]]},
        {"type": "function_call_output", "call_id": "c2", "output": "text"},
    ]


def test_anthropic_is_sent_images() -> None:
    question, _, results = encode(MESSAGES, QUESTION, *TURN)["messages"]
    texts = [{"type": "text", "text": text} for text in ("Which?", "A dog:")]
    address = {"type": "image", "source": {"type": "url", "url": ADDRESS.url}}
    assert question["content"] == [shown_to_claude(CAT, "image/png"), address, texts[0]]
    assert results["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": [shown_to_claude(DOG, "image/gif"), texts[1]]},
        {"type": "tool_result", "tool_use_id": "c2", "content": "text"},
    ]


@cases("protocol", CHAT_COMPLETIONS, RESPONSES, MESSAGES)
def test_images_without_text_are_sent_alone(protocol: Dialect) -> None:
    sent = encode(protocol, UserMessage("", (CAT,)))
    (message,) = sent.get("messages") or sent["input"]
    assert len(message["content"]) == 1


@all_modes
@cases(
    ("status", "reason"),
    # What llama.cpp, OpenAI, vLLM and OpenRouter answer to images that a model cannot see.
    (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
    (400, "Invalid content type. image_url is only supported by certain models."),
    (400, "tiny is not a multimodal model"),
    (404, "No endpoints found that support image input"),
)
def test_refusal_of_images_names_them(ask: Ask, status: int, reason: str) -> None:
    model = scripted_server(httpx.Response(status, json={"error": {"message": reason}}))
    with pytest.raises(errors.BadRequestError) as raised:
        ask(model, ASKED)
    assert reason in str(raised.value)
    assert "use a model that accepts such images, or leave them out" in str(raised.value)


@cases(
    ("request", "status", "error", "kind"),
    (ASKED, 401, {"message": "no images today"}, errors.AuthenticationError),
    (ASKED, 404, {"message": "gpt-image-9 does not exist", "code": "model_not_found"}, errors.ModelNotFoundError),
    (ASKED, 429, {"message": "no images today"}, errors.RateLimitError),
    (ASKED, 503, {"message": "busy"}, errors.ServerError),
    (HELLO, 500, "the image service failed", errors.ServerError),
)
def test_other_errors_keep_their_class(request: ChatRequest, status: int, error: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        scripted_server(*[httpx.Response(status, json={"error": error})] * 3).complete(request)
