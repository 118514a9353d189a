"""The structured agent: its schema, and its parsing of the replies."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphexec import AgentExecutor, AgentFinish, ParseError, agents, create_structured_agent, models, tool
from graphexec.agents.structured import decision_schema, read
from graphexec.messages import AssistantMessage, ModelReply, SystemMessage, UserMessage
from tests.agents.mutations.common import meaning_of
from tests.agents.runs import run_and_record
from tests.executor.actors import echo, messages
from tests.parameters import cases, read_tables

ACTION = '{"action": "echo", "action_input": {"text": "hi"}}'
ANSWER = '{"action": "final_answer", "answer": "42"}'
TABLES = read_tables(__file__)
# Not in the file: a lone surrogate, and long replies.
MALFORMED = ["", "Hello!", "null", "42", '"text"', "\ud800", "[" * 100_000, '{"a":' * 100_000, "9" * 100_000]


@cases(
    ("decision", "answer"),
    *(({"action_input": "a"}, "a"), ({"action_input": "a", "answer": "a"}, "a")),
    *(({"action_input": {}, "answer": "b"}, "b"), ({"action_input": "a", "answer": ""}, "a")),
    *(({"Final Answer": "b"}, "b"), ({"answer": ""}, ""), ({"answer": ["b"]}, '["b"]'), ({"answer": 3}, "3")),
    *(({"action_input": 3.5}, "3.5"), ({"action_input": {"b": [1]}}, '{"b":[1]}'), ({"answer": "42 ☃"}, "42 ☃")),
)
def test_answer_may_be_the_input(decision: dict[str, Any], answer: str) -> None:
    assert meaning_of(read(ModelReply(json.dumps({"action": "final_answer", **decision})))) == (answer,)


@cases("text", '{"action": "echo", "action_input": null}', '{"action": "clock"}')
def test_input_may_be_missing(text: str) -> None:
    @tool
    def clock() -> str:
        """Return the time."""
        return "12:00"

    assert meaning_of(read(ModelReply(text), [echo, clock]))[1] == {}


@cases("length", *range(len(ACTION)))
def test_truncated_json_is_never_executed(length: int) -> None:
    with pytest.raises(ParseError) as raised:
        read(ModelReply(ACTION[:length], finish_reason="length"))
    assert ("it was cut at the token limit" in str(raised.value.observation)) == (length > 0)


@pytest.mark.medium
@cases("garbage", *MALFORMED, *TABLES["garbage"])
def test_garbage_is_a_parse_error_with_the_format(garbage: str) -> None:
    with pytest.raises(ParseError) as raised:
        read(ModelReply(garbage))
    assert raised.value.observation is not None
    assert 'Reply with one JSON object: {"action": "<tool>"' in raised.value.observation
    assert raised.value.llm_output == garbage.strip()
    # The observation is short, because the model knows its own reply.
    assert len(raised.value.observation) < 500


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda one: st.lists(one) | st.dictionaries(st.sampled_from(["action", "action_input", "answer", "x"]), one),
    )
)
@example([None, {"action": "", "action_input": None}])
def test_any_json_is_decision_or_parse_error(value: Any) -> None:
    text = json.dumps(value)
    with contextlib.suppress(ParseError):
        decision = read(ModelReply(text))
        # Any: JSON values. The decision may be one item of a list.
        items: list[Any] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
        actions: list[Any] = [item["action"] for item in items if isinstance(item, dict) and "action" in item]
        assert [action == "final_answer" for action in actions] == [isinstance(decision, AgentFinish)]


@cases("text", *TABLES["several"])
def test_reply_with_another_decision_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        read(ModelReply(text), [echo])


@cases("text", *TABLES["same"])
def test_same_decision_twice_is_one(text: str) -> None:
    decision = read(ModelReply(text), [echo])
    assert meaning_of(decision) == ("echo", {"text": "hi"})
    assert not isinstance(decision, AgentFinish)
    assert decision[0].log == text.strip()


@cases(("text", "output"), *TABLES["answers"])
def test_answer_in_json_is_read(text: str, output: str) -> None:
    assert meaning_of(read(ModelReply(text), [echo])) == (output,)


def test_conversation_is_instructions_examples_question_and_steps() -> None:
    examples = [agents.WorkedExample("Say a.", (("echo", {"text": "a"}, "a"),), "a it is")]
    options: dict[str, Any] = {"prompt": "Tools: {tools} {{}}", "question": "Q: {input}", "examples": examples}
    result, (first, second) = run_and_record(
        lambda model: create_structured_agent(model, [echo], **options), [ACTION, ANSWER], [echo]
    )
    assert result.outcome.output == "42"
    head = [
        SystemMessage("Tools: echo(text: string) - Say it again. {}"),
        UserMessage("Say a."),
        AssistantMessage('{"action": "echo", "action_input": {"text": "a"}}'),
        UserMessage("Observation: a"),
        AssistantMessage('{"action": "final_answer", "answer": "a it is"}'),
        UserMessage("Q: q"),
    ]
    assert messages(first) == head
    assert messages(second) == [*head, AssistantMessage(ACTION), UserMessage("Observation: hi")]
    assert getattr(second, "schema", None) == decision_schema([echo])


def test_instructions_may_have_inputs() -> None:
    model = models.ScriptedModel(['{"action": "final_answer", "answer": "done"}'])
    agent = create_structured_agent(model, [echo], prompt="{tools}|{tool_names}|{mood}|{chat_history}", examples=())
    assert (agent.input_keys, agent.optional_keys) == (("mood", "chat_history", "input"), ())
    before = [UserMessage("Hello."), AssistantMessage("Hm.")]
    AgentExecutor(agent=agent, tools=[echo]).run({"input": "q", "mood": "good", "chat_history": before})
    assert messages(model.requests[0]) == [
        SystemMessage("echo(text: string) - Say it again.|echo|good|Human: Hello.\nAI: Hm."),
        UserMessage("q"),
    ]
