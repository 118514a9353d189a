"""The clients for Anthropic and OpenAI's Responses API with a scripted server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec.errors import InvalidReplyError, MissingAPIKeyError, ModelConnectionError, ModelError, ServerError
from graphexec.messages import ChatRequest, ModelReply, ReplyDelta, UserMessage
from graphexec.models import Anthropic, Clock, OpenAIResponses
from graphexec.models.http.remote import RemoteModel
from tests.models import recorded_dialects
from tests.models.actors import HELLO, Answer, FakeTime, Script, aread_stream, asse, read_stream, scripted_server, sse
from tests.models.recorded import CHAT_REPLY, STREAM
from tests.parameters import cases

Make = Callable[[Script, Clock], RemoteModel]


def anthropic(script: Script, clock: Clock) -> RemoteModel:
    return Anthropic(
        "claude-9",
        base_url="http://127.0.0.1:1",
        api_key="sk-secret",
        client=httpx.Client(transport=script.transport),
        async_client=httpx.AsyncClient(transport=script.transport),
        clock=clock,
    )


def responses(script: Script, clock: Clock) -> RemoteModel:
    return OpenAIResponses(
        "gpt-9",
        base_url="http://127.0.0.1:1/v1",
        api_key="sk-secret",
        client=httpx.Client(transport=script.transport),
        async_client=httpx.AsyncClient(transport=script.transport),
        clock=clock,
    )


@dataclass(frozen=True)
class Side:
    """One dialect: its client class, and recorded responses of a server."""

    make: Make
    body: bytes
    stream: bytes
    reply: ModelReply
    calls: bytes
    calls_stream: bytes
    calls_reply: ModelReply

    def model(self, *answers: httpx.Response | Exception | Answer, time: FakeTime | None = None) -> RemoteModel:
        return self.make(Script(*answers), (time or FakeTime()).clock)


ANTHROPIC = Side(
    anthropic,
    recorded_dialects.MESSAGE,
    recorded_dialects.MESSAGE_STREAM,
    recorded_dialects.MESSAGE_REPLY,
    recorded_dialects.TOOL_USE,
    recorded_dialects.TOOL_USE_STREAM,
    recorded_dialects.TOOL_USE_REPLY,
)
RESPONSES = Side(
    responses,
    recorded_dialects.RESPONSE,
    recorded_dialects.RESPONSE_STREAM,
    recorded_dialects.RESPONSE_REPLY,
    recorded_dialects.RESPONSE_CALL,
    recorded_dialects.RESPONSE_CALL_STREAM,
    recorded_dialects.RESPONSE_CALL_REPLY,
)
SIDES = cases("side", [ANTHROPIC, RESPONSES])

OVERLOADED = {
    ANTHROPIC.make: b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    RESPONSES.make: b'{"type":"error","code":"server_is_overloaded","message":"Overloaded","param":null}',
}


def events(body: bytes) -> list[bytes]:
    return [event + b"\n\n" for event in body.split(b"\n\n")[:-1]]


@SIDES
def test_reply_is_read_blocking_and_async(side: Side) -> None:
    for body, reply in ((side.body, side.reply), (side.calls, side.calls_reply)):
        model = side.model(*(httpx.Response(200, content=body) for _ in range(4)))
        assert model.complete(HELLO) == asyncio.run(model.acomplete(HELLO)) == reply
        # The server does not stream.
        assert list(model.stream(HELLO)) == [reply]
        assert asyncio.run(aread_stream(model)) == reply


@pytest.mark.medium
@SIDES
def test_incomplete_stream_is_not_a_reply(side: Side) -> None:
    for body, reply in ((side.stream, side.reply), (side.calls_stream, side.calls_reply)):
        ends = range(0, len(body) + 1, 7)
        model = side.model(*(sse(body[:end]) for end in ends), sse(body))
        complete = False
        for _ in ends:
            try:
                got = read_stream(model.stream(HELLO))
            except InvalidReplyError:
                assert not complete
            else:
                assert got == reply
                complete = True
        assert read_stream(model.stream(HELLO)) == reply


@SIDES
@settings(max_examples=30)
@given(cuts=st.lists(st.integers(0, len(recorded_dialects.MESSAGE_STREAM)), max_size=20))
def test_chunks_may_be_cut_anywhere(side: Side, cuts: list[int]) -> None:
    for body, reply in ((side.stream, side.reply), (side.calls_stream, side.calls_reply)):
        ends = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
        pieces = [body[begin:end] for begin, end in pairwise(ends)]
        assert read_stream(side.model(sse(pieces)).stream(HELLO)) == reply
        streamed = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=asse(pieces))
        assert asyncio.run(aread_stream(side.model(streamed))) == reply


@SIDES
def test_deltas_add_up_for_any_chunking(side: Side) -> None:
    for body, reply in ((side.stream, side.reply), (side.calls_stream, side.calls_reply)):
        *deltas, last = side.model(sse([body[i : i + 1] for i in range(len(body))])).stream(HELLO)
        assert last == reply
        pieces = [delta for delta in deltas if isinstance(delta, ReplyDelta)]
        assert "".join(delta.content for delta in pieces) == reply.content
        for number, call in enumerate(reply.tool_calls):
            own = [delta for delta in pieces if delta.index == number]
            assert "".join(delta.arguments for delta in own) == call.arguments
            assert "".join(delta.name for delta in own) == call.name
            assert "".join(delta.call_id for delta in own) == call.id


@SIDES
def test_overload_in_stream_is_retried_before_first_piece(side: Side) -> None:
    error_event = b"event: error\ndata: " + OVERLOADED[side.make] + b"\n\n"
    first = events(side.stream)[0]
    time = FakeTime()
    model = side.model(sse(error_event), sse(first + error_event), sse(side.stream), time=time)
    assert read_stream(model.stream(HELLO)) == side.reply
    assert len(time.slept) == 2
    late = side.stream.replace(events(side.stream)[-1], error_event)
    # Without the event that completes the reply.
    late = late.replace(events(side.stream)[-2], b"")
    pieces = side.model(sse(late), sse(side.stream)).stream(HELLO)
    assert isinstance(next(pieces), ReplyDelta)
    with pytest.raises(ServerError, match="Overloaded"):
        list(pieces)


@SIDES
def test_overload_in_async_stream_is_retried(side: Side) -> None:
    error_event = b"event: error\ndata: " + OVERLOADED[side.make] + b"\n\n"
    streams = [httpx.Response(200, headers={"content-type": "text/event-stream"}, content=asse([body]))
               for body in (error_event, side.stream)]  # fmt: skip
    assert asyncio.run(aread_stream(side.model(*streams))) == side.reply


def test_failure_in_chat_completions_stream_is_retried() -> None:
    error_event = b'data: {"error":{"code":500,"type":"server_error","message":"out of memory"}}\n\n'
    assert read_stream(scripted_server(sse(error_event), sse(STREAM)).stream(HELLO)) == CHAT_REPLY


@SIDES
def test_overloaded_server_is_retried_after_its_wait(side: Side) -> None:
    time = FakeTime()
    busy = httpx.Response(529, headers={"retry-after": "7"}, content=OVERLOADED[side.make])
    assert side.model(busy, httpx.Response(200, content=side.body), time=time).complete(HELLO) == side.reply
    assert time.slept == [7.0]
    with pytest.raises(ServerError, match=r"529: .*Overloaded"):
        side.model(busy, busy, busy).complete(HELLO)


@SIDES
@given(body=st.binary(max_size=100), status=st.sampled_from([200, 201, 204, 301, 400, 401, 404, 413, 429, 500, 529]))
def test_any_response_is_reply_or_model_error(side: Side, body: bytes, status: int) -> None:
    model = side.model(*(httpx.Response(status, content=body) for _ in range(3)))
    assert_reply_or_error(lambda: model.complete(HELLO))


@SIDES
@settings(max_examples=50)
@given(position=st.integers(0, len(recorded_dialects.MESSAGE_STREAM) - 1), damage=st.binary(min_size=1, max_size=3))
def test_damaged_stream_is_reply_or_model_error(side: Side, position: int, damage: bytes) -> None:
    body = side.calls_stream[:position] + damage + side.calls_stream[position + 1 :]
    assert_reply_or_error(lambda: read_stream(side.model(sse(body), sse(body), sse(body)).stream(HELLO)))


KEYS = ["type", "error", "message", "content", "output", "text", "input", "usage", "delta", "index", "response", "item"]
KINDS = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "tool_use",
    "message_delta",
    "error",
    "response.completed",
    "response.output_item.added",
    "function_call",
]
SCALARS = st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(KINDS)
JSONS = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYS), inner))


@pytest.mark.medium
@SIDES
@settings(max_examples=30)
@given(body=JSONS)
def test_any_json_is_reply_or_model_error(side: Side, body: object) -> None:
    answers = [httpx.Response(200, json=body) for _ in range(3)]
    assert_reply_or_error(lambda: side.model(*answers).complete(HELLO))
    event = b"data: " + httpx.Response(200, json=body).content + b"\n\n"
    assert_reply_or_error(lambda: read_stream(side.model(*(sse(event) for _ in range(3))).stream(HELLO)))


def assert_reply_or_error(ask: Callable[[], ModelReply]) -> None:
    """Assert that a call returns a reply or raises one readable error. Other exceptions fail the test."""
    message = ""
    try:
        ask()
    except ModelError as error:
        message = str(error)
    assert message.isprintable()
    assert len(message) < 1000


def send_request(side: Side) -> httpx.Request:
    script = Script(httpx.Response(200, content=side.body))
    side.make(script, FakeTime().clock).complete(ChatRequest([UserMessage("hello")]))
    return script.requests[0]


def test_each_dialect_has_its_route_and_headers() -> None:
    message, response = send_request(ANTHROPIC), send_request(RESPONSES)
    assert str(message.url) == "http://127.0.0.1:1/v1/messages"
    assert message.headers["x-api-key"] == "sk-secret"
    assert message.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in message.headers
    assert str(response.url) == "http://127.0.0.1:1/v1/responses"
    assert response.headers["authorization"] == "Bearer sk-secret"
    for request in (message, response):
        assert request.headers["content-type"] == "application/json"


class TestKeys:
    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
            monkeypatch.delenv(name, raising=False)

    def test_missing_key_is_an_error_before_sending(self) -> None:
        with pytest.raises(
            MissingAPIKeyError, match=r"claude-9 at https://api.anthropic.com needs .* set ANTHROPIC_API_KEY"
        ):
            Anthropic("claude-9").complete(HELLO)
        with pytest.raises(MissingAPIKeyError, match=r"gpt-9 at https://api.openai.com/v1 needs .* set OPENAI_API_KEY"):
            OpenAIResponses("gpt-9").complete(HELLO)

    def test_environment_provides_missing_options(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment\n")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://claude.example/")
        script = Script(httpx.Response(200, content=recorded_dialects.MESSAGE))
        model = Anthropic("claude-9", client=httpx.Client(transport=script.transport))
        assert model.complete(HELLO).content == recorded_dialects.MESSAGE_REPLY.content
        assert str(script.requests[0].url) == "https://claude.example/v1/messages"
        assert script.requests[0].headers["x-api-key"] == "from-the-environment"

    def test_address_without_scheme_has_an_example(self) -> None:
        with pytest.raises(ModelConnectionError, match=r"ANTHROPIC_BASE_URL\) must be .* as http://127.0.0.1:8080$"):
            Anthropic("claude-9", base_url="api.example").complete(HELLO)


@cases("side", [ANTHROPIC, RESPONSES])
def test_model_is_a_context_manager_without_secrets(side: Side) -> None:
    with side.model(httpx.Response(200, content=side.body)) as model:
        assert model.complete(HELLO) == side.reply
    assert "secret" not in repr(model)
    assert repr(model).startswith(("Anthropic('claude-9', base_url=", "OpenAIResponses('gpt-9', base_url="))

    async def talk() -> None:
        async with side.model(httpx.Response(200, content=side.body)) as model:
            assert await model.acomplete(HELLO) == side.reply

    asyncio.run(talk())


def join_text(pieces: Iterable[ReplyDelta | ModelReply]) -> str:
    return "".join(piece.content for piece in pieces if isinstance(piece, ReplyDelta))


def test_responses_stream_is_cut_before_stop_string() -> None:
    request = ChatRequest(HELLO.messages, stop=("é costs",))
    *deltas, last = RESPONSES.model(sse(recorded_dialects.RESPONSE_STREAM)).stream(request)
    assert isinstance(last, ModelReply)
    assert join_text(deltas) == last.content == "Caf"
    assert RESPONSES.model(httpx.Response(200, content=recorded_dialects.RESPONSE)).complete(request) == last
