"""A stored run that is continued after any of its replies ends as the whole run does, whatever agent it is of."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from graphexec import (
    AgentAction,
    AgentExecutor,
    AgentFinish,
    Answered,
    Asks,
    Effect,
    Moved,
    RunResult,
    create_agent,
    create_react_agent,
    create_tool_calling_agent,
    memory,
    node,
    nodes,
    tool,
)
from graphexec.errors import SnapshotError
from graphexec.kernel import ask as ask_for
from graphexec.kernel.stepping import replay
from graphexec.messages import Image, ModelReply, ModelRequest, Reasoning, ToolCall, Usage
from graphexec.models import ScriptedModel
from graphexec.runs import SQLiteRuns
from tests.executor.actors import call, scripted
from tests.kernel import machines as m
from tests.models.pictures import CAT, DOG
from tests.nodes.shelf import SAMPLES, PauseError, Pauses
from tests.nodes.test_stacks import SCRIPT
from tests.nodes.test_stacks import make as make_with_pieces
from tests.parameters import cases, mark_except

# An executor whose model gives the replies from this one on, and which has these observers; the model itself.
Make: TypeAlias = Callable[[int, Sequence[Any]], tuple[AgentExecutor, ScriptedModel]]


@tool
def look_up(what: str) -> dict[str, Any]:
    """Look something up."""
    return {"found": what, "rate": 0.1, "more": [None, True, 3]}


@tool
def fail(what: str) -> str:
    """Never work."""
    raise ValueError(f"no {what}")


@tool
def crash(what: str) -> str:
    """Never work, either."""
    raise ValueError(f"no {what}")


@tool(return_direct=True)
def answer(what: str) -> str:
    """Answer."""
    return what


@tool
def show(what: str) -> list[Any]:
    """Show pictures."""
    return [what, CAT, DOG]


TOOLS = (look_up, fail, crash, answer, show)


def ask(*calls: ToolCall, **options: Any) -> ModelReply:
    return ModelReply("", calls, usage=Usage(7, 3, 1), cost=0.25, **options)


def act(name: str, what: str) -> str:
    return f'{{"thought": "so", "action": "{name}", "action_input": {{"what": "{what}"}}}}'


def react(name: str, what: str) -> str:
    return f"I look.\nAction: {name}\nAction Input: {what}"


def make_by(make: Callable[..., AgentExecutor], replies: Sequence[Any]) -> Make:
    def make_executor(first: int, observers: Sequence[Any]) -> tuple[AgentExecutor, ScriptedModel]:
        model = ScriptedModel([*replies[first:]] or [replies[-1]], repeat_last=True)
        return make(model, observers=observers), model

    return make_executor


def created(*replies: Any, inputs: Any = "What is it?", **options: Any) -> tuple[Make, Any]:
    """Return an executor of `create_agent`, and the inputs of its run."""

    def make(model: ScriptedModel, **more: Any) -> AgentExecutor:
        own = {name: option() if name == "memory" else option for name, option in options.items()}
        all_options: dict[str, Any] = {"max_iterations": 6, "handle_tool_errors": "observe", **own, **more}
        return create_agent(model, TOOLS, **all_options)

    return make_by(make, replies), inputs


def apologize(error: Exception) -> str:
    return f"sorry: {error}"


def remember() -> memory.BufferMemory:
    """Return a memory of a conversation that has begun."""
    history = memory.MemoryHistory()
    history.add(memory.Turn("Who?", "Me.", (CAT,)))
    return memory.BufferMemory(history=history, as_messages=True)


def nest(name: str) -> tuple[Make, Any]:
    """Return an agent whose tool is another one."""

    def make(model: ScriptedModel, **options: Any) -> AgentExecutor:
        inner = create_agent(ScriptedModel([ask(call("look_up", what="b")), "inner"]), TOOLS, kind="tool_calling")
        return AgentExecutor(
            agent=create_tool_calling_agent(model, [inner.as_tool(name, "Ask another.")]),
            tools=[inner.as_tool(name, "Ask another.")],
            **options,
        )

    return make_by(make, [ask(call(name, input="x")), "done"]), "go"


def decide(steps: Any, inputs: Any) -> Any:
    turns = [[AgentAction("look_up", {"what": "a"}), AgentAction("fail", {"what": "b"})], AgentAction("x", "y")]
    return scripted(*turns, AgentFinish({"output": "42", "more": [1, None]}, "log"))(steps, inputs)


def call_function(**options: Any) -> tuple[Make, Any]:
    def make(_: ScriptedModel, **more: Any) -> AgentExecutor:
        return AgentExecutor(agent=decide, tools=TOOLS, handle_tool_errors="observe", **options, **more)

    return make_by(make, ["unused"]), "go"


def react_of(*replies: str, protocol: Any, **options: Any) -> tuple[Make, Any]:
    def make(model: ScriptedModel, **more: Any) -> AgentExecutor:
        agent = create_react_agent(model, TOOLS, protocol=protocol)
        return AgentExecutor(agent=agent, tools=TOOLS, handle_parsing_errors=True, **options, **more)

    return make_by(make, replies), "go"


LOOK, BOTH = ask(call("look_up", what="a")), ask(call("look_up", "c2", what="b"), call("fail", "c3", what="c"))
NATIVE: Mapping[str, Any] = {"kind": "tool_calling"}
CASES: Mapping[str, tuple[Make, Any]] = {
    "tool_calling": created(LOOK, BOTH, "done", **NATIVE),
    "structured": created(
        act("look_up", "a"), "no JSON", act("fail", "b"), act("final_answer", "c"), kind="structured"
    ),
    "react": created(react("look_up", "a"), "no action", react("fail", "b"), "Final Answer: c", kind="react"),
    "completion": react_of(react("look_up", "a"), "Final Answer: c", protocol="completion"),
    "function": call_function(),
    "parallel": created(
        ask(*[call("look_up", f"c{n}", what=f"{n}") for n in range(4)], call("fail", "f", what="x")),
        BOTH,
        "done",
        **NATIVE,
    ),
    "memory": created(LOOK, "done", memory=remember, **NATIVE),
    "structured memory": created(act("look_up", "a"), act("final_answer", "c"), memory=remember, kind="structured"),
    "output_type": created(LOOK, "[1, 2", "[1, 2]", output_type=list[int], **NATIVE),
    "generate": created(LOOK, BOTH, "enough", max_iterations=2, early_stopping_method="generate", **NATIVE),
    "force": created(LOOK, max_iterations=2, **NATIVE),
    "invalid calls": created(ask(ToolCall("c", "look_up", "{")), ask(call("nothing", x=1)), "", "done", **NATIVE),
    "return_direct": created(LOOK, ask(call("answer", what="so")), **NATIVE),
    "return_direct of some": created(
        ask(call("look_up", what="a"), call("answer", "c2", what="so")), return_direct="any", **NATIVE
    ),
    "trimmed": created(
        LOOK,
        BOTH,
        ask(call("look_up", what="d")),
        "done",
        trim_intermediate_steps=1,
        return_intermediate_steps=True,
        **NATIVE,
    ),
    "images": created(
        ask(call("show", what="a")),
        "done",
        inputs={"input": "What?", "images": [CAT, Image("https://a/b.png")]},
        **NATIVE,
    ),
    "errors": created(BOTH, ask(call("crash", what="x")), "done", handle_tool_errors=apologize, **NATIVE),
    "reasoning": created(
        ask(call("look_up", what="a"), reasoning=(Reasoning("hm", "signed", "scripted"),)),
        "<think>so</think>done",
        **NATIVE,
    ),
    "repeated": created(LOOK, LOOK, LOOK, "done", **NATIVE),
    "limits of meters": created(LOOK, LOOK, BOTH, "done", max_model_calls=3, max_tool_calls=2, **NATIVE),
    "surrogates": created(LOOK, "half \ud83d a \x00 pair", inputs="and \ude00", **NATIVE),
    "an agent as a tool": nest("helper"),
    **{name: (make_by(partial(make_with_pieces, [name]), SCRIPT), "Elms?") for name in SAMPLES},
}


def facts(result: Any) -> dict[str, Any]:
    """Return what has to be equal of two runs."""
    assert isinstance(result, RunResult)
    assert result.journal is not None
    events = [*replay(result.journal)]
    answered = [(one.call, one.reply) for one in events if isinstance(one, Answered) and one.call is not None]
    return {
        "ending": (type(result.ending), result.ending),
        "form": repr(result.ending),
        "steps": [*map(repr, result.steps)],
        "spent": (result.spent.iterations, dict(result.spent.meters)),
        "path": [(event.node, repr(event.outcome), event.target) for event in events if isinstance(event, Moved)],
        "replies": sorted((call.sequence, call.member, repr(reply)) for call, reply in answered),
    }


@pytest.mark.parametrize("name", mark_except(CASES, "parallel"))
def test_run_is_continued_from_every_prefix(name: str, tmp_path: Path) -> None:
    make, inputs = CASES[name]
    asked: list[int] = []

    def note(event: Any) -> None:
        if isinstance(event, Answered):
            asked.append(len(model.requests))

    executor, model = make(0, [note])
    with SQLiteRuns(tmp_path / "runs.db") as store:
        whole = executor.run(inputs, runs=store, run_id="whole")
        unstored = make(0, ())[0].run(inputs)
        assert facts(whole) == facts(unstored)
        requests: list[ModelRequest] = model.requests
        for number, first in enumerate([0, *asked]):
            again, model = make(first, ())
            copy = store.fork("whole", at=number)
            # Sync and async by turns.
            result = asyncio.run(again.aresume(copy, runs=store)) if number % 2 else again.resume(copy, runs=store)
            assert facts(result) == facts(whole), number
            assert model.requests == requests[first:]
        assert facts(executor.run(inputs, runs=store, run_id="whole")) == facts(whole)


@pytest.mark.parametrize("name", mark_except(CASES, "parallel"))
def test_run_survives_a_stop_after_every_request(name: str, tmp_path: Path) -> None:
    make, inputs = CASES[name]
    whole, asked, result = make(0, ())[0].run(inputs), 0, None
    with SQLiteRuns(tmp_path / "runs.db") as store:
        while result is None:
            executor, model = make(asked, [Pauses()])
            try:
                result = executor.run(inputs, runs=store, run_id="stopped")
            except PauseError:
                asked += len(model.requests)
    assert facts(result) == facts(whole)


class Crash(BaseException):
    """Raised by an observer of a nested run, where the process ends."""


def crash_at_reply(event: Any) -> None:
    if isinstance(event, Answered):
        raise Crash


@pytest.mark.medium
@cases("kind", "as_tool", "map_agents")
def test_nested_run_goes_on_after_each_of_its_replies(kind: str, tmp_path: Path) -> None:
    called = call("helper", input="x") if kind == "as_tool" else call("research_all", tasks=["x"])

    def make(
        outer: int, inner: int, observers: Sequence[Any] = ()
    ) -> tuple[AgentExecutor, ScriptedModel, ScriptedModel]:
        replies: list[list[Any]] = [[ask(called), "done"][outer:], [LOOK, BOTH, "inner"][inner:]]
        models = ScriptedModel(replies[0]), ScriptedModel(replies[1])
        helper = create_agent(models[1], TOOLS, kind="tool_calling", observers=observers)
        if kind == "as_tool":
            return create_agent(models[0], [helper.as_tool("helper", "Ask another.")], kind="tool_calling"), *models
        return create_agent(models[0], kind="tool_calling", nodes=[nodes.map_agents(helper)], max_fan_out=4), *models

    whole: Any = make(0, 0)[0].run("go")
    asked = (0, 0)
    result: Any = None
    crashes = 0
    with SQLiteRuns(tmp_path / "runs.db") as store:
        while result is None:
            executor, *models = make(*asked, [crash_at_reply])
            try:
                result = executor.run("go", runs=store, run_id="nested")
            except Crash:
                crashes += 1
            asked = (asked[0] + len(models[0].requests), asked[1] + len(models[1].requests))
    # No call is made twice, but that of the nested run, which is charged each time.
    assert (asked, crashes, result.steps) == ((2, 3), 6, whole.steps)
    spent = {
        name: count - whole.spent[name] for name, count in result.spent.meters.items() if count != whole.spent[name]
    }
    assert spent == {"tool_calls" if kind == "as_tool" else "agent_tasks": 6}


class Own:
    """A class of the user's, which nothing can read back."""

    def __repr__(self) -> str:
        return "an Own"


