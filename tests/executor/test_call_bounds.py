"""The proved number of tool calls, and what the engine does so that no run makes more."""

import dataclasses
import pickle
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec import actions, agents, effects, errors, messages, models, testing
from graphexec.executor import Acted, Observed, dispatch_tools, parse
from graphexec.nodes import Piece, ask_user, limit_tool, sub_agent
from graphexec.testing.plugin import summary
from graphexec.verify.checker.check import check_certificate
from tests.kernel.machines import pure
from tests.parameters import cases, examples

MODEL = models.ScriptedModel([""])


@gx.tool(repeatable=True)
def lookup(word: str) -> str:
    """Look a word up."""
    return word


@gx.tool(repeatable=True)
def read(word: str) -> str:
    """Read about a word."""
    return word


TOOLS = [lookup, read]
ONE, TWO, ALSO = limit_tool("lookup", 1), limit_tool("lookup", 2), limit_tool("read", 3, name="limit_read")


# Any: the options of the table below.
def make(kind: str = "tool_calling", *nodes: Piece, tools: list[Any] = TOOLS[:1], **options: Any) -> gx.AgentExecutor:
    """Return an executor of an agent of this kind with three iterations."""
    given: dict[str, Any] = {"kind": kind, "max_iterations": 3, "nodes": nodes, **options}
    return gx.create_agent(MODEL, tools, **given)


pass_on = pure("pass_on", Acted, Acted, lambda acted: acted)
twice = pure("twice", Acted, Acted, lambda acted: Acted(acted.run, acted.actions * 2))


def spliced(executor: gx.AgentExecutor, node: gx.Node[Acted, Acted] = pass_on) -> gx.AgentExecutor:
    return executor.splice(gx.edges(node, gx.on(Acted, dispatch_tools)), after=parse, on=Acted)


def decide(steps: object, inputs: object) -> gx.AgentFinish:
    return gx.AgentFinish({"output": ""})


@cases(
    "executor, calls",
    (make("structured", max_iterations=15), "iterations = 15 (exact)"),
    (make("react"), "iterations = 3 (exact)"),
    (make(), "fan_out*iterations = 3,000 (exact)"),
    (gx.AgentExecutor(agent=decide, tools=TOOLS), "fan_out*iterations = 15,000 (exact)"),
    # A lower limit on the calls of a step still holds, and one that is given later.
    (make("react", max_fan_out=0), "fan_out*iterations = 0 (exact)"),
    (make("react").with_limits(gx.agent_limits(fan_out=0)), "fan_out*iterations = 0 (exact)"),
    (make("react", max_fan_out=0).with_limits(gx.agent_limits()), "iterations = 15 (exact)"),
    # What surgery changes keeps what it can.
    (spliced(make("react")), "iterations = 3 (exact)"),
    (spliced(make("react")).with_agent(make().agent), "fan_out*iterations = 3,000 (exact)"),
    (spliced(make("tool_calling", TWO)), "lookup_calls = 2 (at most)"),
    (make("tool_calling", TWO), "lookup_calls = 2 (at most)"),
    (make("tool_calling", TWO).unplug("limit_tool"), "fan_out*iterations = 3,000 (exact)"),
    (make("tool_calling", TWO, max_tool_calls=1), "tool_calls = 1 (at most)"),
    (make("tool_calling", limit_tool("lookup", 0)), "lookup_calls = 0 (at most)"),
    (make("tool_calling", TWO, limit_tool("lookup", 1, name="once")), "lookup_calls = 1 (at most)"),
    (make("react", limit_tool("lookup", 9)), "iterations = 3 (at most)"),
    (make("tool_calling", TWO, ALSO, tools=TOOLS), "lookup_calls + read_calls = 5 (at most)"),
    (make("tool_calling", TWO, tools=TOOLS), "fan_out*iterations = 3,000 (at most)"),
    # The question of the model is no call of a tool.
    (make("tool_calling", TWO, ask_user(lambda _: "yes")), "lookup_calls = 2 (at most)"),
    # A piece of the user's may leave the calls of its tools to dispatch_tools.
    (
        make("tool_calling", TWO, Piece("p", (pass_on,), tools=(read,), acts=True)),
        "fan_out*iterations = 3,000 (at most)",
    ),
    # A handler of the user's knows other tools.
    (make("tool_calling", TWO, handlers={effects.CallTool: print}), "fan_out*iterations = 3,000 (exact)"),
    (
        make("react", sub_agent(make("tool_calling", TWO), "helper", "Helps."), max_iterations=3),
        "2*helper.iterations*helper_calls + iterations = 27 (exact)",
    ),
)
def test_bound_of_tool_calls(executor: gx.AgentExecutor, calls: str) -> None:
    bounds = executor.verify().bounds
    assert bounds is not None
    assert str(bounds.tool_calls) == calls


