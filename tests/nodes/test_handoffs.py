"""`handoffs`: agents that hand the conversation over to each other."""

from typing import Any

import pytest

from graphexec import AgentExecutor, AgentFinish, InputError, messages, node, nodes, tool
from tests.executor.actors import call
from tests.nodes.test_sub_agents import asked, executor_of, models_of, steps_of
from tests.parameters import cases


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


@cases("limit", *range(1, 6))
def test_counted_calls_are_asked(limit: int) -> None:
    executor = team([to("hotels")], {"hotels": [call("book", what="x"), "done"]}, max_model_calls=limit)
    result = executor.run("trip")
    assert result.spent.meters["model_calls"] == asked(executor) <= limit
    assert (result.reason == "model_calls") == (limit < 3)


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
