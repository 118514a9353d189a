"""Histories of any provider's replies through the request writer of any other: ids, names, order and pairing."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec.actions import NO_STEPS, AgentAction, AgentStep
from graphexec.agents.conversation import parse_messages
from graphexec.kernel.serialization import format_json, load_as, parse_json, to_json_data
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    Message,
    ModelReply,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphexec.messages.turns import Conversation, MessageTurn
from graphexec.models.history import HistoryForm, distinct_calls
from graphexec.models.http.dialect import Dialect, Sampling
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.providers.anthropic import MESSAGES
from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS
from graphexec.models.providers.openai_responses import RESPONSES
from tests.models.actors import encode
from tests.models.picky_server import Part, Protocol, write_whole
from tests.parameters import cases, examples

PEER = Endpoint("tiny", "https://models.example/v1")
APIS: dict[Protocol, Dialect] = {"anthropic": MESSAGES, "responses": RESPONSES, "chat": CHAT_COMPLETIONS}
FITS = re.compile(r"[a-zA-Z0-9_-]{1,64}")


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5).filter(str.strip)
ODD = ["call_0", "functions.weather:0", "functions_weather:0", "call_0_2", "x" * 65, "x" * 66]
IDS = st.sampled_from(ODD) | st.text(min_size=1, max_size=6)
NAMES = st.sampled_from(["weather", "weather<|channel|>commentary", "a b", "n" * 80])


def without_repeats(parts: list[Part]) -> list[Part]:
    """Return the parts without calls that are there twice, of which a reader takes one: gateways repeat a call."""
    return [part for place, part in enumerate(parts) if part.kind != "call" or part not in parts[:place]]


PARTS = st.one_of(
    st.builds(Part, st.sampled_from(["text", "reasoning"]), TEXTS, st.just(""), st.just("")),
    st.builds(Part, st.just("call"), IDS, NAMES, st.just("{}")),
)
# What a provider writes: a text or a call at the end.
REPLIES = st.lists(PARTS, min_size=1, max_size=5).map(lambda parts: [*without_repeats(parts), Part("text", "So.")])
HISTORIES = st.lists(st.tuples(st.sampled_from([*APIS]), REPLIES), min_size=1, max_size=4)


def read_reply(api: Protocol, parts: list[Part]) -> ModelReply:
    """Return the reply that a provider's bytes are read as."""
    return APIS[api].draft(PEER).decode(json.dumps(write_whole(api, parts)).encode())


def sent_parts(api: Protocol, messages: Sequence[Message]) -> list[list[Part]]:
    """Return the parts of each item of a request but the system's; blank texts are left out."""
    body = encode(APIS[api], ChatRequest(messages), provider=PEER.provider_name)
    items = [item for item in body[APIS[api].conversation] if item.get("role") != "system"]
    found = [[*(_chat_parts(item) if api == "chat" else _parts(item))] for item in items]
    return [[part for part in several if part.text.strip() or part.kind in {"call", "result"}] for several in found]


def _parts(item: dict[str, Any]) -> Iterator[Part]:
    # Any: JSON.
    has_blocks = isinstance(item.get("content"), list) and "role" in item
    for one in item["content"] if has_blocks else [item]:
        part = _to_part(one)
        yield part._replace(kind="user") if (part.kind, item.get("role")) == ("text", "user") else part


def shown(content: str) -> str:
    """Return the content of a result, which may be left out if it is blank."""
    return content if content.strip() else ""


def _to_part(item: dict[str, Any]) -> Part:
    match item:
        case {"type": "tool_use", "id": call_id, "name": name, "input": given}:
            return Part("call", call_id, name, json.dumps(given))
        case {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}:
            return Part("call", call_id, name, arguments)
        case {"type": "tool_result", "tool_use_id": call_id}:
            return Part("result", call_id, shown(item.get("content", "")))
        case {"type": "function_call_output", "call_id": call_id, "output": content}:
            return Part("result", call_id, shown(content))
        case {"type": "thinking", "thinking": text} | {"type": "reasoning", "summary": [{"text": text}]}:
            return Part("reasoning", text)
        case {"role": "user", "content": str(text)}:
            return Part("user", text)
        case {"type": "text" | "output_text", "text": text}:
            return Part("text", text)
        case _:
            raise AssertionError(item)


