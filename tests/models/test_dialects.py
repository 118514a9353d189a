"""The clients for Anthropic and OpenAI's Responses API with a scripted server."""

import asyncio
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import errors, messages, models
from graphexec.models.http.remote import RemoteModel
from tests.models import actors
from tests.models import recorded as rec
from tests.models.actors import HELLO, FakeTime, Script, sse
from tests.models.call_modes import call_blocking, check_reply_or_error, stream_async, stream_blocking
from tests.models.recorded import Recording
from tests.models.wire_corpus import check_deltas
from tests.parameters import cases, examples


@dataclass(frozen=True)
class Side:
    """One dialect: how to make its client, and what a server has sent."""

    kind: type[RemoteModel]
    name: str
    url: str
    overloaded: bytes
    text: Recording
    calls: Recording

    def model(self, *answers: httpx.Response | Exception | actors.Answer, time: FakeTime | None = None) -> RemoteModel:
        options: dict[str, Any] = {"base_url": self.url, "api_key": "sk-secret", "clock": (time or FakeTime()).clock}
        return self.kind(self.name, **options, **actors.clients_of(Script(*answers).transport))


OVERLOADED = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
ANTHROPIC = Side(models.Anthropic, "claude-9", "http://127.0.0.1:1", OVERLOADED, rec.CLAUDE_TEXT, rec.CLAUDE_CALLS)
OVERLOADED_GPT = b'{"type":"error","code":"server_is_overloaded","message":"Overloaded","param":null}'
RESPONSES = Side(models.OpenAIResponses, "gpt-9", "http://127.0.0.1:1/v1", OVERLOADED_GPT, rec.GPT_TEXT, rec.GPT_CALL)
OUT_OF_MEMORY = b'{"error":{"code":500,"type":"server_error","message":"Overloaded"}}'
CHAT = Side(models.OpenAICompatible, "tiny", "http://127.0.0.1:1/v1", OUT_OF_MEMORY, rec.CHAT_TEXT, rec.CHAT_CALLS)
ALL = (ANTHROPIC, RESPONSES, CHAT)
SIDES = cases("side", *ALL)
RECORDED = cases(("side", "recording"), *[(side, one) for side in ALL for one in (side.text, side.calls)])


@RECORDED
def test_deltas_add_up_for_any_chunking(side: Side, recording: Recording) -> None:
    body, stream, reply = recording
    # A server that does not stream.
    assert list(side.model(httpx.Response(200, content=body)).stream(HELLO)) == [reply]
    letters = [stream[i : i + 1] for i in range(len(stream))]
    assert check_deltas([*side.model(sse(*letters)).stream(HELLO)]) == reply
    assert stream_async(side.model(sse(*letters))) == reply


@SIDES
def test_overload_is_retried_before_the_first_piece(side: Side) -> None:
    _, stream, reply = side.text
    error_event = b"event: error\ndata: " + side.overloaded + b"\n\n"
    events = actors.split_events(stream)
    time = FakeTime()
    model = side.model(sse(error_event), sse(events[0] + error_event), sse(stream), time=time)
    assert stream_blocking(model) == reply
    assert len(time.slept) == 2
    assert stream_async(side.model(sse(error_event), sse(stream))) == reply
    late = b"".join(events[:-3]) + error_event
    pieces = side.model(sse(late), sse(stream)).stream(HELLO)
    assert isinstance(next(pieces), messages.ReplyDelta)
    with pytest.raises(errors.ServerError, match="Overloaded"):
        list(pieces)


STATUSES = [200, 201, 204, 301, 400, 401, 404, 413, 429, 500, 503, 529]


@SIDES
@given(body=st.binary(max_size=200), status=st.sampled_from(STATUSES))
def test_any_response_is_reply_or_model_error(side: Side, body: bytes, status: int) -> None:
    # Some errors are retried, so the response is repeated.
    model = side.model(*(httpx.Response(status, content=body) for _ in range(3)))
    check_reply_or_error(lambda: model.complete(HELLO))


