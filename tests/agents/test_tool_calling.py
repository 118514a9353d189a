"""The tool-calling agent: several calls at once, and the messages of the conversation."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import graphexec.messages as gm
from graphexec import Agent, AgentAction, AgentExecutor, AgentFinish, AgentStep, ParseError, actions, errors, models
from graphexec.agents import create_structured_agent, create_tool_calling_agent
from graphexec.agents.tool_calling import read, step_turns
from graphexec.executor.result import Ending
from graphexec.messages.turns import Conversation
from graphexec.models.scripted import ScriptedReply
from tests.agents.runs import run_and_record
from tests.drivers import DriverResult
from tests.executor.actors import call, echo, fail, messages, observations, statuses
from tests.parameters import cases


def run(*replies: ScriptedReply, **settings: Any) -> tuple[DriverResult[Ending], list[list[gm.Message]]]:
    """Run the script with every driver; return the result and the messages of its requests."""
    result, requests = run_and_record(
        lambda model: create_tool_calling_agent(model, [echo, fail], system="Be good."),
        replies,
        [echo, fail],
        **settings,
    )
    return result, [messages(request) for request in requests]


HEAD = [gm.SystemMessage("Be good."), gm.UserMessage("q")]


def test_parallel_calls_are_reported_in_order() -> None:
    equal = (call("echo", "x", text="1"), call("echo", "x", text="2"))
    outcome, requests = run(equal, "done")
    assert observations(outcome) == ["1", "2"]
    # Each call has an id of its own.
    own = (equal[0], call("echo", "call_1", text="2"))
    assert requests[-1][2:] == [gm.AssistantMessage("", own), gm.ToolMessage("x", "1"), gm.ToolMessage("call_1", "2")]
    calls = (call("echo", "a", text="1"), call("fail", "b", text="2"), call("nope", "c"), call("echo", "d", text="4"))
    outcome, requests = run(gm.ModelReply("Let me see.", calls), "done")
    assert outcome.outcome.output == "done"
    assert statuses(outcome) == ["ok", "error", "unknown_tool", "ok"]
    assert requests == [
        HEAD,
        [
            *HEAD,
            gm.AssistantMessage("Let me see.", calls),
            gm.ToolMessage("a", "1"),
            gm.ToolMessage("b", "fail failed: ValueError: no 2"),
            gm.ToolMessage("c", "nope is not a valid tool, try one of [echo, fail]."),
            gm.ToolMessage("d", "4"),
        ],
    ]


A, B = call("echo", "a", text="1"), call("echo", "b", text="2")


@cases("calls", (A, B), (call("echo", "same", text="1"),) * 3, (call("echo", "", text="1"),) * 3)
def test_each_reply_is_a_separate_message(calls: tuple[gm.ToolCall, ...]) -> None:
    _, requests = run(*calls, "done")
    # An empty id is no call's own.
    own = [dataclasses.replace(one, id=one.id or "call_0") for one in calls]
    assert requests[-1][2:] == [
        message
        for one in own
        for message in (gm.AssistantMessage("", (one,)), gm.ToolMessage(one.id, "2" if one == B else "1"))
    ]


@pytest.mark.medium
@cases(
    ("arguments", "says"),
    ('{"text": ', "EOF while parsing"),
    ("[1]", "it is a list"),
    ("3", "it is a single value"),
    ("text", "expected"),
    ('{"text": NaN}', ""),
    ("[" * 100_000, "recursion limit"),
)
def test_invalid_arguments_make_the_reply_a_parse_error(arguments: str, says: str) -> None:
    calls = (call("echo", "a", text="1"), gm.ToolCall("b", "echo", arguments))
    outcome, requests = run(gm.ModelReply("Hm.", calls), "done", handle_parsing_errors=True)
    assert statuses(outcome) == ["parse_error"]
    assert outcome.spent["tool_calls"] == 0
    assistant, user = requests[-1][2:]
    assert assistant == gm.AssistantMessage(f'Hm.\necho({{"text": "1"}})\necho({arguments})')
    assert isinstance(user, gm.UserMessage)
    assert user.content.startswith("The arguments of the call to echo are not a JSON object: ")
    assert says in user.content
    assert user.content.endswith("Call it again.")


@cases(("arguments", "tool_input"), ('```json\n{"text": "a"}\n```', {"text": "a"}), ("", {}), ("{}", {}))
def test_only_complete_arguments_are_read(arguments: str, tool_input: dict[str, str]) -> None:
    decision = read(gm.ModelReply("", (gm.ToolCall("a", "echo", arguments),)))
    assert not isinstance(decision, AgentFinish)
    assert decision[0].tool_input == tool_input
    with pytest.raises(ParseError) as raised:
        read(gm.ModelReply("", (gm.ToolCall("a", "echo", '{"text": "hal'),), finish_reason="length"))
    assert "cut at the token limit" in str(raised.value.observation)


@cases("content", "42", "☃ \n")
def test_reply_without_calls_is_the_answer(content: str) -> None:
    decision = read(gm.ModelReply(content))
    assert isinstance(decision, AgentFinish)
    assert decision.return_values == {"output": content}


def test_dropped_steps_are_not_sent_as_calls() -> None:
    decision = read(gm.ModelReply("", (A, B)))
    assert not isinstance(decision, AgentFinish)
    conversation = list(Conversation((), actions.Steps([AgentStep(decision[1], "2")]), step_turns))
    assert conversation == [gm.AssistantMessage("", (B,)), gm.ToolMessage("b", "2")]
    # An action of the user's is sent as text.
    custom = AgentStep(AgentAction("echo", "x", "I look it up."), {"found": 1})
    sent = list(Conversation((), actions.Steps([custom]), step_turns))
    assert sent == [gm.AssistantMessage("I look it up."), gm.UserMessage('{"found":1}')]


@cases(
    ("finish", "why"),
    ("length", "cut at the token limit; allow longer"),
    ("stop", "ask again"),
    ("other", "ask again"),
    ("invalid_call", "could not read the call"),
)
@cases("reasoning", (), (gm.Reasoning("Hm."),))
@cases("blank", " ", "\ufeff\u200b\u2060\u00ad", "```json\n```", "</s>", "\n<|im_end|>\n")
def test_empty_reply_is_no_answer(finish: Any, why: str, reasoning: tuple[gm.Reasoning, ...], blank: str) -> None:
    empty = gm.ModelReply(blank, finish_reason=finish, reasoning=reasoning)
    has = "reasoning, but neither" if reasoning else "neither"
    with pytest.raises(ParseError, match=f"has {has} an answer nor a call: .*{why}"):
        read(empty)
    outcome, requests = run(empty, "done", handle_parsing_errors=True)
    assert outcome.outcome.output == "done"
    assert all(message.content.strip() for message in requests[-1])


class Refused(models.ScriptedModel):
    """A model whose provider cannot read its first call."""

    def complete(self, request: gm.ModelRequest, *, timeout: float | None = None) -> gm.ModelReply:
        if not self.requests:
            self.requests.append(request)
            raise errors.InvalidCallError("tiny could not read the model's tool call", status=400)
        return super().complete(request, timeout=timeout)


def test_call_that_the_provider_cannot_read_is_fed_back() -> None:
    model = Refused([call("echo", text="1"), "done"])
    executor = AgentExecutor(agent=create_tool_calling_agent(model, [echo]), tools=[echo], handle_parsing_errors=True)
    result = executor.run("q")
    assert (result.output, result.spent["model_calls"]) == ("done", 3)
    assert "could not be read" in str(messages(model.requests[1])[-1].content)


def test_instructions_are_one_message() -> None:
    model = models.ScriptedModel(["done"])
    executor = AgentExecutor(agent=create_tool_calling_agent(model, [echo], system="Be good."), tools=[echo])
    earlier = [gm.SystemMessage("Summary: hi"), gm.UserMessage("1"), gm.AssistantMessage("2"), gm.SystemMessage("Go")]
    executor.run({"input": "q", "chat_history": earlier})
    assert messages(model.requests[0]) == [
        gm.SystemMessage("Be good.\n\nSummary: hi\n\nGo"),
        *earlier[1:3],
        gm.UserMessage("q"),
    ]


@cases("choice", "required", "echo")
def test_forced_call_ends_with_the_first_call(choice: str) -> None:
    broken = gm.ModelReply("", (gm.ToolCall("a", "echo", "{"),))
    model = models.ScriptedModel([broken, call("echo", text="1"), call("echo", text="2"), "done"])
    agent = create_tool_calling_agent(model, [echo, fail], tool_choice=choice)
    executor = AgentExecutor(agent=agent, tools=[echo, fail], handle_parsing_errors=True)
    assert executor.run("q").output == "done"
    requests = [request for request in model.requests if isinstance(request, gm.ChatRequest)]
    assert [request.tool_choice for request in requests] == [choice, choice, "auto", "auto"]
    assert all(request.tools == (echo.spec, fail.spec) for request in requests)


# Others are refused in tests/executor/test_mistakes.py.
CREATE: list[Callable[..., Agent]] = [create_tool_calling_agent, create_structured_agent]


@cases(("create", "choice"), (CREATE[0], None), *((create, one) for create in CREATE for one in ("none", "add", "")))
def test_invalid_tool_choice_is_refused(create: Callable[..., Agent], choice: str | None) -> None:
    with pytest.raises(
        errors.InputError, match=rf"tool_choice is {choice!r}; give auto, required, or the name of a tool: echo$"
    ):
        create(models.ScriptedModel([]), [echo], tool_choice=choice)
    with pytest.raises(errors.InputError, match=r"tool_choice is 'required'; give auto, since there are no tools"):
        create(models.ScriptedModel([]), [], tool_choice="required")
