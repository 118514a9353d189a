"""Read each shape of the corpus: whole, streamed, cut, mutated, and with the official clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from importlib.util import find_spec
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec.errors import ModelError
from graphexec.messages import ModelReply
from tests.models.call_modes import call_async, call_blocking, stream_async, stream_blocking
from tests.models.wire_corpus import (
    EVENTS,
    Outcome,
    Shape,
    WireServer,
    ask,
    assert_has,
    check_deltas,
    load_corpus,
    next_request,
    ok,
    read_events,
    serve,
    to_stream,
)
from tests.models.wire_mutations import Mutation, mutations
from tests.parameters import cases, examples

CORPUS = load_corpus()
STREAMED = [shape for shape in CORPUS if shape.events and shape.expected is not None]
each_shape = cases("shape", *CORPUS)


def check_server(shape: Shape, server: WireServer, outcome: Outcome) -> None:
    """Assert what a server received: its number of requests, the waits between them, and the next body."""
    error, sent = shape.file.get("error", {}), shape.file.get("sent")
    if "retried" in error:
        assert (len(server.bodies) > 1) == error["retried"], server.bodies
    if "waits" in error:
        assert server.time.slept[:1] == [pytest.approx(error["waits"])]
    if sent is not None:
        if shape.status == HTTPStatus.OK and shape.bodies:
            assert isinstance(outcome, ModelReply)
            ask(server.model(), next_request(shape.request, outcome), call_blocking)
        assert_has(server.bodies[-1], sent)


@each_shape
def test_shape_is_read(shape: Shape) -> None:
    for content, kind in shape.bodies:
        for call in (call_blocking, stream_blocking):
            server = serve(shape, content, kind)
            outcome = ask(server.model(), shape.request, call)
            shape.check(outcome)
            check_server(shape, server, outcome)
    if not shape.bodies:
        server = WireServer(shape, lambda: ok(shape))
        check_server(shape, server, ask(server.model(), shape.request, call_blocking))


@pytest.mark.medium
@each_shape
def test_shape_is_read_on_an_event_loop(shape: Shape) -> None:
    for content, kind in shape.bodies:
        for call in (call_async, stream_async):
            shape.check(ask(serve(shape, content, kind).model(), shape.request, call))


@cases("shape", *(shape for shape in STREAMED if "pieces" not in shape.file))
def test_pieces_of_a_stream_add_up_to_the_reply(shape: Shape) -> None:
    check_deltas([*serve(shape, to_stream(shape.events), EVENTS).model().stream(shape.request)])


@pytest.mark.medium
@cases("shape", *STREAMED)
def test_cut_stream_is_an_error_or_the_same_reply(shape: Shape) -> None:
    whole = read_events(shape, shape.events)
    for number in range(len(shape.events)):
        for breaks in (False, True):
            outcome = read_events(shape, shape.events[:number], breaks=breaks)
            # The counts may come behind the reply.
            assert_same(outcome, whole, {"usage"}, f"cut behind {number} events, breaks={breaks}")


def assert_same(outcome: Outcome, whole: Outcome, lost: set[str] | frozenset[str], description: str) -> None:
    """Assert that the outcome is an error, or the whole reply but for its `lost` parts."""
    assert isinstance(whole, ModelReply), whole
    if isinstance(outcome, ModelError) or is_noticed(outcome, whole):
        return
    if "finish" in lost and outcome.finish_reason == "other":
        whole = replace(whole, finish_reason="other")
    assert parts_of(outcome, lost) == parts_of(whole, lost), description


def is_noticed(reply: ModelReply, whole: ModelReply) -> bool:
    """Return whether an agent refuses a reply: it is empty, or has a call whose arguments are no longer JSON."""
    if not reply.content.strip() and not reply.tool_calls:
        return bool(whole.content.strip() or whole.tool_calls)
    return any(not is_json(call.arguments) for call in reply.tool_calls) and all(
        is_json(call.arguments) for call in whole.tool_calls
    )


def is_json(arguments: str) -> bool:
    try:
        json.loads(arguments)
    except ValueError:
        return False
    return True


def parts_of(reply: ModelReply, lost: set[str] | frozenset[str]) -> list[object]:
    calls = [("" if "id" in lost else call.id, call.name, call.arguments) for call in reply.tool_calls]
    usage = None if "usage" in lost else reply.usage
    return [reply.content, "".join(part.text for part in reply.reasoning), calls, reply.finish_reason, usage]


def check_mutation(shape: Shape, mutation: Mutation, whole: Outcome) -> None:
    assert_same(read_events(shape, mutation.events), whole, mutation.lost, f"{shape}: {mutation.description}")


@settings(max_examples=examples(300))
@given(st.sampled_from(STREAMED), st.integers(0, 10_000))
def test_mutated_stream_is_an_error_or_the_same_reply(shape: Shape, number: int) -> None:
    mutation = mutations(shape)[number % len(mutations(shape))]
    check_mutation(shape, mutation, read_events(shape, shape.events))


@pytest.mark.slow
@cases("shape", *STREAMED)
def test_no_mutation_changes_a_reply_silently(shape: Shape) -> None:
    """All mutations, more than 20,000 for the whole corpus."""
    whole = read_events(shape, shape.events)
    changed: list[str] = []
    for mutation in mutations(shape):
        try:
            check_mutation(shape, mutation, whole)
        except AssertionError:
            changed.append(mutation.description)
    assert not changed


# Text, calls with their arguments, tokens of the prompt and of the completion, and the reason of the end.
Read = tuple[str, list[tuple[str, str, Any]], tuple[int, int], str]

FINISH = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "completed": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "max_output_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
}


def read_arguments(arguments: Any) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def our_reading(reply: ModelReply) -> Read:
    calls = [(call.id, call.name, read_arguments(call.arguments)) for call in reply.tool_calls]
    return reply.content, calls, (reply.usage.prompt_tokens, reply.usage.completion_tokens), reply.finish_reason


def official_reading(shape: Shape, content: bytes, *, stream: bool) -> Read:
    """Return what the official client reads. Raises any exception for what it cannot read."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        kind = EVENTS if stream else "application/json"
        headers = {"content-type": kind, **shape.file.get("headers", {})}
        return httpx2.Response(200, headers=headers, content=iter([content]))

    client = httpx2.Client(transport=httpx2.MockTransport(answer))
    return {"chat": read_chat, "anthropic": read_anthropic, "responses": read_responses}[shape.api](client, stream)


