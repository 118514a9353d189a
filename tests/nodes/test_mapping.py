"""`map_agents`: the tasks of a reply are runs of another executor, all at once."""

import asyncio
import dataclasses
import json
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec import effects, messages, models, testing, verify
from graphexec.draw.model.picture import picture_of
from graphexec.errors import InputError, ModelError, ServerError
from graphexec.nodes import map_agents
from tests.executor.actors import HOW, Running, act, answer, caller_of, echo, scripted, snapshot_after
from tests.nodes.shelf import proof_of
from tests.parameters import cases, examples, thorough


def call(*tasks: str, call_id: str = "c1") -> messages.ToolCall:
    return messages.ToolCall(call_id, "research_all", json.dumps({"tasks": tasks}))


def make_child(**options: Any) -> gx.AgentExecutor:
    """Return an executor that fails for "down", never ends for "lost", and else answers in two decisions."""

    def decide(steps: Any, inputs: dict[str, Any]) -> Any:
        task = inputs["input"]
        if task == "down" and steps:
            raise ServerError("overloaded")
        if steps and task != "lost":
            return gx.AgentFinish({"output": f"all of {task}"})
        return gx.AgentAction("echo", {"text": task})

    options = {"max_iterations": 3, "max_fan_out": 1, **options}
    return gx.AgentExecutor(agent=decide, tools=[echo], **options)


def make_outer(child: gx.AgentExecutor, *replies: Any, most: int = 8, **options: Any) -> gx.AgentExecutor:
    model = models.ScriptedModel([*replies, "done"], repeat_last=True)
    return caller_of(model, nodes=[map_agents(child, most=most)], handle_parsing_errors=True, **options)


@HOW
def test_each_task_has_its_answer(run: Running) -> None:
    result = run(make_outer(make_child(), call("tea", "down", "lost", "jam")))
    (step,) = result.steps
    assert step.observation == (
        "Task 1: tea\nall of tea\n\n"
        "Task 2: down\nThis task failed: ServerError: overloaded\n\n"
        "Task 3: lost\nThis task has no answer: Agent stopped due to iteration limit or time limit.\n\n"
        "Task 4: jam\nall of jam"
    )
    assert (step.status, result.output) == ("ok", "done")
    assert result.spent["model_calls"] == 2 + 2 + 2 + 3 + 2
    assert (result.spent["tool_calls"], result.spent["nested_runs"]) == (1 + 1 + 3 + 1, 4)


@HOW
def test_all_calls_of_a_reply_run_at_once(run: Running) -> None:
    together = threading.Barrier(3, timeout=30)

    def decide(steps: Any, inputs: dict[str, Any]) -> Any:
        together.wait()
        return gx.AgentFinish({"output": inputs["input"]})

    child = gx.AgentExecutor(agent=decide, tools=[])
    result = run(make_outer(child, [call("a", "b"), call("c", call_id="c2")]))
    assert [step.observation for step in result.steps] == ["Task 1: a\na\n\nTask 2: b\nb", "Task 1: c\nc"]


FEWER = "research_all takes at most 2 tasks in one turn; give fewer, and the others in the next turn."


@HOW
@cases(
    ("arguments", "status", "says", "runs"),
    ({"tasks": ["a", "b", "c"]}, "bad_arguments", FEWER, 0),
    ({"tasks": []}, "bad_arguments", "research_all got no tasks; give at least one.", 0),
    ({"tasks": "tea"}, "bad_arguments", "tasks", 0),
    # Tasks without answers are an error.
    ({"tasks": ["lost", "down"]}, "error", "Task 1: lost", 2),
)
def test_wrong_tasks_are_explained(run: Running, arguments: Any, status: str, says: str, runs: int) -> None:
    result = run(make_outer(make_child(), messages.ToolCall("c1", "research_all", json.dumps(arguments)), most=2))
    (step,) = result.steps
    assert (step.status, result.spent["nested_runs"]) == (status, runs)
    assert says in str(step.observation)


@HOW
@cases(("limit", "most"), ("max_model_calls", 4), ("max_tokens", 4), ("max_nested_runs", 1))
def test_runs_share_what_is_left(run: Running, limit: str, most: int) -> None:
    result = run(make_outer(make_child(), call("a", "b"), **{limit: most}))
    assert result.spent[limit.removeprefix("max_")] == most
    assert "This task has no answer: Agent stopped due to" in str(result.steps[0].observation)


def test_deadline_cuts_the_runs() -> None:
    @gx.tool
    async def wait(text: str) -> str:
        """Wait for an hour, once."""
        await asyncio.sleep(3600)
        return text

    clock = testing.VirtualClock()
    agent = scripted(act("wait", text="a"), answer())
    child = testing.on_loop_time(gx.AgentExecutor(agent=agent, tools=[wait]), clock)
    outer = make_outer(child, call("a", "b", "c"), max_execution_time=5)
    result = clock.run(testing.on_loop_time(outer, clock).arun("q"))
    assert (result.reason, clock.seconds, result.spent["model_calls"]) == ("seconds", 5, 4)
    assert str(result.steps[0].observation).count("The run was cut off: ") == 3


def test_access_of_the_runs_is_checked_first() -> None:
    class Locked(models.ScriptedModel):
        def check_access(self) -> None:
            raise ModelError("locked")

    outer = make_outer(caller_of(Locked(["done"]), echo))
    with pytest.raises(ModelError, match="locked"):
        outer.check_access()


class Killed(BaseException):
    """The process is killed."""


