"""Types that the checkers infer without help: both check each `assert_type`, and the code runs."""

from dataclasses import dataclass
from typing import Any, Never, assert_type, final

import graphexec as gx
from graphexec.effects import CallModel, CallTool, ToolResult
from graphexec.executor import (
    AGENT_EXECUTOR,
    Acted,
    Observed,
    Ready,
    Replied,
    Stopped,
    agent_graph,
    check_return_direct,
    dispatch_tools,
    limit_reached,
    parse,
    plan,
    stopped_response,
)
from graphexec.kernel import ITERATIONS, PendingEffect, begin
from graphexec.kernel.graph import Routes, Table
from graphexec.messages import ChatRequest, CompletionRequest, ModelReply
from graphexec.models import ScriptedModel
from graphexec.runtime import arun, astream, run, stream
from tests.kernel.machines import DIAMOND, Even, Left, Number, Odd, Question, Sum, Total, halve, split
from tests.kernel.machines import Stopped as CountStopped


@dataclass(frozen=True)
class Translator:
    language: str


def test_the_executors_graph_is_inferred_whole() -> None:
    assert_type(AGENT_EXECUTOR, gx.Machine[Ready, gx.AgentFinish | gx.StoppedResponse])
    assert_type(agent_graph(strict=True), gx.Machine[Ready, gx.AgentFinish | gx.StoppedResponse])
    built = gx.graph(
        gx.edges(plan, gx.on(Replied, parse) | gx.on(Stopped, stopped_response))
        | gx.edges(parse, gx.on(Acted, dispatch_tools) | gx.on(Ready, plan) | gx.on(gx.AgentFinish, gx.END))
        | gx.edges(dispatch_tools, gx.on(Observed, check_return_direct) | gx.on(Stopped, stopped_response))
        | gx.edges(check_return_direct, gx.on(Ready, plan) | gx.on(gx.AgentFinish, gx.END))
        | gx.edges(stopped_response, gx.on(gx.StoppedResponse, gx.END)),
        start=plan,
    )
    assert_type(built, gx.Machine[Ready, gx.AgentFinish | gx.StoppedResponse])
    assert built.edges == AGENT_EXECUTOR.edges


def test_types_of_the_five_nodes_are_inferred() -> None:
    assert_type(plan, gx.Node[Ready, Replied | Stopped])
    assert_type(parse, gx.Node[Replied, Acted | gx.AgentFinish | Ready])
    assert_type(dispatch_tools, gx.Node[Acted, Observed | Stopped])
    assert_type(check_return_direct, gx.Node[Observed, Ready | gx.AgentFinish])
    assert_type(stopped_response, gx.Node[Stopped, gx.StoppedResponse])


def test_a_node_is_inferred_from_its_function() -> None:
    @gx.node
    def pure(number: Number) -> Even | Odd:
        return Even(number.value)

    @gx.node
    async def awaits(number: Number) -> Total:
        return Total("")

    @gx.node
    def asks(number: Number) -> gx.Asks[CallModel | Question, Even | Odd]:
        reply = yield from gx.ask(CallModel(CompletionRequest("even?")))
        assert_type(reply, ModelReply)
        answer = yield from gx.ask(Question("sure?"))
        assert_type(answer, str)
        return Even(len(reply.content) + len(answer))

    @gx.node(opaque=True)
    def blocks(number: Number) -> Total:
        return Total("")

    @gx.node(opaque=True)
    async def awaits_too(number: Number) -> Total:
        return Total("")

    @gx.node
    def with_settings(number: Number, translator: Translator, *, loud: bool = False) -> Total:
        return Total(translator.language)

    assert_type(pure, gx.Node[Number, Even | Odd])
    assert_type(awaits, gx.Node[Number, Total])
    assert_type(asks, gx.Node[Number, Even | Odd])
    assert_type(blocks, gx.Node[Number, Total])
    assert_type(awaits_too, gx.Node[Number, Total])
    assert_type(with_settings, gx.Node[Number, Total])
    assert_type(gx.node(name="other")(with_settings), gx.Node[Number, Total])


def test_replies_to_a_batch_are_inferred() -> None:
    @gx.node
    def survey(number: Number) -> gx.Asks[CallTool, Total]:
        results = yield from gx.ask_all([CallTool("a", "1"), CallTool("b", {"x": 2})])
        assert_type(results, tuple[ToolResult, ...])
        return Total(str(len(results)))

    assert_type(survey, gx.Node[Number, Total])


def test_a_spent_limit_adds_its_outcome() -> None:
    @gx.node(when_spent=CountStopped, meters=[ITERATIONS])
    def with_class(left: Left) -> Total:
        return Total("")

    def give_up(left: Left, limit: gx.Exhausted) -> Sum:
        return Sum(left.steps, str(limit))

    @gx.node(when_spent=give_up)
    def with_function(left: Left) -> gx.Asks[Question, Total]:
        return Total((yield from gx.ask(Question("?"))))

    @gx.node(when_spent=limit_reached)
    def approve(acted: Acted) -> gx.Asks[Question, Acted | gx.AgentFinish]:
        return acted if (yield from gx.ask(Question("?"))) == "yes" else gx.AgentFinish({"output": "no"})

    assert_type(with_class, gx.Node[Left, Total | CountStopped])
    assert_type(with_function, gx.Node[Left, Total | Sum])
    assert_type(approve, gx.Node[Acted, Acted | gx.AgentFinish | Stopped])


