"""Whole runs, trimmed, summarized, resumed, stopped and edited: each request has every result behind its own call."""

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import AgentAction, AgentExecutor, AgentStep, ParseError, Snapshot, node, snapshot_of, tool
from graphexec.actions import Steps, steps_of
from graphexec.agents import create_tool_calling_agent
from graphexec.effects import ToolResult
from graphexec.executor import Acted, Observed, Ready
from graphexec.memory import BufferMemory, Memory, TokenWindowMemory, WindowMemory
from graphexec.messages import AssistantMessage, ChatRequest, Message, ModelReply, ToolCall, ToolMessage, UserMessage
from graphexec.models import ScriptedModel
from graphexec.models.http.dialect import Sampling
from graphexec.models.http.json_bodies import write
from graphexec.models.providers import anthropic, openai_compatible, openai_responses
from graphexec.nodes import Piece, Review, ReviewCall, approve_tools, cache_tools, compact, limit_tool, stop_repeats
from tests.executor.actors import messages
from tests.nodes.shelf import PauseError, Pauses
from tests.parameters import cases, examples, thorough

QUESTION = "And now?"


# The arguments of each call have a mark, which its result has, too.
def marks(text: str) -> list[str]:
    return re.findall(r"q\d+q", text)


def mark(number: int) -> str:
    return f"q{number}q"


@tool
def echo(text: str) -> str:
    """Say it again."""
    return f"echo of {text}"


@tool
def fail(text: str) -> str:
    """Never work."""
    raise ValueError(f"fail of {text}")


@tool(return_direct=True)
def direct(text: str) -> str:
    """Answer."""
    return f"direct of {text}"


TOOLS = (echo, fail, direct)


def pairs(sent: Sequence[Message]) -> list[tuple[ToolCall, str]]:
    """Return the calls with their results, which are directly behind them, in order, and of no other call."""
    found: list[tuple[ToolCall, str]] = []
    waiting: list[ToolCall] = []
    for message in (*sent, UserMessage("end")):
        if isinstance(message, ToolMessage):
            assert waiting, f"a result without a call: {message}"
            call = waiting.pop(0)
            assert call.id == message.call_id
            of_call, of_result = marks(f"{call.name} {call.arguments}"), marks(message.content)
            assert {*of_result} <= {*of_call}, f"{call} has the result of another: {message.content}"
            assert of_result or call.name in message.content
            found.append((call, message.content))
        else:
            assert not waiting, f"calls without results: {waiting}"
            waiting = [*getattr(message, "tool_calls", ())]
            ids = [call.id for call in waiting]
            assert len({*ids}) == len(ids)
    return found


PROTOCOLS: list[tuple[str, Any]] = [
    ("claude", anthropic.MESSAGES.encode),
    ("gpt", openai_responses.RESPONSES.encode),
    *((name, openai_compatible.CHAT_COMPLETIONS.encode) for name in ("gpt", "mistral", "gemini", "kimi")),
]


def encoded(request: ChatRequest) -> Iterator[list[Message]]:
    """Yield the calls and results of the request's body in each protocol, also in the dialects of one."""
    for name, encode in PROTOCOLS:
        body = json.loads(write(encode(request, Sampling(name, max_tokens=9, provider="here"), stream=False)))
        sent: list[Message] = []
        for message in (one for item in body.get("messages", body.get("input")) for one in decoded(item)):
            match sent, message:
                # In one protocol each call is an item.
                case [*_, AssistantMessage("call", before) as last], AssistantMessage("call", more):
                    sent[-1] = last.with_calls((*before, *more))
                case _:
                    sent.append(message)
        yield sent


def decoded(item: dict[str, Any]) -> Iterator[Message]:
    match item:
        case {"role": "assistant", "tool_calls": calls}:
            made = [ToolCall(one["id"], one["function"]["name"], one["function"]["arguments"]) for one in calls]
            yield AssistantMessage(item["content"] or "", tuple(made))
        case {"role": "tool", "tool_call_id": call_id, "content": text}:
            yield ToolMessage(call_id, text)
        case {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}:
            yield AssistantMessage("call", (ToolCall(call_id, name, arguments),))
        case {"type": "function_call_output", "call_id": call_id, "output": text}:
            yield ToolMessage(call_id, text)
        case {"role": "assistant", "content": [*blocks]} if not item.get("type"):
            calls = [one for one in blocks if one["type"] == "tool_use"]
            made = [ToolCall(one["id"], one["name"], json.dumps(one["input"])) for one in calls]
            yield AssistantMessage("", tuple(made))
        case {"role": "user", "content": [*blocks]}:
            yield from (ToolMessage(one["tool_use_id"], one["content"]) for one in blocks if one["type"] != "text")
            assert sorted(blocks, key=lambda one: one["type"] == "text") == blocks
        case _:
            yield UserMessage("")


