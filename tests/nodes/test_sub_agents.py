"""`sub_agent`: calls that an embedded executor carries out; `handoffs`: agents that hand the conversation over."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from graphexec import AgentExecutor, AgentFinish, InputError, ModelError, messages, node, nodes, tool
from graphexec.agents import Agent
from graphexec.models import ScriptedModel
from graphexec.tools import AnyTool
from tests.executor.actors import call, caller_of, snapshot_after
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


SEARCH = call("search", query="x")


def task(*tasks: str) -> list[messages.ToolCall]:
    return [call("research", f"c{number}", task=one) for number, one in enumerate(tasks)]


def executor_of(replies: Any, tools: Sequence[AnyTool], **options: Any) -> AgentExecutor:
    """Return an executor of a scripted model, or of one with these replies."""
    model = replies if isinstance(replies, ScriptedModel) else ScriptedModel(replies, repeat_last=True)
    return caller_of(model, *tools, handle_parsing_errors=True, **options)


def make_executor(outer: Any, inner: Any, *, times: int = 4, **options: Any) -> AgentExecutor:
    piece = nodes.sub_agent(executor_of(inner, [search]), "research", "Find out about a subject.", calls=times)
    options = {"max_iterations": 5, "max_fan_out": 4, **options}
    return executor_of(outer, [note], nodes=[piece], **options)


def models_of(executor: AgentExecutor) -> list[ScriptedModel]:
    """Return the scripted models of an executor and of the agents in its pieces."""
    return [agent.model for agent in executor.graph.find_settings(Agent) if isinstance(agent.model, ScriptedModel)]


def asked(executor: AgentExecutor) -> int:
    return sum(len(model.requests) for model in models_of(executor))


def steps_of(executor: AgentExecutor) -> list[tuple[str, str, Any]]:
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


# Any: a type checker refuses a model.
WRONG: Any = ScriptedModel([])


@cases(
    ("mistake", "text"),
    (lambda: nodes.sub_agent(executor_of(["x"], []), "research", "Research.", calls=0), "calls="),
    (lambda: nodes.sub_agent(executor_of(["x"], []), "research", "Research.", iterations=0), "iterations="),
    (lambda: nodes.sub_agent(WRONG, "helper", "Help."), "sub_agent: the executor of helper is <ScriptedModel"),
    (lambda: nodes.handoffs(WRONG), "handoffs has members=.*; give a dict of executors by name"),
    (lambda: nodes.handoffs({"helper": WRONG}), "handoffs: the member helper is <ScriptedModel"),
)
def test_mistakes_are_refused(mistake: Callable[[], object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        mistake()


@tool
def book(what: str) -> str:
    """Book something."""
    return f"booked {what}"


def to(name: str) -> messages.ToolCall:
    return call(f"transfer_to_{name}")


def team(host: Any, members: dict[str, Any], **options: Any) -> AgentExecutor:
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
    @node
    def withhold(finish: AgentFinish) -> AgentFinish:
        return AgentFinish({"output": "withheld"}, "", finish.run)

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
def test_counted_calls_are_asked(make: Callable[..., AgentExecutor], needed: int, limit: int) -> None:
    """A limit in the middle stops the run there, and no call goes uncounted."""
    executor = make(max_model_calls=limit)
    result = executor.run("q")
    assert result.spent.meters["model_calls"] == asked(executor) <= limit
    assert (result.reason == "model_calls") == (limit < needed)
