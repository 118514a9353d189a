"""Replies that go on behind their decision, or that end within a stop string, are read without what follows it."""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import given

from graphexec import AgentExecutor, AgentFinish, ParseError, create_react_agent
from graphexec.agents import Agent, Decision
from graphexec.agents.react import read as react
from graphexec.agents.reading.answers import make_label_reader
from graphexec.agents.scratchpad import STOP
from graphexec.integrations import langchain
from graphexec.integrations.langchain.formats.json_actions import read_structured_chat
from graphexec.integrations.langchain.formats.labelled_text import read_conversational, read_mrkl
from graphexec.messages import ModelReply
from graphexec.models import ScriptedModel
from tests.agents.mutations.common import Meaning, invent, make_lines, meaning_of
from tests.agents.mutations.kinds import KINDS, Kind
from tests.agents.mutations.labelled import spell_labels_otherwise
from tests.agents.mutations.tagged import leave_open
from tests.agents.test_mutated_replies import REPLIES, SEEDS, apply
from tests.executor.actors import echo
from tests.integrations.langchain import readers
from tests.parameters import cases, read_tables

Read: TypeAlias = Callable[..., Decision]

TABLES = read_tables(__file__)
READERS: dict[str, Read] = {"react": react, **readers.READERS}


def prose(chance: Random) -> tuple[Meaning, str]:
    """Return an answer without a form, which the structured chat agent reads."""
    value = make_lines(chance)
    return (value,), value


# Each reader of text, with the replies that it reads; another agent of ours reads nothing beside its decision.
TEXTUAL = {name: kind for name, kind in KINDS.items() if name not in ("structured", "tool_calling")}
TEXTUAL["structured_chat, in prose"] = Kind(read_structured_chat, prose, [], [], [])

# What models write behind their decision. Whatever follows a question is of another run.
QUESTIONS = [
    *("Question: what is 2+2?", "**Question:** and now?", "Human: thanks", "Question 2: why?", "### Question: who?"),
    *("Observation: made up", "> Human: and?"),
]
DECISIONS = [
    *("\nThought: I know\nFinal Answer: 4", "\nThought: I look\nAction: clock\nAction Input: now", "\nAI: welcome"),
    *('\n```json\n{"action": "clock", "action_input": {}}\n```', "\n<final_answer>4</final_answer>", ""),
    *("\nFollow up: Who?", "\nSo the final answer is: 4", "\n<tool>clock</tool><tool_input>now</tool_input>"),
]
DIALOGUES = ["User: and?\nAssistant: 4", "**User:** and?\n\nAI: 4", "User: a\nWell.\nFinal Answer: 4"]
THOUGHTS = ["Thought: that is all.", "**Thought:** I am done", "Thought 3: fine\nIt is."]


def go_on(chance: Random) -> str:
    """Return what a model writes behind its decision."""
    turn = chance.choice([*THOUGHTS, *QUESTIONS, *DIALOGUES])
    return chance.choice(["\n", "\n\n", "\n \n"]) + turn + (chance.choice(DECISIONS) if turn in QUESTIONS else "")


def begin_stop_string(stop: str) -> Callable[[Random], str]:
    """Return what chooses the beginning of a stop string, of which its newline is no part."""
    return lambda chance: stop[: chance.randint(1 + stop.startswith("\n"), len(stop))]


@cases("name", *TEXTUAL)
@given(seed=SEEDS)
def test_decision_ends_before_what_follows_it(name: str, seed: int) -> None:
    kind, chance = TEXTUAL[name], Random(seed)
    # Labels that are spelled in another way than those of the decision are text.
    keepers = [one for one in kind.keepers if one not in (spell_labels_otherwise, leave_open)]
    wrappers = [one for one in kind.wrappers if one is not invent]
    stop = "\nIntermediate answer:" if name == "self_ask" else f"{STOP[0]}:"
    for _ in range(REPLIES):
        meaning, text = kind.replies(chance)
        ends = [go_on, begin_stop_string(stop)]
        if name == "xml" and len(meaning) > 1 and chance.choice([True, False]):
            text, ends = text.removesuffix("</tool_input>"), [begin_stop_string("</tool_input>")]
        text = apply(wrappers, min(1, len(wrappers)), chance, apply(keepers, min(2, len(keepers)), chance, text))
        reply = text + chance.choice(ends)(chance)
        try:
            assert meaning_of(kind.read(ModelReply(reply))) == meaning, reply
        except ParseError:
            # JSON behind a question may be the decision of which the prose is the thought.
            assert kind.replies is prose, reply
            assert "{" in reply


@cases(
    ("read", "reply", "meaning", "unread"),
    *(
        (read, f"{label}: 42\n{turn}: y\nThought: z\n{label}: 4", ("42",), f"{turn}: y\nThought: z\n{label}: 4")
        for read, label in [
            (react, "Final Answer"),
            (read_mrkl, "final answer"),
            (read_conversational, "AI"),
        ]
        for turn in ("Question", "Human", "Observation")
    ),
    *((READERS[one[0]], one[1], tuple(one[2]), one[3] if one[3:] else None) for one in TABLES["unread"]),
)
def test_rest_of_a_reply_is_unread(read: Read, reply: str, meaning: Meaning, unread: str | None) -> None:
    decision = read(ModelReply(reply))
    one = decision if isinstance(decision, AgentFinish) else decision[0]
    assert meaning_of(decision) == meaning
    assert unread is None or one.unread == unread
    assert one.log in reply
    # While it streams, the answer ends there, too; the end of its last line may come later.
    streamed = "".join(map(make_label_reader(), reply)) if read is react else ""
    assert (decision.output if isinstance(decision, AgentFinish) else "").startswith(streamed)


@cases(("read", "reply"), *[(READERS[name], reply) for name, reply in TABLES["refused"]])
def test_second_decision_in_a_thought_is_refused(read: Read, reply: str) -> None:
    with pytest.raises(ParseError):
        read(ModelReply(reply))


def test_input_before_half_a_stop_string_may_be_cut() -> None:
    with pytest.raises(ParseError, match="cut at the token limit"):
        react(ModelReply("Action: rm\nAction Input: /home\nO", finish_reason="length"))


CODE = "    a = 1\n\n      b = 2"


@cases(
    ("fenced", "tool_input"),
    (f"```python\n{CODE}\n```", CODE),
    (f"```\n\n{CODE}\n\n```", CODE),
    ("  ```\n    a = 1\n  b = 2\n  ```", "  a = 1\nb = 2"),
    ("```\n\ta\n```", "\ta"),
    ('```json\n  {"a": 1}\n```', '{"a": 1}'),
)
def test_fenced_lines_keep_their_indentation(fenced: str, tool_input: str) -> None:
    assert meaning_of(react(ModelReply(f"Action: f\nAction Input:\n{fenced}"))) == ("f", tool_input)


AGENTS = [langchain.create_chat_agent, langchain.create_structured_chat_agent, langchain.create_json_chat_agent]


@cases("make", create_react_agent, *AGENTS)
def test_default_stop_string_is_langchains(make: Callable[..., Agent]) -> None:
    model = ScriptedModel(['{"action": "Final Answer", "action_input": "Final Answer: 4"}'])
    agent = make(model, [echo])
    AgentExecutor(agent=agent, tools=[echo], handle_parsing_errors=True, max_iterations=1).run("q")
    assert model.requests[0].stop == ("\nObservation",)