class Model:
    """A model with predefined replies, which checks each request, and writes a summary where it is asked for one."""

    instant = True

    def __init__(self, replies: Sequence[ModelReply]) -> None:
        self._left = [*reversed(replies)]
        # The marks of the results behind the question, of each request.
        self.shown: list[list[str]] = []

    def complete(self, request: Any, *, timeout: float | None = None) -> ModelReply:
        sent = [*request.messages]
        found = pairs(sent)
        for others in encoded(request):
            written = pairs(others)
            assert [(marks(call.arguments), text) for call, text in written] == [
                (marks(call.arguments), text) for call, text in found
            ]
            ids = [call.id for call, _ in written]
            assert len({*ids}) == len(ids)
        if sent[-1].content.startswith(("An assistant works", "Keep the notes")):
            return ModelReply("A summary.")
        asked = max(place for place, one in enumerate(sent) if one.content.startswith(QUESTION))
        self.shown.append([text for one in sent[asked:] if isinstance(one, ToolMessage) for text in marks(one.content)])
        return self._left.pop() if self._left else ModelReply("done")

    async def acomplete(self, request: Any, *, timeout: float | None = None) -> ModelReply:
        return self.complete(request, timeout=timeout)


NUMBERS = st.integers(0, 4)
IDS = st.sampled_from(["", "a", "b", "call_0"])
TEXTS = st.sampled_from(["", "I look."])


@st.composite
def calls(draw: st.DrawFn) -> ToolCall:
    name, text = draw(st.sampled_from(["echo", "echo", "fail", "direct", "nope", "echo?"])), mark(draw(NUMBERS))
    if name == "nope":
        return ToolCall(draw(IDS), f"nope{text}", "{}")
    # The arguments of the last one do not fit.
    return ToolCall(draw(IDS), name.strip("?"), json.dumps({text: 1} if name == "echo?" else {"text": text}))


