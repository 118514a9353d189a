"""The real server with the small model. The tests assert structure, limits and protocol, never words."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphexec import errors
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    CompletionRequest,
    Message,
    ModelReply,
    ReplyDelta,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphexec.models import LocalModel, OpenAICompatible, Secret, pull
from graphexec.models.local.llama_process import LlamaProcess, Settings
from tests.parameters import cases

pytestmark = pytest.mark.local_model

QUESTION = ChatRequest([UserMessage("What is 2 + 2?")])
STORY = CompletionRequest("Once upon a time")
NO_TOOLS = "chat template of smollm2-135m-instruct does not support tools, .*; use the structured agent"
ADD = ToolSpec(
    "add",
    "Add two numbers.",
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]},
)

# The weights' own template does not support tools.
WITH_TOOLS = """\
{%- if tools %}<|im_start|>system
You have tools:
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
Call one as <tool_call>
{"name": ..., "arguments": ...}
</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or "" }}
{%- for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def worked_example(number: int, a: int, b: int) -> list[Message]:
    """Return the messages of a question that was answered with the tool."""
    call = ToolCall(f"c{number}", "add", json.dumps({"a": a, "b": b}))
    asked = UserMessage(f"What is {a} + {b}?")
    return [asked, AssistantMessage("", (call,)), ToolMessage(call.id, str(a + b)), AssistantMessage(str(a + b))]


SUM = [*worked_example(1, 3, 4), *worked_example(2, 5, 9), *worked_example(3, 12, 31), UserMessage("What is 17 + 25?")]


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    with LocalModel(max_tokens=48) as local:
        yield local


@pytest.fixture(scope="module")
def server() -> Iterator[LlamaProcess]:
    process = LlamaProcess(Settings(str(pull()), "tiny", 256, 1, WITH_TOOLS, Secret("the-key")))
    yield process
    process.close()


def client(server: LlamaProcess, max_tokens: int | None = 16, key: str = "the-key") -> OpenAICompatible:
    return OpenAICompatible(
        "tiny", base_url=f"{server.url}/v1", api_key=key, max_tokens=max_tokens, temperature=0, max_retries=0
    )


def test_chat_has_reply_and_token_counts(model: LocalModel) -> None:
    reply = model.complete(QUESTION)
    assert reply.content
    assert reply.usage.prompt_tokens > 5
    assert 0 < reply.usage.completion_tokens <= 48
    assert reply.finish_reason in {"stop", "length"}


def test_max_tokens_bounds_a_reply(server: LlamaProcess) -> None:
    with client(server, max_tokens=3) as tiny:
        reply = tiny.complete(STORY)
    assert reply.usage.completion_tokens == 3
    assert reply.finish_reason == "length"


def test_completion_ends_before_a_stop_string(model: LocalModel) -> None:
    reply = model.complete(CompletionRequest("1, 2, 3, 4, 5,", stop=(",", ".")))
    assert not {",", "."} & set(reply.content)
    assert reply.finish_reason == "stop"


def test_schema_constrains_up_to_the_token_limit(model: LocalModel) -> None:
    schema = {
        "type": "object",
        "properties": {"action": {"enum": ["add", "final_answer"]}, "a": {"type": "integer"}},
        "required": ["action", "a"],
        "additionalProperties": False,
    }
    reply = model.complete(ChatRequest(QUESTION.messages, schema=schema))
    if reply.finish_reason == "stop":
        assert json.loads(reply.content)["action"] in {"add", "final_answer"}


def test_tools_without_template_support_are_rejected(model: LocalModel) -> None:
    with_tools = ChatRequest(QUESTION.messages, (ADD,))

    async def in_a_loop() -> None:
        with pytest.raises(errors.BadRequestError, match=NO_TOOLS):
            await model.acomplete(with_tools)
        with pytest.raises(errors.BadRequestError, match=NO_TOOLS):
            await anext(model.astream(with_tools))

    with pytest.raises(errors.BadRequestError, match=NO_TOOLS):
        model.complete(with_tools)
    with pytest.raises(errors.BadRequestError, match=NO_TOOLS):
        next(model.stream(with_tools))
    asyncio.run(in_a_loop())
    assert model.complete(QUESTION).content


def test_tools_work_with_a_template_that_supports_them() -> None:
    request = ChatRequest(SUM, (ADD,))
    with LocalModel(chat_template=WITH_TOOLS, max_tokens=64) as model:
        # With three worked examples even this model usually calls the tool; otherwise it answers with text.
        whole = model.complete(request)
        *deltas, streamed = model.stream(request)
    assert isinstance(streamed, ModelReply)
    for reply in (whole, streamed):
        assert reply.content or reply.tool_calls
        assert (reply.finish_reason == "tool_calls") <= bool(reply.tool_calls)
        assert all(call.id and call.name for call in reply.tool_calls)
    arguments = "".join(delta.arguments for delta in deltas if isinstance(delta, ReplyDelta))
    assert arguments == "".join(call.arguments for call in streamed.tool_calls)


def test_truncated_arguments_can_be_sent_back() -> None:
    with LocalModel(chat_template=WITH_TOOLS, max_tokens=12) as model:
        cut = model.complete(ChatRequest(SUM, (ADD,)))
        assert cut.finish_reason == "length"
        # llama.cpp answers 500 to the arguments `{`, which it has sent itself.
        history = [*SUM, AssistantMessage("", (ToolCall("c9", "add", "{"),)), ToolMessage("c9", "that is no JSON")]
        assert model.complete(ChatRequest(history, (ADD,))).usage.completion_tokens > 0


def test_stream_adds_up_to_its_reply(model: LocalModel) -> None:
    for request in (QUESTION, STORY):
        *deltas, last = model.stream(request)
        assert isinstance(last, ModelReply)
        assert last.content == "".join(delta.content for delta in deltas if isinstance(delta, ReplyDelta))
        assert len(deltas) > 1
        assert last.usage.total_tokens > 0


def test_model_works_on_several_event_loops(model: LocalModel) -> None:
    async def talk() -> None:
        assert (await model.acomplete(QUESTION)).content
        pieces = [piece async for piece in model.astream(QUESTION)]
        assert isinstance(pieces[-1], ModelReply)
        # Directly after a stream, on the same connection.
        assert all(reply.content for reply in await asyncio.gather(model.acomplete(STORY), model.acomplete(QUESTION)))

    asyncio.run(talk())
    asyncio.run(talk())


@pytest.mark.parametrize("streamed", [False, True])
def test_too_long_prompt_error_has_token_counts(server: LlamaProcess, streamed: bool) -> None:
    request = ChatRequest([UserMessage("hi " * 500)])
    with client(server) as tiny, pytest.raises(errors.ContextOverflowError) as caught:
        next(tiny.stream(request)) if streamed else tiny.complete(request)
    assert caught.value.prompt_tokens is not None
    assert caught.value.prompt_tokens > 500
    assert caught.value.context_tokens == 256


def test_wrong_key_and_route_are_errors(server: LlamaProcess) -> None:
    with client(server, key="another") as stranger, pytest.raises(errors.AuthenticationError):
        stranger.complete(QUESTION)
    with (
        OpenAICompatible("tiny", base_url=f"{server.url}/v7", api_key="the-key") as lost,
        pytest.raises(errors.ModelNotFoundError),
    ):
        lost.complete(QUESTION)


def test_wrong_schema_and_request_are_errors(server: LlamaProcess) -> None:
    with client(server) as tiny:
        with pytest.raises(errors.BadRequestError, match="nonsense"):
            tiny.complete(ChatRequest(QUESTION.messages, schema={"type": "nonsense"}))
        with pytest.raises((errors.BadRequestError, errors.ServerError)):
            tiny.complete(ChatRequest(QUESTION.messages, (ToolSpec("", "", {"type": "nonsense"}),)))


def test_closed_stream_frees_the_only_slot(server: LlamaProcess) -> None:
    with client(server, max_tokens=None) as endless, client(server) as tiny:
        for _ in endless.stream(STORY):
            break
        assert tiny.complete(STORY, timeout=20).usage.completion_tokens == 16

        async def cancelled() -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(endless.acomplete(STORY), 0.1)

        asyncio.run(cancelled())
        assert tiny.complete(STORY, timeout=20).usage.completion_tokens == 16


def test_close_ends_a_call_and_allows_later_calls() -> None:
    model = LocalModel(max_tokens=4000, threads=1)
    failed: list[BaseException] = []
    begun = threading.Event()

    def listen() -> None:
        try:
            for _ in model.stream(STORY):
                begun.set()
        except errors.ModelConnectionError as error:
            failed.append(error)

    thread = threading.Thread(target=listen)
    thread.start()
    assert begun.wait(60)
    model.close()
    thread.join(60)
    assert failed
    assert model.complete(CompletionRequest("1, 2,", stop=(",",))).finish_reason == "stop"
    model.close()


def run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "dev", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@cases("listening", [True, False])
def test_program_can_end_at_any_time_silently(listening: bool) -> None:
    program = """
import atexit, threading, time

# Hooks run in reverse order, so a thread has time to notice that its connection has been closed.
atexit.register(time.sleep, 0.3)
from graphexec.messages import CompletionRequest
from graphexec.models import LocalModel

model = LocalModel()
pieces = model.stream(CompletionRequest("Once upon a time"))
next(pieces)
"""
    listen = "threading.Thread(target=list, args=(pieces,), daemon=True).start()"
    ended = run(program + listen if listening else program)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_stream_keeps_its_model_running() -> None:
    pieces = LocalModel(max_tokens=20).stream(STORY)
    next(pieces)
    gc.collect()
    assert isinstance(list(pieces)[-1], ModelReply)


def test_server_ends_with_a_killed_program() -> None:
    ended = run("""
import os, signal
from graphexec.models import Secret, pull
from graphexec.models.local.llama_process import LlamaProcess, Settings

process = LlamaProcess(Settings(str(pull()), "tiny", 256, 1, None, Secret("the-key")))
print(process.url, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
""")
    host, port = ended.stdout.strip().removeprefix("http://").split(":")
    # The server notices the closed pipe after some milliseconds.
    for _ in range(100_000):
        try:
            socket.create_connection((host, int(port))).close()
        except OSError:
            return
    pytest.fail("the server is still there")


def test_invalid_weights_error_has_llamas_reason(tmp_path: Path) -> None:
    path = tmp_path / "half.gguf"
    path.write_bytes(pull().read_bytes()[:1_000_000])
    with pytest.raises(errors.WeightsError, match=r"llama\.cpp cannot serve .*half\.gguf .*gguf_init"):
        LocalModel(path).complete(STORY)


def test_invalid_template_is_an_error() -> None:
    with pytest.raises(errors.WeightsError, match="Parser Error"):
        LocalModel(chat_template="{{ broken").complete(STORY)
