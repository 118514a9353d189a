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
from tests.parameters import cases

ACTION = '{"action": "echo", "action_input": {"text": "hi"}}'
ANSWER = '{"action": "final_answer", "answer": "42"}'
CALL = '<tool_call>{"name": "echo", "arguments": {"text": "hi"}}</tool_call>'
# Decisions that are not JSON.
UNREADABLE = (
    *('{action: "echo", action_input: {text: "hi"}}', '{thought: "hm",\n action: "echo"}'),
    *('{/* I act */ "action": "echo"}', '{// I act\n"action": "echo"}', '{«action»: "echo"}'),
    "```json\n{`Action` : echo}\n```",
)


@cases(
    ("decision", "answer"),
    [
        *(({"action_input": "a"}, "a"), ({"action_input": "a", "answer": "a"}, "a")),
        *(({"action_input": {}, "answer": "b"}, "b"), ({"action_input": "a", "answer": ""}, "a")),
        *(({"Final Answer": "b"}, "b"), ({"answer": ""}, ""), ({"answer": ["b"]}, '["b"]'), ({"answer": 3}, "3")),
        *(({"action_input": 3.5}, "3.5"), ({"action_input": {"b": [1]}}, '{"b":[1]}'), ({"answer": "42 ☃"}, "42 ☃")),
    ],
)
def test_answer_may_be_the_input(decision: dict[str, Any], answer: str) -> None:
    assert meaning_of(read(ModelReply(json.dumps({"action": "final_answer", **decision})))) == (answer,)


@cases("text", ['{"action": "echo", "action_input": null}', '{"action": "clock"}'])
def test_input_may_be_missing(text: str) -> None:
    @tool
    def clock() -> str:
        """Return the time."""
        return "12:00"

    assert meaning_of(read(ModelReply(text), [echo, clock]))[1] == {}


@cases("length", range(len(ACTION)))
def test_truncated_json_is_never_executed(length: int) -> None:
    with pytest.raises(ParseError) as raised:
        read(ModelReply(ACTION[:length], finish_reason="length"))
    assert ("it was cut at the token limit" in str(raised.value.observation)) == (length > 0)


@pytest.mark.medium
@cases(
    "garbage",
    [
        *("", "Hello!", "null", "42", '"text"', "\ud800", "[" * 100_000, '{"a":' * 100_000, "9" * 100_000),
        f"{ACTION}{ACTION}",
        f"```json\n{ACTION}\n{ACTION}\n```",
        f"[{ACTION}, {ACTION}]",
        ACTION[:-2],
        ACTION.replace("}}", '}, "answer": "done"}'),
        '{"action": "echo", "action": "fail", "action_input": {}}',
        '{"action": "echo"}',
        '{"action": null, "action_input": {}}',
        '{"action": {"a": 1}, "action_input": {}}',
        '{"action": "echo", "action_input": 3}',
        '{"action": "echo", "action_input": ["a"]}',
        '{"action": "final_answer"}',
        '{"action": "final_answer", "answer": null}',
        '{"action": "final_answer", "action_input": {}}',
        '{"action": "final_answer", "action_input": "a", "answer": "b"}',
        '{"action": "final_answer", "answer": "a", "Answer": "b"}',
        '{"action": "final_answer", "answer": "a", "final_answer": 0}',
        '{"action": "echo", "Action": "fail", "action_input": {}}',
        '{"action": "echo", "action_input": {"text": "a"}, "Action Input": {"text": "b"}}',
        '{"action": "echo", "action_input": {}, "Answer": 0}',
        f"{ACTION}\n**Final answer:** hi",
        '{"action": "echo", "action_input": {}, "final_answer": "b"}',
        '{"answer": "42"}',
        '{"action": "echo", "action_input": {"text": NaN}}',
    ],
)
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
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["action", "action_input", "answer", "x"]), inner)
        ),
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


@cases(
    "text",
    [
        f"Final Answer: 42\n{ACTION}",
        f"最终答案：42\n{ACTION}",
        '{"action": "final_answer", "answer": "42"}\nAction: echo\nAction Input: hi',
        'Action: echo\nAction Input: hi\n{"action": "final_answer", "answer": "42"}',
        '动作：echo\n{"action": "final_answer", "answer": "42"}',
        '{"action": "final_answer", "answer": "42"}\nFinal Answer: 43',
        ACTION.replace("}}", '}, "next": {"action": "echo", "action_input": {}}}'),
        ACTION.replace("}}", '}, "then": [{"tool": "echo"}]}'),
        ACTION.replace("}}", '}, "tool": "fail"}'),
        ACTION.replace("}}", '}, "arguments": {"text": "ho"}}'),
        '{"action": "final_answer", "answer": "42", "tool": "echo"}',
        '{"action": "final_answer", "answer": {"name": "echo", "arguments": {"text": "hi"}}}',
        ACTION.replace("}}", f'}}, "next": {ANSWER}}}'),
        ACTION.replace("}}", f'}}, "next": {json.dumps(ANSWER)}}}'),
        ANSWER.replace('"42"', ANSWER),
        *(
            ANSWER.replace('"42"', json.dumps(one))
            for one in (ACTION, f"```json\n{ACTION}\n```", ANSWER, CALL, "Action: echo\nAction Input: hi")
        ),
        *(f"{one}\n{ANSWER}" for one in UNREADABLE),
        *(f"{ANSWER}\n{one}" for one in UNREADABLE),
        f"{CALL}\n{ANSWER}",
        f"{ANSWER}\n{CALL}",
        f"Here:\n<function=echo><parameter=text>hi</parameter></function>\n{ANSWER}",
        f'{ACTION}\n{{"answer": "42"}}',
        f'{ANSWER}\n[{{"answer": "43"}}]',
    ],
)
def test_reply_with_another_decision_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        read(ModelReply(text), [echo])


@cases(
    "text",
    [
        f"Action:\n```json\n{ACTION}\n```",
        f"Action: echo\n{ACTION}",
        ACTION.replace("}}", '}, "tool": "echo", "arguments": {"text": "hi"}, "name": null}'),
        ACTION.replace("}}", '}, "thought": "I use echo.", "user": {"name": "echo"}}'),
        f"<tool_call>\n{ACTION}\n</tool_call>",
        f"  {ACTION}\n",
        f"The text is {{text: hi, note}}, or {{{{text}}}}.\n{{{ACTION}}}",
        f'With {{"text": "hi"}}, as echo(text="hi"), after {{"answer": "42"}}:\n{ACTION}',
    ],
)
def test_same_decision_twice_is_one(text: str) -> None:
    decision = read(ModelReply(text), [echo])
    assert meaning_of(decision) == ("echo", {"text": "hi"})
    assert not isinstance(decision, AgentFinish)
    assert decision[0].log == text.strip()


@cases(
    ("text", "output"),
    [
        *((before + ANSWER, "42") for before in ("", "Final Answer: ", "Final Answer: 42\n")),
        # An answer about calls.
        (ANSWER.replace("42", "[TOOL_CALLS] begins a call."), "[TOOL_CALLS] begins a call."),
        (ANSWER.replace("42", "<tools>"), "<tools>"),
        (ANSWER.replace("42", "Use echo(text) for it."), "Use echo(text) for it."),
        (ANSWER.replace("42", "{action: 1}"), "{action: 1}"),
        (ANSWER.replace('"42"', json.dumps('{"answer": "42"}')), '{"answer": "42"}'),
        (ANSWER.replace('"42"', '{"name": "echo"}'), '{"name":"echo"}'),
    ],
)
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