@SIDES
@settings(max_examples=examples(50))
@given(position=st.integers(0, len(rec.CLAUDE_TEXT.stream) - 1), damage=st.binary(min_size=1, max_size=3))
def test_damaged_stream_is_reply_or_model_error(side: Side, position: int, damage: bytes) -> None:
    stream = side.calls.stream
    body = stream[:position] + damage + stream[position + 1 :]
    check_reply_or_error(lambda: stream_blocking(side.model(sse(body), sse(body), sse(body))))


KEYS = [
    *("type", "error", "message", "content", "output", "text", "input", "usage", "delta", "index", "response", "item"),
    *("code", "choices", "tool_calls", "function", "detail", "n_ctx", "n_prompt_tokens"),
]
KINDS = [
    *("message_start", "content_block_start", "content_block_delta", "tool_use", "message_delta", "error"),
    *("response.completed", "response.output_item.added", "function_call"),
]
SCALARS = st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(KINDS) | st.integers() | st.text()
JSONS = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYS), inner))


@pytest.mark.medium
@SIDES
@settings(max_examples=examples(100, gate=30))
@given(body=JSONS)
def test_any_json_is_reply_or_model_error(side: Side, body: object) -> None:
    answers = [httpx.Response(200, json=body)] * 3
    check_reply_or_error(lambda: call_blocking(side.model(*answers)))
    check_reply_or_error(lambda: call_blocking(side.model(httpx.Response(400, json=body))))
    events = sse(b"data: " + answers[0].content + b"\n\n")
    check_reply_or_error(lambda: stream_blocking(side.model(*[events] * 3)))


KEY = "from-the-environment"
CLAUDES = {"x-api-key": KEY, "anthropic-version": "2023-06-01", "authorization": None}
BEARER = {"authorization": f"Bearer {KEY}"}


@cases(
    ("side", "host", "provider", "path", "headers"),
    (ANTHROPIC, "api.anthropic.com", "ANTHROPIC", "v1/messages", CLAUDES),
    (RESPONSES, "api.openai.com/v1", "OPENAI", "responses", BEARER),
    (CHAT, "api.openai.com/v1", "OPENAI", "chat/completions", BEARER),
)
def test_environment_provides_missing_options(
    side: Side, host: str, provider: str, path: str, headers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    key, url = f"{provider}_API_KEY", f"{provider}_BASE_URL"
    for name in (key, url):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(errors.MissingAPIKeyError, match=f"m at https://{host} needs an API key; set {key}"):
        side.kind("m").complete(HELLO)
    with pytest.raises(errors.ModelConnectionError, match=r"_BASE_URL\) must be .* as http://127.0.0.1:8080"):
        side.kind("m", base_url="api.example").complete(HELLO)
    monkeypatch.setenv(key, f"{KEY}\n")
    monkeypatch.setenv(url, "https://models.example/")
    script = Script(httpx.Response(200, content=side.text.body))
    model = side.kind("m", client=httpx.Client(transport=script.transport))
    assert model.complete(HELLO).content == side.text.reply.content
    (request,) = script.requests
    assert str(request.url) == f"https://models.example/{path}"
    assert {name: request.headers.get(name) for name in headers} == headers
    assert request.headers["content-type"] == "application/json"


@SIDES
def test_model_is_a_context_manager_without_secrets(side: Side) -> None:
    body, _, reply = side.text
    with side.model(httpx.Response(200, content=body)) as model:
        assert model.complete(HELLO) == reply
    assert "secret" not in repr(model)
    assert repr(model) == f"{side.kind.__name__}({side.name!r}, base_url={side.url!r})"

    async def talk() -> None:
        async with side.model(httpx.Response(200, content=body)) as model:
            assert await model.acomplete(HELLO) == reply

    asyncio.run(talk())
