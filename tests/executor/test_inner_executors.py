"""Executors within another one, as a tool or as an effect: their runs are nested in the run that calls them."""

import asyncio
import dataclasses
import itertools
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

import graphexec as gx
from graphexec import effects, errors, models, testing, verify
from graphexec.errors import CertificateError, InputError, ModelError
from graphexec.executor import Acted, dispatch_tools, limit_reached, parse
from graphexec.executor.as_tool import NestedGraph
from graphexec.executor.plugging.piece import Piece
from graphexec.memory import BufferMemory
from graphexec.tools import AnyTool
from tests.executor import actors
from tests.executor.actors import HOW, Caller, Running, act, answer, call, caller_of, echo, make_executor, scripted
from tests.parameters import cases
from tests.traces import unpack_page


def make_inner(*replies: Any, **options: Any) -> gx.AgentExecutor:
    return caller_of(models.ScriptedModel(replies, repeat_last=True), echo, **options)


def make_outer(one: AnyTool, **options: Any) -> gx.AgentExecutor:
    names = dict.fromkeys(one.names, "hello")
    return make_executor(act(one.name, **names), answer(), tools=[one], **options)


def research(inner: gx.AgentExecutor) -> AnyTool:
    return inner.as_tool("research", "Find it out.")


def test_inputs_of_an_agent_are_arguments_of_its_tool() -> None:
    # The tool has the given name and description.
    one = research(make_inner("done"))
    facts = one.name, one.description, one.signature
    assert facts == ("research", "Find it out.", "research(input: string)")
    assert one.spec.parameters == {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }
    executor = make_executor(act("research", question="?"), answer(), tools=[one])
    assert executor.run("q").steps[0].status == "bad_arguments"
    # An agent of a function takes one input.
    seen: list[Any] = []

    def agent(steps: Any, inputs: Any) -> Any:
        seen.append(inputs)
        return answer("found")

    one = research(gx.AgentExecutor(agent=agent, tools=[]))
    assert one.names == ("input",)
    assert make_outer(one).run("q").steps[0].observation == "found"
    assert seen == [{"input": "hello"}]
    # Each input of a prompt is an argument.
    model = models.ScriptedModel(["Final Answer: done"])
    react = gx.create_react_agent(model, [echo], prompt="{topic} for {reader} {agent_scratchpad} {tools} {tool_names}")
    one = gx.AgentExecutor(agent=react, tools=[echo]).as_tool("write", "Write about it.")
    assert sorted(one.names) == ["reader", "topic"]
    outer = make_executor(act("write", topic="tea", reader="kids"), answer(), tools=[one])
    assert outer.run("q").steps[0].observation == "done"
    assert "tea for kids" in str(model.requests[0])


@HOW
def test_inputs_of_a_memory_are_not_arguments(run: Running) -> None:
    memory = BufferMemory(key="past")
    model = models.ScriptedModel(["Final Answer: first", "Final Answer: second"])
    prompt = "{past} {input} {agent_scratchpad} {tools} {tool_names}"
    inner = gx.AgentExecutor(agent=gx.create_react_agent(model, [echo], prompt=prompt), tools=[echo], memory=memory)
    one = inner.as_tool("talk", "Talk to it.")
    assert one.names == ("input",)
    assert [run(make_outer(one)).steps[0].observation for _ in range(2)] == ["first", "second"]
    assert "first" in str(model.requests[1])


STOPPED = "Agent stopped due to iteration limit or time limit."
FINISH = gx.AgentFinish({"answer": "yes", "why": "so"})


# The second inner run is stopped, and the third one has several outputs.
@HOW
@cases(
    ("make", "observation", "calls"),
    (lambda: make_inner(call("echo", text="a"), "found it"), "found it", 2),
    (lambda: make_inner(call("echo", text="a"), max_iterations=2), STOPPED, 2),
    (lambda: make_executor(FINISH, tools=[]), {"answer": "yes", "why": "so"}, 1),
)
def test_answer_is_the_observation(run: Running, make: Any, observation: object, calls: int) -> None:
    result = run(make_outer(research(make())))
    assert (result.steps[0].observation, result.steps[0].status, result.reason) == (observation, "ok", "finished")
    assert result.spent["model_calls"] == 2 + calls
    assert actors.replayed(result) == result.spent


