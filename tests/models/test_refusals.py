"""Refused parameters: what a refusal names, and what a model remembers."""

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.errors import BadRequestError, ModelTimeoutError, ServerError
from graphexec.messages import ChatRequest, ModelReply, ReplyDelta, ToolCall, ToolSpec, UserMessage
from graphexec.models import OptionRefused
from graphexec.models.http.failures import ErrorReport
from graphexec.models.http.json_values import JSON
from graphexec.models.http.refusals import Refusals, find_refused_names
from graphexec.models.providers.anthropic import MESSAGES as CLAUDE
from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS
from tests.models.actors import HELLO, FakeTime
from tests.models.call_modes import record_reports
from tests.models.picky_server import PickyServer, openai_refusal
from tests.parameters import cases, read_tables

TEXTS = read_tables(__file__)

NOW = ToolSpec("now", "Tell the time.", {"type": "object", "properties": {}})
KNOWN = {one.path.rpartition(".")[2] for one in CHAT_COMPLETIONS.members if one.refusable}


def names_in(body: object, status: int = 400) -> set[str]:
    """Return the known parameters that a refusal names."""
    sent = {*KNOWN, "include", "effort"}
    return {*find_refused_names(status, ErrorReport.from_json(json.loads(json.dumps(body))), sent)}


def error(message: str, **members: object) -> object:
    return {"error": {"message": message, "type": "invalid_request_error"} | members}


# An error, and the parameters that it refuses.
REFUSALS = [line.partition(" | ")[::2] for line in TEXTS["refused"].splitlines()]
OTHERS = [("", line) for line in TEXTS["others"].splitlines()]


@cases(("names", "text"), *REFUSALS, *OTHERS)
def test_refusal_names_exactly_its_parameters(names: str, text: str) -> None:
    body = json.loads(text) if text[0] in "{[" else error(text)
    assert names_in(body) == names_in(body, 422) == {*names.split()}
    # Only errors of the client are refusals.
    assert not any(names_in(body, status) for status in (401, 404, 413, 500))


FRAMES = [
    "Unsupported parameter: '{}' is not supported with this model.",
    "Unrecognized request argument supplied: {}",
    "Argument not supported on this model: {}",
    "The {} parameter is not supported.",
    "`{}` is deprecated for this model.",
    "This model does not support the {} parameter",
    "property '{}' is unsupported",
    "{}: Extra inputs are not permitted",
]
WORDS = st.from_regex(r"[a-z]{2,9}(_[a-z]{2,9}){0,2}", fullmatch=True)
PREFIXES = st.sampled_from(["", "Error code: 400 - ", "x: "])


@given(st.sampled_from(FRAMES), WORDS | st.sampled_from(sorted(KNOWN)), PREFIXES)
def test_any_name_in_a_known_frame_is_found(frame: str, name: str, before: str) -> None:
    assert find_refused_names(400, ErrorReport(before + frame.format(name)), {name, "other_name"}) == {name}


MESSAGES = st.lists(st.sampled_from([{"content": "a"}, {"content": "b", "reasoning": "c"}]), max_size=2)
PARAMETERS = {"stop": ["x"], "temperature": 0.0, "max_tokens": 9, "seed": 0}
BODIES = st.fixed_dictionaries(
    {}, optional={"messages": MESSAGES} | {name: st.just(value) for name, value in PARAMETERS.items()}
)


@given(BODIES, st.lists(st.sampled_from(sorted(KNOWN)), max_size=8))
def test_each_refusal_removes_a_parameter(body: JSON, refused: list[str]) -> None:
    refusals = Refusals(CHAT_COMPLETIONS.members)
    body = json.loads(json.dumps(body))
    repeats = 0
    while sent := next((name for name in refused if f'"{name}"' in json.dumps(body)), None):
        assert refusals.learn(body, 400, ErrorReport(f"Unsupported parameter: '{sent}'"))
        refusals.apply(body)
        assert f'"{sent}"' not in json.dumps(body)
        repeats += 1
    assert repeats <= len(KNOWN)
    again = json.loads(json.dumps(body))
    refusals.apply(again)
    assert again == body


