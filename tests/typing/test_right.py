"""Types that the checkers infer without help: both check each `assert_type`, and the code runs."""

from dataclasses import dataclass
from typing import Any, Never, assert_type, final

from graphexec import (
    END,
    AgentExecutor,
    AgentFinish,
    Asked,
    Asks,
    CallContext,
    Done,
    Exhausted,
    Limits,
    Machine,
    Node,
    RunResult,
    StoppedResponse,
    Tool,
    advance,
    ask,
    ask_all,
    create_agent,
    edges,
    graph,
    node,
    on,
    replace,
    splice,
    tool,
    wrap,
)
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
    assert_type(AGENT_EXECUTOR, Machine[Ready, AgentFinish | StoppedResponse])
    assert_type(agent_graph(strict=True), Machine[Ready, AgentFinish | StoppedResponse])
    built = graph(
        edges(plan, on(Replied, parse) | on(Stopped, stopped_response))
        | edges(parse, on(Acted, dispatch_tools) | on(Ready, plan) | on(AgentFinish, END))
        | edges(dispatch_tools, on(Observed, check_return_direct) | on(Stopped, stopped_response))
        | edges(check_return_direct, on(Ready, plan) | on(AgentFinish, END))
        | edges(stopped_response, on(StoppedResponse, END)),
        start=plan,
    )
    assert_type(built, Machine[Ready, AgentFinish | StoppedResponse])
    assert built.edges == AGENT_EXECUTOR.edges


def test_types_of_the_five_nodes_are_inferred() -> None:
    assert_type(plan, Node[Ready, Replied | Stopped])
    assert_type(parse, Node[Replied, Acted | AgentFinish | Ready])
    assert_type(dispatch_tools, Node[Acted, Observed | Stopped])
    assert_type(check_return_direct, Node[Observed, Ready | AgentFinish])
    assert_type(stopped_response, Node[Stopped, StoppedResponse])


def test_a_node_is_inferred_from_its_function() -> None:
    @node
    def pure(number: Number) -> Even | Odd:
        return Even(number.value)

    @node
    async def awaits(number: Number) -> Total:
        return Total("")

    @node
    def asks(number: Number) -> Asks[CallModel | Question, Even | Odd]:
        reply = yield from ask(CallModel(CompletionRequest("even?")))
        assert_type(reply, ModelReply)
        answer = yield from ask(Question("sure?"))
        assert_type(answer, str)
        return Even(len(reply.content) + len(answer))

    @node(opaque=True)
    def blocks(number: Number) -> Total:
        return Total("")

    @node(opaque=True)
    async def awaits_too(number: Number) -> Total:
        return Total("")

    @node
    def with_settings(number: Number, translator: Translator, *, loud: bool = False) -> Total:
        return Total(translator.language)

    assert_type(pure, Node[Number, Even | Odd])
    assert_type(awaits, Node[Number, Total])
    assert_type(asks, Node[Number, Even | Odd])
    assert_type(blocks, Node[Number, Total])
    assert_type(awaits_too, Node[Number, Total])
    assert_type(with_settings, Node[Number, Total])
    assert_type(node(name="other")(with_settings), Node[Number, Total])


def test_replies_to_a_batch_are_inferred() -> None:
    @node
    def survey(number: Number) -> Asks[CallTool, Total]:
        results = yield from ask_all([CallTool("a", "1"), CallTool("b", {"x": 2})])
        assert_type(results, tuple[ToolResult, ...])
        return Total(str(len(results)))

    assert_type(survey, Node[Number, Total])


def test_a_spent_limit_adds_its_outcome() -> None:
    @node(when_spent=CountStopped, meters=[ITERATIONS])
    def with_class(left: Left) -> Total:
        return Total("")

    def give_up(left: Left, limit: Exhausted) -> Sum:
        return Sum(left.steps, str(limit))

    @node(when_spent=give_up)
    def with_function(left: Left) -> Asks[Question, Total]:
        return Total((yield from ask(Question("?"))))

    @node(when_spent=limit_reached)
    def approve(acted: Acted) -> Asks[Question, Acted | AgentFinish]:
        return acted if (yield from ask(Question("?"))) == "yes" else AgentFinish({"output": "no"})

    assert_type(with_class, Node[Left, Total | CountStopped])
    assert_type(with_function, Node[Left, Total | Sum])
    assert_type(approve, Node[Acted, Acted | AgentFinish | Stopped])


def test_routes_infer_handled_and_ending_types() -> None:
    assert_type(on(Even, halve), Routes[Even, Never])
    assert_type(on(Total, END), Routes[Total, Total])
    assert_type(on(Even, halve) | on(Total, END), Routes[Even | Total, Total])
    assert_type(edges(split, on(Even, END) | on(Odd, END)), Table[Even | Odd])