def test_bounds_of_tools_where_they_are_lower() -> None:
    line = summary("agent", make("tool_calling", TWO, tools=TOOLS).verify())
    assert re.search(r"; tool calls: .*3,000 \(at most\); lookup calls: lookup_calls = 2 \(at most\)$", line)
    assert "lookup calls" not in summary("agent", make("tool_calling", TWO).verify())


def reply(*calls: tuple[str, str]) -> messages.ModelReply:
    return messages.ModelReply("", tuple(messages.ToolCall(f"c{n}", name, arg) for n, (name, arg) in enumerate(calls)))


GOOD, BAD, UNKNOWN = ("lookup", '{"word": "a"}'), ("lookup", "{}"), ("nothing", "{}")


def test_calls_that_are_not_made_do_not_count() -> None:
    model = models.ScriptedModel([reply(UNKNOWN, BAD, GOOD), reply(BAD, GOOD, GOOD)], repeat_last=True)
    run = gx.create_agent(model, [lookup], kind="tool_calling", nodes=[TWO], max_iterations=2).run("?")
    found = ["unknown_tool", "bad_arguments", "ok", "bad_arguments", "ok", "rejected"]
    assert [step.status for step in run.steps] == found
    assert (run.spent["tool_calls"], run.spent["lookup_calls"]) == (2, 2)


@settings(max_examples=examples(200))
@given(st.lists(st.lists(st.sampled_from([GOOD, BAD, UNKNOWN, ("read", '{"word": "b"}')]), min_size=1), min_size=1))
def test_no_run_calls_more_tools(replies: list[list[tuple[str, str]]]) -> None:
    model = models.ScriptedModel([reply(*calls) for calls in replies], repeat_last=True)
    executor = gx.create_agent(model, TOOLS, kind="tool_calling", nodes=[TWO, ALSO], max_iterations=3)
    run = executor.run("?")
    assert run.reason == "iterations"
    assert run.spent["tool_calls"] <= 5


def test_engine_stops_what_the_bounds_exclude() -> None:
    # The engine stops a node that calls more.
    model = models.ScriptedModel([reply(GOOD)], repeat_last=True)
    # The calls pass the first piece of the list last.
    run = gx.create_agent(model, TOOLS, kind="tool_calling", nodes=[twice, ONE]).run("?")
    assert (run.reason, run.spent["tool_calls"]) == ("lookup_calls", 0)
    # An agent of one action is held to one call.
    model = models.ScriptedModel(["Action: lookup\nAction Input: a"])
    with pytest.raises(errors.UndeclaredCountError, match="dispatch_tools asked for 2 effects"):
        spliced(gx.create_agent(model, [lookup], kind="react"), twice).run("?")

    # A reply with more actions is a parse error.
    def read_two(_: object) -> tuple[actions.AgentAction, ...]:
        return (actions.AgentAction("lookup", "a"), actions.AgentAction("lookup", "b"))

    agent: agents.Agent = dataclasses.replace(make("react").agent, read=read_two, model=models.ScriptedModel(["two"]))
    with pytest.raises(errors.ParseError, match="2 actions, and declares max_actions=1"):
        gx.AgentExecutor(agent=agent, tools=[lookup]).run("?")


