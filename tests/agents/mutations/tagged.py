"""Replies in tags, replies of the self-ask agent, and textual calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.agents.mutations.common import (
    LINES,
    NAMES,
    Draw,
    Meaning,
    values,
)


def tagged(draw: Draw) -> tuple[Meaning, str]:
    value = draw(LINES)
    if draw(st.booleans()):
        return (value,), f"<final_answer>{value}</final_answer>"
    name = draw(st.sampled_from(NAMES))
    return (name, value), f"<tool>{name}</tool><tool_input>{value}</tool_input>"


def write_tags_otherwise(draw: Draw, text: str) -> str:
    changes: list[Callable[[str], str]] = [str.upper, str.title, "{} ".format]
    change = draw(st.sampled_from(changes))
    return re.sub(r"(?<=<)/?(?:tool_input|tool|final_answer)(?=>)", lambda found: change(found[0]), text)


def space_tags(draw: Draw, text: str) -> str:
    return re.sub(r"(</?(?:tool_input|final_answer)>)", r"\n\1\n", text)


def leave_open(draw: Draw, text: str) -> str:
    return re.sub(r"</(?:tool_input|final_answer)>\Z", "", text)


def tag_more(draw: Draw, text: str) -> str:
    more = ["<tool>clock</tool><tool_input>now</tool_input>", "<tool>clock</tool>"]
    return text + draw(st.sampled_from([*more, "<final_answer>both</final_answer>"] if "<tool>" in text else more))


def drop_tag(draw: Draw, text: str) -> str:
    return re.sub(r"</tool>|<final_answer>", "", text)


# ---- replies of the self-ask agent


def asked(draw: Draw) -> tuple[Meaning, str]:
    value = draw(values())
    before = draw(st.sampled_from(["", "Yes.\n", "Follow up: Who?\n"]))
    if draw(st.booleans()):
        return (value,), f"{before}So the final answer is: {value}"
    return ("Intermediate Answer", value), f"{before}Follow up: {value}"


def write_questions_otherwise(draw: Draw, text: str) -> str:
    form = draw(st.sampled_from(["**{}:**", "{} :", "{}：", "- {}:", "Yes. {}:"]))
    return re.sub(r"(?m)^(Follow up|So the final answer is):", lambda found: form.format(found[1]), text)


def spell_follow_up(draw: Draw, text: str) -> str:
    return text.replace("Follow up:", draw(st.sampled_from(["Followup:", "follow-up:", "FOLLOW UP:", "Follow up 2:"])))


def ask_and_answer(draw: Draw, text: str) -> str:
    return f"{text} Follow up: Who? So the final answer is: nobody"


def drop_question(draw: Draw, text: str) -> str:
    return re.sub(r"(?i)(?:follow up|so the final answer is):", "", text)


# ---- textual calls


def called(draw: Draw) -> tuple[Meaning, str]:
    value = draw(LINES)
    name = draw(st.sampled_from(NAMES))
    given: dict[str, Any] = draw(st.sampled_from([{"query": value}, {"query": [value, None]}, {}]))
    key = draw(st.sampled_from(["arguments", "parameters"]))
    members = {"name": name, key: given}
    return (name, given), json.dumps(members, indent=draw(st.sampled_from([None, 2])), ensure_ascii=draw(st.booleans()))


def mark(draw: Draw, text: str) -> str:
    """Write a call in the format of some model, or as nothing but JSON."""
    before = draw(st.sampled_from(["", "Let me see.\n", "OK.\n\n"]))
    forms = [
        "<tool_call>\n{}\n</tool_call>",
        "<tool_call>{}</tool_call>",
        "<tool_call>{}",
        "[TOOL_CALLS] [{}]",
        "[TOOL_CALLS]{}",
    ]
    forms += [
        "<|python_tag|>{}",
        "<|python_tag|>{}<|eom_id|>",
        "<tools>{}</tools>",
        "<function_call>{}</function_call>",
    ]
    alone = ["{}", "```json\n{}\n```", "``` \n{}\n```", "[{}]", "```{}```"]
    form = draw(st.sampled_from([*(before + form for form in forms), *alone]))
    return form.replace("{}", text, 1)


def add_other_text(draw: Draw, text: str) -> str:
    marked = draw(
        st.sampled_from(["<tool_call>{}</tool_call>\nThat was it.", "[TOOL_CALLS][{}] That was it.", "I look.\n{}"])
    )
    return marked.replace("{}", text, 1)


def cut_call(draw: Draw, text: str) -> str:
    beginning = re.match(r'\{\s*"name": "\w+"', text)
    assert beginning is not None, "a call begins with its name"
    length = draw(st.integers(beginning.end(), len(text) - 1))
    return draw(st.sampled_from(["", "<tool_call>", "```json\n", "[TOOL_CALLS]"])) + text[:length].rstrip()


def name_other_tool(draw: Draw, text: str) -> str:
    other = re.sub(r'"name": "\w+"', '"name": "nope"', text)
    return f"<tool_call>{other}</tool_call>"
