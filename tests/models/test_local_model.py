"""The real server with the small model, in each protocol. The tests assert structure and limits, never words."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graphexec import errors, messages
from graphexec.messages import AssistantMessage, ChatRequest, CompletionRequest, ModelReply, ToolCall, UserMessage
from graphexec.models import Anthropic, LocalModel, OpenAICompatible, OpenAIResponses, Secret, pull
from graphexec.models.http.remote import RemoteModel
from graphexec.models.local.llama_process import LlamaProcess, Settings
from tests import garbage
from tests.models.call_modes import MODES, Ask, call_blocking, record_reports, stream_blocking
from tests.models.pictures import CAT
from tests.models.wire_corpus import check_deltas
from tests.parameters import cases, read_tables, some

TEXTS = read_tables(__file__)
# The weights' own template does not support tools.
WITH_TOOLS: str = TEXTS["with_tools"]

pytestmark = pytest.mark.local_model

QUESTION = ChatRequest([UserMessage("What is 2 + 2?")])
BRIEF = ChatRequest([messages.SystemMessage("Be brief."), *QUESTION.messages])
STORY = CompletionRequest("Once upon a time")
NO_TOOLS = "chat template of smollm2-135m-instruct does not support tools, .*; use the structured agent"
INTEGER = {"type": "integer"}
PARAMETERS = {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}, "required": ["a", "b"]}
ADD = messages.ToolSpec("add", "Add two numbers.", PARAMETERS)


def worked_example(number: int, a: int, b: int) -> list[messages.Message]:
    """Return the messages of a question that was answered with the tool."""
    call = ToolCall(f"c{number}", "add", json.dumps({"a": a, "b": b}))
    asked = UserMessage(f"What is {a} + {b}?")
    answer = str(a + b)
    return [asked, AssistantMessage("", (call,)), messages.ToolMessage(call.id, answer), AssistantMessage(answer)]


SUM = [*worked_example(1, 3, 4), *worked_example(2, 5, 9), *worked_example(3, 12, 31), UserMessage("What is 17 + 25?")]


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    with LocalModel(max_tokens=48) as local:
        yield local


@pytest.fixture(scope="module")
def server() -> Iterator[LlamaProcess]:
    process = LlamaProcess(Settings(str(pull()), "tiny", 512, 1, WITH_TOOLS, Secret("the-key")))
    yield process
    process.close()


Make = Callable[..., RemoteModel]
CLIENTS: dict[str, tuple[type[RemoteModel], str]] = {
    "Anthropic": (Anthropic, ""),
    "Chat": (OpenAICompatible, "/v1"),
    "Responses": (OpenAIResponses, "/v1"),
}


@pytest.fixture(params=some(CLIENTS, 3))
def make(request: pytest.FixtureRequest, server: LlamaProcess) -> Make:
    """Return a function that makes a client for one of the protocols."""
    return make_for(server, *request.param)


def make_for(server: LlamaProcess, kind: type[RemoteModel] = OpenAICompatible, path: str = "/v1") -> Make:
    def make(*, max_tokens: int | None = 16, key: str = "the-key", at: str = "") -> RemoteModel:
        # On a busy machine the server may close a connection that is idle between two calls.
        options: Any = {"temperature": 0, "timeout": 300, "max_retries": 1}
        return kind("tiny", base_url=f"{server.url}{at}{path}", api_key=key, max_tokens=max_tokens, **options)

    return make


def test_schema_constrains_up_to_the_token_limit(model: LocalModel) -> None:
    properties = {"action": {"enum": ["add", "final_answer"]}, "a": INTEGER}
    schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    reply = model.complete(ChatRequest(QUESTION.messages, schema=schema))
    if reply.finish_reason == "stop":
        assert json.loads(reply.content)["action"] in {"add", "final_answer"}


@pytest.mark.full
def test_tools_without_template_support_are_rejected(model: LocalModel) -> None:
    for ask in MODES:
        with pytest.raises(errors.BadRequestError, match=NO_TOOLS):
            ask(model, ChatRequest(QUESTION.messages, (ADD,)))
    assert model.complete(QUESTION).content


@pytest.mark.full
def test_truncated_arguments_can_be_sent_back() -> None:
    with LocalModel(chat_template=WITH_TOOLS, max_tokens=12) as model:
        cut = model.complete(ChatRequest(SUM, (ADD,)))
        assert cut.finish_reason == "length"
        # llama.cpp answers 500 to the arguments `{`, which it has sent itself.
        turn: list[messages.Message] = [
            AssistantMessage("", (ToolCall("c9", "add", "{"),)),
            messages.ToolMessage("c9", "that is no JSON"),
        ]
        assert model.complete(ChatRequest([*SUM, *turn], (ADD,))).usage.completion_tokens > 0


@pytest.mark.full
@cases("ask", call_blocking, stream_blocking)
def test_token_limits_bound_replies_and_prompts(make: Make, ask: Ask) -> None:
    with make(max_tokens=3) as tiny:
        reply = tiny.complete(STORY)
        assert reply.usage.completion_tokens == 3
        # llama.cpp calls a response completed.
        assert reply.finish_reason == ("stop" if isinstance(tiny, OpenAIResponses) else "length")
        with pytest.raises(errors.ContextOverflowError) as caught:
            ask(tiny, ChatRequest([UserMessage("hi " * 1000)]))
        assert caught.value.prompt_tokens is not None
        assert caught.value.prompt_tokens > 1000
        assert caught.value.context_tokens == 512


@pytest.mark.full
def test_wrong_key_and_route_are_errors(make: Make) -> None:
    with make(key="another") as stranger, pytest.raises(errors.AuthenticationError):
        stranger.complete(BRIEF)
    with make(at="/v7") as lost, pytest.raises(errors.ModelNotFoundError):
        lost.complete(BRIEF)


def test_reply_has_text_and_token_counts_in_each_mode(make: Make) -> None:
    for request in (BRIEF, STORY):
        with make() as model:
            replies = [ask(model, request) for ask in MODES]
            pieces = [*model.stream(request)]
        assert len(pieces) > 2
        for reply in (*replies, check_deltas(pieces)):
            assert reply.content
            assert reply.model == "tiny"
            # A completion of Chat Completions has no template.
            assert reply.usage.prompt_tokens > (3 if (request, type(model)) == (STORY, OpenAICompatible) else 5)
            assert 0 < reply.usage.completion_tokens <= 16


def test_tools_are_called_and_results_are_sent(make: Make) -> None:
    request = ChatRequest(SUM, (ADD,))
    with make(max_tokens=64) as model:
        for reply in (model.complete(request), check_deltas([*model.stream(request)])):
            assert reply.content or reply.tool_calls
            assert (reply.finish_reason == "tool_calls") == bool(reply.tool_calls)
            assert all(call.id and call.name and json.loads(call.arguments) for call in reply.tool_calls)


@pytest.mark.full
def test_text_ends_before_a_stop_string_which_is_not_blank_for_anthropic(make: Make) -> None:
    request = CompletionRequest("Say: one, two, three, four, five", stop=("e", "o"))
    with make(max_tokens=32) as model:
        for reply in (model.complete(request), check_deltas([*model.stream(request)])):
            assert not {"e", "o"} & set(reply.content)
            assert reply.finish_reason == "stop"
        request = CompletionRequest("Say: one", stop=("\n",))
        if isinstance(model, Anthropic):
            with pytest.raises(errors.BadRequestError, match="consist of blanks"):
                model.complete(request)
        else:
            assert "\n" not in model.complete(request).content


LOOK = AssistantMessage("", (ToolCall("c1", "look", "{}"),))
LOOKED: list[messages.Message] = [UserMessage("Which?"), LOOK, messages.ToolMessage("c1", "See:", (CAT,))]


@pytest.mark.full
@cases("shown", [UserMessage("Which?", (CAT,))], LOOKED)
def test_server_finds_images_and_refuses_them(make: Make, shown: list[messages.Message]) -> None:
    with make() as model, pytest.raises(errors.BadRequestError, match=r"image input is not .*use a model that"):
        model.complete(ChatRequest(shown))


@pytest.mark.full
def test_wrong_schema_is_asked_for_in_the_instructions_and_a_wrong_tool_is_an_error(server: LlamaProcess) -> None:
    with make_for(server)() as tiny:
        with record_reports() as reports:
            assert tiny.complete(ChatRequest(QUESTION.messages, schema={"type": "nonsense"})).content
        assert [str(one).partition(";")[0] for one in reports] == ["the server refuses response_format"]
        with pytest.raises((errors.BadRequestError, errors.ServerError)):
            tiny.complete(ChatRequest(QUESTION.messages, (messages.ToolSpec("", "", {"type": "nonsense"}),)))


@pytest.mark.full
def test_closed_stream_frees_the_only_slot(server: LlamaProcess) -> None:
    make = make_for(server)
    with make(max_tokens=None) as endless, make() as tiny:
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
    reply = model.complete(CompletionRequest("1, 2, 3, 4, 5,", stop=(",", ".")))
    assert ({",", "."} & set(reply.content), reply.finish_reason) == (set(), "stop")
    model.close()


def run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "dev", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.full
@cases("listening", True, False)
def test_program_can_end_at_any_time_silently(listening: bool) -> None:
    listen = "threading.Thread(target=list, args=(pieces,), daemon=True).start()"
    ended = run(TEXTS["ending"] + listen if listening else TEXTS["ending"])
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.full
def test_stream_keeps_its_model_running() -> None:
    pieces = LocalModel(max_tokens=20).stream(STORY)
    next(pieces)
    garbage.collect()
    assert isinstance(list(pieces)[-1], ModelReply)


@pytest.mark.full
def test_server_ends_with_a_killed_program() -> None:
    ended = run(TEXTS["killed"])
    host, port = ended.stdout.strip().removeprefix("http://").split(":")
    # The server notices the closed pipe after some milliseconds.
    for _ in range(100_000):
        try:
            socket.create_connection((host, int(port))).close()
        except OSError:
            return
    pytest.fail("the server is still there")


@pytest.mark.full
def test_invalid_weights_and_templates_have_llamas_reason(tmp_path: Path) -> None:
    path = tmp_path / "half.gguf"
    path.write_bytes(pull().read_bytes()[:1_000_000])
    with pytest.raises(errors.WeightsError, match=r"llama\.cpp cannot serve .*half\.gguf .*gguf_init"):
        LocalModel(path).complete(STORY)
    with pytest.raises(errors.WeightsError, match="Parser Error"):
        LocalModel(chat_template="{{ broken").complete(STORY)
