"""Every kind of agent on servers that refuse parameters as reasoning models do, and that write misleading reasoning."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from graphexec import Agent, AgentExecutor, ParseError, Reported, agents, messages, models, tools
from graphexec.executor.result import RunResult, make_result
from graphexec.integrations import langchain
from graphexec.models.http.remote import RemoteModel
from tests.executor.actors import echo, run_by, search
from tests.models.picky_server import PickyServer, Protocol
from tests.parameters import cases, read_tables

TEXTS = read_tables(__file__)


@dataclass(frozen=True)
class Kind:
    """A kind of agent, and two replies to it: a call of its tool with `hi`, continued beyond its end, and `done`."""

    create: Callable[..., Agent]
    call: str | messages.ToolCall
    answer: str
    tool: tools.AnyTool = echo
    inputs: tuple[tuple[str, str], ...] = (("input", "q"),)


BEYOND = "\nObservation: wrong\nFinal Answer: wrong"
ACTION = f"Action: echo\nAction Input: hi{BEYOND}"
BOXED = "Action:\n```\n{}\n```"
ECHO_HI = '{"action": "echo", "action_input": "hi"}'
FINAL = '{"action": "Final Answer", "action_input": "done"}'
XML = "<tool>echo</tool><tool_input>hi</tool_input><observation>wrong</observation><final_answer>wrong</final_answer>"
KINDS = {
    "tool_calling": Kind(agents.create_tool_calling_agent, messages.ToolCall("c1", "echo", '{"text": "hi"}'), "done"),
    "react": Kind(agents.create_react_agent, f"Hm.\n{ACTION}", "Final Answer: done"),
    "mrkl": Kind(langchain.create_mrkl_agent, f"Hm.\n{ACTION}", "Final Answer: done"),
    "conversational": Kind(
        langchain.create_conversational_agent,
        f"Thought: Do I need to use a tool? Yes\n{ACTION}",
        "Thought: Do I need to use a tool? No\nAI: done",
        inputs=(("input", "q"), ("chat_history", "")),
    ),
    "chat": Kind(langchain.create_chat_agent, BOXED.format(ECHO_HI) + BEYOND, "Final Answer: done"),
    "structured_chat": Kind(
        langchain.create_structured_chat_agent,
        BOXED.format('{"action": "echo", "action_input": {"text": "hi"}}') + BEYOND,
        BOXED.format(FINAL),
    ),
    "json_chat": Kind(langchain.create_json_chat_agent, f"{ECHO_HI}{BEYOND}", FINAL),
    "xml": Kind(langchain.create_xml_agent, XML, "<final_answer>done</final_answer>"),
    "self_ask": Kind(
        langchain.create_self_ask_agent,
        "Yes.\nFollow up: hi\nIntermediate answer: wrong\nSo the final answer is: wrong",
        "So the final answer is: done",
        search,
    ),
    "structured": Kind(
        agents.create_structured_agent,
        '{"action": "echo", "action_input": {"text": "hi"}}',
        '{"action": "final_answer", "answer": "done"}',
    ),
}


WAYS = ("run", "arun", "stream", "astream")


def check_answer(kind: Kind, model: RemoteModel, way: str) -> RunResult:
    """Run an agent, which calls its tool once, and answers; streams have the pieces of replies."""
    executor = AgentExecutor(agent=kind.create(model, [kind.tool]), tools=[kind.tool])
    found = run_by(way, executor, dict(kind.inputs), **({"tokens": True} if "stream" in way else {}))
    result: RunResult = make_result(found[-1], executor.limits) if "stream" in way else found
    assert result.output == "done"
    assert [(step.action.tool, step.observation) for step in result.steps] == [(kind.tool.name, "hi")]
    return result


REFUSED: dict[Protocol, tuple[str, ...]] = {
    "chat": ("stop", "max_tokens", "temperature", "top_p", "seed"),
    "responses": ("temperature", "top_p", "include"),
    "anthropic": ("stop_sequences", "temperature", "top_p"),
}


@pytest.mark.medium
@cases("way", *WAYS)
@cases("protocol", *REFUSED)
@cases("kind", *KINDS.values())
def test_every_agent_answers_on_a_reasoning_model(kind: Kind, protocol: Protocol, way: str) -> None:
    server = PickyServer(protocol, [kind.call, kind.answer], REFUSED[protocol], thoughts=TEXTS["misleading"])
    options = {"seed": 3} if protocol == "chat" else {}
    result = check_answer(kind, server.model(temperature=0.0, max_tokens=99, top_p=0.5, **options), way)
    # Each parameter is refused once, and only the answers are charged.
    assert len(server.refused) == len(set(server.refused))
    assert {"temperature", "top_p"} <= set(server.refused)
    assert (result.spent["model_calls"], result.spent["tokens"], result.usage) == (2, 26, messages.Usage(18, 8, 10))


# The prompt may contain the opening tag.
@pytest.mark.medium
@cases("tags", ("<think>", "</think>"), ("", "\n</think>\n\n"))
@cases(("protocol", "way"), ("chat", "run"), ("chat", "stream"), ("responses", "stream"))
@cases("kind", *KINDS.values())
def test_reasoning_misleads_no_agent(kind: Kind, protocol: Protocol, way: str, tags: tuple[str, str]) -> None:
    server = PickyServer(protocol, [kind.call, kind.answer], ("stop",), thoughts=TEXTS["misleading"], tags=tags)
    check_answer(kind, server.model(), way)


@pytest.mark.medium
@cases("protocol", *REFUSED)
@cases("kind", *KINDS.values())
def test_streamed_answer_has_no_reasoning(kind: Kind, protocol: Protocol) -> None:
    server = PickyServer(protocol, [kind.call, kind.answer], REFUSED[protocol], thoughts=TEXTS["misleading"])
    executor = AgentExecutor(agent=kind.create(server.model(temperature=0.0), [kind.tool]), tools=[kind.tool])
    assert "".join(executor.stream_answer(dict(kind.inputs))) == "done"


@pytest.mark.medium
@cases("protocol", *REFUSED)
@cases("kind", *KINDS.values())
def test_empty_reply_is_fed_back_in_every_agent(kind: Kind, protocol: Protocol) -> None:
    server = PickyServer(protocol, ["", " ", kind.call, kind.answer])
    agent = kind.create(server.model(), [kind.tool])
    result = AgentExecutor(agent=agent, tools=[kind.tool], handle_parsing_errors=True).run(dict(kind.inputs))
    assert (result.output, result.spent["model_calls"]) == ("done", 4)
    for body in server.bodies:
        for message in body["input" if protocol == "responses" else "messages"]:
            assert message.get("role") != "assistant" or message["content"] or message.get("tool_calls")
            assert message.get("content") not in ("", " ")
    agent = kind.create(PickyServer(protocol, [""]).model(), [kind.tool])
    executor = AgentExecutor(agent=agent, tools=[kind.tool])
    with pytest.raises(ParseError):
        executor.run(dict(kind.inputs))


def test_refusals_are_events_of_the_run() -> None:
    kind = KINDS["react"]
    server = PickyServer("chat", [kind.call, kind.answer], ("stop", "temperature"))
    executor = AgentExecutor(agent=kind.create(server.model(temperature=0.0), [echo]), tools=[echo])
    news = [event.news for event in executor.stream("q") if isinstance(event, Reported)]
    assert news == [models.OptionRefused("stop"), models.OptionRefused("temperature")]
