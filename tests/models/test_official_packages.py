"""Compare requests with the types of the official packages of Anthropic and OpenAI.

They are imported by the tests, as that takes seconds.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import Any

import pydantic
import pytest

from graphexec import AgentExecutor, create_tool_calling_agent
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphexec.models.http.dialect import Dialect
from graphexec.models.providers import schemas
from graphexec.models.providers.anthropic import MESSAGES
from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS
from graphexec.models.providers.openai_responses import RESPONSES
from tests.executor.actors import echo
from tests.models.actors import encode
from tests.models.call_modes import call_blocking
from tests.models.picky_server import PickyServer, Protocol
from tests.models.pictures import ADDRESS, CAT, DOG
from tests.models.wire_corpus import JSON, Shape, WireServer, ask, load_corpus, ok
from tests.parameters import cases

if find_spec("openai") is None or find_spec("anthropic") is None:
    pytest.skip("needs the extra dev", allow_module_level=True)

pytestmark = pytest.mark.medium

DIALECTS: dict[Protocol, Dialect] = {"chat": CHAT_COMPLETIONS, "responses": RESPONSES, "anthropic": MESSAGES}
each_protocol = cases("protocol", *DIALECTS)
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
SCHEMA = {**PARAMETERS, "additionalProperties": False}


TYPES = {
    "chat": "openai.types.chat.completion_create_params:CompletionCreateParamsNonStreaming",
    "responses": "openai.types.responses.response_create_params:ResponseCreateParamsNonStreaming",
    "anthropic": "anthropic.types.message_create_params:MessageCreateParamsNonStreaming",
}


# Any: the types of the official packages, which are slow to build.
@cache
def types_of(protocol: str) -> pydantic.TypeAdapter[Any]:
    """Return the type of a request."""
    return pydantic.TypeAdapter(resolve_name(TYPES[protocol]))


@cache
def block_types() -> pydantic.TypeAdapter[Any]:
    """Return the type of the blocks of Anthropic's assistant, which pydantic does not read within a message."""
    from anthropic.types import RedactedThinkingBlockParam as Redacted
    from anthropic.types import TextBlockParam, ThinkingBlockParam, ToolUseBlockParam

    return pydantic.TypeAdapter(list[TextBlockParam | ThinkingBlockParam | Redacted | ToolUseBlockParam])


def check(types: pydantic.TypeAdapter[Any], value: Any) -> None:
    """Assert that the types have all members of a value: those that they lack are missing in what they write."""
    assert json.loads(types.dump_json(types.validate_python(value), warnings=False)) == value


def check_body(protocol: str, body: JSON) -> None:
    """Assert that a body follows the types of its official package."""
    items = body["input" if protocol == "responses" else "messages"]
    for item in items if protocol != "chat" else ():
        if item.get("role") != "assistant":
            continue
        if protocol == "anthropic":
            check(block_types(), item["content"])
            item["content"] = "checked"
        else:
            # The types require more of assistant messages than the API does.
            item |= {"id": "msg_1", "status": "completed"}
            item["content"] = [{**part, "annotations": []} for part in item["content"]]
    check(types_of(protocol), body)


@cases("shape", *[shape for shape in load_corpus() if "request" in shape.file])
def test_types_describe_the_requests_of_the_corpus(shape: Shape) -> None:
    server = WireServer(shape, lambda: ok(shape))
    ask(server.model(), shape.request, call_blocking)
    check_body(shape.api, server.bodies[0])


CALLS = (ToolCall("c1", "add", '{"a": 1}'), ToolCall("c2", "add", '{"a": 2}'))
LOOK = AssistantMessage("", (ToolCall("c1", "look", "{}"),))
PICTURES = [UserMessage("Which?", (CAT, ADDRESS)), LOOK, ToolMessage("c1", "See:", (DOG, ADDRESS))]
CONVERSATION = [
    SystemMessage("be brief"),
    AssistantMessage("Adding.", CALLS),
    ToolMessage("c2", "2"),
    UserMessage("1?"),
]


@each_protocol
@cases("choice", "auto", "none", "required", "add")
def test_types_describe_all_members(protocol: Protocol, choice: str) -> None:
    # pydantic does not read images within the other types.
    messages = [*CONVERSATION, *(PICTURES if protocol == "responses" else ())]
    request = ChatRequest(messages, (ToolSpec("add", "Add.", PARAMETERS),), ("STOP",), SCHEMA, choice)
    # The package of Anthropic has a later version of the API, without a temperature.
    sampling: JSON = {} if protocol == "anthropic" else {"temperature": 0.5, "top_p": 0.5}
    check_body(protocol, encode(DIALECTS[protocol], request, max_tokens=9, reasoning_effort="low", **sampling))


@each_protocol
def test_types_describe_returned_reasoning(protocol: Protocol) -> None:
    scripted = PickyServer(protocol, [ToolCall("c1", "echo", '{"text": "hi"}'), "done"], thoughts="Hm.")
    AgentExecutor(agent=create_tool_calling_agent(scripted.model(), [echo]), tools=[echo]).run("q")
    body = scripted.bodies[1]
    assert "Hm." in json.dumps(body)
    if protocol != "chat":
        # OpenAI's chat completions have no reasoning.
        check_body(protocol, {"model": "m", **body})


@cases(
    "schema",
    SCHEMA,
    {"type": "object", "properties": {"s": {"type": "string", "minLength": 2, "description": "Short."}}},
    {"anyOf": [{"type": "array", "items": {"type": "number"}, "minItems": 3}, {"type": "null"}]},
    {"oneOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"type": "object", "additionalProperties": True}}},
    {"type": "string", "format": "date", "title": "Day"},
    {"type": "string", "format": "color"},
    {"enum": ["a", "b"]},
)
def test_anthropic_package_makes_the_same_schema(schema: dict[str, Any]) -> None:
    from anthropic import transform_schema

    assert schemas.close_schema(schema) == transform_schema(schema)
