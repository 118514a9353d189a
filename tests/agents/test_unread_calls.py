"""Calls of known tools that the tool-calling agent does not read: they are refused, and what resembles them is not."""

import json

import pytest

from graphexec import AgentFinish, ParseError, tool
from graphexec.agents.tool_calling import read
from graphexec.messages import ModelReply
from tests.agents.mutations.common import TOOLS, meaning_of
from tests.parameters import cases

CALL = json.dumps({"name": "search", "arguments": {"query": "cats"}})


# What the error says, and the replies that it is about.
REFUSED = {
    "is Python": [
        *('[search(query="cats"), clock()]', 'search(query="a (b)")', "search(\n    query='it's here',\n)"),
        *('functions.search(query="cats")', 'print(default_api.search(query="cats"))'),
        *('# Look it up.\nfound = search({"query": ["cats"]})\nclock()', "`search('cats')`", 'search("cats'),
        *('I look.\n```python\nsearch("cats")\n```', 'I look.\n\nsearch(\n    query="cats",\n)'),
        *('- **search**(query="cats")', "Tool call: search.run('cats')"),
        'const found = await search({query: "cats"});',
    ],
    r"it has other text|is not complete": [
        *(f"Sure.\n```json\n{CALL}\n```\nOne moment.", f"I call {CALL} now.", f"I use <tool_call>.\n```\n{CALL}\n```"),
        f"Here:\n```\n<tool_call>{CALL}</tool_call>\n```",
        *(f"So:\n```xml\n<tool_call>{CALL}</tool_call>\n```\nThat is all.", "Here:\n```\n<function=search>\n```"),
        *(f"Here:\n```\n<tool_call>{CALL[:-5]}\n```", 'search {"query": "cats"}'),
        *('I look.\n**search**:\n```json\n{"query": "cats"}\n```', 'search {"query": "ca'),
        *('[search] {"query": "cats"}', 'search {"query": "a"b"}'),
    ],
    "it has other JSON": [
        *(f'[{CALL}, {{"name": "nope", "arguments": {{}}}}]', f'{CALL}{{"x": 1}}', f"[3, {CALL}]"),
        *(f'{{"tool_calls": [{CALL}], "content": "I look."}}', f'{{"response": [{{"next": {CALL}}}]}}'),
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


@cases(("text", "says"), [(text, says) for says, texts in REFUSED.items() for text in texts])
def test_call_that_is_not_read_is_refused(text: str, says: str) -> None:
    with pytest.raises(ParseError, match=says):
        read(ModelReply(text), TOOLS)


@cases(
    "text",
    [
        *("My tools:\nsearch(query)\nclock()", 'My tools:\n- search(query="...")'),
        *('It says:\nsearch("cats") finds nothing.', "Clock (wall) says (12)", 'import re\nre.search("a", text)'),
        *('```python\ndef search(query):\n    return query\n\nsearch("cats")\n```', 're.search("a", text)'),
        *('Write `search("cats")`.', f"Write `{CALL}` so.", '{"search": {"hits": 3}}', '{"search": {}}'),
        *('{"name": "Clock"}', '[{"name": "clock"}, {"name": "Oslo"}]'),
        '{"history": [{"tool": "search", "input": {"query": "a"}, "output": "b"}]}',
        *('{"tool_calls": [], "content": "Hello."}', '{"tool_calls": 3}', 'search: {"hits": 3}'),
        *('The result: {"query": "cats"}', "search: {it is} or {'", "Action: research(cats)\nOwner: Bob"),
        *("The plan:\nAction: search\nOwner: Bob", 'In parentheses (search("cats")).'),
        *("<form><search>cats</search></form>", "It ends with <tool_call> and </tool_call>"),
        *("```\nfind cats\n```\nis a command.", "So:\n```\n<tool_call>\n```", "Say {'a': 'b'c'} then."),
    ],
)
def test_text_like_a_call_is_the_answer(text: str) -> None:
    assert meaning_of(read(ModelReply(text), TOOLS)) == (text,)


def test_name_that_may_mean_two_tools_is_unknown() -> None:
    @tool(name="Search")
    def other(query: str) -> str:
        """Look something else up."""
        return query

    with pytest.raises(ParseError, match="there is no tool SEARCH"):
        read(ModelReply(f"<tool_call>{CALL.replace('search', 'SEARCH')}</tool_call>"), [*TOOLS, other])


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
        f"I use <tool_call>{CALL}</tool_call>, it's clear.",
        "It needs <function=clock> and <parameter=query>.",
        '{"a": "b"} is not it\'s form.',
        "<function=clock><parameter=a>b</parameter></function>",
    ],
)
def test_call_in_thoughts_does_not_hide_their_end(thought: str) -> None:
    assert meaning_of(read(ModelReply(f"{thought}\n</think>\n{CALL}"), TOOLS)) == ("search", {"query": "cats"})
