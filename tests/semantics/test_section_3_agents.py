"""Section 3.12 of docs/semantics.md: the agents' stop words, scratchpads and parsers, row by row."""

from collections.abc import Callable
from typing import Any

from graphexec import Agent, AgentExecutor, AgentFinish, ParseError, agents, create_tool_calling_agent, models
from graphexec.agents import react, tool_calling
from graphexec.agents.langchain import chat, json_chat, mrkl, self_ask
from graphexec.messages import AssistantMessage, CompletionRequest, ModelReply, ToolCall, ToolMessage, UserMessage
from graphexec.tools import AnyTool
from tests.executor.actors import call, echo, messages, search
from tests.parameters import cases

ACT = "I look.\nAction: echo\nAction Input: a"
BLOB = '{"action": "echo", "action_input": "a"}'
FENCED = f"Action:\n```\n{BLOB}\n```"
ASK, ANSWERED = "Follow up: how old?", ("\nIntermediate answer:",)
PREVIOUS = "This was your previous work (but I haven't seen any of it! I only see what you return as final answer):\n"

LINE, TABBED = ("\nObservation",), ("\nObservation:", "\n\tObservation:")
XML = "<tool>echo</tool><tool_input>a"
CHAT_PAD = f"{PREVIOUS}{FENCED}\nObservation: a\nThought:"

# How it is made, what it says first, its stop words, and what its next prompt has of the step.
AGENTS: dict[str, tuple[Callable[..., Agent], str, tuple[str, ...], str]] = {
    "react": (agents.create_react_agent, ACT, LINE, f"{ACT}\nObservation: a\nThought: "),
    "structured chat": (agents.create_structured_chat_agent, FENCED, LINE, CHAT_PAD),
    "xml": (agents.create_xml_agent, XML, ("</tool_input>",), f"{XML}</tool_input>\n<observation>a</observation>"),
    "self ask": (agents.create_self_ask_agent, ASK, ANSWERED, f"{ASK}{ANSWERED[0]} how old?\n"),
    "zero shot": (agents.create_mrkl_agent, ACT, TABBED, f"{ACT}\nObservation: a\nThought:"),
    "conversational": (agents.create_conversational_agent, ACT, TABBED, f"{ACT}\nObservation: a\nThought:"),
    "chat": (agents.create_chat_agent, FENCED, LINE, CHAT_PAD),
}


@cases("kind", *AGENTS)
def test_an_agent_has_its_stop_words_and_scratchpad(kind: str) -> None:
    make, text, stop, scratchpad = AGENTS[kind]
    tools: list[AnyTool] = [search if kind == "self ask" else echo]
    model = models.ScriptedModel([text, "?"])
    executor = AgentExecutor(agent=make(model, tools), tools=tools, max_iterations=2, handle_parsing_errors=True)
    executor.run({"input": "q", "chat_history": []})
    asked = model.requests[1]
    assert asked.stop == stop
    assert scratchpad in (asked.prompt if isinstance(asked, CompletionRequest) else messages(asked)[-1].content)


def test_json_chat_stops_at_the_label() -> None:
    model = models.ScriptedModel([BLOB, '{"action": "Final Answer", "action_input": "done"}'])
    agent = agents.create_json_chat_agent(model, [echo], tool_response="Got {observation}")
    AgentExecutor(agent=agent, tools=[echo]).run("q")
    assert model.requests[1].stop == ("\nObservation",)
    assert messages(model.requests[1])[-2:] == [AssistantMessage(BLOB), UserMessage("Got a")]


def test_tool_calling_renders_steps_as_messages() -> None:
    calls = (call("echo", "c1", text="a"), call("echo", "c2", text="b"))
    model = models.ScriptedModel([calls, ToolCall("c3", "echo", "{"), "done"])
    agent = create_tool_calling_agent(model, [echo])
    AgentExecutor(agent=agent, tools=[echo], handle_parsing_errors="Fix it!").run("q")
    assert model.requests[1].stop == ()
    assert messages(model.requests[2])[2:] == [
        AssistantMessage("", calls),
        ToolMessage("c1", "a"),
        ToolMessage("c2", "b"),
        # A parse error, whose observation reaches the model.
        AssistantMessage("echo({)"),
        UserMessage("Fix it!"),
    ]


# ---- parsers

Read = Callable[[ModelReply], agents.Decision]


def in_short(read: Read, text: str | ModelReply) -> object:
    """Return the decision in short: the answer, the calls, or `ParseError`."""
    try:
        decision = read(text if isinstance(text, ModelReply) else ModelReply(text))
    except ParseError:
        return ParseError
    if isinstance(decision, AgentFinish):
        return decision.output
    return [(action.tool, action.tool_input) for action in decision]


def native(*arguments: str) -> ModelReply:
    return ModelReply("", tuple(ToolCall(f"c{at}", "f", text) for at, text in enumerate(arguments)))


CALLING, CALLED, LOOK_UP = "Action: f\nAction Input: x", [("f", "x")], search.name
OBJECT, QUERY = '{"action": "f", "action_input": "x"}', 'SELECT "x" FROM "y"'
# Where LangChain parses differently: agent, reply, and parsed decision.
EDGES: dict[str, tuple[Read, str | ModelReply, object]] = {
    # There, the last quote is lost.
    "react: unbalanced quotes": (react.read, f"Action: f\nAction Input: {QUERY}", [("f", QUERY)]),
    # There, the made-up round is a part of the input.
    "react: a made-up second round": (react.read, f"{CALLING}\nObservation: y\nAction: g\nAction Input: z", CALLED),
    # There, the backticks are kept.
    "react: backticks": (react.read, "Action: `f`\nAction Input: x", CALLED),
    # There, the label is not seen.
    "react: lower case": (react.read, "action: f\naction input: x", CALLED),
    # There, the answer loses what follows its last character.
    "mrkl: without a blank line": (mrkl.read, "Final Answer: 42\nAction: f\nAction Input: ba", "42"),
    # There, the first of several is taken.
    "json: a list of one": (json_chat.read, '[{"action": "f", "action_input": "x"}]', CALLED),
    # There, it is completed and executed.
    "json: cut short": (json_chat.read, '{"action": "f", "action_input": "x', ParseError),
    # There, the answer wins without a word.
    "chat: an answer and an action": (chat.read, f"Action:\n```\n{OBJECT}\n```\nFinal Answer: 42", ParseError),
    # There, no action is seen.
    "chat: no newline behind the fence": (chat.read, f"Action:\n```{OBJECT}```", CALLED),
    # There, it is "30 what?".
    "self ask: a question with a colon": (self_ask.read, "Follow up: at 10:30 what?", [(LOOK_UP, "at 10:30 what?")]),
    # There, it is "r is: X".
    "self ask: an answer in the middle of a line": (self_ask.read, "Well, so the final answer is: X", "X"),
    # There, an exception.
    "self ask: a newline at the end": (self_ask.read, "So the final answer is: X\n", "X"),
    # There, it finishes with "".
    "tools: a call that cannot be read": (tool_calling.read, native('{"a": 1'), ParseError),
    # There, a ValidationError.
    "tools: a list of arguments": (tool_calling.read, native("[1]"), ParseError),
}


@cases("edge", *EDGES)
def test_a_parser_reads(edge: str) -> None:
    read, text, expected = EDGES[edge]
    assert in_short(read, text) == expected


def test_a_native_call_has_langchains_log() -> None:
    decision: Any = tool_calling.read(ModelReply("I look.", (ToolCall("c", "f", '{"a": 1}'),)))
    assert decision[0].log == "\nInvoking: `f` with `{'a': 1}`\nresponded: I look.\n\n"