@HOW
def test_error_of_the_inner_run_is_observed(run: Running) -> None:
    one = research(make_inner(gx.ModelError("overloaded")))
    (step,) = run(make_outer(one)).steps
    assert (step.status, step.error) == ("error", "graphexec.errors.ModelError")
    assert "overloaded" in step.observation
    with pytest.raises(gx.ModelError, match="overloaded"):
        run(make_outer(one, handle_tool_errors="raise"))


def test_async_run_uses_no_thread() -> None:
    threads: set[int] = set()

    @gx.tool
    async def see(text: str) -> str:
        """Note the thread."""
        threads.add(threading.get_ident())
        await asyncio.sleep(1)
        return text

    clock = testing.VirtualClock()
    inner = testing.on_loop_time(caller_of(Caller(answers_after=1), see), clock)
    outer = testing.on_loop_time(make_outer(research(inner), max_execution_time=5), clock)
    assert clock.run(outer.arun("q")).steps[0].observation == "hello"
    assert threads == {threading.get_ident()}
    assert clock.seconds == 1


def test_sync_run_stays_in_its_thread() -> None:
    inner, threads = actors.look_by(lambda _: threading.get_ident())
    actors.run_sync(make_outer(research(inner)))
    assert threads == [threading.get_ident()]


@HOW
def test_tool_passes_the_context_on(run: Running) -> None:
    inner, seen = actors.look_by(lambda call: call.context)
    run(make_outer(research(inner)), context="ada")
    assert seen == ["ada"]


@HOW
@pytest.mark.parametrize("taker", ["tool", "handler", "node"])
def test_context_of_another_class_is_refused(run: Running, taker: str) -> None:
    """This is a bug in the program: it must not become an observation in the middle of a paid run."""
    asked: list[Any] = []

    @gx.tool
    def see(text: str, call: gx.CallContext[int]) -> str:
        """Note the context."""
        return text

    def see_effect(effect: effects.SaveMemory, call: gx.CallContext[int]) -> None: ...

    @gx.node
    def see_node(acted: Acted, call: gx.CallContext[int]) -> Acted:
        return acted

    def decide(steps: Any, inputs: Any) -> Any:
        asked.append(inputs)
        return answer()

    inner = caller_of(Caller(answers_after=1), see if taker == "tool" else echo)
    if taker == "handler":
        inner = inner.with_handlers({effects.SaveMemory: see_effect})
    if taker == "node":
        inner = inner.splice(gx.edges(see_node, gx.on(Acted, dispatch_tools)), after=parse, on=Acted)
    middle = make_outer(research(inner))
    outer = gx.AgentExecutor(agent=decide, tools=[middle.as_tool("ask", "Ask.")])
    with pytest.raises(gx.InputError, match=r"the run's context is a str, .* CallContext\[int\]"):
        run(outer, context="ada")
    assert asked == []
    assert run(outer, context=3).output == "done"


def test_executor_may_be_its_own_tool() -> None:
    model = Caller(answers_after=1)
    tools: list[AnyTool] = []

    @gx.tool
    def again(text: str, call: gx.CallContext[Any]) -> Any:
        """Ask again."""
        return tools[0].function(input=text, call=call)

    executor = caller_of(model, again, max_depth=3)
    tools.append(executor.as_tool("itself", "Ask itself."))
    assert executor.run("q").output == "Agent stopped due to depth limit."
    assert model.calls == 2 * 4


def test_nested_executor_is_drawn_and_documented(tmp_path: Path) -> None:
    outer = make_outer(research(make_inner("done")))
    assert "research" in repr(outer)
    assert "research" in unpack_page(outer.run("q").draw(tmp_path / "run.html").read_text("utf-8"))
    assert "dispatch_tools" in outer.draw(tmp_path / "flow.svg").read_text("utf-8")
    assert "the limits and the time" in (gx.AgentExecutor.as_tool.__doc__ or "")


@cases(
    ("name", "description", "wrong"),
    *((name, "Find it out.", "name") for name in ("", "  ", None, 3)),
    *(("research", text, "description") for text in ("", None, 3)),
)
def test_invalid_names_and_descriptions_are_refused(name: Any, description: Any, wrong: str) -> None:
    with pytest.raises(errors.ToolDefinitionError, match=f"as_tool has {wrong}="):
        make_inner("done").as_tool(name, description)


