"""An executor's own surgery: the changed machine is proved within the executor's limits."""

from __future__ import annotations

import re
from typing import Any

import pytest

import graphexec as gx
from graphexec import executor as ex
from graphexec.effects import CallModel
from graphexec.errors import GraphError, InputError, UndeclaredOutcomeError
from graphexec.executor import Acted, LimitReached, Ready, Replied, check_return_direct, limit_reached, parse, plan
from graphexec.kernel import rename
from graphexec.memory import BufferMemory
from graphexec.messages import ChatRequest, UserMessage
from graphexec.models import ScriptedModel
from tests.executor.actors import act, answer, call, direct, echo, run_executor, scripted
from tests.parameters import cases


@gx.charged(when_spent=limit_reached, asks=1)
@gx.node
def review(finish: gx.AgentFinish) -> gx.Asks[CallModel, gx.AgentFinish | Replied]:
    """Ask the model for an improved answer, until its reply is empty."""
    reply = yield from gx.ask(CallModel(ChatRequest((UserMessage(f"Better than {finish.output}?"),))))
    return Replied(finish.run, reply) if reply.content else finish


TO_END: Any = gx.on(gx.AgentFinish, gx.END)
AGAIN: Any = TO_END | gx.on(Replied, parse)
LIMITED: Any = AGAIN | gx.on(LimitReached, ex.stopped_response)
REVIEWED: Any = gx.edges(review, LIMITED)
ANSWERS: list[gx.Node[Any, Any]] = [parse, check_return_direct]


def make_reviewer(**options: Any) -> gx.AgentExecutor:
    model = ScriptedModel(["one", "two", "three", ""])
    return gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, [echo]), tools=[echo], **options)


def add_review(executor: gx.AgentExecutor, rows: Any = REVIEWED) -> gx.AgentExecutor:
    return executor.splice(rows, after=ANSWERS, on=gx.AgentFinish)


def answering(**options: Any) -> gx.AgentExecutor:
    return gx.AgentExecutor(agent=scripted(answer("done")), tools=[], **options)


def test_loop_within_the_executors_limits_is_accepted() -> None:
    assert add_review(make_reviewer(max_model_calls=10)).verify().proved
    done = run_executor(lambda: add_review(make_reviewer(max_model_calls=10)))
    assert (done.outcome.output, done.spent["model_calls"]) == ("three", 4)


def test_a_refused_loop_names_the_limit_to_set() -> None:
    with pytest.raises(gx.UnprovedError, match=r"Set max_model_calls, or agent_limits\(model_calls=\.\.\.\)"):
        add_review(make_reviewer())
    assert not add_review(make_reviewer(allow_nonterminating=True)).verify().proved


@gx.charged(when_spent=limit_reached)
@gx.node
def debate(finish: gx.AgentFinish) -> gx.Asks[gx.AskHuman, gx.AgentFinish | Replied]:
    yield from gx.ask(gx.AskHuman("?"))
    return finish


@gx.node
def doubt(finish: gx.AgentFinish) -> gx.AgentFinish | Replied:
    return finish


DEBATED, DOUBTED = gx.edges(debate, LIMITED), gx.edges(doubt, AGAIN)
SETTINGS = dict.fromkeys(("max_model_calls", "max_tool_calls"), 10) | {"max_execution_time": 60}
SETTINGS |= {"max_iterations": 5, "max_fan_out": 3}


@pytest.mark.medium
@cases("unset", [None, *SETTINGS])
@cases("rows", [REVIEWED, DEBATED, DOUBTED])
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


def test_a_table_that_does_not_fit_is_refused() -> None:
    with pytest.raises(GraphError, match="parse has no edge for Ready; splice on one of Acted, AgentFinish"):
        make_reviewer().splice(REVIEWED, after=parse, on=Ready)

    @gx.node
    def judge(finish: gx.AgentFinish) -> Ready:
        return Ready(finish.run)

    unchecked: Any = gx.edges(judge, gx.on(Ready, gx.END))
    with pytest.raises(InputError, match="judge --Ready--> END ends a run of an agent"):
        make_reviewer().splice(unchecked, after=parse, on=gx.AgentFinish)