def test_routes_infer_handled_and_ending_types() -> None:
    assert_type(gx.on(Even, halve), Routes[Even, Never])
    assert_type(gx.on(Total, gx.END), Routes[Total, Total])
    assert_type(gx.on(Even, halve) | gx.on(Total, gx.END), Routes[Even | Total, Total])
    assert_type(gx.edges(split, gx.on(Even, gx.END) | gx.on(Odd, gx.END)), Table[Even | Odd])


def test_surgery_keeps_or_extends_the_type() -> None:
    @final
    @dataclass(frozen=True)
    class Refused:
        value: int

    @gx.node
    def guard(even: Even) -> Even | Refused:
        return even

    spliced = gx.splice(DIAMOND, gx.edges(guard, gx.on(Even, halve) | gx.on(Refused, gx.END)), after=split, on=Even)
    assert_type(spliced, gx.Machine[Number, Total | Refused])
    assert_type(gx.replace(DIAMOND, halve), gx.Machine[Number, Total])
    assert_type(gx.wrap(DIAMOND, halve, before=lambda even: even), gx.Machine[Number, Total])
    assert_type(DIAMOND.with_settings(Translator("en")), gx.Machine[Number, Total])


def test_surgery_of_an_executor_is_typed() -> None:
    @gx.node
    def redact(finish: gx.AgentFinish) -> gx.AgentFinish:
        return finish

    plain = gx.AgentExecutor(agent=lambda steps, inputs: gx.AgentFinish({}), tools=[])
    rows = gx.edges(redact, gx.on(gx.AgentFinish, gx.END))
    assert_type(plain.splice(rows, after=[parse, check_return_direct], on=gx.AgentFinish), gx.AgentExecutor)
    assert_type(plain.replace(check_return_direct), gx.AgentExecutor)


def test_a_run_is_typed_to_its_end() -> None:
    done = run(DIAMOND, Number(6))
    assert_type(done, gx.Done[Total])
    assert_type(done.outcome, Total)
    state = gx.advance(DIAMOND, begin(DIAMOND, Number(6)), gx.Limits())
    assert_type(state, PendingEffect | gx.Done[Total])
    for event in stream(DIAMOND, Number(6)):
        if isinstance(event, gx.Done):
            assert_type(event.outcome, Total)

    async def asynchronously() -> None:
        assert_type((await arun(DIAMOND, Number(6))).outcome, Total)
        async for event in astream(DIAMOND, Number(6)):
            if isinstance(event, gx.Done):
                assert_type(event.outcome, Total)

    asynchronously().close()


def the_context_is_typed(call: gx.CallContext[Translator], event: gx.Asked | gx.Done[Total]) -> None:
    """Not called: only for the checkers."""
    assert_type(call.context, Translator)
    assert_type(call.seconds_left, float | None)
    assert_type(event.call, gx.CallContext[Any] | None)


def the_front_door_is_typed(executor: gx.AgentExecutor) -> None:
    """Not called: only for the checkers."""
    assert_type(executor.run("hello"), gx.RunResult)
    assert_type(executor.graph, gx.Machine[Ready, gx.AgentFinish | gx.StoppedResponse])
    assert_type(executor.run("hello").stopped, gx.StoppedResponse | None)


class Shop:
    @gx.tool
    def price(self, item: str) -> float:
        """Tell the price of an item."""
        return float(len(item))


def test_tools_keep_the_types_of_their_functions() -> None:
    assert_type(gx.Tool("double", double, "Double it.")(3), int)
    assert_type(gx.Tool(name="double", func=double, description="Double it.")(number=3), int)
    assert_type(gx.tool(double)(3), int)
    assert_type(Shop().price("tea"), float)
    assert_type(Shop.price(Shop(), "tea"), float)


def test_create_agent_takes_typed_options() -> None:
    executor = gx.create_agent("local", [double, Shop().price], max_iterations=3, verbose=False)
    assert_type(executor, gx.AgentExecutor)
    assert_type(gx.create_agent(lambda request: "hello", kind="react", system_prompt="Be short."), gx.AgentExecutor)
    assert_type(gx.create_agent(reply), gx.AgentExecutor)


async def reply(request: ChatRequest) -> ModelReply:
    return ModelReply(request.messages[-1].content)


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@dataclass
class Invoice:
    total: int


def test_output_type_is_the_class_of_the_output() -> None:
    typed = gx.create_agent(ScriptedModel(['{"total": 3}'], repeat_last=True), output_type=Invoice)
    assert_type(typed, gx.AgentExecutor[Invoice])
    assert_type(typed.plug(), gx.AgentExecutor[Invoice])
    assert_type(typed.run("q"), gx.RunResult[Invoice])
    assert_type(typed.run("q").output, Invoice)
    assert_type(typed.run("q").output.total, int)
    plain = gx.create_agent(ScriptedModel(["3"]))
    assert_type(plain, gx.AgentExecutor[Any])
    assert_type(gx.create_agent(ScriptedModel(["3"]), output_type=int | str), gx.AgentExecutor[Any])
    several = gx.create_agent(ScriptedModel(["[3]"]), output_type=list[int])
    assert_type(several.run("q").output, list[int])
    # Without a parameter, the class is that of any executor.
    untyped: gx.AgentExecutor = typed
    assert_type(untyped.limits, gx.Limits)