@cases("key", "call", "class", "my-topic")
def test_inputs_with_invalid_argument_names_are_refused(key: str) -> None:
    made = gx.chat_agent(lambda run: ..., lambda reply: ..., models.ScriptedModel(["done"]), input_keys=(key,))  # type: ignore[arg-type,return-value]  # pyright: ignore
    message = f"the input '{key}', an invalid argument name; rename the input"
    with pytest.raises(errors.ToolDefinitionError, match=message):
        research(gx.AgentExecutor(agent=made, tools=[]))


# ---- executors as effects: their runs are nested in one call, at once, with their bounds reserved


def map_piece(child: NestedGraph, most: int = 3) -> Piece:
    """Return a piece that answers a turn's actions: each is a run of the child, all of them at once."""

    @gx.node(when_spent=limit_reached, asks=(0, most))
    def fan(acted: Acted) -> gx.Asks[effects.RunGraph, Acted | gx.AgentFinish]:
        if not all(action.tool.startswith("task") for action in acted.actions):
            return acted
        results = yield from gx.ask_all([child.effect({"input": action.tool}) for action in acted.actions])
        return gx.AgentFinish({"output": [[one.output, one.reason, one.error] for one in results]}, run=acted.run)

    return Piece("fan", (dataclasses.replace(fan, effects=(child.effect,)),), handlers={child.effect: child.handler})


def make_fan(child: gx.AgentExecutor, count: int = 3, **options: Any) -> gx.AgentExecutor:
    agent = scripted([act(f"task {number}") for number in range(count)])
    return gx.AgentExecutor(agent=agent, tools=[], **options).plug(map_piece(child.as_effect("Research")))


# ---- runs, whose endings and counts tests/nodes/test_mapping.py has


def test_deadline_cuts_the_runs() -> None:
    @gx.tool
    async def wait(text: str) -> str:
        """Wait for an hour, once."""
        await asyncio.sleep(3600)
        return text

    clock = testing.VirtualClock()
    model = Caller()
    child = testing.on_loop_time(caller_of(model, wait), clock)
    result = clock.run(testing.on_loop_time(make_fan(child, max_execution_time=5), clock).arun("q"))
    assert {reason for _, reason, _ in result.output} == {"seconds"}
    assert (clock.seconds, model.calls, result.spent["model_calls"]) == (5, 3, 4)


def test_access_of_the_runs_is_checked_first() -> None:
    class Locked(models.ScriptedModel):
        def check_access(self) -> None:
            raise ModelError("locked")

    outer = make_fan(caller_of(Locked(["done"]), echo))
    with pytest.raises(ModelError, match="locked"):
        outer.check_access()


# ---- limits


@HOW
def test_limits_of_outer_runs_are_reserved(run: Running) -> None:
    model = Caller()
    middle = make_fan(caller_of(model, echo, max_iterations=4)).as_tool("ask", "Ask.")
    outer = gx.AgentExecutor(agent=scripted(act("ask", input="?"), answer()), tools=[middle], max_model_calls=13)
    result = run(outer)
    assert (model.calls, result.steps[0].observation) == (0, "Agent stopped due to model call limit.")
    assert result.spent["model_calls"] == 3


@HOW
def test_tokens_are_shared_and_not_reserved(run: Running) -> None:
    model = Caller()
    result = run(make_fan(caller_of(model, echo, max_iterations=4), max_tokens=7))
    assert "tokens" in {reason for _, reason, _ in result.output}
    assert (result.spent["tokens"], model.calls) == (7, 6)


# ---- proofs


def test_limit_is_a_cause_of_leaving_the_node() -> None:
    certificate = make_fan(caller_of(Caller(), echo)).verify().certificate
    assert certificate is not None
    (within,) = [one for one in certificate.flow.transitions if one.source == "fan" and one.kind == "within"]
    assert {"model_calls", "tool_calls"} <= {*within.causes}
    assert dict(within.reserves)["model_calls"] == 15
    forged = dataclasses.replace(certificate.flow.transitions[0], reserves=(("model_calls", 1),))
    flow = dataclasses.replace(certificate.flow, transitions=(forged, *certificate.flow.transitions[1:]))
    with pytest.raises(CertificateError):
        verify.check(dataclasses.replace(certificate, flow=flow), make_fan(caller_of(Caller(), echo)).graph)


def test_executor_without_a_bound_is_refused() -> None:
    for limit, refusals in (("max_iterations", gx.UnprovedError), ("max_fan_out", (gx.UnprovedError, InputError))):
        options: dict[str, Any] = {limit: None, "allow_nonterminating": True}
        with pytest.raises(refusals):
            caller_of(Caller(), echo, **options).as_effect("Research")
    with pytest.raises(InputError, match="as_effect has name="):
        caller_of(Caller(), echo).as_effect("")


