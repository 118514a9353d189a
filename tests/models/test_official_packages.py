"""Compare requests and replies with those of the official packages of Anthropic and OpenAI.

They are imported by the tests, as that takes seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import httpx2
import pydantic
import pytest

from graphexec import AgentExecutor, create_tool_calling_agent, messages
from graphexec.messages import AssistantMessage, ChatRequest, ToolCall, ToolMessage, UserMessage
from graphexec.models.http.dialect import Sampling
from graphexec.models.http.json_bodies import write
from graphexec.models.providers import schemas
from graphexec.models.providers.anthropic import MESSAGES
from graphexec.models.providers.openai_responses import RESPONSES
from tests.executor.actors import echo
from tests.models.picky_server import PickyServer, Protocol
from tests.models.pictures import ADDRESS, CAT, DOG
from tests.models.recorded import CLAUDE_TEXT, GPT_TEXT
from tests.parameters import cases

if TYPE_CHECKING:
    from anthropic import Anthropic
    from anthropic import types as claude_types
    from openai import OpenAI
    from openai.types import responses

if find_spec("openai") is None or find_spec("anthropic") is None:
    pytest.skip("needs the extra dev", allow_module_level=True)

PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
SCHEMA = {**PARAMETERS, "additionalProperties": False}
REQUEST = ChatRequest(
    [
        messages.SystemMessage("be brief"),
        UserMessage("1 + 1?"),
        AssistantMessage("Adding.", (ToolCall("c1", "add", '{"a": 1}'), ToolCall("c2", "add", '{"a": 2}'))),
        ToolMessage("c1", "1"),
        ToolMessage("c2", "2"),
        AssistantMessage("3"),
        UserMessage("and 1?"),
    ],
    (messages.ToolSpec("add", "Add.", PARAMETERS),),
    schema=SCHEMA,
    tool_choice="none",
)


def encode(protocol: Any, request: ChatRequest, *sampling: Any, stream: bool = False) -> Any:
    return json.loads(write(protocol.encode(request, Sampling(*sampling), stream=stream)))


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
    server = Server(CLAUDE_TEXT.body)
    uses: list[claude_types.ToolUseBlockParam] = [
        {"type": "tool_use", "id": f"c{number}", "name": "add", "input": {"a": number}} for number in (1, 2)
    ]
    results: list[claude_types.ToolResultBlockParam] = [
        {"type": "tool_result", "tool_use_id": f"c{number}", "content": str(number)} for number in (1, 2)
    ]
    conversation: list[claude_types.MessageParam] = [
        {"role": "user", "content": [{"type": "text", "text": "1 + 1?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Adding."}, *uses]},
        {"role": "user", "content": results},
        {"role": "assistant", "content": [{"type": "text", "text": "3"}]},
        {"role": "user", "content": [{"type": "text", "text": "and 1?"}]},
    ]
    parameters: Any = PARAMETERS
    tool: claude_types.ToolParam = {"name": "add", "description": "Add.", "input_schema": parameters}
    claude(server).messages.create(
        model="claude-9",
        max_tokens=9,
        system="be brief",
        messages=conversation,
        tools=[tool],
        tool_choice={"type": "none"},
        stop_sequences=["STOP"],
        output_config={"format": {"type": "json_schema", "schema": {**SCHEMA}}},
    )
    request = ChatRequest(REQUEST.messages, REQUEST.tools, ("STOP",), REQUEST.schema, "none")
    assert encode(MESSAGES, request, "claude-9", None, 9) == server.sent_body
    # The headers differ: the package uses a later version of the API, which has no temperature.
    assert server.requests[0].url.path == f"/{MESSAGES.route(request)}"


@pytest.mark.medium
def test_anthropic_package_sends_the_same_streamed_request() -> None:
    server = Server(CLAUDE_TEXT.stream, "text/event-stream")
    hi: claude_types.MessageParam = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    with claude(server).messages.stream(model="claude-9", max_tokens=4096, messages=[hi]) as stream:
        stream.until_done()
    asked = ChatRequest([UserMessage("hi")])
    assert encode(MESSAGES, asked, "claude-9", None, 4096, stream=True) == server.sent_body


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
    server = Server(GPT_TEXT.body)
    # The package's types require more of assistant messages than the API does, so they are compared separately.
    items: list[responses.ResponseInputItemParam] = [
        {"role": "user", "content": "1 + 1?"},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
        {"type": "function_call", "call_id": "c2", "name": "add", "arguments": '{"a": 2}'},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {"type": "function_call_output", "call_id": "c2", "output": "2"},
        {"role": "user", "content": "and 1?"},
    ]
    parameters: Any = PARAMETERS
    tool: responses.FunctionToolParam = {"type": "function", "name": "add", "parameters": parameters, "strict": False}
    tool["description"] = "Add."
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
    ours = encode(RESPONSES, REQUEST, "gpt-9", 0.5, 9)
    replies = [item for item in ours["input"] if item.get("role") == "assistant"]
    ours["input"] = [item for item in ours["input"] if item not in replies]
    assert ours == server.sent_body
    assert server.requests[0].url.path == f"/v1/{RESPONSES.route(REQUEST)}"
    completed = {"id": "msg_1", "status": "completed"}
    whole: list[Any] = [
        {**item, **completed, "content": [{**part, "annotations": []} for part in item["content"]]} for item in replies
    ]
    conversation_items().validate_python([*items, *whole])


@pytest.mark.medium
@cases(("protocol", "types"), ("responses", conversation_items), ("anthropic", reasoning_blocks))
def test_types_describe_returned_reasoning(protocol: Protocol, types: Callable[[], pydantic.TypeAdapter[Any]]) -> None:
    scripted = PickyServer(protocol, [ToolCall("c1", "echo", '{"text": "hi"}'), "done"], thoughts="Hm.")
    agent = create_tool_calling_agent(scripted.model(), [echo])
    AgentExecutor(agent=agent, tools=[echo]).run("q")
    body = scripted.bodies[1]
    sent = body["input"] if protocol == "responses" else body["messages"][1]["content"]
    adapter = types()
    assert json.loads(adapter.dump_json(adapter.validate_python(sent), warnings=False)) == sent
    assert "Hm." in json.dumps(sent)


LOOK = AssistantMessage("", (ToolCall("c1", "look", "{}"),))
PICTURES = ChatRequest([UserMessage("Which?", (CAT, ADDRESS)), LOOK, ToolMessage("c1", "See:", (DOG, ADDRESS))])


@pytest.mark.medium
def test_responses_types_describe_images() -> None:
    sent = encode(RESPONSES, PICTURES, "any")["input"]
    items = conversation_items()
    # Members that the types do not have would be missing.
    assert json.loads(items.dump_json(items.validate_python(sent), warnings=False)) == sent