@cases(
    "limits",
    (("lookup_calls", 1),),
    (("lookup_calls", 1), ("read_calls", 1), ("iterations", -1)),
    (("lookup_calls", 0), ("read_calls", 0)),
    (("read_calls", 5),),
)
def test_checker_refuses_other_limits(limits: tuple[tuple[str, int], ...]) -> None:
    certificate = make("tool_calling", TWO, ALSO, tools=TOOLS).verify().certificate
    assert certificate is not None
    check_certificate(certificate)
    bound = certificate.bounds.tool_calls
    assert bound.potential is not None
    assert bound.potential.limits == (("lookup_calls", 1), ("read_calls", 1))
    number = sum(factor * int(certificate.limits[name] or 0) for name, factor in limits)
    potential = dataclasses.replace(bound.potential, limits=limits)
    forged = dataclasses.replace(bound, form=None, value=None, number=number, potential=potential)
    bounds = dataclasses.replace(certificate.bounds, meters={**certificate.bounds.meters, "tool_calls": forged})
    with pytest.raises(errors.CertificateError, match="its limits do not bound it"):
        check_certificate(dataclasses.replace(certificate, bounds=bounds))


def test_quotas_count_every_call() -> None:
    # The quotas of a forged certificate are those of its flow.
    certificate = make("tool_calling", TWO, tools=TOOLS).verify().certificate
    assert certificate is not None
    forged = dataclasses.replace(certificate.bounds, quotas={"others": certificate.bounds.depth})
    with pytest.raises(errors.CertificateError, match="it bounds quotas that its flow has not, or resets"):
        check_certificate(dataclasses.replace(certificate, bounds=forged))
    ways = tuple(dataclasses.replace(one, resets=("lookup_calls",)) for one in certificate.flow.transitions)
    assert certificate.flow.covers("tool_calls", ()) is False
    assert not dataclasses.replace(certificate.flow, transitions=ways).covers("tool_calls", (("lookup_calls", 1),))

    # A call that no quota counts is an error.
    @gx.node
    def call_nothing(acted: Acted) -> gx.Asks[effects.CallTool, Observed]:
        results = yield from gx.ask_all([effects.CallTool("nothing", "")])
        return Observed(acted.run, acted.actions, results)

    executor = gx.create_agent(models.ScriptedModel([reply(GOOD)]), [lookup], kind="tool_calling", nodes=[TWO])
    node = dataclasses.replace(executor.graph["dispatch_tools"], function=call_nothing.function, parameters={})
    with pytest.raises(errors.NodeError, match="none of its quotas counts"):
        executor.with_graph(gx.replace(executor.graph, node)).run("?")


@cases("policy, exits", (True, 2), (False, 3))
@pytest.mark.parametrize("text", ["no action", "Final Answer: yes", "Action: lookup\nAction Input: a"])
def test_run_ends_with_one_of_the_exits(policy: bool, exits: int, text: str) -> None:
    agent = dataclasses.replace(make("react").agent, model=models.ScriptedModel([text], repeat_last=True))
    executor = gx.AgentExecutor(agent=agent, tools=[lookup], max_iterations=2, handle_parsing_errors=policy)
    verdict = executor.verify()
    named = ["AgentFinish", "StoppedResponse", "ParseError raised by parse"][:exits]
    assert list(verdict.exits) == named
    assert (f"{exits} exits: {', '.join(named)}" in str(verdict)) is (exits == 3)
    assert ("raises ParseError" in f"{executor.graph:mermaid}") is (exits == 3)
    try:
        ending = type(executor.run("?").ending).__name__
    except errors.ParseError:
        ending = "ParseError raised by parse"
    assert ending in named
    # A pickled verdict has the text of its graph.
    assert pickle.loads(pickle.dumps(verdict)).exits == ()


@pytest.mark.medium
@cases(
    "executor",
    make("tool_calling", TWO),
    make("tool_calling", TWO, ALSO, tools=TOOLS, max_fan_out=3),
    make("react", ONE, tools=TOOLS),
)
def test_engine_keeps_the_quotas_on_every_path(executor: gx.AgentExecutor) -> None:
    testing.verify_termination(executor, examples=5)
