"""`sub_agent`: calls that an embedded executor carries out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from graphexec import AgentExecutor, create_tool_calling_agent
from graphexec.errors import InputError, ModelError
from graphexec.kernel import snapshot_of
from graphexec.messages import ModelReply, ToolCall
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from graphexec.nodes import handoffs, sub_agent
from graphexec.testing import verify_termination
from graphexec.tools import AnyTool, tool
from tests.nodes.shelf import run_in_pieces
from tests.parameters import cases


@tool
def search(query: str) -> str:
    """Search the archive."""
    if query == "fire":
        raise ValueError("the archive burns")
    return f"found {query}"


@tool
def note(text: str) -> str:
    """Write a note."""
    return f"noted {text}"


def calls(*made: tuple[str, dict[str, Any]]) -> ModelReply:
    """Return a reply with these calls."""
    return ModelReply("", tuple(ToolCall(f"c{n}", name, json.dumps(given)) for n, (name, given) in enumerate(made)))


def task(*tasks: str) -> ModelReply:
    return calls(*(("research", {"task": one}) for one in tasks))


def executor_of(replies: Sequence[Any], tools: Sequence[AnyTool], **options: Any) -> AgentExecutor:
    model = ScriptedModel(replies, repeat_last=True)
    agent = create_tool_calling_agent(model, tools)
    return AgentExecutor(agent=agent, tools=tools, handle_parsing_errors=True, **options)


def make_executor(
    outer: Sequence[Any], inner: Sequence[Any], *, limit: int | None = None, times: int = 4, **options: Any
) -> AgentExecutor:
    piece = sub_agent(executor_of(inner, [search]), "research", "Find out about a subject.", calls=times)
    options.setdefault("max_iterations", 5)
    options.setdefault("max_fan_out", 4)
    return executor_of(outer, [note], nodes=[piece], max_model_calls=limit, **options)


def models_of(executor: AgentExecutor) -> list[ScriptedModel]:
    """Return the scripted models of an executor and of its sub-agent."""
    worlds: list[Any] = [one.bound for one in executor.graph if one.name in ("plan", "research.plan")]
    models = [one.model for bound in worlds for one in bound if isinstance(getattr(one, "model", None), ScriptedModel)]
    assert len(models) == 2
    return models


def asked(executor: AgentExecutor) -> int:
    return sum(len(model.requests) for model in models_of(executor))


def steps_of(executor: AgentExecutor) -> list[tuple[str, str, Any]]:
    return [(one.action.tool, one.status, one.observation) for one in executor.run("q").steps]


def test_calls_keep_their_order() -> None:
    outer = [calls(("research", {"task": "elms"}), ("note", {"text": "x"}), ("research", {"task": "oaks"})), "the end"]
    inner = [calls(("search", {"query": "elm"})), "nothing about elms", "a lot about oaks"]
    executor = make_executor(outer, inner)
    assert steps_of(executor) == [
        ("research", "ok", "nothing about elms"),
        ("note", "ok", "noted x"),
        ("research", "ok", "a lot about oaks"),
    ]


def test_bound_is_exact() -> None:
    verdict = make_executor([task("a")], [calls(("search", {"query": "x"}))]).verify()
    assert verdict.proved
    assert "= 17 (exact)" in str(verdict).split("model calls")[1].splitlines()[0]


def test_bound_is_reached() -> None:
    executor = make_executor([task("a")], [calls(("search", {"query": "x"}))])
    result = executor.run("q")
    assert result.spent.meters["model_calls"] == asked(executor) == 17


def test_too_many_calls_are_rejected() -> None:
    executor = make_executor([task("a", "b", "c"), "done"], ["found"], times=2)
    rejected = "research was not called: a run may call it 2 times, and has."
    assert steps_of(executor) == [
        ("research", "ok", "found"),
        ("research", "ok", "found"),
        ("research", "rejected", rejected),
    ]


def test_stopped_sub_agent_is_an_error() -> None:
    executor = make_executor([task("a"), "done"], [calls(("search", {"query": "x"}))])
    ((_, status, text),) = steps_of(executor)
    assert status == "error"
    assert text.startswith(
        "research has no answer. Stopped after 3 steps: the limit of 3 research.iterations was reached"
    )


def test_call_without_a_task_is_answered() -> None:
    executor = make_executor([calls(("research", {"task": 3})), "done"], ["found"])
    assert steps_of(executor) == [("research", "bad_arguments", "research was not called: it needs a task, a string.")]


def test_tool_errors_are_observed_inside() -> None:
    executor = make_executor([task("a"), "done"], [calls(("search", {"query": "fire"})), "it burns"])
    assert steps_of(executor) == [("research", "ok", "it burns")]


@cases("limit", range(1, 8))
def test_counted_calls_are_asked(limit: int) -> None:
    """A limit in the middle stops the run there, and no call goes uncounted."""
    outer, inner = [task("a", "b"), "done"], [calls(("search", {"query": "x"})), "found"]
    executor = make_executor(outer, inner, limit=limit)
    result = executor.run("q")
    assert result.spent.meters["model_calls"] == asked(executor) <= limit
    assert (result.reason == "model_calls") == (limit < 5)


def test_run_continues_after_a_model_error() -> None:
    outer, inner = [task("a"), "done"], [calls(("search", {"query": "x"})), ModelError("no network")]
    executor = make_executor(outer, inner)
    with pytest.raises(ModelError) as caught:
        executor.run("q")
    snapshot = snapshot_of(caught.value)
    assert snapshot is not None
    assert snapshot.node == "research.plan"
    again = make_executor(["done"], ["found later"])
    stored = type(snapshot).from_json(snapshot.to_json(), again.graph)
    result = again.run(stored)
    assert [one.observation for one in result.steps] == ["found later"]
    # The call that failed is charged, too.
    assert result.spent.meters["model_calls"] == asked(executor) + asked(again) == 5


def test_run_survives_pauses() -> None:
    outer: list[ScriptedReply] = [task("a", "b"), "done"]
    inner: list[ScriptedReply] = [calls(("search", {"query": "x"})), "first", "second"]
    plain = make_executor(outer, inner).run("q")
    shared = ScriptedModel(outer), ScriptedModel(inner)

    def make(observers: Sequence[Any]) -> AgentExecutor:
        agent = create_tool_calling_agent(shared[1], [search])
        helper = AgentExecutor(agent=agent, tools=[search], handle_parsing_errors=True)
        piece = sub_agent(helper, "research", "Find out about a subject.")
        return AgentExecutor(
            agent=create_tool_calling_agent(shared[0], [note]),
            tools=[note],
            handle_parsing_errors=True,
            nodes=[piece],
            observers=observers,
            max_iterations=5,
            max_fan_out=4,
        )

    ending, pauses = run_in_pieces(make, "q")
    assert [one.observation for one in ending.steps] == [one.observation for one in plain.steps] == ["first", "second"]
    assert pauses == 6


def test_streamed_answer_is_that_of_the_outer_agent() -> None:
    executor = make_executor([task("a"), "the end"], ["a secret"])
    assert "".join(executor.stream_answer("q")).splitlines()[-1] == "the end"
    assert "secret" not in "".join(make_executor([task("a"), "the end"], ["a secret"]).stream_answer("q"))


def test_two_sub_agents_on_one_agent() -> None:
    pieces = [sub_agent(executor_of([name], [search]), name, "Help.") for name in ("one", "two")]
    outer = [calls(("two", {"task": "x"}), ("one", {"task": "y"})), "done"]
    executor = executor_of(outer, [note], nodes=pieces, max_iterations=3)
    assert steps_of(executor) == [("two", "ok", "two"), ("one", "ok", "one")]
    assert executor.unplug("one", "two").graph.nodes.keys() == executor_of(outer, [note]).graph.nodes.keys()


def test_nested_sub_agents() -> None:
    inner = executor_of(
        [calls(("deeper", {"task": "x"})), "middle"],
        [note],
        nodes=[sub_agent(executor_of(["deep"], []), "deeper", "-")],
    )
    executor = executor_of([task("a"), "done"], [note], nodes=[sub_agent(inner, "research", "Research.")])
    assert steps_of(executor) == [("research", "ok", "middle")]
    assert "research.deeper.plan" in executor.graph


@pytest.mark.medium
def test_machine_is_verified() -> None:
    executor = make_executor([task("a")], ["found"], max_iterations=2)
    verify_termination(executor, examples=10)


@cases("options", [{"calls": 0}, {"iterations": 0}])
def test_invalid_numbers_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        sub_agent(executor_of(["x"], []), "research", "Research.", **options)


def test_tool_takes_a_task() -> None:
    piece = sub_agent(executor_of(["x"], []), "research", "Research.")
    assert [one.signature for one in piece.tools] == ["research(task: string)"]


def test_model_is_no_executor() -> None:
    # Any: a type checker refuses a model.
    model: Any = ScriptedModel([])
    with pytest.raises(InputError, match="sub_agent: the executor of helper is <ScriptedModel"):
        sub_agent(model, "helper", "Help.")
    with pytest.raises(InputError, match="handoffs: the member helper is <ScriptedModel"):
        handoffs({"helper": model})
