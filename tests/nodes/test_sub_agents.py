"""Agents that an agent calls: sub_agent, handoffs, and map_agents, which runs the tasks of a reply at once."""

import asyncio
import dataclasses
import json
import pickle
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec import effects, messages, nodes, testing, verify
from graphexec.agents import Agent
from graphexec.draw.model.picture import picture_of
from graphexec.errors import InputError, ModelError, ServerError
from graphexec.models import ScriptedModel
from graphexec.nodes import map_agents
from graphexec.tools import AnyTool
from tests.executor.actors import HOW, Running, act, answer, call, caller_of, echo, scripted, snapshot_after
from tests.nodes.shelf import proof_of
from tests.parameters import cases, examples, thorough


@gx.tool
def search(query: str) -> str:
    """Search the archive."""
    if query == "fire":
        raise ValueError("the archive burns")
    return f"found {query}"


@gx.tool
def note(text: str) -> str:
    """Write a note."""
    return f"noted {text}"


SEARCH = call("search", query="x")


def task(*tasks: str) -> list[messages.ToolCall]:
    return [call("research", f"c{number}", task=one) for number, one in enumerate(tasks)]


def executor_of(replies: Any, tools: Sequence[AnyTool], **options: Any) -> gx.AgentExecutor:
    """Return an executor of a scripted model, or of one with these replies."""
    model = replies if isinstance(replies, ScriptedModel) else ScriptedModel(replies, repeat_last=True)
    return caller_of(model, *tools, handle_parsing_errors=True, **options)


def make_executor(outer: Any, inner: Any, *, times: int = 4, **options: Any) -> gx.AgentExecutor:
    piece = nodes.sub_agent(executor_of(inner, [search]), "research", "Find out about a subject.", calls=times)
    options = {"max_iterations": 5, "max_fan_out": 4, **options}
    return executor_of(outer, [note], nodes=[piece], **options)


def models_of(executor: gx.AgentExecutor) -> list[ScriptedModel]:
    """Return the scripted models of an executor and of the agents in its pieces."""
    return [agent.model for agent in executor.graph.find_settings(Agent) if isinstance(agent.model, ScriptedModel)]


def asked(executor: gx.AgentExecutor) -> int:
    return sum(len(model.requests) for model in models_of(executor))


def steps_of(executor: gx.AgentExecutor) -> list[tuple[str, str, Any]]:
    return [(one.action.tool, one.status, one.observation) for one in executor.run("q").steps]


def test_calls_keep_their_order() -> None:
    elms, oaks = task("elms", "oaks")
    outer = [[elms, call("note", "n", text="x"), oaks], "the end"]
    inner = [call("search", query="elm"), "nothing about elms", "a lot about oaks"]
    executor = make_executor(outer, inner)
    assert steps_of(executor) == [
        ("research", "ok", "nothing about elms"),
        ("note", "ok", "noted x"),
        ("research", "ok", "a lot about oaks"),
    ]


def test_bound_is_exact_and_reached() -> None:
    executor = make_executor([task("a")], [SEARCH])
    verdict = executor.verify()
    assert verdict.proved
    assert "= 17 (exact)" in str(verdict).split("model calls")[1].splitlines()[0]
    assert executor.run("q").spent.meters["model_calls"] == asked(executor) == 17


NO_TASK = "research was not called: task: Input should be a valid string. Call it as research(task: string)."
REJECTED = "research was not called: a run may call it 2 times, and has."


@cases(
    ("made", "inner", "steps"),
    (task("a", "b", "c"), ["found"], ["ok found", "ok found", f"rejected {REJECTED}"]),
    (call("research", task=3), ["found"], [f"bad_arguments {NO_TASK}"]),
    # Errors of a tool are observed inside.
    (task("a"), [call("search", query="fire"), "it burns"], ["ok it burns"]),
)
def test_calls_are_answered(made: Any, inner: list[Any], steps: list[str]) -> None:
    executor = make_executor([made, "done"], inner, times=2)
    assert steps_of(executor) == [("research", *step.split(" ", 1)) for step in steps]


def test_stopped_sub_agent_is_an_error() -> None:
    executor = make_executor([task("a"), "done"], [SEARCH])
    ((_, status, text),) = steps_of(executor)
    assert status == "error"
    assert text.startswith("research has no answer. Stopped after 3 steps: the limit of 3 research.iterations was reac")


