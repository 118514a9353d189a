"""Replies in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.agents.mutations.common import (
    LINES,
    NAMES,
    PROSE,
    Draw,
    Meaning,
)


def as_json(answer_name: str, answer_key: str) -> Callable[[Draw], tuple[Meaning, str]]:
    def make(draw: Draw) -> tuple[Meaning, str]:
        value = draw(LINES)
        members: dict[str, Any]
        if draw(st.booleans()):
            meaning: Meaning = (value,)
            members = {"action": answer_name, answer_key: value}
        else:
            name = draw(st.sampled_from(NAMES))
            given = draw(st.sampled_from([value, {"query": value}, {"query": [value, None, True]}, {}]))
            meaning, members = (name, given), {"action": name, "action_input": given}
        if draw(st.booleans()):
            members = {"thought": draw(st.sampled_from(PROSE)), **members}
        indent = draw(st.sampled_from([None, 2, 4]))
        return meaning, json.dumps(members, indent=indent, ensure_ascii=draw(st.booleans()))

    return make


def trail_commas(draw: Draw, text: str) -> str:
    """Put a comma behind the last member."""
    return re.sub(r"(\s*)\}\s*\Z", r",\1}", text) if text != "{}" else text


def break_lines(draw: Draw, text: str) -> str:
    """Write newlines and tabs in strings as they are."""
    return re.sub(r"(?<!\\)\\n", "\n", text)


def quote_otherwise(draw: Draw, text: str) -> str:
    """Write strings in single or typographic quotes, where no string contains any."""
    if re.search(r"\\\"|['“”’]", text):
        return text
    opening, closing = draw(st.sampled_from([("'", "'"), ("“", "”")]))
    text = re.sub(r'"((?:[^"\\]|\\.)*)"', rf"{opening}\1{closing}".replace("\\1", "\\g<1>"), text)
    return re.sub(r"\b(null|true)\b", lambda found: {"null": "None", "true": "True"}[found[1]], text)


def widen_punctuation(draw: Draw, text: str) -> str:
    """Write the colon behind the action's name as Chinese text does."""
    return text.replace('"action": ', '"action"： ')


def list_it(draw: Draw, text: str) -> str:
    return f"[{text}]"


def rename_members(draw: Draw, text: str) -> str:
    """Write the names of members as other models do."""
    given = draw(st.sampled_from(["Action Input", "actionInput", "action input"]))
    return text.replace('"action":', '"Action":').replace('"action_input":', f'"{given}":')


def fence(draw: Draw, text: str) -> str:
    """Put the JSON into a fence, with prose around it."""
    opening = draw(
        st.sampled_from(
            ["```json\n", "```\n", "``` \n", "```JSON\n", "```json ", "```", "```json\r\n", "``` json\n", "````\n"]
        )
    )
    before = draw(
        st.sampled_from(["", "Action:\n", "Thought: I act.\nAction:\n", "Here:\n", "行动：\n", "**Action:** "])
    )
    after = draw(st.sampled_from(["", "\n", "\nThat is all.", " \n\nDone!"]))
    return before + opening + text + draw(st.sampled_from(["\n```", "```", "\n```\n"])) + after


def speak(draw: Draw, text: str) -> str:
    """Put prose before and behind the JSON."""
    before = draw(
        st.sampled_from([*(f"{prose} " for prose in PROSE), "Action: ", "Thought: hm\nAction:\n", "Output:\n\n", "`"])
    )
    return before + text + draw(st.sampled_from(["", "\nThat's all.", "`", "\n\n(I use the tool.)"]))


def add_decision(draw: Draw, text: str) -> str:
    other = '{"action": "clock", "action_input": "now"}'
    return draw(
        st.sampled_from(
            [
                f"{text}\n{other}",
                f"{other}\n{text}",
                f"[{other}, {text}]",
                f"```json\n{text}\n```\n```json\n{other}\n```",
            ]
        )
    )


def cut(draw: Draw, text: str) -> str:
    """Cut the JSON before its last brace."""
    return text[: draw(st.integers(2, len(text.rstrip().removesuffix("]").rstrip()) - 1))]


def contradict(draw: Draw, text: str) -> str:
    """Give the action a second value."""
    return re.sub(r"\}\s*\Z", ', "action": "other"}', text)


def quote_within(draw: Draw, text: str) -> str:
    """Put a quote that is not escaped into the last string."""
    return re.sub(r'"action": "(\w)', r'"action": "\1"\1', text)


def conclude_too(draw: Draw, text: str) -> str:
    return f"{text}\nFinal Answer: both"
