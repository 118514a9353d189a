"""Replies in JSON."""

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

from tests.agents.mutations.common import NAMES, PROSE, Meaning, make_lines


def as_json(answer_name: str, answer_key: str) -> Callable[[Random], tuple[Meaning, str]]:
    def make(chance: Random) -> tuple[Meaning, str]:
        value = make_lines(chance)
        members: dict[str, Any]
        if chance.choice([True, False]):
            meaning: Meaning = (value,)
            members = {"action": answer_name, answer_key: value}
        else:
            name = chance.choice(NAMES)
            given = chance.choice([value, {"query": value}, {"query": [value, None, True]}, {}])
            meaning, members = (name, given), {"action": name, "action_input": given}
        if chance.choice([True, False]):
            members = {"thought": chance.choice(PROSE), **members}
        indent = chance.choice([None, 2, 4])
        return meaning, json.dumps(members, indent=indent, ensure_ascii=chance.choice([True, False]))

    return make


def trail_commas(chance: Random, text: str) -> str:
    """Put a comma behind the last member."""
    return re.sub(r"(\s*)\}\s*\Z", r",\1}", text) if text != "{}" else text


def break_lines(chance: Random, text: str) -> str:
    """Write newlines and tabs in strings as they are."""
    return re.sub(r"(?<!\\)\\n", "\n", text)


def quote_otherwise(chance: Random, text: str) -> str:
    """Write strings in single or typographic quotes, where no string contains any."""
    if re.search(r"\\\"|['“”’]", text):
        return text
    opening, closing = chance.choice([("'", "'"), ("“", "”"), ("‘", "’")])
    text = re.sub(r'"((?:[^"\\]|\\.)*)"', rf"{opening}\1{closing}".replace("\\1", "\\g<1>"), text)
    return re.sub(r"\b(null|true)\b", lambda found: {"null": "None", "true": "True"}[found[1]], text)


def widen_punctuation(chance: Random, text: str) -> str:
    """Write the colon behind the action's name as Chinese text does."""
    return text.replace('"action": ', '"action"： ')


def list_it(chance: Random, text: str) -> str:
    return f"[{text}]"


def rename_members(chance: Random, text: str) -> str:
    """Write the names of members as other models do."""
    given = chance.choice(["Action Input", "actionInput", "action input"])
    return text.replace('"action":', '"Action":').replace('"action_input":', f'"{given}":')


def fence(chance: Random, text: str) -> str:
    """Put the JSON into a fence, with prose around it."""
    opening = chance.choice(
        ["```json\n", "```\n", "``` \n", "```JSON\n", "```json ", "```", "```json\r\n", "``` json\n", "````\n"]
    )
    before = chance.choice(["", "Action:\n", "Thought: I act.\nAction:\n", "Here:\n", "行动：\n", "**Action:** "])
    after = chance.choice(["", "\n", "\nThat is all.", " \n\nDone!"])
    return before + opening + text + chance.choice(["\n```", "```", "\n```\n"]) + after


def speak(chance: Random, text: str) -> str:
    """Put prose before and behind the JSON."""
    start = chance.choice([*(f"{prose} " for prose in PROSE), "Action: ", "Thought: hm\nAction:\n", "Output:\n\n", "`"])
    return start + text + chance.choice(["", "\nThat's all.", "`", "\n\n(I use the tool.)"])


KEYS = {
    "action": ["action", "Action", "ACTION", "action_"],
    "action_input": ["action_input", "Action Input", "actionInput", "action input"],
    "answer": ["answer", "Answer", "final_answer", "Final Answer"],
}


def write_member(chance: Random, key: str, value: str) -> str:
    """Return a member of an object whose key is written in some way."""
    return f'"{chance.choice(KEYS[key])}": "{value}"'


def add_member(chance: Random, text: str, member: str) -> str:
    """Put another member into an object, at its beginning or at its end."""
    if chance.choice([True, False]):
        return f"{{{member}, {text.lstrip()[1:]}"
    return re.sub(r"\}\s*\Z", lambda _: f", {member}}}", text)


def add_decision(chance: Random, text: str) -> str:
    other = f"{{{write_member(chance, 'action', 'clock')}, {write_member(chance, 'action_input', 'now')}}}"
    forms = ["{0}\n{1}", "{1}\n{0}", "[{1}, {0}]", "```json\n{0}\n```\n```json\n{1}\n```", "{0}\nThen:\n\n{1}"]
    return chance.choice(forms).format(text, other)


def cut(chance: Random, text: str) -> str:
    """Cut the JSON before its last brace."""
    return text[: chance.randint(text.index('"') + 1, len(text.rstrip().removesuffix("]").rstrip()) - 1)]


def contradict(chance: Random, text: str) -> str:
    """Give the action, or its input, a second value under the same key or another spelling of it."""
    key = "action_input" if '"action_input"' in text and chance.choice([True, False]) else "action"
    return add_member(chance, text, write_member(chance, key, "other"))


def answer_beside(chance: Random, text: str) -> str:
    """Put an answer beside an action, or another one beside the answer."""
    key = "action_input" if '"answer"' in text and chance.choice([True, False]) else "answer"
    return add_member(chance, text, write_member(chance, key, "both"))


def quote_within(chance: Random, text: str) -> str:
    """Put a quote that is not escaped into the last string."""
    return re.sub(r'"action": "(\w)', r'"action": "\1"\1', text)


def conclude_action(chance: Random, text: str) -> str:
    """Put a labelled answer behind an action, or another decision behind an answer."""
    return conclude_too(chance, text) if '"action_input"' in text else add_decision(chance, text)


def decide_in_member(chance: Random, text: str) -> str:
    """Put another decision into a member beside the action."""
    members = ['"next": {"action": "clock", "action_input": {}}', '"then": [{"tool": "clock"}]', '"tool": "other"']
    members += ['"next": {"action": "final_answer", "answer": "both"}', '"next": "{\\"action\\": \\"final_answer\\"}"']
    return add_member(chance, text, chance.choice([*members, '"arguments": {"x": 1}', '"Tool Input": "other"']))


def label_decision(chance: Random, text: str) -> str:
    """Put another decision with labels, in a tag or in what is not JSON before or behind the JSON."""
    other = chance.choice(
        [
            *("Final Answer: both", "Action: search\nAction Input: both", '{action: "clock", action_input: {}}'),
            '<tool_call>{"name": "search", "arguments": {"query": "both"}}</tool_call>',
        ]
    )
    return chance.choice([f"{other}\n{text}", f"{text}\n{other}"])


def conclude_too(chance: Random, text: str) -> str:
    return f"{text}\nFinal Answer: both"
