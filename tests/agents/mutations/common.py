"""What the mutations of all replies share, and the changes of any reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

from hypothesis import strategies as st

from graphexec import AgentFinish, tool
from graphexec.agents import Decision

# A tool with its input, or the answer alone.
Meaning: TypeAlias = tuple[Any, ...]
T = TypeVar("T")


class Draw(Protocol):
    """Draws a value from a strategy."""

    def __call__(self, strategy: st.SearchStrategy[T], /) -> T: ...


Change: TypeAlias = Callable[[Draw, str], str]


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


def meaning_of(decision: Decision) -> Meaning:
    """Return the meaning of a decision with at most one action."""
    if isinstance(decision, AgentFinish):
        return (decision.output,)
    (action,) = decision
    return action.tool, action.tool_input


WORDS = [
    *(
        "cats",
        "Oslo",
        "the weather",
        "4.5",
        "naïve",
        "猫",
        "in 2024",
        "a-b",
        "Observation deck",
        "final answer",
        "action",
    ),
    *("thought", "{x}", "<b>", "1 < 2", "50 %", "(see above)", "C:\\dir", "tool", "it", "10:30"),
]


def values(between: str = " ") -> st.SearchStrategy[str]:
    """Return inputs and answers, of one line or more."""
    return st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(between.join)


LINES = values() | st.lists(values(), min_size=2, max_size=3).map("\n".join)
PROSE = ["Let me see.", "I need the tool.", "Sure! Here it is", "我来查一下。", "OK, I'll do that.", 'He said "go".']


def think(draw: Draw, text: str) -> str:
    """Put reasoning, which may contain anything, before a reply."""
    thought = draw(
        st.sampled_from([*PROSE, "Action: f\nAction Input: x", '{"action": "f"}', "Final Answer: no", "", "a\n\nb"])
    )
    name = draw(st.sampled_from(["think", "thinking", "THINK", "thought"]))
    blank = draw(st.sampled_from(["", "\n", "\n\n"]))
    forms = [
        f"<{name}>{thought}</{name}>",
        f"<{name}>\n{thought}\n</{name}>\n",
        f"[THINK]{thought}[/THINK]",
        f"{thought}\n</{name}>\n",
    ]
    return draw(st.sampled_from(forms)) + blank + text


def surround(draw: Draw, text: str) -> str:
    """Put blanks and blank lines around a reply."""
    blanks = st.sampled_from(["", " ", "\n", "\n\n", " \n", "\t"])
    return draw(blanks) + text + draw(blanks)


def explain(draw: Draw, text: str) -> str:
    """Put prose on lines before a reply."""
    return draw(st.sampled_from(PROSE)) + draw(st.sampled_from(["\n", "\n\n"])) + text


def invent(draw: Draw, text: str) -> str:
    """Put an observation, and what follows it, behind a reply."""
    label = draw(
        st.sampled_from(
            ["Observation:", "observation :", "**Observation:**", "Observation 1:", "观察：", "Beobachtung:"]
        )
    )
    return f"{text}\n{label} made up\nThought: I know\nFinal Answer: made up"
