"""Replies in tags, replies of the self-ask agent, and textual calls."""

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

from graphexec._parsing.json import read_object
from tests.agents.mutations.common import NAMES, Meaning, make_line, make_lines
from tests.agents.mutations.in_json import add_member


def tagged(chance: Random) -> tuple[Meaning, str]:
    value = make_lines(chance)
    if chance.choice([True, False]):
        return (value,), f"<final_answer>{value}</final_answer>"
    name = chance.choice(NAMES)
    return (name, value), f"<tool>{name}</tool><tool_input>{value}</tool_input>"


def write_tags_otherwise(chance: Random, text: str) -> str:
    changes: list[Callable[[str], str]] = [str.upper, str.title, "{} ".format]
    change = chance.choice(changes)
    return re.sub(r"(?<=<)/?(?:tool_input|tool|final_answer)(?=>)", lambda found: change(found[0]), text)


def space_tags(chance: Random, text: str) -> str:
    return re.sub(r"(</?(?:tool_input|final_answer)>)", r"\n\1\n", text)


def leave_open(chance: Random, text: str) -> str:
    return re.sub(r"</(?:tool_input|final_answer)>\Z", "", text)


def tag_more(chance: Random, text: str) -> str:
    more = ["<tool>clock</tool><tool_input>now</tool_input>", "<tool>clock</tool>"]
    return text + chance.choice([*more, "<final_answer>both</final_answer>"] if "<tool>" in text else more)


def drop_tag(chance: Random, text: str) -> str:
    return re.sub(r"</tool>|<final_answer>", "", text)


# ---- replies of the self-ask agent


def asked(chance: Random) -> tuple[Meaning, str]:
    value = make_line(chance)
    before = chance.choice(["", "Yes.\n", "Follow up: Who?\n"])
    if chance.choice([True, False]):
        return (value,), f"{before}So the final answer is: {value}"
    return ("Intermediate Answer", value), f"{before}Follow up: {value}"


def write_questions_otherwise(chance: Random, text: str) -> str:
    form = chance.choice(["**{}:**", "{} :", "{}：", "- {}:", "Yes. {}:"])
    return re.sub(r"(?m)^(Follow up|So the final answer is):", lambda found: form.format(found[1]), text)


def spell_follow_up(chance: Random, text: str) -> str:
    return text.replace("Follow up:", chance.choice(["Followup:", "follow-up:", "FOLLOW UP:", "Follow up 2:"]))


def ask_and_answer(chance: Random, text: str) -> str:
    return f"{text} Follow up: Who? So the final answer is: nobody"


def drop_question(chance: Random, text: str) -> str:
    return re.sub(r"(?i)(?:follow up|so the final answer is):", "", text)


# ---- textual calls


def called(chance: Random) -> tuple[Meaning, str]:
    value = make_lines(chance)
    name = chance.choice(NAMES)
    args: dict[str, Any] = chance.choice([{"query": value}, {"query": [value, None]}, {}])
    key = chance.choice(["arguments", "parameters"])
    members = {"name": name, key: args}
    return (name, args), json.dumps(members, indent=chance.choice([None, 2]), ensure_ascii=chance.choice([True, False]))


def mark(chance: Random, text: str) -> str:
    """Write a call in the format of some model, or as nothing but JSON."""
    if not text.startswith("{"):
        return text
    before = chance.choice(["", "Let me see.\n", "OK.\n\n"])
    forms = [
        *("<tool_call>\n{}\n</tool_call>", "<tool_call>{}</tool_call>", "<tool_call>{}", "[TOOL_CALLS] [{}]"),
        *("[TOOL_CALLS]{}", "<|python_tag|>{}", "<|python_tag|>{}<|eom_id|>", "<tools>{}</tools>"),
        "<function_call>{}</function_call>",
    ]
    alone = ["{}", "```json\n{}\n```", "``` \n{}\n```", "[{}]", "```{}```"]
    form = chance.choice([*(before + form for form in forms), *alone])
    return before + write_in_tags(text) if chance.randint(0, 9) == 0 else form.replace("{}", text, 1)


def write_in_tags(text: str) -> str:
    """Write a call whose arguments are strings as Qwen-Coder does."""
    try:
        members = read_object(text)
    except ValueError:
        return text
    name = members.pop("name", None)
    arguments: dict[str, Any] = members.get("arguments") or members.get("parameters") or {}
    if name is None or len(members) != 1 or not all(isinstance(one, str) for one in arguments.values()):
        return f"<tool_call>{text}</tool_call>"
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"


def add_other_text(chance: Random, text: str) -> str:
    marked = chance.choice(["<tool_call>{}</tool_call>\nThat was it.", "[TOOL_CALLS][{}] That was it.", "I look.\n{}"])
    return marked.replace("{}", text, 1)


def cut_call(chance: Random, text: str) -> str:
    beginning = re.match(r'\{\s*"name": "\w+"', text)
    assert beginning is not None, "a call begins with its name"
    length = chance.randint(beginning.end(), len(text) - 1)
    return chance.choice(["", "<tool_call>", "```json\n", "[TOOL_CALLS]"]) + text[:length].rstrip()


def name_other_tool(chance: Random, text: str) -> str:
    other = re.sub(r'"name": "\w+"', '"name": "nope"', text)
    return f"<tool_call>{other}</tool_call>"


def call_otherwise(chance: Random, text: str) -> str:
    """Give a call a second name, or second arguments."""
    members = ['"tool": "other"', '"Name": "other"', '"args": {"x": 1}', '"Arguments": {"x": 1}', '"input": "x"']
    members += ['"status": "done"', '"next": {"name": "clock"}']
    return add_member(chance, text, chance.choice(members))


def explain_call(chance: Random, text: str) -> str:
    """Put a thought into a call."""
    if not text.startswith("{"):
        return text
    return add_member(chance, text, chance.choice(['"thought": "I look."', '"Reasoning": ""', '"id": 1']))


def call_in_other_form(chance: Random, text: str) -> str:
    """Write the call of a known tool with labels, or in tags that are not read."""
    forms = ["Action: {0}\nAction Input: x", "I look.\n行动：{0}\n行动输入：x", '<invoke name="{0}">\n</invoke>']
    return chance.choice([*forms, '{{"function": {{"name": "{0}", "arguments": {{}}}}, "arguments": 1}}']).format(
        chance.choice(NAMES)
    )


def cut_tags(chance: Random, text: str) -> str:
    """Write a call in tags, and cut it behind its name."""
    tags = "<tool_call>\n<function=search>\n<parameter=query>\ncats\n</parameter>\n"
    name = tags.index("<parameter")
    return chance.choice(["", "I look.\n", "I look. "]) + tags[: chance.randint(name, len(tags))]
