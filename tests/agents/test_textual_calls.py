"""Tool calls that a model writes as text: read as calls, refused, or left as the answer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import AgentFinish, ParseError, tool
from graphexec.agents.tool_calling import read
from graphexec.messages import AssistantMessage, FinishReason, ModelReply, Reasoning, ToolMessage
from graphexec.models import ScriptedModel
from graphexec.tools import tool_from_schema
from tests.agents.mutations.common import clock, meaning_of, search
from tests.executor.actors import caller_of, echo, messages
from tests.parameters import cases


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


def in_deepseeks_tokens(text: str) -> str:
    return text.replace("<|", "<|tool_").replace("_", "\u2581").replace("|", "\uff5c")


ONE = [("weather", OSLO)]
READ: list[tuple[list[tuple[str, dict[str, str]]], list[str]]] = [
    (
        ONE,
        [
            f"<tool_call>\n{CALL}\n</tool_call>",
            f"<tool_call>{CALL}</tool_call>\n",
            f"<tool_call>\n{CALL}",
            f"<TOOL_CALL>{CALL}</TOOL_CALL><|im_end|>",
            f"I look it up.\n\n<tool_call>\n{CALL}\n</tool_call>",
            f"I look it up. <tool_call>{CALL}</tool_call>",
            f"<tools>\n{CALL}\n</tools>",
            f"<|tool_call|>[{CALL}]",
            f"<function_call> {CALL} </function_call>",
            '<function=weather>{"city": "Oslo"}</function>',
            '<function=weather>{"city": "Oslo"}',
            "<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>",
            "<function=weather>\r\n<parameter=city>\r\nOslo\r\n</parameter>\r\n</function>",
            f"[TOOL_CALLS] [{CALL}]",
            f"[TOOL_CALLS]{CALL}",
            '[TOOL_CALLS]weather[ARGS]{"city": "Oslo"}</s>',
            '[TOOL_CALLS]weather[CALL_ID]aB3dE6gH9[ARGS]{"city": "Oslo"}',
            '[TOOL_CALLS]weather{"city": "Oslo"}',
            in_deepseeks_tokens('<|calls_begin|><|call_begin|>weather<|sep|>{"city": "Oslo"}<|call_end|><|calls_end|>'),
            in_deepseeks_tokens(
                "<|calls_begin|><|call_begin|>function<|sep|>weather\n```json\n"
                '{"city": "Oslo"}\n```<|call_end|><|calls_end|>'
            ),
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>"
            '{"city": "Oslo"}<|tool_call_end|><|tool_calls_section_end|>',
            '<|python_tag|>{"name": "weather", "parameters": {"city": "Oslo"}}<|eom_id|>',
            '<|python_tag|>{"type": "function", "name": "weather", "parameters": {"city": "Oslo"}}',
            CALL,
            f" {CALL}\n",
            f"```json\n{CALL}\n```",
            f"```\n[{CALL}]\n```",
            f"<think>\nThe weather?\n</think>\n\n{CALL}",
            f"The weather?\n</think>\n<tool_call>{CALL}</tool_call>",
            "{'name': 'weather', 'arguments': {'city': 'Oslo',}}",
            '{"name": "weather", "parameters": {"city": "Oslo"}}',
            '{"name": "weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}',
            '{"id": "1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}',
            '{"tool_calls": [{"name": "weather", "arguments": {"city": "Oslo"}}]}',
            '{"tool": "weather", "tool_input": {"city": "Oslo"}}',
            '{"action": "weather", "action_input": {"city": "Oslo"}}',
            '{"Name": "weather", "Arguments": {"city": "Oslo"}}',
            '{"action": "weather", "Action Input": {"city": "Oslo"}}',
            '{"name": "weather", "function": "weather", "arguments": {"city": "Oslo"}}',
            '{"thought": "Rain?", "name": "functions.weather", "arguments": {"city": "Oslo"}}',
            '{"name": "weather", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}',
            f"\ufeff{CALL}</s>",
            f"```json\n{CALL}\n```\n<|im_end|>",
            f'{{"role": "assistant", "content": null, "tool_calls": [{CALL}]}}',
            f'{{"function_call": {CALL}, "content": ""}}',
            '{"name": "default_api.Weather", "arguments": {"city": "Oslo"}}',
            f"I use <tool_call>, so:\n<tool_call>{CALL}</tool_call>",
        ],
    ),
    (
        ONE * 2,
        [
            f"<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call>",
            *(f"<tool_call>{CALL}\n{CALL}</tool_call>", f"[TOOL_CALLS] [{CALL}, {CALL}]"),
            '[TOOL_CALLS]weather[ARGS]{"city": "Oslo"}[TOOL_CALLS]weather[ARGS]{"city": "Oslo"}',
            *(f"<|python_tag|>{CALL}; {CALL}", f"{CALL}; {CALL}", f"{CALL}\n{CALL}", f"[{CALL}, {CALL}]"),
        ],
    ),
    (
        [("today", {})],
        [
            *('{"name": "today", "arguments": null}', '{"name": "today"}'),
            *('{"type": "function", "function": {"name": "today"}}', '[{"id": 1, "name": "functions.today"}]'),
            *('{"reasoning": "The date?", "tool": "today"}', '{"name": "today", "arguments": {}}'),
            *('<tool_call>{"name": "today"}</tool_call>', "<function=today>{}</function>"),
            *("<tool_call>\n<function=today>\n</function>\n</tool_call>", "<function=today></function>"),
            *("<tool_call>\n<function=today>\n</function>", "<tool_call><function=today></tool_call>"),
        ],
    ),
]


@cases(("text", "expected"), [(text, expected) for expected, texts in READ for text in texts])
def test_textual_calls_are_read(text: str, expected: list[tuple[str, object]]) -> None:
    assert calls(text) == expected


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


@cases("written", ["1", "true", "null", "[1]", "{}"])
def test_strings_in_tags_stay_strings(written: str) -> None:
    schema = {"type": "object", "properties": {**STRINGS, **VALUES}, "$defs": DEFINITIONS}
    form = tool_from_schema("form", "Take all.", schema, str)
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
    result = caller_of(ScriptedModel([text, "done"]), send).run("q")
    assert [step.observation for step in result.steps] == ["12345 True"]


def test_parameters_in_tags_have_the_types_of_the_schema() -> None:
    inner = "<parameter=city>\n42\n</parameter>\n<parameter=days>3</parameter>"
    assert calls(f"<function=weather>{inner}</function>") == [("weather", {"city": "42", "days": 3})]
    inner = inner.replace("3", "three")
    assert calls(f"<function=weather>{inner}</function>") == [("weather", {"city": "42", "days": "three"})]


@cases(
    "text",
    [
        *("It rains.", '{"name": "Oslo", "population": 700000}', '{"name": "weather", "population": 700000}'),
        *('Claude writes `<invoke name="weather">`.', '{"name": "Oslo", "arguments": {"a": 1}}'),
        *('[{"name": "Oslo", "arguments": {}}]', '{"name": "weather"}', '{"name": 3, "arguments": {}}', "[]", "[1, 2]"),
        *('{"name": "Osl', "{'name': 'Oslo', 'arguments': {'city': 'a'b'}}", "```python\nforecast('Oslo')\n```"),
        *("weather(city) returns rain (usually)", "Qwen writes calls in <tool_call> and </tool_call>."),
        f"A call is written as `<tool_call>{CALL}</tool_call>`.",
        '<tool_call>\n{"name": "get", "arguments": {}}\n</tool_call>\nis a call.',
        'The city:\n{"name": "Oslo", "arguments": {}}',
        'A call is written as `{"name": "echo", "arguments": {"text": "a"}}` or so.',
        'Such a record, {"name": "today"}, has no call.',
        *("My tools:\nsearch(query)\nclock()", 'My tools:\n- search(query="...")'),
        *('It says:\nsearch("cats") finds nothing.', "Clock (wall) says (12)", 'import re\nre.search("a", text)'),
        *('```python\ndef search(query):\n    return query\n\nsearch("cats")\n```', 're.search("a", text)'),
        *('Write `search("cats")`.', f"Write `{SEARCH}` so.", '{"search": {"hits": 3}}', '{"search": {}}'),
        *('{"name": "Clock"}', '[{"name": "clock"}, {"name": "Oslo"}]'),
        '{"history": [{"tool": "search", "input": {"query": "a"}, "output": "b"}]}',
        *('{"tool_calls": [], "content": "Hello."}', '{"tool_calls": 3}', 'search: {"hits": 3}'),
        *('The result: {"query": "cats"}', "search: {it is} or {'", "Action: research(cats)\nOwner: Bob"),
        *("The plan:\nAction: search\nOwner: Bob", 'In parentheses (search("cats")).'),
        *("<form><search>cats</search></form>", "It ends with <tool_call> and </tool_call>"),
        *("```\nfind cats\n```\nis a command.", "So:\n```\n<tool_call>\n```", "Say {'a': 'b'c'} then."),
    ],
)
def test_other_text_is_the_answer(text: str) -> None:
    assert calls(text) == []


@cases(
    ("text", "why"),
    [
        ('<tool_call>{"name": "weather", "arguments": {"city": "Os', "its tool call is not valid"),
        ('I see. <tool_call>{"name": "weather", "arguments": {"city": "Os', "its tool call is not complete"),
        ('<tool_call>{"name": "weather", "arguments": {"city": "a"b"}}</tool_call>', "its tool call is not valid"),
        (f"<tool_call>{CALL}</tool_call>\nI have called it.", "other text follows the call"),
        ('<tool_call>{"name": "nope", "arguments": {}}</tool_call>', "no tool nope, only weather, today, echo"),
        ('{"name": "weather", "arguments": {}, "score": 3}', "it has a member score"),
        ('{"name": "today", "status": "done"}', "it has a member status"),
        ('{"function": {"name": "weather", "arguments": {"city": "a"}}, "arguments": {}}', "different arguments"),
        ('{"function": {"name": "weather", "arguments": {}}, "name": "today"}', "it has different names"),
        ("Action: weather\nAction Input: Oslo", "its tool call has labels"),
        ("The date?\n行动：today\n行动输入：", "its tool call has labels"),
        ('<invoke name="weather">\n<parameter name="city">Oslo</parameter>\n</invoke>', "tags that cannot be read"),
        ("<tool_call>weather</tool_call>", "its tool call is not valid"),
        ("<function=today>", "its tool call is not valid"),
        ("I see. <function=weather>\n<parameter=city>Os", "its tool call is not valid"),
        ("<function=weather>\n<parameter=city>Oslo</parameter>\n", "its parameters are not complete"),
        ("<function=echo><parameter=text>a</parameter><parameter=text>b</parameter></function>", "two values for text"),
        ('I see. [TOOL_CALLS]weather{"city": "Os', "its tool call is not valid"),
        (in_deepseeks_tokens("<|calls_begin|>"), "its tool call is not valid"),
        ('So: <|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{"city', "its tool call is not valid"),
        ('{"name": "weather", "arguments": {"city": "a"}, "args": {"city": "b"}}', "weather is unclear: it has diff"),
        ('{"Name": "Oslo", "name": "weather", "arguments": {}}', "it has different names"),
        ('{"name": "weather", "tool": "today", "arguments": {}}', "it has different names"),
        ('{"name": "weather", "arguments": {"city": "a"}, "Arguments": {}}', "it has different arguments"),
        ('<tool_call>{"name": "weather", "args": {}, "input": {"city": "b"}}</tool_call>', "it has different"),
        ('{"name": "weather", "arguments": {"city": "Os', "its tool call is not complete"),
        ('```json\n{"name": "weather", "arguments": {', "its tool call is not complete"),
        ('{"name": "weather", "arguments": {"city": "a"b"}}', "its tool call is not complete"),
        ("{'name': 'weather', 'arguments': {'city': 'a'b'}}", "its tool call is not JSON"),
        ('{name: "weather", arguments: {city: "Oslo"}}', "its tool call is not JSON"),
        ("I see.\n[{'Tool_Name': 'weather', 'args': {'city': 'a'b'}}]", "its tool call is not JSON"),
        ('I see.\n```json\n{"name": "weather", "arguments": {"city": "Os', "its tool call is not complete"),
        ('{"name": "weather", "arguments": [1]}', "the arguments of the call to weather are not a JSON object"),
        ('{"name": "weather", "arguments": "Oslo"}', "the arguments of the call to weather are not a JSON object"),
        (f"I look it up.\n{CALL}", "it has other text before its tool call"),
        ('weather(city="Oslo")', "its tool call is Python"),
        ('```python\n[weather(city="Oslo")]\n```', "its tool call is Python"),
        ("<think>Hm.", "neither an answer nor a tool call"),
    ],
)
def test_unreadable_call_is_a_parse_error(text: str, why: str) -> None:
    with pytest.raises(ParseError) as raised:
        read(ModelReply(text), TOOLS)
    assert raised.value.observation is not None
    assert why in raised.value.observation
    assert not raised.value.prose


# What the error says, and the replies that it is about.
UNREAD = {
    "is Python": [
        *('[search(query="cats"), clock()]', 'search(query="a (b)")', "search(\n    query='it's here',\n)"),
        *('functions.search(query="cats")', 'print(default_api.search(query="cats"))'),
        *('# Look it up.\nfound = search({"query": ["cats"]})\nclock()', "`search('cats')`", 'search("cats'),
        *('I look.\n```python\nsearch("cats")\n```', 'I look.\n\nsearch(\n    query="cats",\n)'),
        *('- **search**(query="cats")', "Tool call: search.run('cats')"),
        'const found = await search({query: "cats"});',
    ],
    r"it has other text|is not complete": [
        *(
            f"Sure.\n```json\n{SEARCH}\n```\nOne moment.",
            f"I call {SEARCH} now.",
            f"I use <tool_call>.\n```\n{SEARCH}\n```",
        ),
        f"Here:\n```\n<tool_call>{SEARCH}</tool_call>\n```",
        *(f"So:\n```xml\n<tool_call>{SEARCH}</tool_call>\n```\nThat is all.", "Here:\n```\n<function=search>\n```"),
        *(f"Here:\n```\n<tool_call>{SEARCH[:-5]}\n```", 'search {"query": "cats"}'),
        *('I look.\n**search**:\n```json\n{"query": "cats"}\n```', 'search {"query": "ca'),
        *('[search] {"query": "cats"}', 'search {"query": "a"b"}'),
    ],
    "it has other JSON": [
        *(f'[{SEARCH}, {{"name": "nope", "arguments": {{}}}}]', f'{SEARCH}{{"x": 1}}', f"[3, {SEARCH}]"),
        *(f'{{"tool_calls": [{SEARCH}], "content": "I look."}}', f'{{"response": [{{"next": {SEARCH}}}]}}'),
        *('{"x": 1}\n{"name": "clock", "arguments": {}}', '[{"search": {"query": "cats"}}]'),
    ],
    r"has labels|has tags|is not complete": [
        'Action: search("cats")',
        "Thought: The time?\nAction: clock",
        '<tool name="search">{"query": "cats"}</tool>',
        "I look.\n**Action:** `search`[cats]",
        '<|channel|>commentary to=functions.search <|constrain|>json<|message|>{"query": "cats"}',
        'I look. functions.search:0 {"query": "cats"}',
        "<search><query>cats</query></search>",
        '<search>{"query": "cats"}</search>',
        "what it is for</parameter></function>",
    ],
    "is not valid": [
        '<tool_call>{"name": "search", "arguments": {"query": "</think></tool_call>',
        "<function=search><parameter=query>a</think>b",
        "<function=search><parameter=query>a<parameter=limit>3</parameter></function>",
    ],
}


@cases(("text", "says"), [(text, says) for says, texts in UNREAD.items() for text in texts])
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


@cases("text", CUT)
def test_truncated_call_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        read(ModelReply(text, finish_reason="length"), TOOLS)


@cases(
    "text",
    [
        *("It rains in Os", '{"name": "Osl', '{"city": "Os', '["a", "b', "[", "1 < 2", "f(x", '{"name": 3, "a', "3"),
        *("Write <functions of x", "Put it in <function> an"),
    ],
)
def test_cut_answer_is_the_answer(text: str) -> None:
    assert calls(text, finish="length") == []


def test_textual_call_goes_back_as_a_native_call() -> None:
    model = ScriptedModel([f"<think>Rain?</think>I look.\n<tool_call>{CALL}</tool_call>", "Rain."])
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
    model = ScriptedModel([f"<tool_call>{CALL}</tool_call>", CALL])
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


@cases("tag", ["</think>", "</think></tool_call>", "[/THINK]", "\n</think>\n", "```", "\n```\n"])
@cases(
    "form",
    [
        '<tool_call>{{"name": "search", "arguments": {{"query": "a{}b"}}}}</tool_call>',
        "<tool_call>{{'name': 'search', 'arguments': {{'query': 'a{}b'}}}}</tool_call>",
        '[TOOL_CALLS][{{"name": "search", "arguments": {{"query": "a{}b"}}}}]',
        '{{"name": "search", "arguments": {{"query": "a{}b"}}}}',
        '```json\n{{"name": "search", "arguments": {{"query": "a{}b"}}}}\n```',
        '``` {{"name": "search", "arguments": {{"query": "a{}b"}}}}```',
        "<function=clock></function><function=search><parameter=query>a{}b</parameter></function>",
        "I look.\n<function=search>\n<parameter=query>a{}b</parameter></function>",
    ],
)
def test_tag_in_an_argument_is_text(form: str, tag: str) -> None:
    decision = read(ModelReply(form.format(tag)), TOOLS)
    assert not isinstance(decision, AgentFinish)
    assert meaning_of(decision[-1:]) == ("search", {"query": f"a{tag}b"})


@cases(
    "thought",
    [
        f"I use <tool_call>{SEARCH}</tool_call>, it's clear.",
        "It needs <function=clock> and <parameter=query>.",
        '{"a": "b"} is not it\'s form.',
        "<function=clock><parameter=a>b</parameter></function>",
    ],
)
def test_call_in_thoughts_does_not_hide_their_end(thought: str) -> None:
    assert meaning_of(read(ModelReply(f"{thought}\n</think>\n{SEARCH}"), TOOLS)) == ("search", {"query": "cats"})