def _chat_parts(item: dict[str, Any]) -> list[Part]:
    content = item["content"] or ""
    if item["role"] != "assistant":
        is_user = item["role"] == "user"
        return [Part("user", content) if is_user else Part("result", item["tool_call_id"], shown(content))]
    functions = [(call["id"], call["function"]) for call in item.get("tool_calls", ())]
    return [Part("text", content), *(Part("call", key, one["name"], one["arguments"]) for key, one in functions)]


def send(api: Protocol, messages: list[Message]) -> list[list[Part]]:
    """Return the parts of each turn of the assistant in a request, with the results behind it."""
    found: list[list[Part]] = []
    for part in chain(*sent_parts(api, messages)):
        if part == Part("user", "go on"):
            found.append([])
        else:
            found[-1].append(part)
    return found


def expected(source: Protocol, target: Protocol, parts: list[Part]) -> list[str]:
    """Return the kinds of the parts in the order in which a protocol is sent them."""
    called = any(part.kind == "call" for part in parts)
    if target == "chat" or source == "chat":
        return ["text", *["call"] * sum(part.kind == "call" for part in parts)]
    kinds = [part.kind for part in parts if part.kind != "reasoning" or (called and source == target)]
    # Without reasoning between them, the texts come before the calls.
    runs: list[list[str]] = [[]]
    for kind in kinds:
        runs += [[kind], []] if kind == "reasoning" else []
        runs[-1] += [] if kind == "reasoning" else [kind]
    joined = [kind for run in runs for kind in sorted(run, key=["reasoning", "text", "call"].index)]
    return [kind for number, kind in enumerate(joined) if kind != "text" or joined[number - 1 : number] != ["text"]]


@pytest.mark.medium
@settings(max_examples=examples(100))
@cases("target", *APIS)
@given(HISTORIES)
def test_history_of_any_provider_is_sent_to_any_other(
    target: Protocol, history: list[tuple[Protocol, list[Part]]]
) -> None:
    messages: list[Message] = []
    for source, parts in history:
        reply = read_reply(source, parts)
        results = [ToolMessage(call.id, f"{place}") for place, call in enumerate(reply.tool_calls)]
        messages += [UserMessage("go on"), reply.message, *results]
        # Records keep the reply, and the order of its parts.
        assert load_as(ModelReply, parse_json(format_json(to_json_data(reply)))) == reply
    turns = send(target, messages)
    assert len(turns) == len(history)
    calls = [part for turn in turns for part in turn if part.kind == "call"]
    for turn, (source, parts) in zip(turns, history, strict=True):
        called = [part.text for part in turn if part.kind == "call"]
        assert called == [part.text for part in turn if part.kind == "result"]
        assert [part.kind for part in turn][: -len(called) or None] == expected(source, target, parts)
    if target != "chat":
        # Its own tests are in the corpus.
        assert all(FITS.fullmatch(part.text) and FITS.fullmatch(part.name) for part in calls)
        assert len({part.text for part in calls}) == len(calls)


WORDS = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES = st.dictionaries(WORDS, st.integers() | WORDS | st.booleans(), max_size=2).map(json.dumps)
CALLS = st.builds(ToolCall, WORDS, WORDS, VALUES)
ANY_MESSAGES: st.SearchStrategy[Message] = st.one_of(
    *(st.builds(kind, WORDS) for kind in (SystemMessage, UserMessage)),
    st.builds(AssistantMessage, WORDS, st.lists(CALLS, max_size=2).map(tuple)),
    st.builds(ToolMessage, WORDS, WORDS),
)


def parts_of(message: Message) -> list[Part]:
    match message:
        case UserMessage(content):
            return [Part("user", content)] if content.strip() else []
        case AssistantMessage(content, calls):
            text = [Part("text", content)] if content.strip() else []
            return [*text, *(Part("call", call.id, call.name, call.arguments) for call in calls)]
        case ToolMessage(call_id, content):
            return [Part("result", call_id, shown(content))]
        case _:
            return []


