"""Strategies for replies of a model: names of tools, inputs, and text with the pieces that parsers look for."""

from typing import Any

from hypothesis import strategies as st

# No colons and no fences, because the parsers could read them as labels or fences.
_PLAIN = st.characters(codec="utf-8", exclude_characters=":`<>")


def names() -> st.SearchStrategy[str]:
    """Return names of tools."""
    return st.from_regex(r"[a-z_]\w{0,10}", fullmatch=True)


def _as_it_is(text: str) -> bool:
    return "\nObservation" not in f"\n{text}" and not (text[:1] == '"' == text[-1:])


def plain() -> st.SearchStrategy[str]:
    """Return inputs in plain text without surrounding whitespace, labels, fences and quotes."""
    return st.text(_PLAIN).map(str.strip).filter(_as_it_is)


def objects() -> st.SearchStrategy[dict[str, Any]]:
    """Return named inputs with any JSON as values, also with fences and labels in strings."""
    texts = st.text(st.characters(codec="utf-8")) | st.sampled_from(
        ["```", '"```"', "Final Answer: no", "\nObservation: no", "\\", '\\"', "Action: {}"]
    )
    values = st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=6,
    )
    return st.dictionaries(texts, values, max_size=3)


PIECES = (
    *("Action:", "action:", "Action Input:", "Final Answer:", "Observation:", "\nObservation", "\nAI:", "\nUser:"),
    "Follow up:",
    *("So the final answer is:", "Intermediate answer:", "```", "```json", '{"action":', '"a"', ', "action_input":'),
    *('"Final Answer"', "null", "}", "]", "[", "{", '"', "'", "\\", "`", "<tool>", "</tool>", "<tool_input>"),
    *("</tool_input>", "<observation>", "<final_answer>", "</final_answer>", "&lt;", "&amp;", "x", ":", " ", "\n", "1"),
    *("☃", "\ud800", "<think>", "</think>", "行动：", "观察：", "**", "“", "，", "<tool_call>", "</tool_call>"),
    *("[TOOL_CALLS]", '{"name": "f", "arguments":', "Action"),
)


def any_text() -> st.SearchStrategy[str]:
    """Return text of all kinds, which mostly resembles the format of some parser."""
    return st.lists(st.sampled_from(PIECES), max_size=20).map("".join) | st.text()
