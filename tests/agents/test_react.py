"""The ReAct agent: its parser, its scratchpad, its prompt."""

import time
from typing import Literal

import pytest

from graphexec import AgentAction, AgentExecutor, AgentFinish, ParseError, create_react_agent, models
from graphexec.agents.react import read
from graphexec.agents.reading.text_parsing import reject_more
from graphexec.messages import CompletionRequest, ModelReply, UserMessage
from tests.agents.mutations.common import meaning_of
from tests.executor.actors import messages
from tests.parameters import cases, read_tables


def read_decision(text: str) -> AgentAction | AgentFinish:
    decision = read(ModelReply(text))
    return decision if isinstance(decision, AgentFinish) else decision[0]


def read_action(text: str) -> AgentAction:
    action = read_decision(text)
    assert isinstance(action, AgentAction)
    return action


@cases(("text", "tool", "tool_input"), *read_tables(__file__)["actions"])
def test_action_is_parsed_with_its_input(text: str, tool: str, tool_input: str) -> None:
    action = read_action(text)
    assert (action.tool, action.tool_input) == (tool, tool_input)
    assert action.log == text.partition("\nObservation")[0]


LABELS = [
    "Observation:",
    "**Observation**：",
    "观察：",
    "observation:",
    " OBSERVATION 1 :",
    "\tObservation:",
    "**Observation:**",
]
JSON = '{"note": "Weather:\nObservation: rain"}'


@cases(
    ("tool_input", "unread"),
    *[("x", f"{label} y\nThought: I know\nFinal Answer: y") for label in LABELS] + [(JSON, "Observation: made up")],
)
def test_invented_observation_and_following_text_are_unread(tool_input: str, unread: str) -> None:
    log = f"Action: f\nAction Input: {tool_input}"
    action = read_action(f"{log}\n{unread}")
    assert (action.tool_input, action.log, action.unread) == (tool_input, log, unread)
    fenced = read_action(f"```\n{log}\nObservation: y\n```")
    assert (fenced.tool_input, fenced.unread) == (tool_input, "Observation: y")


@cases(
    "text",
    "an Observation: x\nobservations: y",
    "Hours:\nObservation deck 9 to 5",
    "```\nObservation: x\n```\nis a line",
)
def test_observation_of_the_models_own_is_kept(text: str) -> None:
    action, finish = read_action(f"Action: f\nAction Input: {text}"), read_decision(f"Final Answer: {text}")
    assert isinstance(finish, AgentFinish)
    assert action.tool_input == finish.output == text
    assert action.unread == finish.unread == ""


@cases("text", "Thought: hm\nAction: f\nAction Input: x", "Final Answer: x")
@cases(
    "form",
    *("```\n{}\n```", "```text\n{}\n``` </s>", "{}<|im_end|>\n", "{}</s> </s>", "{}\n</s>"),
)
def test_wrapping_of_the_reply_is_not_read(form: str, text: str) -> None:
    decision = read_decision(form.format(text))
    assert (decision.tool_input if isinstance(decision, AgentAction) else decision.output) == "x"
    assert decision.log == text


@cases("action", "Search", "`SEARCH`", 'search(query="a (b)")', "**Search(cats)**.")
@cases("label", "action:", "行动：")
def test_action_after_an_answer_is_refused_in_other_case(action: str, label: str) -> None:
    with pytest.raises(ParseError):
        read(ModelReply(f"Final Answer: 42\n{label} {action}\naction input: cats"), ["search"])
    kept = f"42\n{label} search (the web)\naction input: cats"
    assert meaning_of(read(ModelReply(f"Final Answer: {kept}"), ["search"])) == (kept,)


def test_truncated_action_is_not_executed() -> None:
    text = "Action: shell\nAction Input: rm -rf /home/me"
    with pytest.raises(ParseError, match="cut at the token limit") as raised:
        read(ModelReply(f"{text}", finish_reason="length"))
    assert raised.value.observation is not None
    assert "was not carried out" in raised.value.observation
    with pytest.raises(ParseError, match="Could not parse"):
        reject_more("Thought: I know nothing.", ["search"])
    # The text before an invented observation is complete, and a truncated answer is an answer.
    decision = read(ModelReply(f"{text}/tmp\nObservation: do", finish_reason="length"))
    assert meaning_of(decision) == ("shell", "rm -rf /home/me/tmp")
    assert meaning_of(read(ModelReply("Final Answer: 4", finish_reason="length"))) == ("4",)


@cases(
    ("text", "output"),
    ("Thought: I know\nFinal Answer: 42", "42"),
    ("Final Answer: 42\n\nand more\n", "42\n\nand more"),
    ("Final Answer: a\nFinal Answer: b", "b"),
    ("Final Answer:", ""),
    ("Final Answer: 42\nObservation: made up", "42"),
    ("Action: none needed\nFinal Answer: 42", "42"),
    ("final answer: 42", "42"),
    ("Thought: the final answer: soon\nFINAL ANSWER : 42", "42"),
    # Tags are kept.
    ("Final Answer:\n<answer>\n42\n</answer>", "<answer>\n42\n</answer>"),
)
def test_final_answer_is_parsed(text: str, output: str) -> None:
    assert meaning_of(read(ModelReply(text))) == (output,)


NO_ACTION = "Invalid Format: Missing 'Action:' after 'Thought:'"
NO_INPUT = "Invalid Format: Missing 'Action Input:' after 'Action:'"


@cases(
    ("text", "observation"),
    ("", NO_ACTION),
    ("I think.", NO_ACTION),
    ("The next action: search", NO_ACTION),
    ("action: search", NO_INPUT),
    ("Action: search", NO_INPUT),
    ("Action: search\nAction Inp", NO_INPUT),
    ("Action: f\nAction Input: x\nFinal Answer: 42", None),
    ("Final Answer: 42\nAction: f\nAction Input: x", None),
    # An invented observation is ignored at the beginning, too.
    ("Observation: 42\nThought: I know\nFinal Answer: 42", NO_ACTION),
)
def test_neither_or_both_is_a_parse_error(text: str, observation: str | None) -> None:
    with pytest.raises(ParseError) as raised:
        read(ModelReply(text))
    assert raised.value.observation == observation
    assert raised.value.llm_output == f"\n{text}".partition("\nObservation")[0].removeprefix("\n")


@pytest.mark.medium
@cases(("spaces", "tokens"), (60_000, 1), (0, 15_000))
def test_tokens_at_the_end_are_stripped_in_linear_time(spaces: int, tokens: int) -> None:
    def seconds(times: int) -> float:
        ending = " " * spaces * times + "</s>" * tokens * (1 if spaces else times)
        took: list[float] = []
        for _ in range(3):
            began = time.process_time()
            assert read_decision(f"Final Answer: 4{ending}").log == "Final Answer: 4"
            took.append(time.process_time() - began)
        return min(took)

    # Ten times the text: a quadratic parser takes a hundred times as long.
    assert seconds(10) < 40 * max(seconds(1), 0.001)


def test_protocol_selects_chat_or_completion_with_stop_strings() -> None:
    model = models.ScriptedModel(["Final Answer: a"] * 2)
    protocols: tuple[Literal["chat", "completion"], ...] = ("chat", "completion")
    for protocol in protocols:
        AgentExecutor(agent=create_react_agent(model, [], protocol=protocol), tools=[]).run("q")
    chat, completion = model.requests
    assert isinstance(completion, CompletionRequest)
    assert messages(chat) == [UserMessage(completion.prompt)]
    assert chat.stop == completion.stop == ("\nObservation",)
