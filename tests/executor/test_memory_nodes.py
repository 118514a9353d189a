"""The memory of an executor: the nodes that load and save it, its time limits, and runs that end in its save."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

import graphexec as gx
from graphexec import actions, effects, errors, kernel, models
from graphexec import memory as memories
from graphexec.errors import InputError, ServerError
from graphexec.executor import Ready, Stopped, limit_reached, parse, stopped_response
from graphexec.integrations import langchain
from graphexec.kernel.events import journal_of
from graphexec.memory import BufferMemory
from tests.drivers import FakeClock
from tests.executor import actors
from tests.executor.actors import HOW, act, answer, echo, run_by, run_sync, scripted, timed
from tests.executor.test_observers import Failing
from tests.parameters import cases
from tests.stopwatch import eventually

RunExecutor = Callable[..., Any]

LONG = 10.0


class Diary:
    """A memory whose `load` and `save` first call a function of the test."""

    keys: tuple[str, ...] = ("before",)

    def __init__(self, loading: Callable[[], object] = int, saving: Callable[[], object] = int) -> None:
        self.loading, self.saving = loading, saving
        # The methods that are called, the inputs of the loads, and what is saved.
        self.calls: list[str] = []
        self.loaded: list[dict[str, Any]] = []
        self.saved: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def load(self, inputs: Mapping[str, Any], /) -> dict[str, Any]:
        self.calls.append("load")
        self.loaded.append(dict(inputs))
        self.loading()
        return {"before": "nothing"}

    def save(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], /) -> None:
        self.calls.append("save")
        self.saving()
        self.saved.append((dict(inputs), dict(outputs)))

    async def aload(self, inputs: Mapping[str, Any], /) -> dict[str, Any]:
        self.calls.append("aload")
        self.loaded.append(dict(inputs))
        await _call(self.loading)
        return {"before": "nothing"}

    async def asave(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], /) -> None:
        self.calls.append("asave")
        await _call(self.saving)
        self.saved.append((dict(inputs), dict(outputs)))


async def _call(function: Callable[[], object]) -> None:
    returned = function()
    if isinstance(returned, Awaitable):
        await returned


SAVED = ({"before": "nothing", "input": "q"}, {"output": "done"})
HISTORY_PROMPT = "{tools}{tool_names}{agent_scratchpad}{chat_history}{input}"


def make_executor(memory: Any, *turns: Any, **options: Any) -> gx.AgentExecutor:
    return gx.AgentExecutor(agent=scripted(*turns or [answer("done")]), tools=[echo], memory=memory, **options)


def without_memory(executor: gx.AgentExecutor) -> gx.Machine[Any, Any]:
    return gx.AgentExecutor(agent=executor.agent, tools=[echo]).graph.with_settings()


def reports_of(events: list[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, gx.Reported)]


# ---- the table


def test_memory_nodes_come_first_and_last() -> None:
    executor = make_executor(BufferMemory())
    plain = ["plan", "parse", "dispatch_tools", "check_return_direct", "stopped_response"]
    assert list(without_memory(executor).nodes) == plain
    names = list(executor.graph.nodes)
    assert names == [*plain, "load_memory", "save_memory", "return_unsaved"]
    assert executor.graph.start == "load_memory"
    assert "load_memory --Ready--> plan" in str(executor.graph)
    assert {edge.source for edge in executor.graph.edges if edge.target == gx.END.name} == {*names[-2:]}
    assert executor.verify().proved


@cases("method", "force", "generate")
def test_save_has_the_longest_grace(method: Any) -> None:
    executor = make_executor(BufferMemory(), early_stopping_method=method)
    graces = {one.name: one.grace for one in executor.graph if one.grace is not None}
    assert graces["save_memory"] == pytest.approx(graces.get("stopped_response", 0) + 0.1)


@gx.node
def guard(finish: gx.AgentFinish) -> gx.AgentFinish:
    """Return another answer, without the run, as users do."""
    return gx.AgentFinish({"output": f"guarded: {finish.output}"})


@gx.node(when_spent=limit_reached)
def guard_asking(finish: gx.AgentFinish) -> gx.Asks[gx.AskHuman, gx.AgentFinish]:
    return gx.AgentFinish({"output": (yield from gx.ask(gx.AskHuman("Really?")))})


async def _guard_waiting(finish: gx.AgentFinish) -> gx.AgentFinish:
    return gx.AgentFinish({"output": "waited"})


guard_waiting = gx.node(when_spent=limit_reached, opaque=True)(_guard_waiting)
TO_END: Any = gx.on(gx.AgentFinish, gx.END)


def behind_parse(graph: gx.Machine[Any, Any], node: Any, *, is_limited: bool = False) -> gx.Machine[Any, Any]:
    ways = TO_END | gx.on(Stopped, stopped_response) if is_limited else TO_END
    return gx.splice(graph, gx.edges(node, ways), after=parse, on=gx.AgentFinish)


def wrap_finish(outcome: Any) -> Any:
    return gx.AgentFinish({"output": "wrapped"}) if isinstance(outcome, gx.AgentFinish) else outcome


GUARDS: dict[str, tuple[Callable[[gx.Machine[Any, Any]], gx.Machine[Any, Any]], str]] = {
    "pure": (lambda graph: behind_parse(graph, guard), "guarded: x"),
    "asks": (lambda graph: behind_parse(graph, guard_asking, is_limited=True), "yes"),
    "opaque": (lambda graph: behind_parse(graph, guard_waiting, is_limited=True), "waited"),
    "wrapped": (lambda graph: gx.wrap(graph, parse, after=wrap_finish), "wrapped"),
}


@HOW
@cases("bare", False, True)
@cases("kind", *GUARDS)
def test_an_ending_of_a_users_node_is_saved(run: RunExecutor, kind: str, bare: bool) -> None:
    change, output = GUARDS[kind]
    memory = Diary()
    handlers: dict[Any, Callable[[object], str]] = {gx.AskHuman: lambda _: "yes"}
    executor = make_executor(memory, act("echo", text="a"), answer("x"), handlers=handlers)
    graph = without_memory(executor) if bare else executor.graph.with_settings()
    for _ in range(2):
        executor = executor.with_graph(change(graph))
        result = run(executor, "q")
        assert (result.output, len(result.steps)) == (output, 1)
        assert memory.saved[-1] == ({"before": "nothing", "input": "q"}, {"output": output})


def test_users_memory_nodes_are_kept() -> None:
    @gx.node(when_spent=limit_reached)
    def recall(ready: Ready) -> gx.Asks[effects.LoadMemory, Ready | Stopped]:
        loaded = yield from gx.ask(effects.LoadMemory({"query": "mine"}))
        return Ready(actions.Run({**loaded, **ready.run.inputs}))

    executor = make_executor(memory := Diary())
    mine = gx.replace(executor.graph, kernel.node(name="load_memory")(recall))
    assert executor.with_graph(mine).run("q").output == "done"
    assert (len(memory.loaded), memory.saved) == (1, [SAVED])
    assert list(executor.with_graph(mine).graph.nodes) == list(executor.graph.nodes)


def test_node_of_the_same_name_is_refused() -> None:
    executor = make_executor(BufferMemory())
    other = behind_parse(without_memory(executor), kernel.node(name="save_memory")(guard))
    with pytest.raises(gx.GraphError, match="the machine and memory have a node save_memory; rename"):
        executor.with_graph(other)


def test_users_stop_node_is_kept() -> None:
    executor = make_executor(BufferMemory())
    executor = executor.with_graph(gx.wrap(executor.graph, stopped_response, after=lambda stop: stop))
    (edge,) = [one for one in executor.graph.edges if one.source == "load_memory" and one.outcome is Stopped]
    assert edge.target == "stopped_response"


# ---- inputs


@HOW
def test_missing_loaded_input_is_reported(run: RunExecutor) -> None:
    memory = Diary()
    memory.keys = ("chat_history",)
    agent = gx.create_react_agent(models.ScriptedModel([]), [], prompt=HISTORY_PROMPT)
    executor = gx.AgentExecutor(agent=agent, tools=[], memory=memory)
    with pytest.raises(errors.InputError, match="the inputs lack chat_history") as caught:
        run(executor, "q")
    assert actors.snapshot_in(caught.value).node == "load_memory"


def test_loaded_value_must_be_a_dict() -> None:
    class Silent(Diary):
        def load(self, inputs: Mapping[str, Any], /) -> Any:
            return None

    with pytest.raises(errors.InputError, match="the memory loaded None; return a dict of inputs by name"):
        make_executor(Silent()).run("q")


# ---- its time


async def arun_until_saved(executor: gx.AgentExecutor, memory: Diary, held: threading.Event) -> Any:
    result = await executor.arun("q")
    held.set()
    while not memory.saved:  # noqa: ASYNC110 - nothing signals the end of a detached task
        await asyncio.sleep(0)
    return result


@pytest.mark.medium
@HOW
@cases("method", "force", "generate")
def test_the_deadline_cuts_a_load(run: RunExecutor, method: Any) -> None:
    """No model is asked for a last answer, as the inputs of its prompt are missing."""
    held = threading.Event()
    memory = Diary(loading=lambda: held.wait(LONG) if run is run_sync else asyncio.sleep(LONG))
    memory.keys = ("chat_history",)
    agent = gx.create_react_agent(models.ScriptedModel([]), [], prompt=HISTORY_PROMPT)
    limits: dict[str, Any] = {"max_execution_time": 0.3, "early_stopping_method": method}
    executor = gx.AgentExecutor(agent=agent, tools=[], memory=memory, **limits)

    began = time.monotonic()
    # On a busy machine the run may end before its save does.
    result = run(executor, "q") if run is run_sync else asyncio.run(arun_until_saved(executor, memory, held))
    assert time.monotonic() - began < LONG / 2
    held.set()
    eventually(lambda: memory.saved)
    assert (result.reason, result.spent["model_calls"]) == ("seconds", 0)
    assert memory.saved == [({"input": "q"}, {"output": result.output})]


@pytest.mark.medium
@HOW
def test_late_save_continues_in_the_background(run: RunExecutor) -> None:
    held, heard, unsaved = threading.Event(), list[Any](), list[bool]()

    def hear(event: object) -> None:
        heard.append(event)
        unsaved.append(not memory.saved)

    memory = Diary(saving=lambda: held.wait(LONG) if run is run_sync else actors.until(held))
    executor = make_executor(memory, max_execution_time=0.3, observers=[hear])
    began = time.monotonic()
    result = run(executor, "q") if run is run_sync else asyncio.run(arun_until_saved(executor, memory, held))
    assert time.monotonic() - began < LONG / 2
    assert all(unsaved)
    held.set()
    eventually(lambda: memory.saved)
    assert (result.output, result.reason) == ("done", "finished")
    (reported,) = reports_of(heard)
    assert isinstance(reported.news, memories.MemoryNotSaved)
    assert isinstance(reported.effect, effects.SaveMemory)
    assert 0 < reported.news.seconds < 0.45
    assert str(reported.news).endswith("seconds; the run ended without it")
    assert [event.target for event in heard if isinstance(event, gx.Moved)][-2:] == ["return_unsaved", "END"]


@HOW
def test_a_stopped_run_is_saved_beyond_its_deadline(run: RunExecutor) -> None:
    executor = make_executor(memory := Diary(), max_execution_time=0)
    result = run(executor, "q")
    assert (result.reason, len(memory.loaded)) == ("seconds", 0)
    assert memory.saved == [({"input": "q"}, {"output": result.output})]


@HOW
def test_a_save_without_time_is_reported(run: RunExecutor) -> None:
    clock, heard = FakeClock(), list[Any]()

    def tick(event: object) -> None:
        # Time passes between the calls, so the save has none left.
        if isinstance(event, gx.Entered) and event.node == "save_memory":
            clock.advance(2)

    executor = make_executor(memory := Diary(), max_execution_time=1, observers=[tick, heard.append])
    assert run(timed(executor, clock), "q").output == "done"
    assert [event.news.seconds for event in reports_of(heard)] == [0]
    assert memory.saved == []


def test_usage_includes_the_memorys_seconds() -> None:
    clock = FakeClock()
    executor = make_executor(Diary(lambda: clock.advance(2), lambda: clock.advance(2)))
    events = list(timed(executor, clock).stream("q"))
    assert [event.seconds for event in events if isinstance(event, gx.Answered)] == [2, 0, 2]
    assert isinstance(events[-1], gx.Done)
    assert events[-1].spent.seconds == 4


# ---- interrupted and failed saves


@HOW
@cases("error", OSError, KeyboardInterrupt)
def test_run_resumed_at_its_save_only_saves(run: RunExecutor, error: type[BaseException]) -> None:
    failing: list[type[BaseException]] = [error]

    def fail() -> None:
        if failing:
            raise failing.pop()

    executor = make_executor(memory := Diary(saving=fail))
    with pytest.raises(error) as caught:
        run(executor, "q")
    snapshot = actors.snapshot_in(caught.value)
    assert (snapshot.node, getattr(snapshot.value, "output", None)) == ("save_memory", "done")
    assert journal_of(caught.value) is not None
    stored = gx.Snapshot.from_json(snapshot.to_json(), executor.graph)
    assert [event.node for event in executor.stream(stored) if isinstance(event, gx.Asked)] == ["save_memory"]
    assert (len(memory.loaded), memory.saved) == (1, [SAVED])


async def timeout(call: Awaitable[Any]) -> None:
    async with asyncio.timeout(0.05):
        await call


async def interrupt(call: Awaitable[Any]) -> None:
    """As asyncio does on the first Ctrl-C: it cancels the main task, and raises `KeyboardInterrupt` instead."""
    task = asyncio.ensure_future(call)
    await asyncio.wait([task], timeout=0.05)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt  # noqa: B904 - as asyncio's runner does


CANCELS: list[Callable[[Awaitable[Any]], Any]] = [timeout, lambda call: asyncio.wait_for(call, 0.05), interrupt]


@cases("cancel", *CANCELS)
def test_a_cancelled_save_loses_no_answer(cancel: Callable[[Awaitable[Any]], Any]) -> None:
    held: list[float] = [LONG]
    executor = make_executor(memory := Diary(saving=lambda: asyncio.sleep(held[0])))

    async def cancelled() -> None:
        await cancel(executor.arun("q"))

    with pytest.raises((TimeoutError, KeyboardInterrupt)) as caught:
        asyncio.run(cancelled())
    assert memory.saved == []
    assert actors.snapshot_in(caught.value).node == "save_memory"
    held[0] = 0
    assert asyncio.run(executor.arun(actors.snapshot_in(caught.value))).output == "done"
    assert (len(memory.loaded), memory.saved) == (1, [SAVED])


def test_exception_of_another_run_is_ignored() -> None:
    executor = make_executor(Diary(saving=lambda: 1 / 0))

    def fail() -> None:
        try:
            executor.run("q")
        except ZeroDivisionError:
            raise LookupError("of a run that never began")  # noqa: B904 - the test is about its context

    with pytest.raises(LookupError) as caught:
        fail()
    assert gx.snapshot_of(caught.value) is None


def test_streams_are_the_same_with_memory() -> None:
    turns = act("echo", text="a"), answer("done")
    plain, diary = (make_executor(memory, *turns, return_intermediate_steps=True) for memory in (None, Diary()))
    assert list(langchain.stream_chunks(diary, "q")) == list(langchain.stream_chunks(plain, "q"))
    assert list(diary.stream_answer("q")) == list(plain.stream_answer("q"))
    assert diary.invoke("q") == plain.invoke("q")


def test_a_replaced_run_is_not_loaded_again() -> None:
    turns = langchain.iterate(make_executor(memory := Diary(), act("echo", text="a"), answer("done")), "q")
    for _ in turns:
        turns.run = actions.Run({**turns.run.inputs, "input": "other"}, actions.Steps(turns.run.steps))
    assert (len(memory.loaded), memory.saved) == (1, [({"before": "nothing", "input": "other"}, {"output": "done"})])
    assert turns.run.inputs["before"] == "nothing"


# ---- the memories of an executor


@HOW
def test_inputs_of_the_caller_take_precedence(run: RunExecutor) -> None:
    def decide(steps: actions.Steps, inputs: dict[str, Any]) -> gx.AgentFinish:
        return gx.AgentFinish({"output": f"{inputs['before']}; {inputs['input']}"})

    executor = gx.AgentExecutor(agent=decide, tools=[], memory=Diary())
    assert run(executor, {"input": "?", "before": "mine"}).output == "mine; ?"


@cases("way", "stream", "astream")
def test_invalid_inputs_are_refused_before_loading(way: str) -> None:
    memory, loads = Diary(), list[int]()
    observers: list[Callable[[object], None]] = [lambda event: loads.append(len(memory.loaded))]
    executor = make_executor(memory, observers=observers)
    with pytest.raises(InputError, match="pass a dict of inputs by name"):
        getattr(executor, way)(["tea?"])
    run_by(way, executor, "tea?")
    # The effect of the node loads it.
    assert (loads[:3], memory.loaded) == ([0, 0, 1], [{"input": "tea?"}])


def test_missing_input_of_the_memory_is_named() -> None:
    with pytest.raises(InputError, match="question"):
        make_executor(BufferMemory(input_key="question")).run("tea?")


def test_messages_of_a_memory_survive_a_pause() -> None:
    memory = BufferMemory(as_messages=True)
    memory.history.add(memories.Turn("I am Ada.", "Hello."))
    model = models.ScriptedModel([ServerError("gone"), "Ada."])
    executor = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, []), tools=[], memory=memory)
    with pytest.raises(ServerError) as caught:
        executor.run("Who am I?")
    snapshot = actors.snapshot_in(caught.value)
    again = gx.Snapshot.from_json(snapshot.to_json(), executor.graph)
    assert executor.run(again).output == "Ada."
    first, second = model.requests
    assert first == second
    assert memory.history.turns()[-1] == memories.Turn("Who am I?", "Ada.")


def test_string_is_the_input_not_provided_by_memory() -> None:
    model = models.ScriptedModel(["AI: hello"], repeat_last=True)
    executor = gx.AgentExecutor(agent=langchain.create_conversational_agent(model, []), tools=[], memory=BufferMemory())
    assert executor.invoke("I am Ada.") == {"input": "I am Ada.", "output": "hello"}
    assert executor.run("Who am I?").output == "hello"
    assert "Human: I am Ada." in str(model.requests[-1])
    with pytest.raises(InputError, match=r"the inputs lack input; pass \{'input': \.\.\.\}$"):
        executor.run({})


@cases(
    ("memory", "create", "facts"),
    # The agent does not read it.
    (BufferMemory(), gx.create_react_agent, ["provides chat_history", "write {chat_history} into its prompt"]),
    (BufferMemory(key="before"), gx.create_tool_calling_agent, ["or make the memory with key='chat_history'"]),
)
def test_invalid_memory_is_refused(memory: Any, create: Callable[..., gx.Agent], facts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        gx.AgentExecutor(agent=create(models.ScriptedModel([]), []), tools=[], memory=memory)
    assert all(fact in str(caught.value) for fact in facts)


def test_observer_failing_at_the_end_loses_nothing() -> None:
    memory = Diary()
    with pytest.raises(LookupError) as caught:
        make_executor(memory, observers=[Failing(gx.Done, LookupError, raise_error=True)]).run("tea?")
    assert len(memory.saved) == 1
    assert gx.snapshot_of(caught.value) is not None
