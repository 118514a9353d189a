"""Models of other libraries: requests, replies, streams, errors and secrets, with the packages and servers of bytes.

The packages are imported by the tests, as that takes seconds; rows of packages that are not installed are left out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import httpx2
import pytest

from graphexec import create_agent, errors, models
from graphexec.integrations.langchain import from_langchain
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    CompletionRequest,
    Message,
    ModelReply,
    ReplyDelta,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphexec.runtime.background_loop import BACKGROUND
from tests.executor.actors import echo
from tests.models import recorded
from tests.models.actors import HELLO, LoopbackServer, chunks, response, send, split_events
from tests.models.call_modes import MODES, Ask
from tests.models.leaks import Search
from tests.models.pictures import ADDRESS
from tests.parameters import cases

if find_spec("openai") is None:
    pytest.skip("needs the extra dev", allow_module_level=True)

pytestmark = pytest.mark.medium

KEY = "sk-never-shown-anywhere"
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}})
CALLED = AssistantMessage("", (ToolCall("c1", "add", '{"a": 1}'),))
HISTORY: list[Message] = [SystemMessage("be brief"), UserMessage("1 + 1?", (ADDRESS,)), CALLED, ToolMessage("c1", "2")]

Transport = httpx2.MockTransport
# Any: the models are those of other packages, here and below.
Bridge = Callable[[Transport], Any]


# Modules of packages that may be missing, whose types are not known then.
package: Callable[[str], Any] = import_module


def client(transport: Transport, *, awaits: bool = False, **options: Any) -> Any:
    from openai import AsyncOpenAI, OpenAI

    kind, http = (AsyncOpenAI, httpx2.AsyncClient) if awaits else (OpenAI, httpx2.Client)
    made: Any = kind
    return made(api_key=KEY, base_url="http://here/v1", http_client=http(transport=transport), max_retries=0, **options)


def blocking_openai(transport: Transport) -> Any:
    return models.from_openai(client(transport), "tiny")


def async_openai(transport: Transport) -> Any:
    return models.from_openai(client(transport, awaits=True), "tiny")


def pydantic_ai(transport: Transport) -> Any:
    return through_pydantic_ai(client(transport, awaits=True))


def through_pydantic_ai(sent: Any) -> Any:
    provider = package("pydantic_ai.providers.openai").OpenAIProvider(openai_client=sent)
    return models.from_pydantic_ai(package("pydantic_ai.models.openai").OpenAIChatModel("tiny", provider=provider))


def langchain(transport: Transport) -> Any:
    clients: dict[str, Any] = {
        "http_client": httpx2.Client(transport=transport),
        "http_async_client": httpx2.AsyncClient(transport=transport),
    }
    make = package("langchain_openai").ChatOpenAI
    return from_langchain(make(model="tiny", api_key=KEY, base_url="http://here/v1", max_retries=0, **clients))


PACKAGES: dict[Bridge, str] = {
    blocking_openai: "openai",
    async_openai: "openai",
    pydantic_ai: "pydantic_ai",
    langchain: "langchain_openai",
}
BRIDGES = [bridge for bridge, name in PACKAGES.items() if find_spec(name) is not None]
each_bridge = cases("bridge", *BRIDGES)
each_call = cases(("bridge", "ask"), *[(bridge, ask) for bridge in BRIDGES for ask in MODES])


class Server:
    """A server that answers with the same bytes, whole or streamed as it is asked, or fails; it keeps the bodies."""

    def __init__(self, whole: bytes | Exception, stream: bytes = b"", status: int = 200) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.transport = Transport(self._answer)
        self._whole, self._stream, self._status = whole, stream, status

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.bodies.append(json.loads(request.content))
        if isinstance(self._whole, Exception):
            raise self._whole
        streams = bool(self._stream) and self.bodies[-1].get("stream")
        kind = "text/event-stream" if streams else "application/json"
        content = self._stream if streams else self._whole
        return httpx2.Response(self._status, headers={"content-type": kind}, content=content)


# Members that Pydantic AI requires.
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


@each_call
def test_reply_is_the_recorded_one(bridge: Bridge, ask: Ask) -> None:
    for whole, events, reply in REPLIES:
        model = bridge(Server(whole, b"".join(events)).transport)
        for timeout in (None, 20.0):
            assert parts_of(ask(model, HELLO, timeout=timeout)) == parts_of(reply)
        assert model.name == "tiny"
        search = Search(KEY)
        search.in_object(model, "model")
        assert not search.hits


@each_bridge
def test_deltas_make_the_reply(bridge: Bridge) -> None:
    for whole, events, reply in REPLIES:
        *found, _ = bridge(Server(whole, b"".join(events)).transport).stream(HELLO)
        assert "".join(delta.content for delta in found) == reply.content
        calls = [delta for delta in found if delta.index is not None]
        assert {delta.index for delta in calls} <= {0}
        joined = ["".join(getattr(delta, name) for delta in calls) for name in ("call_id", "name", "arguments")]
        assert joined == ([[one.id, one.name, one.arguments] for one in reply.tool_calls] or [[""] * 3])[0]


@each_bridge
def test_request_has_tools_choice_stop_and_images(bridge: Bridge) -> None:
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
        assert ADDRESS.url in json.dumps(body["messages"][1])
        (call,) = body["messages"][2]["tool_calls"]
        assert (call["id"], json.loads(call["function"]["arguments"])) == ("c1", {"a": 1})
        assert body["messages"][3]["tool_call_id"] == "c1"


FORCED = {"type": "function", "function": {"name": "add"}}


@each_bridge
def test_schema_is_sent_or_in_the_system_message(bridge: Bridge) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    for tools in ((), (ADD,)):
        server = Server(TEXT)
        bridge(server.transport).complete(ChatRequest([UserMessage("hi"), SystemMessage("x")], tools, schema=schema))
        body = json.dumps(server.bodies[0])
        assert "city" in body
        assert "response_format" in body or server.bodies[0]["messages"][0]["role"] == "system"


@each_call
def test_text_ends_before_a_stop_string(bridge: Bridge, ask: Ask) -> None:
    reply = ask(
        bridge(Server(TEXT, b"".join(TEXT_EVENTS)).transport), ChatRequest([UserMessage("hi")], stop=("costs",))
    )
    assert (reply.content, reply.finish_reason) == ("Café ", "stop")


@each_bridge
def test_cut_stream_is_an_error(bridge: Bridge) -> None:
    for _, events, _ in REPLIES:
        for number in range(len(events) - 3):
            model = bridge(Server(b"", b"".join(events[:number]) or b"\n").transport)
            with pytest.raises(errors.ModelError):
                list(model.stream(HELLO))


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
    (Server(httpx2.ConnectError(f"no route, {KEY}")).transport, errors.ModelConnectionError, ""),
    (Server(httpx2.ReadTimeout("too late")).transport, errors.ModelTimeoutError, "did not answer "),
]


@each_call
def test_error_has_its_class_and_no_key(bridge: Bridge, ask: Ask) -> None:
    for transport, kind, text in ERRORS:
        for timeout in (None, 20.0):
            with pytest.raises(kind) as caught:
                ask(bridge(transport), HELLO, timeout=timeout)
            assert text in str(caught.value)
            search = Search(KEY)
            search.in_error(caught.value)
            assert not search.hits


@each_bridge
def test_agent_calls_its_tool(bridge: Bridge) -> None:
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
    # Other packages drop this member, or send it only to servers that they know.
    if bridge in {blocking_openai, async_openai}:
        assert bodies[1]["messages"][2]["reasoning_content"] == "Hm."


def test_completions_are_sent_as_such() -> None:
    server = Server(recorded.COMPLETION)
    model = models.from_openai(client(server.transport), "tiny", temperature=0.5, extra_body={"min_p": 0.1})
    assert model.complete(CompletionRequest("1")).content == recorded.COMPLETION_REPLY.content
    assert server.bodies[0] == {"model": "tiny", "prompt": "1", "temperature": 0.5, "min_p": 0.1}


@cases("bridge", *[bridge for bridge in BRIDGES if bridge in {async_openai, pydantic_ai}])
def test_async_client_keeps_its_connection_in_sync_runs(bridge: Bridge) -> None:
    with LoopbackServer(*[send(response(TEXT))] * 3) as server:
        sent = at_server(server, awaits=True)
        model: Any = models.from_openai(sent, "tiny") if bridge is async_openai else through_pydantic_ai(sent)
        assert [model.complete(HELLO).content for _ in range(3)] == ["Café costs €4."] * 3
        assert server.connections == 1
        BACKGROUND.run(sent.close)


def at_server(server: LoopbackServer, *, awaits: bool) -> Any:
    """Return a client that connects to the server."""
    transport: Any = httpx2.AsyncHTTPTransport() if awaits else httpx2.HTTPTransport()
    return client(transport, awaits=awaits).with_options(base_url=server.url)


@cases("awaits", False, True)
def test_closed_stream_closes_its_connection(awaits: bool) -> None:
    with LoopbackServer() as server:
        server.add_acts(server.stall(chunks(*TEXT_EVENTS[:2], end=False)))
        stream = models.from_openai(at_server(server, awaits=awaits), "tiny").stream(HELLO)
        assert next(stream) == ReplyDelta("Café")
        stream.close()
        assert server.gone.wait(10)
        assert server.connections == 1


@cases(("awaits", "ask"), *[(awaits, ask) for awaits in (False, True) for ask in MODES])
def test_stalled_call_ends_at_its_timeout(awaits: bool, ask: Ask) -> None:
    with LoopbackServer() as server:
        server.add_acts(server.stall(chunks(TEXT_EVENTS[1], end=False)))
        sent = at_server(server, awaits=awaits)
        with pytest.raises(errors.ModelTimeoutError):
            ask(models.from_openai(sent, "tiny"), HELLO, timeout=0.2)
        assert server.gone.wait(10)
        if awaits:
            BACKGROUND.run(sent.close)
        else:
            sent.close()


@cases(
    ("make", "name", "extra"),
    (lambda: from_langchain(object()), "langchain_core", "langchain"),
    (lambda: models.from_openai(object(), "tiny"), "openai", "openai"),
    (lambda: models.from_pydantic_ai(object()), "pydantic_ai", "pydantic-ai"),
)
def test_missing_package_names_the_extra(make: Any, name: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec(name) is not None:
        with pytest.raises(errors.InputError, match="; give a "):
            make()
    for loaded in [one for one in sys.modules if one.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(errors.InputError, match=rf"pip install 'graphexec-agents\[{extra}\]'"):
        make()


def any_client() -> Any:
    return client(refusing(400, ""))


# Any: a type checker reports each of these calls, too.
make: Any = models
bridge: Any = from_langchain
WRONG: list[tuple[str, Callable[[], object], str]] = [
    ("openai", lambda: make.from_openai("gpt"), r"needs model; write from_openai\(client, 'gpt-5-mini'\)"),
    ("openai", lambda: make.from_openai("gpt", any_client()), "client='gpt'; give a client .* model=<.*; give a name"),
    ("openai", lambda: make.from_openai(type(any_client()), "gpt"), "client=OpenAI, a class; give a client"),
    ("openai", lambda: make.from_openai(any_client().chat, "gpt"), "client=<.*; give a client"),
    ("openai", lambda: make.from_openai(any_client(), "gpt", temperature="hot"), "temperature='hot'; give a number"),
    ("openai", lambda: make.from_openai(any_client(), "gpt", extra_body={"messages": []}), "messages in extra_body"),
    ("openai", lambda: make.from_openai(any_client(), "gpt", base_url="x"), "has no option base_url"),
    ("langchain_core", lambda: bridge(config={}), r"needs chat_model; write from_langchain\("),
    ("pydantic_ai", lambda: make.from_pydantic_ai("nonsense"), "model='nonsense'; Unknown model"),
]


@cases(("call", "fact"), *[(call, fact) for name, call, fact in WRONG if find_spec(name) is not None])
def test_wrong_arguments_are_explained(call: Callable[[], object], fact: str) -> None:
    with pytest.raises(errors.InputError, match=fact):
        call()


THINKING: list[Any] = [
    {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
    {"type": "text", "text": "Adding."},
    {"type": "tool_use", "id": "c1", "name": "echo", "input": {"text": "hi"}},
]


@pytest.mark.skipif(find_spec("langchain_core") is None, reason="needs the extra dev")
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


@pytest.mark.skipif(find_spec("pydantic_ai") is None, reason="needs the extra dev")
@cases("streams", False, True)
def test_pydantic_ai_gets_its_reasoning_back(streams: bool) -> None:
    types, function = package("pydantic_ai.messages"), package("pydantic_ai.models.function")
    seen: list[list[Any]] = []

    def answer(messages: list[Any], _: object) -> Any:
        seen.append(messages)
        if len(seen) > 1:
            return types.ModelResponse([types.TextPart("done")])
        return types.ModelResponse(
            [types.ThinkingPart("Hm.", signature="EqQB"), types.ToolCallPart("echo", {"text": "hi"}, "c1")]
        )

    async def stream(messages: list[Any], _: object) -> AsyncGenerator[Any, None]:
        seen.append(messages)
        if len(seen) > 1:
            yield "done"
        else:
            yield {0: function.DeltaThinkingPart(content="Hm.", signature="EqQB")}
            yield {1: function.DeltaToolCall("echo", '{"text": "hi"}', tool_call_id="c1")}

    executor = create_agent(
        models.from_pydantic_ai(function.FunctionModel(answer, stream_function=stream)), [echo], kind="tool_calling"
    )
    events = list(executor.stream("q", tokens=True)) if streams else [executor.run("q")]
    assert "done" in repr(events[-1])
    thinking, called = seen[1][1].parts
    assert (thinking.signature, called.tool_call_id) == ("EqQB", "c1")
