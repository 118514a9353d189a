"""Compare requests and replies with those of the official packages of Anthropic and OpenAI.

They are imported by the tests, as they take seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import httpx2
import pydantic
import pytest

from graphexec import AgentExecutor, create_tool_calling_agent
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    ModelReply,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphexec.models.http.dialect import Sampling
from graphexec.models.http.json_bodies import write
from graphexec.models.providers import anthropic_request, openai_compatible, openai_responses
from graphexec.models.providers.anthropic_request import close_schema
from tests.executor.actors import echo
from tests.models.picky_server import PickyServer, Protocol
from tests.models.pictures import ADDRESS, CAT, DOG
from tests.models.recorded_dialects import (
    MESSAGE,
    MESSAGE_REPLY,
    MESSAGE_STREAM,
    RESPONSE,
    RESPONSE_CALL,
    RESPONSE_CALL_REPLY,
    RESPONSE_CALL_STREAM,
    RESPONSE_REPLY,
    RESPONSE_STREAM,
    TOOL_USE,
    TOOL_USE_REPLY,
    TOOL_USE_STREAM,
)
from tests.parameters import cases

if TYPE_CHECKING:
    from anthropic import Anthropic
    from anthropic.types import ImageBlockParam, Message, MessageParam, ToolParam
    from openai import OpenAI
    from openai.types.chat import ChatCompletionToolMessageParam, ChatCompletionUserMessageParam
    from openai.types.responses import FunctionToolParam, Response, ResponseInputItemParam

PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
REQUEST = ChatRequest(
    [
        SystemMessage("be brief"),
        UserMessage("1 + 1?"),
        AssistantMessage("Adding.", (ToolCall("c1", "add", '{"a": 1}'), ToolCall("c2", "add", '{"a": 2}'))),
        ToolMessage("c1", "1"),
        ToolMessage("c2", "2"),
        AssistantMessage("3"),
        UserMessage("and 1?"),
    ],
    (ToolSpec("add", "Add.", PARAMETERS),),
    schema=SCHEMA,
    tool_choice="none",
)


class Server:
    """A server that answers every request with the same bytes, and records the requests."""

    def __init__(self, content: bytes, kind: str = "application/json") -> None:
        self.requests: list[httpx2.Request] = []
        self._content = content
        self._kind = kind

    def client(self) -> httpx2.Client:
        return httpx2.Client(transport=httpx2.MockTransport(self._answer))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return httpx2.Response(200, headers={"content-type": self._kind}, content=self._content)

    # Any: a request's JSON.
    @property
    def sent_body(self) -> Any:
        return json.loads(self.requests[0].content)


def claude(server: Server) -> Anthropic:
    from anthropic import Anthropic

    return Anthropic(api_key="k", base_url="http://here", http_client=server.client())


def gpt(server: Server) -> OpenAI:
    from openai import OpenAI

    return OpenAI(api_key="k", base_url="http://here/v1", http_client=server.client())


@pytest.mark.medium
def test_anthropic_package_sends_the_same_request() -> None:
    server = Server(MESSAGE)
    messages: list[MessageParam] = [
        {"role": "user", "content": [{"type": "text", "text": "1 + 1?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Adding."},
                {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "add", "input": {"a": 2}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "1"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "2"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "3"}]},
        {"role": "user", "content": [{"type": "text", "text": "and 1?"}]},
    ]
    tool: ToolParam = {"name": "add", "description": "Add.", "input_schema": {**PARAMETERS, "type": "object"}}
    claude(server).messages.create(
        model="claude-9",
        max_tokens=9,
        system="be brief",
        messages=messages,
        tools=[tool],
        tool_choice={"type": "none"},
        stop_sequences=["STOP"],
        output_config={"format": {"type": "json_schema", "schema": {**SCHEMA}}},
    )
    request = ChatRequest(REQUEST.messages, REQUEST.tools, ("STOP",), REQUEST.schema, "none")
    sampling = Sampling("claude-9", max_tokens=9)
    assert json.loads(write(anthropic_request.encode(request, sampling, stream=False))) == server.sent_body
    # The headers differ: the package uses a later version of the API, which has no temperature.
    assert server.requests[0].url.path == f"/{anthropic_request.route(request)}"


@cases(("body", "reply"), [(MESSAGE, MESSAGE_REPLY), (TOOL_USE, TOOL_USE_REPLY)])
def test_anthropic_package_reads_the_same_reply(body: bytes, reply: ModelReply) -> None:
    from anthropic.types import Message

    assert_same_message(Message.model_validate_json(body), reply)


@cases(("body", "reply"), [(MESSAGE_STREAM, MESSAGE_REPLY), (TOOL_USE_STREAM, TOOL_USE_REPLY)])
def test_anthropic_package_reads_the_same_stream(body: bytes, reply: ModelReply) -> None:
    server = Server(body, "text/event-stream")
    with claude(server).messages.stream(
        model="claude-9", max_tokens=4096, messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    ) as stream:
        assert_same_message(stream.get_final_message(), reply)
    ours = anthropic_request.encode(
        ChatRequest([UserMessage("hi")]), Sampling("claude-9", max_tokens=4096), stream=True
    )
    assert json.loads(write(ours)) == server.sent_body


def assert_same_message(message: Message, reply: ModelReply) -> None:
    assert "".join(block.text for block in message.content if block.type == "text") == reply.content
    used = [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"]
    assert used == [(call.id, call.name, json.loads(call.arguments)) for call in reply.tool_calls]
    usage = message.usage
    prompt = usage.input_tokens + (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    assert (prompt, usage.output_tokens) == (reply.usage.prompt_tokens, reply.usage.completion_tokens)
    assert (message.stop_reason, message.model) == (
        {"stop": "end_turn", "tool_calls": "tool_use"}[reply.finish_reason],
        reply.model,
    )


@cases(
    "schema",
    [
        SCHEMA,
        {"type": "object", "properties": {"s": {"type": "string", "minLength": 2, "description": "Short."}}},
        {"anyOf": [{"type": "array", "items": {"type": "number"}, "minItems": 3}, {"type": "null"}]},
        {"oneOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"type": "object", "additionalProperties": True}}},
        {"type": "string", "format": "date", "title": "Day"},
        {"type": "string", "format": "color"},
        {"enum": ["a", "b"]},
    ],
)
def test_anthropic_package_makes_the_same_schema(schema: dict[str, Any]) -> None:
    from anthropic import transform_schema

    assert close_schema(schema) == transform_schema(schema)


# The schema is slow to build. Any: the type of the official package.
@cache
def conversation_items() -> pydantic.TypeAdapter[Any]:
    from openai.types.responses import ResponseInputItemParam

    return pydantic.TypeAdapter(list[ResponseInputItemParam])


def reasoning_blocks() -> pydantic.TypeAdapter[Any]:
    from anthropic.types import ThinkingBlockParam, ToolUseBlockParam

    return pydantic.TypeAdapter(list[ThinkingBlockParam | ToolUseBlockParam])


@pytest.mark.medium
def test_openai_package_sends_the_same_request() -> None:
    server = Server(RESPONSE)
    # For assistant messages, the package's types require more than the API does, so they are compared separately.
    items: list[ResponseInputItemParam] = [
        {"role": "user", "content": "1 + 1?"},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
        {"type": "function_call", "call_id": "c2", "name": "add", "arguments": '{"a": 2}'},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {"type": "function_call_output", "call_id": "c2", "output": "2"},
        {"role": "user", "content": "and 1?"},
    ]
    tool: FunctionToolParam = {
        "type": "function",
        "name": "add",
        "description": "Add.",
        "parameters": {**PARAMETERS},
        "strict": False,
    }
    gpt(server).responses.create(
        model="gpt-9",
        instructions="be brief",
        input=items,
        tools=[tool],
        tool_choice="none",
        text={"format": {"type": "json_schema", "name": "reply", "schema": {**SCHEMA}}},
        max_output_tokens=9,
        temperature=0.5,
        store=False,
        include=["reasoning.encrypted_content"],
    )
    ours = json.loads(write(openai_responses.encode(REQUEST, Sampling("gpt-9", 0.5, 9), stream=False)))
    replies = [item for item in ours["input"] if item.get("role") == "assistant"]
    ours["input"] = [item for item in ours["input"] if item not in replies]
    assert ours == server.sent_body
    assert server.requests[0].url.path == f"/v1/{openai_responses.route(REQUEST)}"
    conversation_items().validate_python(
        [*items, *({**item, "id": "msg_1", "status": "completed"} | annotated(item) for item in replies)]
    )


@cases(("protocol", "types"), [("responses", conversation_items), ("anthropic", reasoning_blocks)])
def test_package_types_describe_returned_reasoning(
    protocol: Protocol, types: Callable[[], pydantic.TypeAdapter[Any]]
) -> None:
    scripted = PickyServer(protocol, [ToolCall("c1", "echo", '{"text": "hi"}'), "done"], thoughts="Hm.")
    agent = create_tool_calling_agent(scripted.model(), [echo])
    AgentExecutor(agent=agent, tools=[echo]).run("q")
    body = scripted.bodies[1]
    sent = body["input"] if protocol == "responses" else body["messages"][1]["content"]
    adapter = types()
    assert json.loads(adapter.dump_json(adapter.validate_python(sent), warnings=False)) == sent
    assert "Hm." in json.dumps(sent)


# Any: an item's JSON.
def annotated(item: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{**part, "annotations": []} for part in item["content"]]}


@cases(("body", "reply"), [(RESPONSE, RESPONSE_REPLY), (RESPONSE_CALL, RESPONSE_CALL_REPLY)])
def test_openai_package_reads_the_same_reply(body: bytes, reply: ModelReply) -> None:
    from openai.types.responses import Response

    assert_same_response(Response.model_validate_json(body), reply)


@cases(("body", "reply"), [(RESPONSE_STREAM, RESPONSE_REPLY), (RESPONSE_CALL_STREAM, RESPONSE_CALL_REPLY)])
def test_openai_package_reads_the_same_stream(body: bytes, reply: ModelReply) -> None:
    with gpt(Server(body, "text/event-stream")).responses.stream(model="gpt-9", input="hi") as stream:
        assert_same_response(stream.get_final_response(), reply)


def assert_same_response(response: Response, reply: ModelReply) -> None:
    assert response.output_text == reply.content
    called = [(item.call_id, item.name, item.arguments) for item in response.output if item.type == "function_call"]
    assert called == [(call.id, call.name, call.arguments) for call in reply.tool_calls]
    assert response.usage is not None
    assert response.usage.input_tokens == reply.usage.prompt_tokens
    assert response.usage.output_tokens == reply.usage.completion_tokens
    assert (response.status, response.model) == ("completed", reply.model)


PICTURES = ChatRequest(
    [
        UserMessage("Which?", (CAT, ADDRESS)),
        AssistantMessage("", (ToolCall("c1", "look", "{}"),)),
        ToolMessage("c1", "See:", (DOG, ADDRESS)),
    ]
)


# Type checkers compare the expected messages with the packages' types.
def test_anthropic_types_describe_images() -> None:
    see: list[ImageBlockParam] = [
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": DOG.data}},
        {"type": "image", "source": {"type": "url", "url": ADDRESS.url}},
    ]
    results: MessageParam = {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [*see, {"type": "text", "text": "See:"}]},
        ],
    }
    sent = json.loads(write(anthropic_request.encode(PICTURES, Sampling("any", max_tokens=9), stream=False)))
    assert sent["messages"][2] == results
    assert sent["messages"][0]["content"][1] == see[1]


def test_chat_types_describe_images() -> None:
    see: ChatCompletionUserMessageParam = {
        "role": "user",
        "content": [
            {"type": "text", "text": "The images in the result of look (c1):"},
            {"type": "image_url", "image_url": {"url": DOG.url}},
            {"type": "image_url", "image_url": {"url": ADDRESS.url}},
        ],
    }
    result: ChatCompletionToolMessageParam = {"role": "tool", "tool_call_id": "c1", "content": "See:"}
    sent = json.loads(write(openai_compatible.encode(PICTURES, Sampling("any"), stream=False)))
    assert sent["messages"][2:] == [result, see]


def test_responses_types_describe_images() -> None:
    sent = json.loads(write(openai_responses.encode(PICTURES, Sampling("any"), stream=False)))["input"]
    # Members that the types do not have would be missing.
    assert (
        json.loads(conversation_items().dump_json(conversation_items().validate_python(sent), warnings=False)) == sent
    )
