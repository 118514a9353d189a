"""Changes of an executor and of its graph: the changed machine is proved within the executor's limits."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

import graphexec as gx
from graphexec import effects, kernel, models
from graphexec import executor as ex
from graphexec.errors import GraphError, InputError
from graphexec.executor import Acted, Ready, dispatch_tools, limit_reached, parse, plan
from graphexec.executor.nodes import Policies
from graphexec.executor.result import Ending
from graphexec.memory import BufferMemory
from graphexec.messages import ChatRequest, UserMessage
from tests.executor.actors import act, answer, call, direct, echo, observations, run_executor, scripted
from tests.kernel.machines import pure
from tests.parameters import cases


@gx.node(when_spent=limit_reached, asks=1)
def review(finish: gx.AgentFinish) -> gx.Asks[effects.CallModel, gx.AgentFinish | ex.Replied]:
    """Ask the model for an improved answer, until its reply is empty."""
    reply = yield from gx.ask(effects.CallModel(ChatRequest((UserMessage(f"Better than {finish.output}?"),))))
    return ex.Replied(finish.run, reply) if reply.content else finish


TO_END: Any = gx.on(gx.AgentFinish, gx.END)
AGAIN: Any = TO_END | gx.on(ex.Replied, parse)
LIMITED: Any = AGAIN | gx.on(ex.Stopped, ex.stopped_response)
REVIEWED: Any = gx.edges(review, LIMITED)
ANSWERS: list[gx.Node[Any, Any]] = [parse, ex.check_return_direct]


def make_reviewer(**options: Any) -> gx.AgentExecutor:
    model = models.ScriptedModel(["one", "two", "three", ""])
    return gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, [echo]), tools=[echo], **options)


def add_review(executor: gx.AgentExecutor, rows: Any = REVIEWED) -> gx.AgentExecutor:
    return executor.splice(rows, after=ANSWERS, on=gx.AgentFinish)


def test_loop_within_the_executors_limits_is_accepted() -> None:
    assert add_review(make_reviewer(max_model_calls=10)).verify().proved
    done = run_executor(lambda: add_review(make_reviewer(max_model_calls=10)))
    assert (done.outcome.output, done.spent["model_calls"]) == ("three", 4)


def test_a_refused_loop_names_the_limit_to_set() -> None:
    with pytest.raises(gx.UnprovedError, match=r"Set max_model_calls, or agent_limits\(model_calls=\.\.\.\)"):
        add_review(make_reviewer())
    assert not add_review(make_reviewer(allow_nonterminating=True)).verify().proved


@gx.node(when_spent=limit_reached)
def debate(finish: gx.AgentFinish) -> gx.Asks[gx.AskHuman, gx.AgentFinish | ex.Replied]:
    yield from gx.ask(gx.AskHuman("?"))
    return finish


doubt = pure("doubt", gx.AgentFinish, gx.AgentFinish | ex.Replied, lambda finish: finish)


DEBATED, DOUBTED = gx.edges(debate, LIMITED), gx.edges(doubt, AGAIN)
_CALLS = dict.fromkeys(("max_model_calls", "max_tool_calls"), 10)
SETTINGS = {**_CALLS, "max_execution_time": 60, "max_iterations": 5, "max_fan_out": 3}


@pytest.mark.medium
@cases("unset", None, *SETTINGS)
@cases("rows", REVIEWED, DEBATED, DOUBTED)
def test_no_refusal_advises_a_limit_that_is_set(rows: Any, unset: str | None) -> None:
    options: dict[str, Any] = {name: value for name, value in SETTINGS.items() if name != unset}
    if unset == "max_iterations":
        options[unset] = None
    refusal = None
    try:
        add_review(make_reviewer(**options), rows)
    except gx.UnprovedError as error:
        refusal = str(error)
    assert (refusal is None) == (rows is REVIEWED and unset != "max_model_calls")
    assert set(re.findall(r"max_\w+", refusal or "")) <= {unset}


def test_surgery_keeps_the_executors_options() -> None:
    plain = make_reviewer(max_model_calls=10, return_intermediate_steps=True)
    changed = add_review(plain)
    assert (changed.limits, changed.agent, changed.return_intermediate_steps) == (plain.limits, plain.agent, True)
    assert "review" not in plain.graph


@gx.node
def proofread(ending: gx.AgentFinish | gx.StoppedResponse) -> gx.AgentFinish | gx.StoppedResponse:
    return gx.AgentFinish({"output": f"{ending.output}!"}) if isinstance(ending, gx.AgentFinish) else ending


@cases("wanted", 1, 2)
def test_guard_on_every_exit_precedes_the_memory(wanted: int) -> None:
    """`END` in the rows then means the node that saves the memory."""
    memory = BufferMemory()
    rows = gx.edges(proofread, TO_END | gx.on(gx.StoppedResponse, gx.END))
    executor = executor_of(answer(), memory=memory).splice(
        rows, after=[*ANSWERS, ex.stopped_response], on=[gx.AgentFinish, gx.StoppedResponse]
    )
    assert {str(edge) for edge in executor.graph.edges if edge.source == "proofread"} == {
        "proofread --AgentFinish--> save_memory",
        "proofread --StoppedResponse--> save_memory",
    }
    assert not [finding for finding in executor.verify().findings if finding.code == "GX027"]
    for _ in range(wanted):
        assert executor.run("q").output == "done!"
    assert memory.load({"input": "q"})["chat_history"].count("AI: done!") == wanted


def test_a_replacement_is_narrowed() -> None:
    @gx.node
    def read(replied: ex.Replied) -> Acted | gx.AgentFinish:
        return gx.AgentFinish({"output": "read"})

    plain = executor_of(answer(), handle_parsing_errors=True)
    with pytest.raises(GraphError, match="parse never returns Ready; remove"):
        plain.replace(kernel.node(name="parse")(read))
    assert plain.replace(kernel.node(name="parse")(read), narrowed=True).run("q").output == "read"


def test_replacement_is_proved_within_the_limits() -> None:
    @gx.node(when_spent=limit_reached, meters=[gx.ITERATIONS])
    def guess(ready: Ready) -> ex.Replied:
        raise AssertionError("nothing calls this")

    guessing = executor_of(answer(), max_iterations=None, max_model_calls=3)
    with pytest.raises(gx.UnprovedError, match="Set max_iterations"):
        guessing.replace(kernel.node(name="plan")(guess))


@gx.node
def go_on(observed: ex.Observed) -> Ready:
    steps = zip(observed.actions, observed.results, strict=True)
    return Ready(observed.run.with_steps([gx.AgentStep(action, result.observation) for action, result in steps]))


NEVER_DIRECT: Any = kernel.node(name="check_return_direct")(go_on)


def test_replacement_forbids_an_outcome() -> None:
    def executor() -> gx.AgentExecutor:
        model = models.ScriptedModel([call("direct", text="direct"), "done"])
        return gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, [direct]), tools=[direct])

    assert executor().run("q").output == "direct"
    narrow = executor().replace(NEVER_DIRECT, narrowed=True)
    assert "check_return_direct --AgentFinish--> END" not in str(narrow.graph)
    assert narrow.verify().proved
    assert narrow.run("q").output == "done"


def test_graph_that_can_only_stop_has_a_warning() -> None:
    @gx.node
    def call_tools(replied: ex.Replied) -> Acted:
        raise AssertionError("nothing calls this")

    plain = executor_of(answer()).replace(NEVER_DIRECT, narrowed=True)
    verdict = plain.replace(kernel.node(name="parse")(call_tools), narrowed=True).verify()
    assert verdict.proved
    assert [(finding.code, finding.severity) for finding in verdict.findings] == [("GX007", "warning")]


@pytest.mark.medium
def test_executor_proves_the_graph_that_was_spliced() -> None:
    plain = make_reviewer(max_model_calls=10)
    changed = plain.with_graph(gx.splice(plain.graph, REVIEWED, after=ANSWERS, on=gx.AgentFinish))
    assert changed.graph.edges == add_review(plain).graph.edges
    endless = gx.splice(plain.graph, DOUBTED, after=parse, on=gx.AgentFinish)
    with pytest.raises(gx.UnprovedError, match="the table alone does not end this loop"):
        plain.with_graph(endless)


# ---- changes of the graph itself: spliced, replaced and wrapped nodes

Run = Callable[[gx.AgentExecutor], gx.RunResult]
Change = Callable[[gx.Machine[Ready, Ending]], gx.Machine[Ready, Ending]]
A, B = act("echo", text="a"), act("echo", text="b")


def executor_of(*turns: Any, change: Change | None = None, own: bool = True, **options: Any) -> gx.AgentExecutor:
    """Return an executor, of which its own graph is changed, or the one without settings."""
    options = {"agent": scripted(*turns), "tools": [echo], **options}
    plain = gx.AgentExecutor(**options)
    return plain if change is None else plain.with_graph(change(plain.graph if own else ex.AGENT_EXECUTOR))


def agree(asked: gx.AskHuman) -> str:
    return "yes"


def refuse(asked: gx.AskHuman) -> str:
    return "no"


@gx.node(when_spent=limit_reached)
def approve(acted: Acted) -> gx.Asks[gx.AskHuman, Acted | gx.AgentFinish]:
    """Ask a person before the tools are called."""
    names = ", ".join(action.tool for action in acted.actions)
    if (yield from gx.ask(gx.AskHuman(f"Call {names}?"))) == "yes":
        return acted
    return gx.AgentFinish({"output": f"{names} was refused"}, "", acted.run)


DISPATCHED: Any = gx.on(Acted, dispatch_tools) | gx.on(ex.Stopped, ex.stopped_response)
APPROVED: Any = gx.edges(approve, DISPATCHED | gx.on(gx.AgentFinish, gx.END))


def behind_parse(rows: Any) -> Change:
    return lambda machine: gx.splice(machine, rows, after=parse, on=Acted)


add_approval = behind_parse(APPROVED)


@cases(("handling", "own"), (True, True), (False, True), (False, False))
def test_every_driver_runs_a_guard_that_asks(handling: bool, own: bool) -> None:
    def executor(person: Any) -> gx.AgentExecutor:
        options: dict[str, Any] = {"handlers": {gx.AskHuman: person}, "handle_parsing_errors": handling}
        return executor_of([A, B], answer(), change=add_approval, own=own, **options)

    yes = run_executor(lambda: executor(agree))
    assert yes.outcome.output == "done"
    assert observations(yes) == ["a", "b"]
    assert [effect.question for effect in yes.asked if isinstance(effect, gx.AskHuman)] == ["Call echo, echo?"]
    no = run_executor(lambda: executor(refuse))
    assert no.outcome.output == "echo, echo was refused"
    assert (no.spent["tool_calls"], no.spent["model_calls"]) == (0, 1)


@gx.node
def say_so(reached: ex.Stopped) -> gx.StoppedResponse:
    """Stop with another text."""
    return gx.StoppedResponse(f"{len(reached.run.steps)} steps are enough", reached.cause, reached.run)


def first_only(acted: Acted) -> Acted:
    return dataclasses.replace(acted, actions=acted.actions[:1])


@cases("own", True, False)
def test_wrapped_node_sees_and_returns_changed_values(own: bool) -> None:
    def executor() -> gx.AgentExecutor:
        model = models.ScriptedModel([(call("echo", "a", text="1"), call("echo", "b", text="2")), "done"])
        agent = gx.create_tool_calling_agent(model, [echo])
        return executor_of(agent=agent, own=own, change=lambda one: gx.wrap(one, dispatch_tools, before=first_only))

    assert observations(run_executor(executor)) == ["1"]


@cases("own", True, False)
def test_a_wrapped_parse_keeps_its_settings(own: bool) -> None:
    def shortened(outcome: Acted | gx.AgentFinish | Ready) -> Acted | gx.AgentFinish | Ready:
        return first_only(outcome) if isinstance(outcome, Acted) else outcome

    wrap: dict[str, Change] = {"change": lambda machine: gx.wrap(machine, parse, after=shortened)}
    result = run_executor(lambda: executor_of([A, B], answer(), own=own, handle_parsing_errors=True, **wrap))
    assert observations(result)[0] == "a"


def test_with_graph_and_with_limits_go_together() -> None:
    plain, limits = executor_of(A, handlers={gx.AskHuman: agree}), gx.Limits(iterations=1)
    for guarded in (
        plain.with_graph(add_approval(plain.graph)).with_limits(limits),
        plain.with_limits(limits).with_graph(add_approval(plain.graph)),
    ):
        assert "approve" in guarded.graph
        assert guarded.run("q").spent.iterations == 1
    assert plain.run("q").spent.iterations == 15


@gx.node(when_spent=limit_reached, meters=[gx.ITERATIONS])
def hasty(ready: Ready) -> ex.Replied:
    """Decide without the agent."""
    return ex.Replied(ready.run, effects.Decided(answer("at once")))


@cases(
    ("name", "node", "output", "calls"),
    ("plan", hasty, "at once", 0),
    ("stopped_response", say_so, "2 steps are enough", 2),
)
def test_users_node_may_replace_the_executors(name: str, node: Any, output: str, calls: int) -> None:
    change: Change = lambda graph: gx.replace(graph, kernel.node(name=name)(node))  # noqa: E731
    result = run_executor(lambda: executor_of(A, change=change, max_iterations=2))
    assert (result.outcome.output, result.spent["model_calls"]) == (output, calls)


def test_executor_runs_its_graph() -> None:
    executor = gx.AgentExecutor(agent=gx.create_react_agent(models.ScriptedModel([]), []), tools=[])
    assert [edge.target for edge in executor.graph.edges if edge.source == "plan"] == ["parse", "stopped_response"]
    assert not any("--Ready--> plan" in str(edge) for edge in executor.graph.edges if edge.source == "parse")
    handling = gx.AgentExecutor(agent=executor.agent, tools=[], handle_parsing_errors=True)
    assert any(str(edge) == "parse --Ready--> plan" for edge in handling.graph.edges)
    assert plan.name in executor.graph


def embed_in_graph(child: Any) -> gx.Machine[Ready, Ending]:
    """Return a graph that embeds another one."""
    inner: Any = gx.embed(child, "inner")
    return gx.graph(gx.edges(inner, gx.on(gx.AgentFinish, gx.END) | gx.on(gx.StoppedResponse, gx.END)), start=inner)


def keep(ready: Ready) -> Ready:
    return ready


INNER, OUTER = executor_of(answer("inner")), executor_of(answer("outer"))


# The model and the tools of another executor answer its machine where it is embedded: as it is, changed, or twice.
@cases("inner", INNER.graph, gx.wrap(add_approval(INNER.graph), plan, before=keep), embed_in_graph(INNER.graph))
def test_embedded_graph_of_another_executor_keeps_its_agent(inner: gx.Machine[Ready, Ending]) -> None:
    assert OUTER.with_graph(embed_in_graph(inner)).run("q").output == "inner"


def test_graph_of_another_executor_is_refused() -> None:
    for graph in (INNER.graph, add_approval(INNER.graph), INNER.with_handlers({gx.AskHuman: agree}).graph):
        with pytest.raises(
            InputError, match=r"of another executor; .* graph\.with_settings\(\); .* embed\(inner, name\)"
        ):
            OUTER.with_graph(graph)
    assert OUTER.with_graph(INNER.graph.with_settings()).run("q").output == "outer"
    limited = OUTER.with_limits(dataclasses.replace(OUTER.limits, fan_out=2))
    assert limited.with_graph(OUTER.graph).run("q").output == "outer"
    # Its nodes get the outer agent.
    planning: Any = INNER.graph["plan"]
    assert OUTER.replace(planning).run("q").output == "outer"


def test_explicit_settings_are_kept_where_the_graph_is_embedded() -> None:
    agent = gx.create_react_agent(models.ScriptedModel([]), [echo])
    machine = embed_in_graph(ex.AGENT_EXECUTOR.with_settings(agent, Policies()))
    # The settings have no handlers, so those of the outer executor answer.
    outer = executor_of(agent=gx.create_react_agent(models.ScriptedModel(["Final Answer: done"]), [echo]))
    assert outer.with_graph(machine).run("q").output == "done"


@gx.tool(name="echo")
def other_echo(text: str) -> str:
    """Return another text."""
    return "no"


def test_graph_without_settings_runs_with_the_outer_agent() -> None:
    model = models.ScriptedModel(["Action: echo\nAction Input: a", "Final Answer: done"])
    agent = gx.create_react_agent(model, [other_echo])
    executor = executor_of(agent=agent, tools=[other_echo], own=False, change=embed_in_graph)
    assert [step.observation for step in executor.run("q").steps] == ["no"]
