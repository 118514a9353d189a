"""Tools, inputs and answers of all replies, and the changes that fit every reply."""

from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

from graphexec import AgentFinish, agents, tool

# A tool with its input, or the answer alone.
Meaning: TypeAlias = tuple[Any, ...]
# A function of the source of chance and of a reply.
Change: TypeAlias = Callable[[Random, str], str]


@tool
def search(query: str) -> str:
    """Look something up."""
    return query


@tool
def clock() -> str:
    """Return the time."""
    return "12:00"


TOOLS = (search, clock)
NAMES = ("search", "clock")


def meaning_of(decision: agents.Decision) -> Meaning:
    """Return the meaning of a decision with at most one action."""
    if isinstance(decision, AgentFinish):
        return (decision.output,)
    (action,) = decision
    return action.tool, action.tool_input


WORDS = [
    *("cats", "Oslo", "the weather", "4.5", "naïve", "猫", "in 2024", "a-b", "Observation deck", "final answer"),
    *("action", "thought", "{x}", "<b>", "1 < 2", "50 %", "(see above)", "C:\\dir", "tool", "it", "10:30"),
]


def make_line(chance: Random) -> str:
    """Return an input or an answer of one line."""
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 5)))


def make_lines(chance: Random) -> str:
    """Return an input or an answer of one line or more."""
    return "\n".join(make_line(chance) for _ in range(chance.choice([1, 1, 1, 2, 3])))


PROSE = ["Let me see.", "I need the tool.", "Sure! Here it is", "我来查一下。", "OK, I'll do that.", 'He said "go".']


THOUGHTS = [
    *PROSE,
    *("Action: f\nAction Input: x", '{"action": "f"}', "Final Answer: no", "", "a\n\nb", "`</think>` ends it; it's 4."),
]


def think(chance: Random, text: str) -> str:
    """Put reasoning, which may contain anything, before a reply."""
    thought = chance.choice(THOUGHTS)
    name = chance.choice(["think", "thinking", "THINK", "thought"])
    blank = chance.choice(["", " ", "\n", "\n\n"])
    role = chance.choice(["", "", "\ufeff", "\u200b\n", "<|im_start|>assistant\n", "Assistant: "])
    forms = [
        f"{role}<{name}>{thought}</{name}>",
        f"{role}<{name}>\n{thought}\n</{name}>\n",
        f"{role}[THINK]{thought}[/THINK]",
        f"{thought}\n</{name}>\n",
        f"{thought}</{name}>",
    ]
    return chance.choice(forms) + blank + text


def end_reply(chance: Random, text: str) -> str:
    """Put the token that ends a reply behind it, as servers without the template of a model do."""
    return text + chance.choice(["</s>", "<|im_end|>", "\n<|eot_id|>\n", " <end_of_turn>", "</s></s>"])


def begin_reply(chance: Random, text: str) -> str:
    """Put a character without a width before a reply."""
    return chance.choice(["\ufeff", "\u200b"]) + text


def surround(chance: Random, text: str) -> str:
    """Put blanks and blank lines around a reply."""
    before, behind = chance.choices(["", " ", "\n", "\n\n", " \n", "\t"], k=2)
    return before + text + behind


def explain(chance: Random, text: str) -> str:
    """Put prose on lines before a reply."""
    return chance.choice(PROSE) + chance.choice(["\n", "\n\n"]) + text


def invent(chance: Random, text: str) -> str:
    """Put an observation, and what follows it, behind a reply."""
    label = chance.choice(
        ["Observation:", "observation :", "**Observation:**", "Observation 1:", "观察：", "Beobachtung:"]
    )
    return f"{text}\n{label} made up\nThought: I know\nFinal Answer: made up"
