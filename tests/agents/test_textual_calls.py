"""Tool calls that a model writes as text: read as calls, refused, or left as the answer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import AgentFinish, ParseError, models, tool, tools
from graphexec.agents.tool_calling import read
from graphexec.messages import AssistantMessage, FinishReason, ModelReply, Reasoning, ToolMessage
from tests.agents.mutations.common import clock, meaning_of, search
from tests.executor.actors import caller_of, echo, messages
from tests.parameters import cases, read_tables


@tool
def weather(city: str, days: int = 1) -> str:
    """Return the weather of a city."""
    return f"rain in {city} for {days} days"


@tool
def today() -> str:
    """Return the date."""
    return "2026-11-23"


TOOLS = (weather, today, echo, search, clock)
OSLO = {"city": "Oslo"}
CALL = json.dumps({"name": "weather", "arguments": OSLO})
SEARCH = json.dumps({"name": "search", "arguments": {"query": "cats"}})


def calls(text: str, finish: FinishReason = "stop") -> list[tuple[str, object]]:
    """Return the calls in a reply as pairs of name and arguments; none if it is an answer."""
    decision = read(ModelReply(text, finish_reason=finish), TOOLS)
    if isinstance(decision, AgentFinish):
        assert decision.output == text
        return []
    return [(action.tool, action.tool_input) for action in decision]


TABLES = read_tables(__file__)


@cases(("text", "expected"), *[(text, row["calls"]) for row in TABLES["read"] for text in row["replies"]])
def test_textual_calls_are_read(text: str, expected: list[list[object]]) -> None:
    assert calls(text) == [*map(tuple, expected)]


STRINGS = {
    "optional": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "listed": {"type": ["null", "string"]},
    "referred": {"$ref": "#/$defs/Digit"},
    "chosen": {"enum": [1, "1", "true", "null", "[1]", "{}"]},
    "constant": {"allOf": [{"$ref": "#/$defs/Text"}, {"minLength": 1}]},
    "free": {},
    "always": True,
}
VALUES = {"count": {"type": "integer"}, "one": {"const": 1}, "never": {"$ref": "#/$defs/Loop"}, "mixed": {"enum": [1]}}
DEFINITIONS = {
    "Digit": {"enum": ["1", "true", "null", "[1]", "{}"]},
    "Text": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}, {"type": "integer", "anyOf": [{"minimum": 1}]}]},
}


@cases("written", "1", "true", "null", "[1]", "{}")
def test_strings_in_tags_stay_strings(written: str) -> None:
    schema = {"type": "object", "properties": {**STRINGS, **VALUES}, "$defs": DEFINITIONS}
    form = tools.tool_from_schema("form", "Take all.", schema, str)
    parameters = "".join(f"<parameter={name}>{written}</parameter>" for name in (*STRINGS, *VALUES))
    decision = read(ModelReply(f"<function=form>{parameters}</function>"), [form])
    assert not isinstance(decision, AgentFinish)
    assert decision[0].tool_input == {**dict.fromkeys(STRINGS, written), **dict.fromkeys(VALUES, json.loads(written))}


def test_parameters_in_tags_are_what_models_write() -> None:
    @tool
    def send(zip: str | None = None, urgent: bool = False) -> str:  # noqa: A002 - a usual name of a parameter
        """Send it."""
        return f"{zip} {urgent}"

    text = "<function=send><parameter=zip>12345</parameter><parameter=urgent>True</parameter></function>"
    result = caller_of(models.ScriptedModel([text, "done"]), send).run("q")
    assert [step.observation for step in result.steps] == ["12345 True"]


def test_parameters_in_tags_have_the_types_of_the_schema() -> None:
    inner = "<parameter=city>\n42\n</parameter>\n<parameter=days>3</parameter>"
    assert calls(f"<function=weather>{inner}</function>") == [("weather", {"city": "42", "days": 3})]
    inner = inner.replace("3", "three")
    assert calls(f"<function=weather>{inner}</function>") == [("weather", {"city": "42", "days": "three"})]


@cases("text", *TABLES["answers"])
def test_other_text_is_the_answer(text: str) -> None:
    assert calls(text) == []


@cases(("text", "why"), *TABLES["unreadable"])
def test_unreadable_call_is_a_parse_error(text: str, why: str) -> None:
    with pytest.raises(ParseError) as raised:
        read(ModelReply(text), TOOLS)
    assert raised.value.observation is not None
    assert why in raised.value.observation
    assert not raised.value.prose


@cases(("text", "says"), *[(text, says) for says, texts in TABLES["refused"].items() for text in texts])
def test_call_that_is_not_read_is_refused(text: str, says: str) -> None:
    with pytest.raises(ParseError, match=says):
        read(ModelReply(text), TOOLS)


MARKS = (
    *("<tool_call>", "<tool_calls>", "<tools>", "<function=weather>", "<function_calls>", "<functioncall>"),
    *("<|tool_call|>", "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|python_tag|>"),
    *("<\uff5ctool\u2581calls\u2581begin\uff5c>", "<\uff5ctool\u2581call\u2581begin\uff5c>"),
)
CUT = [
    *(
        before + CALL[:length]
        for before in ("", "<tool_call>", "```json\n", "[TOOL_CALLS][")
        for length in range(len('{"name": "weather"'), len(CALL))
    ),
    *(f"I look. {mark[:length]}" for mark in MARKS for length in range(2, len(mark))),
    *('{"name": "wea', '{"arguments": {"city": "Oslo"}, "na', '```json\n[{"to', '{"', "I look. <tool_c"),
    *('<invoke name="wea', '<invoke name="weather">', "Action: weather\nAction In", 'weather(city="Os', "[TOOL_C"),
]


@cases("text", *CUT)
def test_truncated_call_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        read(ModelReply(text, finish_reason="length"), TOOLS)


@cases(
    "text",
    *("It rains in Os", '{"name": "Osl', '{"city": "Os', '["a", "b', "[", "1 < 2", "f(x", '{"name": 3, "a', "3"),
    *("Write <functions of x", "Put it in <function> an"),
)
def test_cut_answer_is_the_answer(text: str) -> None:
    assert calls(text, finish="length") == []


def test_textual_call_goes_back_as_a_native_call() -> None:
    model = models.ScriptedModel([f"<think>Rain?</think>I look.\n<tool_call>{CALL}</tool_call>", "Rain."])
    result = caller_of(model, *TOOLS).run("q")
    assert result.output == "Rain."
    assistant, observed = messages(model.requests[1])[2:]
    assert isinstance(assistant, AssistantMessage)
    assert isinstance(observed, ToolMessage)
    (call,) = assistant.tool_calls
    assert (assistant.content, assistant.reasoning) == ("I look.", (Reasoning("Rain?"),))
    assert (call.name, json.loads(call.arguments)) == ("weather", OSLO)
    assert observed.call_id == call.id
    assert len(call.id) == 9
    assert call.id.isalnum()
    # The last request does not take a call for the answer.
    model = models.ScriptedModel([f"<tool_call>{CALL}</tool_call>", CALL])
    result = caller_of(model, *TOOLS, max_iterations=1, early_stopping_method="generate").run("q")
    assert result.output == "Agent stopped due to iteration limit or time limit."
    assert messages(model.requests[1])


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()), st.booleans())
def test_any_arguments_survive(arguments: dict[str, object], ascii_only: bool) -> None:
    text = json.dumps({"name": "echo", "arguments": arguments}, ensure_ascii=ascii_only)
    for written in (text, f"<tool_call>\n{text}\n</tool_call>", f"[TOOL_CALLS][{text}]", f"```json\n{text}\n```"):
        assert calls(written) == [("echo", arguments)]


def test_name_that_may_mean_two_tools_is_unknown() -> None:
    @tool(name="Search")
    def other(query: str) -> str:
        """Look something else up."""
        return query

    with pytest.raises(ParseError, match="there is no tool SEARCH"):
        read(ModelReply(f"<tool_call>{SEARCH.replace('search', 'SEARCH')}</tool_call>"), [*TOOLS, other])


@cases("tag", "</think>", "</think></tool_call>", "[/THINK]", "\n</think>\n", "```", "\n```\n")
@cases(
    "form",
    '<tool_call>{{"name": "search", "arguments": {{"query": "a{}b"}}}}</tool_call>',
    "<tool_call>{{'name': 'search', 'arguments': {{'query': 'a{}b'}}}}</tool_call>",
    '[TOOL_CALLS][{{"name": "search", "arguments": {{"query": "a{}b"}}}}]',
    '{{"name": "search", "arguments": {{"query": "a{}b"}}}}',
    '```json\n{{"name": "search", "arguments": {{"query": "a{}b"}}}}\n```',
    '``` {{"name": "search", "arguments": {{"query": "a{}b"}}}}```',
    "<function=clock></function><function=search><parameter=query>a{}b</parameter></function>",
    "I look.\n<function=search>\n<parameter=query>a{}b</parameter></function>",
)
def test_tag_in_an_argument_is_text(form: str, tag: str) -> None:
    decision = read(ModelReply(form.format(tag)), TOOLS)
    assert not isinstance(decision, AgentFinish)
    assert meaning_of(decision[-1:]) == ("search", {"query": f"a{tag}b"})


@cases(
    "thought",
    f"I use <tool_call>{SEARCH}</tool_call>, it's clear.",
    "It needs <function=clock> and <parameter=query>.",
    '{"a": "b"} is not it\'s form.',
    "<function=clock><parameter=a>b</parameter></function>",
)
def test_call_in_thoughts_does_not_hide_their_end(thought: str) -> None:
    assert meaning_of(read(ModelReply(f"{thought}\n</think>\n{SEARCH}"), TOOLS)) == ("search", {"query": "cats"})