def test_surgery_keeps_or_extends_the_type() -> None:
    @final
    @dataclass(frozen=True)
    class Refused:
        value: int

    @node
    def guard(even: Even) -> Even | Refused:
        return even

    spliced = splice(DIAMOND, edges(guard, on(Even, halve) | on(Refused, END)), after=split, on=Even)
    assert_type(spliced, Machine[Number, Total | Refused])
    assert_type(replace(DIAMOND, halve), Machine[Number, Total])
    assert_type(wrap(DIAMOND, halve, before=lambda even: even), Machine[Number, Total])
    assert_type(DIAMOND.with_settings(Translator("en")), Machine[Number, Total])


def test_surgery_of_an_executor_is_typed() -> None:
    @node
    def redact(finish: AgentFinish) -> AgentFinish:
        return finish

    plain = AgentExecutor(agent=lambda steps, inputs: AgentFinish({}), tools=[])
    rows = edges(redact, on(AgentFinish, END))
    assert_type(plain.splice(rows, after=[parse, check_return_direct], on=AgentFinish), AgentExecutor)
    assert_type(plain.replace(check_return_direct), AgentExecutor)


def test_a_run_is_typed_to_its_end() -> None:
    done = run(DIAMOND, Number(6))
    assert_type(done, Done[Total])
    assert_type(done.outcome, Total)
    state = advance(DIAMOND, begin(DIAMOND, Number(6)), Limits())
    assert_type(state, PendingEffect | Done[Total])
    for event in stream(DIAMOND, Number(6)):
        if isinstance(event, Done):
            assert_type(event.outcome, Total)

    async def asynchronously() -> None:
        assert_type((await arun(DIAMOND, Number(6))).outcome, Total)
        async for event in astream(DIAMOND, Number(6)):
            if isinstance(event, Done):
                assert_type(event.outcome, Total)

    asynchronously().close()


def the_context_is_typed(call: CallContext[Translator], event: Asked | Done[Total]) -> None:
    """Not called: only for the checkers."""
    assert_type(call.context, Translator)
    assert_type(call.seconds_left, float | None)
    assert_type(event.call, CallContext[Any] | None)


def the_front_door_is_typed(executor: AgentExecutor) -> None:
    """Not called: only for the checkers."""
    assert_type(executor.run("hello"), RunResult)
    assert_type(executor.graph, Machine[Ready, AgentFinish | StoppedResponse])
    assert_type(executor.run("hello").stopped, StoppedResponse | None)


class Shop:
    @tool
    def price(self, item: str) -> float:
        """Tell the price of an item."""
        return float(len(item))


def test_tools_keep_the_types_of_their_functions() -> None:
    assert_type(Tool("double", double, "Double it.")(3), int)
    assert_type(Tool(name="double", func=double, description="Double it.")(number=3), int)
    assert_type(tool(double)(3), int)
    assert_type(Shop().price("tea"), float)
    assert_type(Shop.price(Shop(), "tea"), float)


def test_create_agent_takes_typed_options() -> None:
    executor = create_agent("local", [double, Shop().price], max_iterations=3, verbose=False)
    assert_type(executor, AgentExecutor)
    assert_type(create_agent(lambda request: "hello", kind="react", system_prompt="Be short."), AgentExecutor)
    assert_type(create_agent(reply), AgentExecutor)


async def reply(request: ChatRequest) -> ModelReply:
    return ModelReply(request.messages[-1].content)


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@dataclass
class Invoice:
    total: int


def test_output_type_is_the_class_of_the_output() -> None:
    typed = create_agent(ScriptedModel(['{"total": 3}'], repeat_last=True), output_type=Invoice)
    assert_type(typed, AgentExecutor[Invoice])
    assert_type(typed.plug(), AgentExecutor[Invoice])
    assert_type(typed.run("q"), RunResult[Invoice])
    assert_type(typed.run("q").output, Invoice)
    assert_type(typed.run("q").output.total, int)
    plain = create_agent(ScriptedModel(["3"]))
    assert_type(plain, AgentExecutor[Any])
    assert_type(create_agent(ScriptedModel(["3"]), output_type=int | str), AgentExecutor[Any])
    several = create_agent(ScriptedModel(["[3]"]), output_type=list[int])
    assert_type(several.run("q").output, list[int])
    # Without a parameter, the class is that of any executor.
    untyped: AgentExecutor = typed
    assert_type(untyped.limits, Limits)