# ---- snapshots


class Killed(BaseException):
    """The process is killed."""


def store(snapshot: gx.Snapshot, outer: gx.AgentExecutor) -> gx.Snapshot:
    """Return the snapshot of a restarted run as it is read again."""
    return gx.Snapshot.from_json(snapshot.restarted().to_json(), outer.graph)


def make_killed(number: int, *, count: int = 3, **options: Any) -> tuple[gx.AgentExecutor, list[str]]:
    """Return an executor that is killed at a call of its runs, and the names of the calls that these answered."""
    answered: list[str] = []
    asked = itertools.count(1)

    def decide(steps: Any, inputs: dict[str, Any]) -> Any:
        if next(asked) == number:
            raise Killed
        answered.append(f"{inputs['input']}, step {len(steps)}")
        return answer(inputs["input"]) if len(steps) == 2 else act("echo", text="a")

    return make_fan(gx.AgentExecutor(agent=decide, tools=[echo], max_iterations=4), count, **options), answered


TASKS = ["task 0", "task 1", "task 2"]
CALLS = [f"{task}, step {step}" for task in TASKS for step in range(3)]


@HOW
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("number", [*range(1, 10)])
def test_killed_runs_are_resumed_where_they_were(run: Running, number: int, stored: bool) -> None:
    outer, answered = make_killed(number, tool_concurrency=1)
    snapshot = actors.snapshot_after(Killed, lambda: run(outer))
    snapshot = store(snapshot, outer) if stored else snapshot.restarted()
    if stored:
        assert gx.Snapshot.from_json(snapshot.to_json(), outer.graph).to_json() == snapshot.to_json()
    result = run(outer, snapshot)
    assert [output for output, _, _ in result.output] == TASKS
    assert sorted(answered) == CALLS
    # The call that was in flight is charged again.
    assert (result.spent["model_calls"], result.spent["tool_calls"]) == (1 + 9 + 1, 6)


@HOW
@pytest.mark.parametrize("number", [3, 5, 8])
def test_only_calls_in_flight_are_repeated(run: Running, number: int) -> None:
    """All three runs are at work when the process is killed, each in one call at most."""
    outer, answered = make_killed(number)
    result = run(outer, store(actors.snapshot_after(Killed, lambda: run(outer)), outer))
    assert [output for output, _, _ in result.output] == TASKS
    assert set(answered) == {*CALLS}
    assert len(answered) <= 9 + 2
    assert result.spent["model_calls"] >= 1 + len(answered) + 1


@HOW
def test_only_run_of_a_request_is_resumed(run: Running) -> None:
    """A request with one call keeps its run, too, also when the process is killed before the stored run goes on."""
    outer, answered = make_killed(2, count=1)
    snapshot = actors.snapshot_after(Killed, lambda: run(outer))
    result = run(outer, store(store(snapshot, outer), outer))
    assert [output for output, _, _ in result.output] == ["task 0"]
    assert answered == CALLS[:3]
    assert (result.spent["model_calls"], result.spent.restarts) == (1 + 3 + 1, 2)


def test_effect_of_an_executor_is_copied_as_data() -> None:
    child = make_fan(caller_of(Caller(answers_after=2), echo)).as_effect("Research")
    effect = child.effect({"input": "a"})
    assert pickle.loads(pickle.dumps(effect)) == effects.RunGraph({"input": "a"})


@HOW
def test_resumed_runs_reserve_what_they_have_left(run: Running) -> None:
    """Nothing else is left: 1 + 3 x 4 calls, of which the first run has spent one."""
    outer, _ = make_killed(2, tool_concurrency=1, max_model_calls=13)
    result = run(outer, actors.snapshot_after(Killed, lambda: run(outer)).retried())
    assert (result.reason, result.spent["model_calls"]) == ("finished", 1 + 9 + 1)


# ---- in general


def test_async_functions_of_nested_sync_runs_share_the_loop() -> None:
    loops: set[int] = set()

    @gx.tool(repeatable=True)
    async def connect() -> str:
        """Connect."""
        loops.add(id(asyncio.get_running_loop()))
        return "connected"

    inner = make_executor(act("connect"), answer(), tools=[connect])
    make_executor(
        act("connect"), act("research", input="x"), act("connect"), answer(), tools=[connect, research(inner)]
    ).run("q")
    assert len(loops) == 1