@pytest.mark.medium
@cases("api", *APIS)
@given(st.lists(ANY_MESSAGES, max_size=8))
def test_any_messages_are_sent_whole_and_in_order(api: Protocol, listed: list[Message]) -> None:
    # A user message at the end, so that no text of the assistant is trimmed.
    listed.append(UserMessage("go"))
    form = APIS[api].form(Sampling("tiny"))
    given_parts = [part for one in distinct_calls(listed, form) for part in parts_of(form.fit(one))]
    turns = sent_parts(api, listed)
    if api == "anthropic":
        # Roles take turns, and results are first in theirs.
        groups = groupby(given_parts, lambda part: part.kind in {"user", "result"})
        assert turns == [sorted(several, key=lambda part: part.kind == "user") for _, several in groups]
    else:
        assert [*chain(*turns)] == given_parts


def test_ids_stay_the_same_while_a_conversation_grows() -> None:
    history: list[Message] = []
    sent: list[list[str]] = []
    for call_id in ("a:b", "a_b", "a:b", "call_0", "call_0"):
        reply = read_reply("anthropic", [Part("call", call_id, "weather")])
        history += [UserMessage("go on"), reply.message, ToolMessage(call_id, "")]
        sent.append([part.text for turn in send("anthropic", history) for part in turn if part.kind == "call"])
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(sent))
    assert sent[-1] == ["a_b", "a_b_2", "a_b_3", "call_0", "call_0_2"]


def call_turns(steps: Sequence[AgentStep], first: int) -> Iterator[MessageTurn]:
    """Make a turn of each two steps, which are calls with the steps' logs as ids; the last may have one."""
    for start in range(first, len(steps), 2):
        ids = [step.action.log for step in steps[start : start + 2]]
        calls = tuple([ToolCall(one, "weather", "{}") for one in ids])
        results = [ToolMessage(one, str(place)) for place, one in enumerate(ids)]
        yield MessageTurn(start + len(ids), [AssistantMessage("", calls), *results], closed=len(ids) == 2)


FEW_IDS = st.lists(st.sampled_from(["a:b", "a_b", "a_b_2", "x" * 64]), max_size=9)


@pytest.mark.medium
@given(FEW_IDS, FEW_IDS, st.randoms(use_true_random=False))
def test_ids_of_a_run_are_those_of_its_messages(earlier: list[str], ids: list[str], order: Any) -> None:
    """Whatever was derived of longer or shorter requests of the run before, with another system message."""
    history = [NO_STEPS]
    for one in ids:
        history.append(history[-1].extended([AgentStep(AgentAction("weather", {}, one), "")]))
    order.shuffle(history)
    reply = AssistantMessage("", tuple([ToolCall(one, "weather", "{}") for one in earlier]))
    head: tuple[Message, ...] = (UserMessage("hi"), reply, *[ToolMessage(one, "") for one in earlier])
    # A longer request is first, as in a run that is read again.
    for number, steps in enumerate([max(history, key=len), *history]):
        conversation = Conversation((SystemMessage(str(number)), *head), steps, call_turns)
        form = HistoryForm()
        messages = [form.fit(one) for one in distinct_calls(conversation, form)]
        assert messages == [form.fit(one) for one in distinct_calls(tuple(conversation), form)]
        calls = [call.id for one in messages if isinstance(one, AssistantMessage) for call in one.tool_calls]
        assert calls == [one.call_id for one in messages if isinstance(one, ToolMessage)]
        assert len({*calls}) == len(calls)


def test_old_records_have_their_reasoning_first() -> None:
    old = {"role": "assistant", "content": "So.", "tool_calls": [], "reasoning": [{"text": "Hm.", "data": ""}]}
    assert parse_messages([old]) == (AssistantMessage("So.", (), (Reasoning("Hm."),)),)
    placed = Reasoning("Hm.", after_text=1, after_calls=0)
    assert list(AssistantMessage("So.", (), (placed,)).parts) == ["S", placed, "o."]