def test_learning_a_repair_does_not_change_the_body() -> None:
    refusals = Refusals(CLAUDE.members, CLAUDE.repairs)
    body: JSON = {"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}}}
    sent = json.dumps(body)
    report = ErrorReport("output_config.format: Extra inputs are not permitted")
    assert refusals.learn(body, 400, report) == [OptionRefused("output_config.format", "a schema in the instructions")]
    assert json.dumps(body) == sent
    refusals.apply(body)
    assert body["output_config"] == {"effort": "low"}
    assert "{}" in body["system"]


STOPPED = ChatRequest(HELLO.messages, stop=("STOP",))


def test_refusals_of_one_call_are_learned_together() -> None:
    server = PickyServer("chat", ["a", "b"], ("stop", "max_tokens", "temperature"))
    model = server.model(temperature=0.0, max_tokens=9, max_retries=0)
    with record_reports() as reports:
        assert model.complete(STOPPED).content == "a"
    renamed = OptionRefused("max_tokens", "max_completion_tokens")
    assert reports == [OptionRefused("stop"), renamed, OptionRefused("temperature")]
    assert [str(report) for report in reports][:2] == [
        "the server refuses stop; it is not sent any more",
        "the server refuses max_tokens; max_completion_tokens is sent instead",
    ]
    with record_reports() as reports:
        assert model.complete(STOPPED).content == "b"
    # The model remembers them.
    assert (reports, len(server.refused)) == ([], 3)
    assert [{*body} for body in server.bodies] == [{"model", "messages", "max_completion_tokens"}] * 2
    server = PickyServer("chat", ["a"], ("max_tokens", "max_completion_tokens"))
    assert server.model(max_tokens=9).complete(HELLO).content == "a"
    assert (server.refused, {*server.bodies[0]}) == ([*server.refuses], {"model", "messages"})


# What the user adds to the body is the user's to change.
@cases(("name", "options"), ("messages", {}), ("min_p", {"extra_body": {"min_p": 0.1}}))
def test_unknown_refusal_stays_an_error(name: str, options: dict[str, Any]) -> None:
    server = PickyServer("chat", ["a"], (name,))
    with pytest.raises(BadRequestError, match=f"'{name}' is not supported"):
        server.model(**options).complete(HELLO)
    assert server.refused == [name]


def test_repeated_call_keeps_to_its_timeout() -> None:
    server = PickyServer("chat", ["a"], ("stop",), lambda name: (500, error(f"Unsupported parameter: '{name}'")))
    with pytest.raises(ServerError):
        server.model(max_retries=0).complete(STOPPED)
    assert server.refused == ["stop"]
    time = FakeTime()

    def refuse(name: str) -> tuple[int, object]:
        time.now += 3.0
        return openai_refusal(name)

    server = PickyServer("chat", ["a"], ("stop", "temperature"), refuse)
    model = server.model(temperature=0.0, clock=time.clock)
    with pytest.raises(ModelTimeoutError):
        model.complete(STOPPED, timeout=5)
    # What was learned in time is kept.
    assert model.complete(STOPPED, timeout=5).content == "a"
    assert (server.refused, time.slept) == (["stop", "temperature", "temperature"], [])
    # Threads share it.
    server.replies += ["a"] * 7
    with ThreadPoolExecutor(4) as threads:
        assert {reply.content for reply in threads.map(model.complete, [STOPPED] * 7)} == {"a"}
    assert len(server.refused) == 3


@cases("protocol", "chat", "responses", "anthropic")
def test_reply_is_cut_where_the_server_ignores_stop(protocol: Any) -> None:
    server = PickyServer(protocol, ["one STOP two"] * 2)
    whole = server.model().complete(STOPPED)
    *deltas, streamed = server.model().stream(STOPPED)
    assert isinstance(streamed, ModelReply)
    assert (whole.content, whole.finish_reason) == (streamed.content, streamed.finish_reason) == ("one ", "stop")
    assert "".join(delta.content for delta in deltas if isinstance(delta, ReplyDelta)) == "one "
    # The part that was cut off has been paid for.
    assert whole.usage.completion_tokens == streamed.usage.completion_tokens == 4
    # A single string is not taken apart.
    single: Any = "STOP"
    server = PickyServer(protocol, ["Two words STOP here"])
    assert server.model().complete(ChatRequest(HELLO.messages, stop=single)).content == "Two words "
    sent = server.bodies[0]
    assert sent.get("stop", sent.get("stop_sequences")) == (None if protocol == "responses" else ["STOP"])


def test_refused_tool_choice_becomes_the_default() -> None:
    refusal = error("Thinking may not be enabled when tool_choice forces tool use.")
    server = PickyServer("anthropic", [ToolCall("1", "now", "{}")], ("tool_choice",), lambda _: (400, refusal))
    model = server.model()
    request = ChatRequest([UserMessage("hi")], (NOW,), tool_choice="required")
    assert model.complete(request).tool_calls == (ToolCall("1", "now", "{}"),)
    assert "tool_choice" not in server.bodies[0]
    # That calls are forbidden is still said.
    server.replies, server.refuses = ["done"], ()
    model.complete(dataclasses.replace(request, tool_choice="none"))
    assert server.bodies[1]["tool_choice"] == {"type": "none"}