@HOW
def test_resumed_run_keeps_its_answers(run: Running) -> None:
    """The third call of the model kills the process, in the second task; each task takes two calls."""
    asked: list[str] = []

    def decide(steps: Any, inputs: dict[str, Any]) -> Any:
        asked.append(inputs["input"])
        if len(asked) == 3:
            raise Killed
        return answer(inputs["input"]) if steps else act("echo", text="a")

    outer = make_outer(gx.AgentExecutor(agent=decide, tools=[echo]), call("a", "b"), tool_concurrency=1)
    snapshot = snapshot_after(Killed, lambda: run(outer)).restarted()
    result = run(outer, gx.Snapshot.from_json(snapshot.to_json(), outer.graph))
    assert result.steps[0].observation == "Task 1: a\na\n\nTask 2: b\nb"
    assert asked == ["a", "a", "b", "b", "b"]
    # The call that was in flight is charged again, with its run.
    assert (result.spent["model_calls"], result.spent["nested_runs"]) == (1 + 5 + 1, 3)


def test_effect_of_a_task_is_copied_as_data() -> None:
    (kind,) = map_agents(make_child()).nodes[0].effects
    effect: Any = kind
    assert pickle.loads(pickle.dumps(effect({"input": "a"}))) == effects.RunGraph({"input": "a"})


@pytest.mark.medium
def test_bound_grows_by_the_runs() -> None:
    executor = make_outer(make_child(), most=4, max_iterations=5, max_fan_out=2)
    certificate = proof_of(executor)
    verify.check(certificate, executor.graph)
    assert str(certificate.bounds.model_calls) == "65 (at most)"
    assert str(certificate.bounds.tool_calls) == "70 (at most)"
    assert executor.graph["research_all"].group == "research_all"
    assert any(box.name == "research_all" for box in picture_of(executor.verify()).boxes)
    testing.verify_termination(executor, examples=5)


def test_runs_of_tools_and_of_tasks_are_both_counted() -> None:
    child = make_child()
    model = models.ScriptedModel([])
    options: dict[str, Any] = {"max_iterations": 2, "max_fan_out": 1}
    outer = caller_of(model, child.as_tool("ask", "Ask."), nodes=[map_agents(child, most=1)], **options)
    certificate = proof_of(outer)
    read = verify.Certificate.from_json(certificate.to_json())
    assert (len(read.nested), read.nested) == (2, certificate.nested)
    verify.check(read, outer.graph)
    # Two decisions, two calls of the gx.tool and two tasks, with up to three calls each.
    assert certificate.bounds.model_calls.number == 2 + 2 * 3 + 2 * 3
    # At most one run: that is less.
    limited = outer.with_limits(dataclasses.replace(outer.limits, nested_runs=1))
    assert proof_of(limited).bounds.model_calls.number == 2 + 3
    verify.check(proof_of(limited), limited.graph)


def of_two_inputs() -> gx.AgentExecutor:
    prompt = "{topic} for {reader} {agent_scratchpad} {tools} {tool_names}"
    return gx.AgentExecutor(agent=gx.create_react_agent(models.ScriptedModel([]), [echo], prompt=prompt), tools=[echo])


# Any: a type checker refuses a model.
WRONG: Any = models.ScriptedModel([])
UNBOUNDED = {"max_iterations": None, "allow_nonterminating": True}


@cases(
    ("mistake", "error", "text"),
    (lambda: map_agents(make_child(), name="research all"), InputError, "map_agents has name="),
    (lambda: map_agents(make_child(), description=""), InputError, "map_agents has description="),
    (lambda: map_agents(make_child(), most=0), InputError, "map_agents has most="),
    (lambda: map_agents(of_two_inputs()), InputError, "has the inputs topic, reader; pass one whose agent has one"),
    (lambda: map_agents(make_child(**UNBOUNDED)), verify.UnprovedError, "GX016 at plan"),
    (lambda: map_agents(WRONG), InputError, "map_agents: the executor is <ScriptedModel"),
)
def test_mistakes_are_refused(mistake: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        mistake()


@pytest.mark.medium
@settings(max_examples=examples(30), deadline=None)
@given(st.data())
def test_calls_are_counted_within_the_bound(data: st.DataObject) -> None:
    """Tasks fail and stop in the middle, and the limits are low."""
    count, lock = [0], threading.Lock()
    failing = data.draw(st.sets(st.integers(1, 15)), label="failing calls")

    def decide(steps: Any, inputs: dict[str, Any]) -> Any:
        with lock:
            count[0] += 1
            number = count[0]
        if number in failing:
            raise ServerError("down")
        return gx.AgentFinish({"output": "x"}) if steps else gx.AgentAction("echo", {"text": "a"})

    child = gx.AgentExecutor(
        agent=decide, tools=[echo], max_iterations=data.draw(st.integers(1, 3), label="iterations")
    )
    many = st.lists(st.integers(1, 4), min_size=1, max_size=3)
    replies = [call(*map(str, range(tasks))) for tasks in data.draw(many, label="tasks")]
    limit = data.draw(st.none() | st.integers(1, 40), label="limit")
    model = models.ScriptedModel([*replies, "done"], repeat_last=True)
    outer = caller_of(model, nodes=[map_agents(child, most=3)], max_iterations=4, max_model_calls=limit)
    result = asyncio.run(outer.arun("q")) if data.draw(st.booleans(), label="async") else outer.run("q")
    assert result.spent["model_calls"] == count[0] + len(model.requests)
    bounds = proof_of(outer).bounds
    assert result.spent["model_calls"] <= (bounds.model_calls.number or 0)
    assert result.spent["tool_calls"] <= (bounds.tool_calls.number or 0)


test_calls_of_many_runs_are_counted = thorough(test_calls_are_counted_within_the_bound, 300, st.data())