class Colour(Enum):
    RED = "red"


@dataclass
class Inner:
    colours: list[Colour]


@dataclass
class Outer:
    inner: Inner
    price: Decimal = Decimal("1.10")


LOOP: list[Any] = []
LOOP.append(LOOP)
TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
# Values that JSON cannot express, and the replies of effects that declare them: those are read back, or refused.
VALUES: Sequence[tuple[Any, Any, bool]] = (
    (Own(), Any, False),
    (float("nan"), float, True),
    (float("nan"), Any, False),
    (float("-inf"), float, True),
    (10**5_000, int, True),
    (10**5_000, Any, True),
    ("half \ud83d \x00", str, True),
    (b"\xff\x00", bytes, False),
    (Decimal("1.10"), Decimal, True),
    ({1, 2}, set[int], True),
    (TIME.date(), date, True),
    (TIME.date(), Any, False),
    (TIME, datetime, True),
    (Colour.RED, Colour, True),
    (Outer(Inner([Colour.RED])), Outer, True),
    ((1, ("a",)), tuple[int, tuple[str]], True),
    ((1, ("a",)), Any, False),
    ({1: "a"}, dict[int, str], True),
    ({(1, 2): "a"}, Any, False),
    (LOOP, Any, False),
    ({"a": [1, {"b": float("nan")}]}, Any, False),
    (-0.0, float, True),
    # As the data of the log look.
    ({"graphexec.cut": True}, Any, True),
    ({"graphexec.reply": 1}, Any, True),
    ({"graphexec.reply": {"class": "str", "data": "x"}}, Any, True),
    ({"graphexec.cut": True, "graphexec.integer": "ff"}, dict[str, Any], True),
    ({"a": 1, "graphexec.reply": 1}, Any, True),
)


