"""Chat models of LangChain as models: requests, replies, streams, errors and secrets, with servers of bytes.

The packages are imported by the tests, as that takes seconds.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import httpx2
import pytest

from graphexec import create_agent, errors
from graphexec.integrations.langchain import from_langchain
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    CompletionRequest,
    Image,
    Message,
    ModelReply,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from tests.executor.actors import echo
from tests.models import recorded
from tests.models.actors import HELLO, split_events
from tests.models.call_modes import MODES, Ask, all_modes
from tests.models.leaks import Search

if find_spec("openai") is None or find_spec("langchain_core") is None:
    pytest.skip("needs the extra dev", allow_module_level=True)

pytestmark = pytest.mark.medium

KEY = "sk-never-shown-anywhere"
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}})
CALLED = AssistantMessage("", (ToolCall("c1", "add", '{"a": 1}'),))
PICTURE = Image("https://example.com/cat.png")
HISTORY: list[Message] = [SystemMessage("be brief"), UserMessage("1 + 1?", (PICTURE,)), CALLED, ToolMessage("c1", "2")]

Transport = httpx2.MockTransport
# Modules of packages that may be missing, whose types are not known then.
package: Callable[[str], Any] = import_module


# Any: without the package, its classes are unknown, here and below.
@cache
def chat_class() -> Any:
    """Return a class of chat models that call the official client of OpenAI, as those of langchain-openai do."""
    types, outputs = package("langchain_core.messages"), package("langchain_core.outputs")
    base: Any = package("langchain_core.language_models").BaseChatModel

    def count(usage: Any) -> Any:
        return usage and {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
        }

    class Chat(base):  # type: ignore[misc]
        client: Any
        api_key: Any
        model: str = "tiny"

        @property
        def _llm_type(self) -> str:
            return "openai-chat"

        def bind_tools(self, tools: Any, *, tool_choice: Any = None) -> Any:
            known = {"any": "required", "none": "none", None: None}
            forced = {"type": "function", "function": {"name": tool_choice}}
            return self.bind(tools=tools, tool_choice=known.get(tool_choice, forced))

        def _create(self, messages: list[Any], stop: Any, options: Any) -> Any:
            sent = types.convert_to_openai_messages(messages)
            given = {name: one for name, one in {"stop": stop, **options}.items() if one is not None}
            return self.client.chat.completions.create(model=self.model, messages=sent, **given)

        def _generate(self, messages: list[Any], stop: Any = None, _: Any = None, **options: Any) -> Any:
            reply = self._create(messages, stop, options)
            (choice,) = reply.choices
            called = [(one.id, one.function) for one in choice.message.tool_calls or ()]
            message = types.AIMessage(
                choice.message.content or "",
                tool_calls=[{"id": key, "name": one.name, "args": json.loads(one.arguments)} for key, one in called],
                usage_metadata=count(reply.usage),
                response_metadata={"finish_reason": choice.finish_reason, "model_name": reply.model},
            )
            return outputs.ChatResult(generations=[outputs.ChatGeneration(message=message)])

        def _stream(self, messages: list[Any], stop: Any = None, _: Any = None, **options: Any) -> Any:
            for chunk in self._create(messages, stop, options | {"stream": True}):
                for choice in chunk.choices or [None]:
                    delta: Any = choice and choice.delta
                    called = [(one, one.function) for one in (delta and delta.tool_calls) or ()]
                    message = types.AIMessageChunk(
                        (delta and delta.content) or "",
                        tool_call_chunks=[
                            {"index": one.index, "id": one.id, "name": part.name, "args": part.arguments}
                            for one, part in called
                        ],
                        usage_metadata=count(chunk.usage),
                        response_metadata={"finish_reason": choice.finish_reason}
                        if choice and choice.finish_reason
                        else {"model_provider": "openai"},
                    )
                    yield outputs.ChatGenerationChunk(message=message)

    return Chat


def bridge(transport: Transport) -> Any:
    from openai import OpenAI
    from pydantic import SecretStr

    http = httpx2.Client(transport=transport)
    client = OpenAI(api_key=KEY, base_url="http://here/v1", http_client=http, max_retries=0)
    return from_langchain(chat_class()(client=client, api_key=SecretStr(KEY)))


class Server:
    """A server that answers with the same bytes, whole or streamed as it is asked, and keeps the bodies."""

    def __init__(self, whole: bytes, stream: bytes = b"", status: int = 200) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.transport = Transport(self._answer)
        self._whole, self._stream, self._status = whole, stream, status

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.bodies.append(json.loads(request.content))
        streams = bool(self._stream) and self.bodies[-1].get("stream")
        kind = "text/event-stream" if streams else "application/json"
        content = self._stream if streams else self._whole
        return httpx2.Response(self._status, headers={"content-type": kind}, content=content)


# Members that the package requires.
HEAD: dict[str, Any] = {"id": "i", "created": 1, "model": "tiny"}


def complete_event(event: bytes) -> bytes:
    if b"[DONE]" in event:
        return event
    chunk = HEAD | {"object": "chat.completion.chunk"} | json.loads(event.removeprefix(b"data: "))
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def complete(whole: bytes, stream: bytes) -> tuple[bytes, list[bytes]]:
    body = HEAD | {"object": "chat.completion"} | json.loads(whole)
    return json.dumps(body).encode(), [complete_event(event) for event in split_events(stream)]


TEXT, TEXT_EVENTS = complete(recorded.CHAT, recorded.STREAM)
CALLS, CALLS_EVENTS = complete(recorded.CALLS, recorded.CALLS_STREAM)
REPLIES = [(TEXT, TEXT_EVENTS, recorded.CHAT_REPLY), (CALLS, CALLS_EVENTS, recorded.CALLS_REPLY)]


def parts_of(reply: ModelReply) -> list[object]:
    return [reply.content, reply.tool_calls, reply.usage, reply.finish_reason]


@all_modes
def test_reply_is_the_recorded_one(ask: Ask) -> None:
    for whole, events, reply in REPLIES:
        model = bridge(Server(whole, b"".join(events)).transport)
        for timeout in (None, 20.0):
            assert parts_of(ask(model, HELLO, timeout=timeout)) == parts_of(reply)
        assert model.name == "tiny"
        search = Search(KEY)
        search.in_object(model, "model")
        assert not search.hits


def test_deltas_make_the_reply() -> None:
    for whole, events, reply in REPLIES:
        *found, _ = bridge(Server(whole, b"".join(events)).transport).stream(HELLO)
        assert "".join(delta.content for delta in found) == reply.content
        calls = [delta for delta in found if delta.index is not None]
        assert {delta.index for delta in calls} <= {0}
        joined = ["".join(getattr(delta, name) for delta in calls) for name in ("call_id", "name", "arguments")]
        assert joined == ([[one.id, one.name, one.arguments] for one in reply.tool_calls] or [[""] * 3])[0]


def test_request_has_tools_choice_stop_and_images() -> None:
    for choice, sent in [
        ("auto", (None, "auto")),
        ("required", ("required",)),
        ("none", ("none",)),
        ("add", (FORCED, "required")),
    ]:
        server = Server(TEXT)
        bridge(server.transport).complete(ChatRequest(HISTORY, (ADD,), ("STOP",), tool_choice=choice))
        (body,) = server.bodies
        assert body.get("tool_choice") in sent
        assert body["stop"] == ["STOP"]
        assert [tool["function"]["name"] for tool in body["tools"]] == ["add"]
        assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]
        assert PICTURE.url in json.dumps(body["messages"][1])
        (call,) = body["messages"][2]["tool_calls"]
        assert (call["id"], json.loads(call["function"]["arguments"])) == ("c1", {"a": 1})
        assert body["messages"][3]["tool_call_id"] == "c1"


FORCED = {"type": "function", "function": {"name": "add"}}


def test_schema_is_sent_or_in_the_system_message() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    for tools in ((), (ADD,)):
        server = Server(TEXT)
        bridge(server.transport).complete(ChatRequest([UserMessage("hi"), SystemMessage("x")], tools, schema=schema))
        body = json.dumps(server.bodies[0])
        assert "city" in body
        assert "response_format" in body or server.bodies[0]["messages"][0]["role"] == "system"


@all_modes
def test_text_ends_before_a_stop_string(ask: Ask) -> None:
    reply = ask(
        bridge(Server(TEXT, b"".join(TEXT_EVENTS)).transport), ChatRequest([UserMessage("hi")], stop=("costs",))
    )
    assert (reply.content, reply.finish_reason) == ("Café ", "stop")


def test_cut_stream_is_an_error() -> None:
    for _, events, reply in REPLIES:
        for number in range(len(events) - 3):
            model = bridge(Server(b"", b"".join(events[:number]) or b"\n").transport)
            with pytest.raises(errors.ModelError):
                list(model.stream(HELLO))
        assert parts_of(reply)


def failing(error: Exception) -> Transport:
    def fail(_: httpx2.Request) -> httpx2.Response:
        raise error

    return Transport(fail)


def refusing(status: int, body: Any) -> Transport:
    return Server(body.encode() if isinstance(body, str) else json.dumps(body).encode(), status=status).transport


NOT_FOUND = {"error": {"message": "none", "code": "model_not_found"}}
ERRORS: list[tuple[Transport, type[errors.ModelError], str]] = [
    (refusing(401, {"error": {"message": f"bad key {KEY}"}}), errors.AuthenticationError, "bad key ***"),
    (refusing(429, {"error": {"message": "slow down"}}), errors.RateLimitError, "slow down"),
    (refusing(404, NOT_FOUND), errors.ModelNotFoundError, "tiny at"),
    (refusing(400, recorded.OVERFLOW.decode()), errors.ContextOverflowError, "5031 tokens"),
    (refusing(400, {"error": {"message": "no such member"}}), errors.BadRequestError, "no such member"),
    (refusing(503, "<html>"), errors.ServerError, "<html>"),
    (failing(httpx2.ConnectError(f"no route, {KEY}")), errors.ModelConnectionError, ""),
    (failing(httpx2.ReadTimeout("too late")), errors.ModelTimeoutError, "did not answer "),
]


@all_modes
def test_error_has_its_class_and_no_key(ask: Ask) -> None:
    for transport, kind, text in ERRORS:
        for timeout in (None, 20.0):
            with pytest.raises(kind) as caught:
                ask(bridge(transport), HELLO, timeout=timeout)
            assert text in str(caught.value)
            search = Search(KEY)
            search.in_error(caught.value)
            assert not search.hits


def test_agent_calls_its_tool() -> None:
    call, bodies = json.loads(CALLS), list[Any]()
    message = call["choices"][0]["message"] | {"reasoning_content": "Hm."}
    message["tool_calls"][0]["function"] = {"name": "echo", "arguments": '{"text": "hi"}'}
    call["choices"][0]["message"] = message
    replies = iter([json.dumps(call).encode(), TEXT])

    def answer(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        return httpx2.Response(200, content=next(replies))

    result = create_agent(bridge(Transport(answer)), [echo], kind="tool_calling").run("q")
    assert (result.output, [step.observation for step in result.steps]) == ("Café costs €4.", ["hi"])
    assert result.usage.total_tokens == sum(reply.usage.total_tokens for *_, reply in REPLIES)


def test_completion_is_a_user_message() -> None:
    server = Server(TEXT)
    assert bridge(server.transport).complete(CompletionRequest("1")).content == recorded.CHAT_REPLY.content
    assert server.bodies[0]["messages"] == [{"role": "user", "content": "1"}]


def test_late_reply_is_a_timeout() -> None:
    class Late(Server):
        def _answer(self, request: httpx2.Request) -> httpx2.Response:
            waits.wait(0.2)
            return super()._answer(request)

    waits = threading.Event()
    for ask in MODES:
        with pytest.raises(errors.ModelTimeoutError):
            ask(bridge(Late(TEXT, b"".join(TEXT_EVENTS)).transport), HELLO, timeout=0.05)


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    make: Any = from_langchain
    with pytest.raises(errors.InputError, match="; give a "):
        make(object())
    with pytest.raises(errors.InputError, match=r"needs chat_model; write from_langchain\("):
        make(config={})
    for loaded in [one for one in sys.modules if one.partition(".")[0] == "langchain_core"]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, "langchain_core", None)
    with pytest.raises(errors.InputError, match=r"pip install 'graphexec-agents\[langchain\]'"):
        make(object())


THINKING: list[Any] = [
    {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
    {"type": "text", "text": "Adding."},
    {"type": "tool_use", "id": "c1", "name": "echo", "input": {"text": "hi"}},
]


def test_langchain_gets_its_reasoning_back() -> None:
    make_message, outputs = package("langchain_core.messages").AIMessage, package("langchain_core.outputs")
    call: Any = {"name": "echo", "args": {"text": "hi"}, "id": "c1"}
    used: Any = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13, "input_token_details": {"cache_read": 5}}
    first = make_message(
        THINKING, tool_calls=[call], usage_metadata=used, response_metadata={"stop_reason": "tool_use"}
    )
    replies: Iterator[Any] = iter([first, make_message("done")])
    seen: list[list[Any]] = []

    # Any: without the package, its class is unknown.
    base: Any = package("langchain_core.language_models").BaseChatModel

    class Fake(base):  # type: ignore[misc]
        @property
        def _llm_type(self) -> str:
            return "anthropic-chat"

        def _generate(self, messages: list[Any], *_: Any, **__: Any) -> Any:
            seen.append(messages)
            return outputs.ChatResult(generations=[outputs.ChatGeneration(message=next(replies))])

        def bind_tools(self, tools: Any, **options: Any) -> Any:
            assert (tools[0]["function"]["name"], options) == ("echo", {})
            return self

    result = create_agent(from_langchain(Fake()), [echo], kind="tool_calling").run("q")
    assert result.output == "done"
    assert seen[1][2].content == THINKING
    assert result.usage.total_tokens == 13