def test_run_continues_after_a_model_error() -> None:
    outer, inner = [task("a"), "done"], [SEARCH, ModelError("no network")]
    executor = make_executor(outer, inner)
    snapshot = snapshot_after(ModelError, lambda: executor.run("q"))
    assert snapshot.node == "research.plan"
    again = make_executor(["done"], ["found later"])
    stored = type(snapshot).from_json(snapshot.to_json(), again.graph)
    result = again.run(stored)
    assert [one.observation for one in result.steps] == ["found later"]
    # The call that failed is charged, too.
    assert result.spent.meters["model_calls"] == asked(executor) + asked(again) == 5


def test_two_sub_agents_on_one_agent() -> None:
    pieces = [nodes.sub_agent(executor_of([name], [search]), name, "Help.") for name in ("one", "two")]
    outer = [[call("two", task="x"), call("one", "c2", task="y")], "done"]
    executor = executor_of(outer, [note], nodes=pieces, max_iterations=3)
    assert steps_of(executor) == [("two", "ok", "two"), ("one", "ok", "one")]


def test_nested_sub_agents() -> None:
    deeper = nodes.sub_agent(executor_of(["deep"], []), "deeper", "-")
    inner = executor_of([call("deeper", task="x"), "middle"], [note], nodes=[deeper])
    executor = executor_of([task("a"), "done"], [note], nodes=[nodes.sub_agent(inner, "research", "Research.")])
    assert "research.deeper.plan" in executor.graph
    assert [one.signature for one in deeper.tools] == ["deeper(task: string)"]
    assert steps_of(executor) == [("research", "ok", "middle")]
    # The streamed answer is that of the outer agent.
    executor = make_executor([task("a"), "the end"], ["a secret"])
    answer = "".join(executor.stream_answer("q"))
    assert answer.splitlines()[-1] == "the end"
    assert "secret" not in answer


@gx.tool
def book(what: str) -> str:
    """Book something."""
    return f"booked {what}"


def to(name: str) -> messages.ToolCall:
    return call(f"transfer_to_{name}")


def team(host: Any, members: dict[str, Any], **options: Any) -> gx.AgentExecutor:
    """Return an executor with the host `host` and these members."""
    chosen = {name: options.pop(name) for name in ("handoffs", "iterations") if name in options}
    piece = nodes.handoffs({name: executor_of(replies, [book]) for name, replies in members.items()}, **chosen)
    options.setdefault("max_iterations", 4)
    return executor_of(host, [book], nodes=[piece, *options.pop("nodes", ())], **options)


def test_basic_swarm() -> None:
    """A member continues from the steps so far, and its answer is that of the run."""
    flights = [call("book", what="flight"), to("hotels")]
    executor = team(flights, {"hotels": [call("book", what="hotel"), "all booked"]})
    result = executor.run("trip")
    assert result.output == "all booked"
    assert [(one.action.tool, one.observation) for one in result.steps] == [
        ("book", "booked flight"),
        ("transfer_to_hotels", "Handed over to hotels."),
        ("book", "booked hotel"),
    ]
    first = models_of(executor)[1].requests[0]
    assert "booked flight" in str(first)
    assert "transfer_to_host" in str(first)
    assert "transfer_to_hotels" not in str(getattr(first, "tools", ""))


@cases(
    ("members", "output"),
    ({"hotels": [to("host")]}, "done by the host"),
    ({"hotels": [to("cars")], "cars": ["a car"]}, "a car"),
)
def test_handoffs_go_to_the_host_and_to_members(members: dict[str, Any], output: str) -> None:
    assert team([to("hotels"), "done by the host"], members).run("trip").output == output


def test_other_calls_of_a_handoff_are_not_done() -> None:
    both = [call("book", what="late"), call("transfer_to_hotels", "c2"), call("transfer_to_hotels", "c3")]
    assert steps_of(team([both], {"hotels": ["done"]})) == [
        ("book", "rejected", "Not done: the conversation was handed over to hotels."),
        ("transfer_to_hotels", "ok", "Handed over to hotels."),
        ("transfer_to_hotels", "rejected", "Not done: the conversation was handed over to hotels."),
    ]


def test_ping_pong_ends() -> None:
    executor = team([to("hotels")], {"hotels": [to("host")]}, max_iterations=15)
    result = executor.run("trip")
    assert (result.reason, result.output) == ("handoffs", "Agent stopped due to handoff limit.")
    assert result.spent.meters["model_calls"] == asked(executor) == 4


def test_bound_holds() -> None:
    working = [call("book", what="x")] * 3
    executor = team([to("hotels")], {"hotels": [*working, to("cars")], "cars": [*working, to("hotels")]})
    verdict = executor.verify()
    assert verdict.proved
    assert "here 16" in str(verdict).split("model calls")[1].splitlines()[0]
    result = executor.run("trip")
    assert result.spent.meters["model_calls"] == asked(executor) <= 16