@pytest.mark.medium
@cases(("value", "kind", "is_read"), *VALUES)
def test_live_run_has_the_result_that_is_read_back(value: Any, kind: Any, is_read: bool, tmp_path: Path) -> None:
    @tool
    def give() -> Any:
        """Give it."""
        return value

    def make(model: ScriptedModel) -> AgentExecutor:
        return create_agent(model, [give], kind="tool_calling")

    models = [ScriptedModel([ask(ToolCall("1", "give", "{}")), "done"]) for _ in range(2)]
    with SQLiteRuns(tmp_path / "runs.db") as store:
        make(models[0]).run("go")
        live: Any = make(models[1]).run("go", runs=store, run_id="one")
        models.append(ScriptedModel(["done"]))
        again: Any = make(models[2]).resume(store.fork("one", at=2), runs=store)
        assert again.steps == live.steps
        assert type(again.steps[0].observation) is type(live.steps[0].observation)
        # The model is told the same as without a store.
        assert models[0].requests[1] == models[1].requests[1] == models[2].requests[0]
        check_own_effect(store, value, kind, is_read)


def check_own_effect(store: SQLiteRuns, value: Any, kind: Any, is_read: bool) -> None:
    """Check that the reply to an effect is read back, or is refused with the effect's name."""
    give: Any = make_dataclass("Give", [], bases=(Effect[kind],), frozen=True)

    def get(topic: m.Topic) -> Any:
        first = yield from ask_for(give())
        return m.Interview((f"{first:x}" if isinstance(first, int) else f"{first}",))

    get.__annotations__["return"] = Asks[give, m.Interview]
    machine = m.machine_of(node(when_spent=m.Stopped)(get))
    run: Any = partial(machine.run, handlers={give: lambda _: value}, runs=store)
    if is_read:
        live = run(m.Topic("a"), run_id="own")
        assert live.outcome == run(None, run_id=store.fork("own", at=1)).outcome
    else:
        with pytest.raises(SnapshotError, match="Give"):
            run(m.Topic("a"), run_id="own")