REPLIES = (
    st.builds(ModelReply, TEXTS, st.lists(calls(), min_size=1, max_size=4).map(tuple))
    # Calls in the text; arguments that are cut; no reply; the answer.
    | NUMBERS.map(lambda number: ModelReply(json.dumps({"name": "echo", "arguments": {"text": mark(number)}})))
    | IDS.map(lambda one: ModelReply("", (ToolCall(one, "echo", "{}"), ToolCall("b", "echo", '{"text": "q1'))))
    | st.sampled_from([ModelReply(""), ModelReply("Well.")])
)


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Draw a history that has lost messages: any of them, or of one with repeated ids its ends and some results."""
    unique = draw(st.booleans())
    history: list[Message] = []
    for number in range(draw(st.integers(0, 3))):
        several = draw(st.lists(calls(), max_size=3))
        if unique:
            several = [dataclasses.replace(one, id=f"{number}{place}") for place, one in enumerate(several)]
        asked = AssistantMessage(draw(TEXTS), tuple(several))
        results = [ToolMessage(one.id, f"{one.name} of {marks(one.name + one.arguments)[0]}") for one in several]
        history += [UserMessage("hi"), asked, *(draw(st.permutations(results)) if unique else results)]
    first, last = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    history = history[first : len(history) - last]
    lost = draw(st.sets(st.integers(0, 12)))
    return [
        one for place, one in enumerate(history) if place not in lost or not (unique or isinstance(one, ToolMessage))
    ]


def change_some(steps: Steps) -> Sequence[Any]:
    """Return every other step, the last ones first, some of them as pairs."""
    return [step if place % 2 else (step.action, step.observation) for place, step in enumerate(steps[::-2])]


# How the steps of a run are selected, and whether they keep their order.
TRIMS: list[tuple[int | Callable[[Steps], Sequence[Any]], bool]] = [
    (-1, True),
    (1, True),
    (2, True),
    (3, True),
    (lambda steps: steps[1:], True),
    (lambda steps: steps[::2], True),
    (lambda steps: [one for one in steps if one.status == "ok"], True),
    (lambda steps: steps[::-1], False),
    (lambda steps: [*steps, *steps[-2:]], False),
    (change_some, False),
]

EDITS = ("drop", "observe", "argue", "rename", "plain", "text")


def edited(action: AgentAction, result: ToolResult, how: str) -> tuple[AgentAction, ToolResult] | None:
    """Return a call and its result as a person edits them; `None` if both are removed."""
    text, *_ = [*marks(f"{action.tool} {action.tool_input}"), "q0q"]
    new = f"{text[:-1]}0q"
    match how:
        case "drop":
            return None
        case "observe":
            return action, dataclasses.replace(result, observation=f"{action.tool} of {text}, as seen")
        case "plain":
            return AgentAction(action.tool, action.tool_input), result
        case "":
            return action, result
        case _:
            named = "other" if how == "rename" else action.tool
            given: Any = new if how == "text" else {"text": new}
            done = dataclasses.replace(action, tool=named, tool_input=given)
            return done, dataclasses.replace(result, observation=f"{named} of {new}")


def edit_observed(edits: Mapping[str, str]) -> Any:
    @node
    def edit(observed: Observed) -> Observed:
        """Edit what was done, by the mark of the call."""
        several = [
            edited(action, result, edits.get((marks(f"{action.tool} {action.tool_input}") or [""])[0], ""))
            for action, result in zip(observed.actions, observed.results, strict=True)
        ]
        done = [one for one in several if one is not None]
        return Observed(observed.run, tuple(one for one, _ in done), tuple(one for _, one in done))

    return edit


def edit_acted(some: frozenset[str]) -> Any:
    def change(action: AgentAction) -> AgentAction:
        found = marks(f"{action.tool_input}")
        return dataclasses.replace(action, tool_input={"text": f"{found[0][:-1]}9q"}) if some & {*found} else action

    @node
    def redirect(acted: Acted) -> Acted:
        """Change arguments before the call."""
        return Acted(acted.run, tuple(map(change, acted.actions)), acted.answers)

    return redirect


def forget(place: int) -> Any:
    @node
    def forget_step(ready: Ready) -> Ready:
        """Remove a step."""
        steps = [one for number, one in enumerate(ready.run.steps) if number != place]
        return Ready(dataclasses.replace(ready.run, steps=Steps(steps)))

    return forget_step


def review(call: ReviewCall) -> Review:
    """Decide by the mark of the call."""
    text, *_ = [*marks(f"{call.tool} {call.arguments}"), "q0q"]
    match text:
        case "q0q":
            return Review("reject", f"Not {text}.")
        case "q1q":
            return Review("edit", arguments={"text": "q11q"})
        case "q2q":
            return Review("respond", f"a person of {text}")
        case _:
            return Review("approve")


PIECES: list[Callable[[], Piece]] = [
    lambda: compact(100, 1),
    lambda: compact(1, 2),
    lambda: approve_tools({"echo": ["approve", "edit", "reject", "respond"]}, reviewer=review),
    lambda: limit_tool("echo", 2),
    lambda: cache_tools("echo"),
    lambda: stop_repeats(warn_after=2, stop_after=3),
]

MARKED = st.dictionaries(NUMBERS.map(mark), st.sampled_from(EDITS), max_size=3)
NODES = (
    st.sampled_from(PIECES).map(lambda make: make())
    | MARKED.map(edit_observed)
    | st.frozensets(NUMBERS.map(mark), max_size=2).map(edit_acted)
    | st.integers(0, 3).map(forget)
)


def name_of(piece: Any) -> str:
    return str(piece.name)


OPTIONS = st.fixed_dictionaries(
    {
        "max_iterations": st.integers(1, 6),
        "early_stopping_method": st.sampled_from(["force", "generate"]),
        "handle_parsing_errors": st.sampled_from([True, "Again.", False]),
        "return_direct": st.sampled_from(["single", "any"]),
        "nodes": st.lists(NODES, max_size=3, unique_by=name_of),
    }
)
RULES = st.sampled_from([(), ("no_repeats",), ("no_immediate_repeats",)])

MEMORIES: list[Callable[[Model], Memory | None]] = [
    lambda model: None,
    lambda model: BufferMemory(as_messages=True),
    lambda model: WindowMemory(1, as_messages=True),
    lambda model: TokenWindowMemory(20, as_messages=True),
]


class Pausing(Pauses):
    """An observer that pauses a run at some of its requests, when they are answered."""

    def __init__(self, plan: Sequence[bool]) -> None:
        super().__init__()
        self.plan = [*plan]

    def __call__(self, event: Any) -> None:
        try:
            super().__call__(event)
        except PauseError:
            self._answered = 0
            if self.plan and self.plan.pop():
                raise


def run_resumed(executor: AgentExecutor, start: Any) -> Sequence[AgentStep]:
    """Run to the end, stored as JSON and resumed at each pause; return the steps of the run."""
    while True:
        try:
            return executor.run(start).steps
        except (PauseError, ParseError) as error:
            snapshot = snapshot_of(error)
            assert snapshot is not None
            if isinstance(error, ParseError):
                return steps_of(snapshot.value)
            start = Snapshot.from_json(snapshot.to_json(), executor.graph)


def is_part(some: Sequence[str], whole: Sequence[str]) -> bool:
    """Return whether the texts are in the whole, in this order."""
    rest = iter(whole)
    return all(one in rest for one in some)


DRAWN = (
    st.lists(REPLIES, max_size=6),
    st.sampled_from(TRIMS),
    OPTIONS,
    RULES,
    st.none() | histories(),
    st.sampled_from(MEMORIES),
    st.lists(st.booleans(), max_size=8),
)


@pytest.mark.medium
@settings(max_examples=examples(25), deadline=None)
@given(*DRAWN)
def test_requests_of_any_run_are_paired(
    replies: list[ModelReply],
    trim: tuple[Any, bool],
    options: dict[str, Any],
    rules: Any,
    history: list[Message] | None,
    make_memory: Callable[[Model], Memory | None],
    pauses: list[bool],
) -> None:
    model = Model(replies)
    select, in_order = trim
    agent = create_tool_calling_agent(model, TOOLS, rules=rules)
    memory = make_memory(model) if history is None else None
    observers = [Pausing(pauses)]
    executor = AgentExecutor(
        agent=agent, tools=TOOLS, memory=memory, observers=observers, trim_intermediate_steps=select, **options
    )
    inputs = {"input": QUESTION, **({} if history is None else {"chat_history": history})}
    for _ in range(2):
        begun = len(model.shown)
        done = [text for step in run_resumed(executor, inputs) for text in marks(step.text)]
        # A step that is removed was shown before.
        if in_order and not any(name_of(one) == "forget_step" for one in options["nodes"]):
            assert all(is_part(shown, done) for shown in model.shown[begun:])


test_requests_of_many_runs_are_paired = thorough(test_requests_of_any_run_are_paired, 5_000, *DRAWN, gate=150)

SAME = (ToolCall("a", "echo", '{"text": "q1q"}'), ToolCall("a", "echo", '{"text": "q2q"}'))


@cases(
    ("options", "sent"),
    # Two calls of one reply with one id, one of which is trimmed, edited by a person, or changed by a node.
    ({"trim_intermediate_steps": 1}, ["q2q"]),
    ({"nodes": [PIECES[2]()]}, ["q11q", "q2q"]),
    ({"nodes": [edit_acted(frozenset({"q2q"}))]}, ["q1q", "q29q"]),
    ({"nodes": [edit_observed({"q1q": "rename"})]}, ["q10q", "q2q"]),
)
def test_call_is_sent_as_it_was_made(options: dict[str, Any], sent: list[str]) -> None:
    model = ScriptedModel([SAME, "done"])
    AgentExecutor(agent=create_tool_calling_agent(model, TOOLS), tools=TOOLS, **options).run("q")
    found = pairs(messages(model.requests[-1]))
    assert [marks(call.arguments) for call, _ in found] == [[one] for one in sent]
    assert [marks(text) for _, text in found] == [[one] for one in sent]