@gx.node
def proofread(ending: gx.AgentFinish | gx.StoppedResponse) -> gx.AgentFinish | gx.StoppedResponse:
    return gx.AgentFinish({"output": f"{ending.output}!"}) if isinstance(ending, gx.AgentFinish) else ending


@cases("wanted", [1, 2])
def test_guard_on_every_exit_precedes_the_memory(wanted: int) -> None:
    """`END` in the rows then means the node that saves the memory."""
    memory = BufferMemory()
    rows = gx.edges(proofread, TO_END | gx.on(gx.StoppedResponse, gx.END))
    executor = answering(memory=memory).splice(
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


def test_a_node_is_replaced() -> None:
    @gx.node
    def quiet(reached: LimitReached) -> gx.StoppedResponse:
        return gx.StoppedResponse("", reached.limit, reached.run)

    def executor() -> gx.AgentExecutor:
        plain = gx.AgentExecutor(agent=scripted(act("echo", text="a")), tools=[echo], max_iterations=2)
        return plain.replace(rename(quiet, "stopped_response"))

    assert run_executor(executor).outcome.output == ""


def test_a_replacement_is_narrowed() -> None:
    @gx.node
    def read(replied: Replied) -> Acted | gx.AgentFinish:
        return gx.AgentFinish({"output": "read"})

    plain = answering(handle_parsing_errors=True)
    with pytest.raises(GraphError, match="parse never returns Ready; remove"):
        plain.replace(rename(read, "parse"))
    assert plain.replace(rename(read, "parse"), narrowed=True).run("q").output == "read"


def test_replacement_is_proved_within_the_limits() -> None:
    @gx.metered(when_spent=limit_reached)
    @gx.node
    def guess(ready: Ready) -> Replied:
        raise AssertionError("nothing calls this")

    guessing = answering(max_iterations=None, max_model_calls=3)
    with pytest.raises(gx.UnprovedError, match="Set max_iterations"):
        guessing.replace(rename(guess, "plan"))


def test_an_edge_is_dropped() -> None:
    def executor() -> gx.AgentExecutor:
        model = ScriptedModel([call("direct", text="direct"), "done"])
        return gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, [direct]), tools=[direct])

    assert executor().run("q").output == "direct"
    narrow = executor().drop_edge(after=check_return_direct, on=gx.AgentFinish)
    assert "check_return_direct --AgentFinish--> END" not in str(narrow.graph)
    assert narrow.verify().proved
    with pytest.raises(UndeclaredOutcomeError, match="check_return_direct returned"):
        narrow.run("q")


def test_nodes_behind_a_dropped_edge_go_with_it() -> None:
    executor = answering().drop_edge(after=parse, on=Acted)
    assert list(executor.graph.nodes) == ["plan", "parse", "stopped_response"]
    assert executor.run("q").output == "done"


def test_graph_that_can_only_stop_has_a_warning() -> None:
    plain = answering().drop_edge(after=check_return_direct, on=gx.AgentFinish)
    verdict = plain.drop_edge(after=parse, on=gx.AgentFinish).verify()
    assert verdict.proved
    assert [(finding.code, finding.severity) for finding in verdict.findings] == [("GX007", "warning")]
    with pytest.raises(GraphError, match="plan returns LimitReached when a limit stops it; keep the edge, or"):
        plain.drop_edge(after=plan, on=LimitReached)


@pytest.mark.medium
def test_graph_is_spliced_if_some_limit_ends_it() -> None:
    plain = make_reviewer(max_model_calls=10)
    changed = plain.with_graph(gx.splice(plain.graph, REVIEWED, after=ANSWERS, on=gx.AgentFinish))
    assert changed.graph.edges == add_review(plain).graph.edges
    with pytest.raises(GraphError, match="this loop can run forever"):
        gx.splice(plain.graph, DOUBTED, after=parse, on=gx.AgentFinish)