# Any: the types of the official packages promise members that servers leave out, here and below.
def openai_client(client: httpx2.Client) -> Any:
    from openai import OpenAI

    return OpenAI(api_key="k", base_url="http://here/v1", http_client=client, max_retries=0)


def read_chat(client: httpx2.Client, stream: bool) -> Read:
    completions: Any = openai_client(client).chat.completions
    hello: Any = [{"role": "user", "content": "hello"}]
    if stream:
        with completions.stream(model="m", messages=hello, stream_options={"include_usage": True}) as events:
            whole: Any = events.get_final_completion()
    else:
        whole = completions.create(model="m", messages=hello)
    choice = whole.choices[0]
    calls = [
        (one.id, one.function.name, read_arguments(one.function.arguments)) for one in choice.message.tool_calls or ()
    ]
    usage = (whole.usage.prompt_tokens, whole.usage.completion_tokens) if whole.usage else (0, 0)
    text = choice.message.content or choice.message.refusal or ""
    return text, calls, usage, FINISH.get(choice.finish_reason, "other")


def read_anthropic(client: httpx2.Client, stream: bool) -> Read:
    from anthropic import Anthropic

    messages: Any = Anthropic(api_key="k", base_url="http://here", http_client=client, max_retries=0).messages
    asked: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
    if stream:
        with messages.stream(**asked) as events:
            whole: Any = events.get_final_message()
    else:
        whole = messages.create(**asked)
    calls = [(one.id, one.name, one.input) for one in whole.content if one.type == "tool_use"]
    used = whole.usage
    prompt = used.input_tokens + (used.cache_creation_input_tokens or 0) + (used.cache_read_input_tokens or 0)
    text = "".join(one.text for one in whole.content if one.type == "text")
    return text, calls, (prompt, used.output_tokens), FINISH.get(whole.stop_reason, "other")


def read_responses(client: httpx2.Client, stream: bool) -> Read:
    responses: Any = openai_client(client).responses
    if stream:
        with responses.stream(model="m", input="hello") as events:
            whole: Any = events.get_final_response()
    else:
        whole = responses.create(model="m", input="hello")
    found = [one for one in whole.output if one.type == "function_call"]
    calls = [(one.call_id, one.name, read_arguments(one.arguments)) for one in found]
    usage = (whole.usage.input_tokens, whole.usage.output_tokens) if whole.usage else (0, 0)
    reason = whole.incomplete_details.reason if whole.incomplete_details else whole.status
    finish = "tool_calls" if calls and reason == "completed" else FINISH.get(reason, "other")
    return whole.output_text, calls, usage, finish


def readings(shape: Shape) -> Iterator[tuple[Read, Read | Exception]]:
    """Yield our reading of each body and that of the official client, or its exception."""
    for content, kind in shape.bodies:
        stream = kind == EVENTS
        outcome = ask(serve(shape, content, kind).model(), shape.request, stream_blocking if stream else call_blocking)
        assert isinstance(outcome, ModelReply), outcome
        try:
            yield our_reading(outcome), official_reading(shape, content, stream=stream)
        # Of the package, of pydantic, and of Python where a member is missing.
        except Exception as error:  # noqa: BLE001
            yield our_reading(outcome), error


@pytest.mark.medium
@cases("shape", *[shape for shape in CORPUS if shape.expected is not None and shape.status == HTTPStatus.OK])
def test_official_clients_agree_unless_the_file_says_why(shape: Shape) -> None:
    if find_spec("openai") is None or find_spec("anthropic") is None:
        pytest.skip("needs the extra dev")
    found = [(ours, theirs) for ours, theirs in readings(shape)]
    differences = [(ours, theirs) for ours, theirs in found if not isinstance(theirs, Exception) and ours != theirs]
    if "differs" in shape.file:
        unread = any(isinstance(theirs, Exception) for _, theirs in found)
        assert differences or unread, "the clients agree, so the reason in `differs` is no longer true"
    else:
        assert not differences, differences
