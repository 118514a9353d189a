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
from tests.parameters import cases

NOW = ToolSpec("now", "Tell the time.", {"type": "object", "properties": {}})
KNOWN = {parameter.path.rpartition(".")[2] for parameter in CHAT_COMPLETIONS.parameters} | {"max_completion_tokens"}


def names_in(body: object, status: int = 400) -> set[str]:
    """Return the known parameters that a refusal names."""
    sent = {*KNOWN, "include", "effort"}
    return {*find_refused_names(status, ErrorReport.from_json(json.loads(json.dumps(body))), sent)}


def error(message: str, **members: object) -> object:
    return {"error": {"message": message, "type": "invalid_request_error"} | members}


ONLY_ONE = "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) is supported."
NOT_MINIMAL = (
    "Unsupported value: 'reasoning_effort' does not support 'minimal'. Supported values are: 'low' and 'high'."
)
TWO_ERRORS = """2 validation errors for Request
temperature\n  Input should be less than or equal to 2
stop\n  Extra inputs are not permitted [type=extra_forbidden, input_value=['x'], input_type=list]"""
IN_A_TOOL = "tools[0].function.parameters.properties.temperature"

# An error, and the parameters that it refuses.
REFUSALS: list[tuple[object, str]] = [
    (error("Unsupported parameter: 'stop' is not supported with this model.", param="stop", code=None), "stop"),
    (error("Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."), "max_tokens"),
    (error(ONLY_ONE, param="temperature", code="unsupported_value"), "temperature"),
    (error("Bad parameter.", param="seed", code="unknown_parameter"), "seed"),
    ({"error": "Model grok-4.5 does not support parameter reasoningEffort."}, "reasoning_effort"),
    ({"error": "Argument not supported on this model: stop"}, "stop"),
    (error("Unrecognized request argument supplied: max_completion_tokens"), "max_completion_tokens"),
    ([error('Unknown name "seed": Cannot find it.\nUnknown name "top_p": Cannot find it.')], "seed top_p"),
    ({"detail": [{"loc": ["body", "seed"], "msg": "extra fields not permitted"}]}, "seed"),
    ({"message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs"}]}}, "seed"),
    ({"message": '{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs"}]}'}, "seed"),
    (error("Extra inputs are not permitted, field: 'seed', value: 1"), "seed"),
    (error("`temperature` and `top_p` cannot both be specified for this model. Please use only one."), "top_p"),
    (error("`temperature` may only be set to 1 when thinking is enabled. Please consult it."), "temperature"),
    (error("`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled."), "top_p"),
    (error("`temperature` is deprecated for this model."), "temperature"),
    (error("Thinking may not be enabled when tool_choice forces tool use."), "tool_choice"),
    (error("deepseek-reasoner does not support this tool_choice"), "tool_choice"),
    (error("The tool_choice parameter is not supported."), "tool_choice"),
    (error("This model does not support the effort parameter."), "effort"),
    (error("Encrypted content is not supported with this model.", param="include"), "include"),
    (error("'messages.2' : [('messages.2' : property 'reasoning_content' is unsupported)]"), "reasoning_content"),
    ({"message": "property 'm.2.assistant.reasoning_content' is unsupported"}, "reasoning_content"),
    (error("invalid temperature: only 1 is allowed for this model"), "temperature"),
    (error("openai does not support parameters: ['temperature', 'top_p'], for model=o1"), "temperature top_p"),
    (error("Unsupported parameter(s): `stop`"), "stop"),
    (error("Unrecognized request arguments supplied: stop, seed"), "stop seed"),
    (error("The following parameters are not supported: stop, seed"), "stop seed"),
    (error("Additional properties are not allowed ('stop', 'seed' were unexpected)"), "stop seed"),
    (error("json: unknown field `seed`, expected one of `model`, `temperature`, `stop`"), "seed"),
    (error("Unknown parameter: 'seed', did you mean 'stop'?"), "seed"),
    (error("Unknown parameter: 'seed'. Supported parameters: stop, temperature"), "seed"),
    (error("'stop' is not a supported parameter of this model"), "stop"),
    (error("This model does not support custom temperature."), "temperature"),
    (error("Stop sequences are not supported with this model."), "stop"),
    (error("This model does not support stop sequences"), "stop"),
    (error("temperature must be 1.0 for this model"), "temperature"),
    (error("It is wrong.", param="seed", type="unsupported_parameter"), "seed"),
    (error("gpt-5 models don't support temperature=0.2. Only temperature=1 is supported."), "temperature"),
    (error("Unrecognized key(s) in object: 'stop'"), "stop"),
    (error("The model does not support the following parameters: stop"), "stop"),
    (error("'stop', 'temperature' and 'max_tokens' are not supported"), "stop temperature max_tokens"),
    (error("The model `o9` does not accept the `stop` parameter."), "stop"),
    (error("extraneous key [stop] is not permitted"), "stop"),
    (error("Please remove `stop` from your request"), "stop"),
    (error("Unsupported option 'stop'"), "stop"),
    (error("Unsupported property stop"), "stop"),
    (error("Extra inputs are not permitted: stop"), "stop"),
    (error("stop is not compatible with reasoning models"), "stop"),
    (error("Parameter 'temperature' is incompatible with this model."), "temperature"),
    (error("only the default (1) is supported", param="temperature"), "temperature"),
    (error("Got an unexpected keyword argument 'stop'"), "stop"),
    (error("You cannot set temperature when thinking is enabled"), "temperature"),
    (error("Thinking isn't compatible with `temperature` modifications."), "temperature"),
    # What a sentence about a value says elsewhere does not count.
    (error("Unsupported parameter: 'stop'. See the list of supported parameters."), "stop"),
    (error("<400> InternalError.Algo.InvalidParameter: stop is not supported"), "stop"),
    (error("Unsupported parameter: 'stop'. See <https://example.org/limit>.", param="stop"), "stop"),
    (error(TWO_ERRORS), "stop"),
    (error("Unable to submit request because temperature is not supported by this model."), "temperature"),
    (error("Sorry, temperature isn't available for this model"), "temperature"),
    (error("You passed stop, which this model does not support"), "stop"),
    (error("The request has seed, which isn't supported"), "seed"),
    (error("unsupported param stop"), "stop"),
    (error("Sampling parameters (temperature, top_p) are disabled for thinking models."), "temperature top_p"),
    (error("This model doesn't allow temperature to be changed; omit it."), "temperature"),
    (error("Provider returned error for stop. Not supported.", metadata={"raw": ""}, param="stop"), "stop"),
    (error("Omit `stop` for this model"), "stop"),
    (error("This model rejects `temperature`"), "temperature"),
    (error("Please retry without 'stop'."), "stop"),
    (error("Illegal argument: stop"), "stop"),
    (error("'temperature' must be left out for reasoning models"), "temperature"),
    (error("Bad request", field="stop"), "stop"),
    (error("Bad request", parameter="body.stop"), "stop"),
    (error("Bad request", details=[{"field": "seed", "description": "Not supported."}, "x"]), "seed"),
    (error("Provider returned error", metadata={"raw": json.dumps(error("Unsupported parameter: 'stop'"))}), "stop"),
    (error("Provider returned error", metadata={"raw": "Unsupported parameter: 'stop'"}), "stop"),
]
# These name a parameter whose value is wrong, or something else.
OTHER_ERRORS: list[object] = [
    error("temperature must be 1 or less"),
    error("max_tokens must be 1 or more"),
    error("top_p must be 1.5"),
    error("max_tokens=100000 is not supported. The maximum is 8192."),
    error("Invalid max_tokens. See the manual: it must be at most 4096."),
    error("Bad request", details=[{"field": "temperature", "message": "must be between 0 and 2"}]),
    error("Invalid schema for function 'search': property 'temperature' is not valid", param=IN_A_TOOL),
    error("It is not valid.", param=IN_A_TOOL),
    error("Invalid schema for response_format 'reply': 'max_tokens' is not allowed"),
    error("tools.0.custom.input_schema.properties.max_tokens: unknown field"),
    error("Unknown name 'seed' at 'tools[0].function_declarations[0].parameters.properties[1]'"),
    error("In context=('properties', 'temperature'), 'additionalProperties' is not allowed"),
    error("The model `seed` does not exist"),
    error("'seed' is not a valid model name"),
    error("Unknown tool: stop"),
    error("Tool choice 'stop' not found in 'tools' parameter"),
    error("max_tokens is too large: 100000. This model supports at most 16384"),
    error("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
    error("`max_tokens` must be greater than `thinking.budget_tokens`", param="max_tokens"),
    error("Invalid type for 'stop': expected an array, but got an object instead.", param="stop"),
    error("'abc' is not of type 'number' - 'temperature'"),
    error("Input length and `max_tokens` exceed the context limit: 199 + 40 > 200, decrease max_tokens"),
    error("Invalid content: 'please stop, the temperature is not good'"),
    error("Your prompt is not allowed: I want you to stop"),
    error("Your message contains unsupported content: stop"),
    error("Tool 'stop' is not valid"),
    error("Invalid 'tools[0].function.name': 'stop'"),
    error("max_tokens must be 1 to 4096"),
    error("Value of max_tokens (100000) is invalid"),
    error("Only values up to 8192 are supported for max_tokens"),
    error("Incorrect API key provided. Do not stop here."),
    error('Invalid request: {"stop": ["x"], "temperature": 0, "messages": [{"content": "no"}]}'),
    error("Could not finish the message because max_tokens or model output limit was reached."),
    error("max_tokens is too large: 9. This model supports at most 8 tokens.", param="max_tokens"),
    error(NOT_MINIMAL, param="reasoning_effort", code="unsupported_value"),
    error("Invalid 'temperature': decimal above maximum value.", param="temperature", code="x"),
    error("This model does not support tools. Please stop.", param="tools"),
    error("The model produced invalid content; lower the temperature."),
]


@cases(("body", "names"), *REFUSALS, *((body, "") for body in OTHER_ERRORS))
def test_refusal_names_exactly_its_parameters(body: object, names: str) -> None:
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


PARTS = st.sampled_from([*FRAMES, *KNOWN, " ", ".", "'", "\n", "a_b", "{'loc': ['x'], 'msg': 'extra_forbidden'}"])


@given(st.lists(PARTS).map("".join))
def test_names_are_those_of_the_text(text: str) -> None:
    letters = text.replace("_", "").lower()
    assert all(name.replace("_", "") in letters for name in find_refused_names(400, ErrorReport(text), KNOWN))


MESSAGES = st.lists(st.sampled_from([{"content": "a"}, {"content": "b", "reasoning": "c"}]), max_size=2)
PARAMETERS = {"stop": ["x"], "temperature": 0.0, "max_tokens": 9, "seed": 0}
BODIES = st.fixed_dictionaries(
    {}, optional={"messages": MESSAGES} | {name: st.just(value) for name, value in PARAMETERS.items()}
)


@given(BODIES, st.lists(st.sampled_from(sorted(KNOWN)), max_size=8))
def test_each_refusal_removes_a_parameter(body: JSON, refused: list[str]) -> None:
    refusals = Refusals(CHAT_COMPLETIONS.parameters)
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
    refusals = Refusals(CLAUDE.parameters, CLAUDE.repairs)
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
