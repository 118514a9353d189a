"""Replies with labels."""

import re
from collections.abc import Callable
from functools import partial
from random import Random

from graphexec.agents.reading.labels import TRANSLATIONS
from tests.agents.mutations.common import NAMES, Meaning, make_lines

LABEL = re.compile(r"(?m)^(Thought|Action Input|Action|Final Answer|AI):")
FORMS = [
    *("**{}:**", "**{}**:", "*{}*:", "__{}:__", "### {}:", "- {}:", "> {}:", " {}:", "{} :", "{}: ", "{}：", "{}:"),
    "[{}]:",
]


def translate(chance: Random, label: str) -> str:
    return chance.choice(TRANSLATIONS.get(label, (label,)))


def relabel(change: Callable[[str], str], text: str) -> str:
    """Change the labels of a reply; no input and no answer has any."""
    return LABEL.sub(lambda found: change(found[1]), text)


def write_label(chance: Random, label: str) -> str:
    """Return a label that is written in some way."""
    words = [label, label.lower(), label.upper(), translate(chance, label)]
    return chance.choice(FORMS).format(chance.choice(words))


def write_labels_otherwise(chance: Random, text: str) -> str:
    """Put emphasis, numbers and blanks around labels."""
    return relabel(chance.choice(FORMS).format, text)


def spell_labels_otherwise(chance: Random, text: str) -> str:
    """Write all labels in lower case, in capitals, or in another language."""
    colon = chance.choice([":", "：", " :", "\u00a0:"])
    changes: list[Callable[[str], str]] = [str.lower, str.upper, str.capitalize, partial(translate, chance)]
    change = chance.choice(changes)
    return relabel(lambda label: f"{change(label)}{colon}", text)


def decorate_tool(chance: Random, text: str) -> str:
    """Put quotes, brackets or the words of old prompts around the tool's name."""
    forms = ["`{}`", "**{}**", "[{}]", "one of [{}]", '"{}"', "{}()", "{}.", "```{}```", "One of: {}"]
    form = chance.choice(forms)
    return re.sub(r"(?m)^(Action:[ ]*)(\w+)$", lambda found: found[1] + form.format(found[2]), text, count=1)


def fence_input(chance: Random, text: str) -> str:
    """Put the tool's input into a fence."""
    opening = chance.choice(["```\n", "```text\n", "```\r\n", "``` \n"])
    before, label, given = text.partition("Action Input:")
    return f"{before}{label}\n{opening}{given.strip()}\n```" if label else text


def widen(chance: Random, text: str) -> str:
    """Put blank lines between the labels."""
    return relabel(lambda label: f"\n{label}:", text)


def labelled(chance: Random) -> tuple[Meaning, str]:
    thought = chance.choice(["", "Thought: I look.\n", "I look.\n", "Thought: the final answer is near\n"])
    value = make_lines(chance)
    if chance.choice([True, False]):
        return (value,), f"{thought}Final Answer: {value}"
    name = chance.choice(NAMES)
    return (name, value), f"{thought}Action: {name}\nAction Input: {value}"


def spoken(chance: Random) -> tuple[Meaning, str]:
    meaning, text = labelled(chance)
    return meaning, text.replace("Final Answer:", "AI:")


def add_action(chance: Random, text: str, action: str) -> str:
    """Put another action before a reply, behind it, or before its input."""
    if "Action Input:" in text and chance.choice([True, False, False]):
        return text.replace("Action Input:", f"{action}\nAction Input:", 1)
    return chance.choice([f"{text}\n{action}", f"{action}\n{text}"])


def act_twice(chance: Random, text: str) -> str:
    """Add an action with its input, or without. Behind an answer, other spellings than the answer's are text."""
    thought = chance.choice(["", "\n", "Thought: then\n"])
    if "Action:" not in text:
        return add_action(chance, text, thought + chance.choice(["Action: clock", "Action: clock\nAction Input: now"]))
    given = chance.choice(["", "\n", f"\n{write_label(chance, 'Action Input')} now"])
    return add_action(chance, text, f"{thought}{write_label(chance, 'Action')} clock{given}")


def act_in_another_way(chance: Random, text: str) -> str:
    """Add an action of a known tool with its input, in any spelling."""
    return f"{text}\n{write_label(chance, 'Action')} clock\n{write_label(chance, 'Action Input')} now"


def act_on_one_line(chance: Random, text: str) -> str:
    return f"{text.rstrip()} Action: clock Action Input: now"


def fence_reply(chance: Random, text: str) -> str:
    """Put the whole reply into a fence."""
    return text if "```" in text else chance.choice(["```\n{}\n```", "```text\n{}\n```"]).replace("{}", text, 1)


def quote_input(chance: Random, text: str) -> str:
    """Put the tool's input into quotes."""
    before, label, given = text.partition("Action Input: ")
    quotes = chance.choice(["“{}”", "„{}“", '"{}"'])
    return before + label + quotes.replace("{}", given) if label and "\n" not in given else text


def act_twice_with_inputs(chance: Random, text: str) -> str:
    """Add an action: to an answer, LangChain's agents read one without an input as a part of it."""
    if "Action:" in text:
        return act_twice(chance, text)
    return add_action(chance, text, "Thought: then\nAction: clock\nAction Input: now")


def act_or_answer_twice(chance: Random, text: str) -> str:
    """Add an action and an answer, or to an action an answer alone."""
    if "Action:" not in text or chance.choice([True, False]):
        return f"{act_twice(chance, text)}\nFinal Answer: both"
    return chance.choice([f"{text}\n{write_label(chance, 'Final Answer')} both", f"Final Answer: both\n{text}"])


def act_twice_or_drop_label(chance: Random, text: str) -> str:
    """Add an action to an action; in LangChain's first agent an answer has priority over later actions."""
    return drop_label(chance, text) if "Final Answer:" in text else act_twice(chance, text)


def drop_label(chance: Random, text: str) -> str:
    return re.sub(r"(?m)^(Action Input|Final Answer|AI):", chance.choice(["", "Action Inp", "Final"]), text)