def test_guard_sees_the_answers_of_members() -> None:
    @gx.node
    def withhold(finish: gx.AgentFinish) -> gx.AgentFinish:
        return gx.AgentFinish({"output": "withheld"}, "", finish.run)

    guarded = [team([to("hotels")], {"hotels": ["the PIN"]}, nodes=[withhold]) for _ in range(2)]
    assert guarded[0].run("trip").output == "withheld"
    assert "PIN" not in "".join(guarded[1].stream_answer("trip"))
    assert "".join(team([to("hotels")], {"hotels": ["booked"]}).stream_answer("trip")) == "booked"


@cases("members", {}, {"host": ["x"]}, {"a hotel": ["x"]})
def test_invalid_members_are_refused(members: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="give each a name of its own"):
        team(["x"], members)


@cases("limit", *range(1, 8))
@cases(
    ("make", "needed"),
    (partial(make_executor, [task("a", "b"), "done"], [SEARCH, "found"]), 5),
    (partial(team, [to("hotels")], {"hotels": [call("book", what="x"), "done"]}), 3),
)
def test_counted_calls_are_asked(make: Callable[..., gx.AgentExecutor], needed: int, limit: int) -> None:
    """A limit in the middle stops the run there, and no call goes uncounted."""
    executor = make(max_model_calls=limit)
    result = executor.run("q")
    assert result.spent.meters["model_calls"] == asked(executor) <= limit
    assert (result.reason == "model_calls") == (limit < needed)


# ---- map_agents


def call_all(*tasks: str, call_id: str = "c1") -> messages.ToolCall:
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
    model = ScriptedModel([*replies, "done"], repeat_last=True)
    return caller_of(model, nodes=[map_agents(child, most=most)], handle_parsing_errors=True, **options)


@HOW
def test_each_task_has_its_answer(run: Running) -> None:
    result = run(make_outer(make_child(), call_all("tea", "down", "lost", "jam")))
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
    result = run(make_outer(child, [call_all("a", "b"), call_all("c", call_id="c2")]))
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
    result = run(make_outer(make_child(), call_all("a", "b"), **{limit: most}))
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
    outer = make_outer(child, call_all("a", "b", "c"), max_execution_time=5)
    result = clock.run(testing.on_loop_time(outer, clock).arun("q"))
    assert (result.reason, clock.seconds, result.spent["model_calls"]) == ("seconds", 5, 4)
    assert str(result.steps[0].observation).count("The run was cut off: ") == 3


def test_access_of_the_runs_is_checked_first() -> None:
    class Locked(ScriptedModel):
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

    outer = make_outer(gx.AgentExecutor(agent=decide, tools=[echo]), call_all("a", "b"), tool_concurrency=1)
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
    model = ScriptedModel([])
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
    return gx.AgentExecutor(agent=gx.create_react_agent(ScriptedModel([]), [echo], prompt=prompt), tools=[echo])


# Any: a type checker refuses a model.
WRONG: Any = ScriptedModel([])
UNBOUNDED = {"max_iterations": None, "allow_nonterminating": True}


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
    replies = [call_all(*map(str, range(tasks))) for tasks in data.draw(many, label="tasks")]
    limit = data.draw(st.none() | st.integers(1, 40), label="limit")
    model = ScriptedModel([*replies, "done"], repeat_last=True)
    outer = caller_of(model, nodes=[map_agents(child, most=3)], max_iterations=4, max_model_calls=limit)
    result = asyncio.run(outer.arun("q")) if data.draw(st.booleans(), label="async") else outer.run("q")
    assert result.spent["model_calls"] == count[0] + len(model.requests)
    bounds = proof_of(outer).bounds
    assert result.spent["model_calls"] <= (bounds.model_calls.number or 0)
    assert result.spent["tool_calls"] <= (bounds.tool_calls.number or 0)


test_calls_of_many_runs_are_counted = thorough(test_calls_are_counted_within_the_bound, 300, st.data())


@cases(
    ("mistake", "error", "text"),
    (lambda: nodes.sub_agent(executor_of(["x"], []), "research", "Research.", calls=0), InputError, "calls="),
    (lambda: nodes.sub_agent(executor_of(["x"], []), "research", "Research.", iterations=0), InputError, "iterations="),
    (lambda: nodes.sub_agent(WRONG, "aid", "Help."), InputError, "sub_agent: the executor of aid is <ScriptedModel"),
    (lambda: nodes.handoffs(WRONG), InputError, "handoffs has members=.*; give a dict of executors by name"),
    (lambda: nodes.handoffs({"helper": WRONG}), InputError, "handoffs: the member helper is <ScriptedModel"),
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
