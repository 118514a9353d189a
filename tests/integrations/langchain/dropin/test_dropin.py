"""Our `AgentExecutor` in the place of LangChain's: equal runs, the odd cases, and what only ours has."""

import asyncio
import gc
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

import graphexec
from graphexec.errors import InputError
from tests.counting import count_calls
from tests.parameters import cases

if find_spec("langchain_classic") is None:
    pytest.skip("needs the extra dev", allow_module_level=True)

from langchain_classic.agents import AgentExecutor as LangChainExecutor
from langchain_classic.memory import ConversationBufferMemory
from langchain_core.agents import AgentAction, AgentFinish
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool

from graphexec.integrations.langchain import AgentExecutor, AgentExecutorIterator
from tests.integrations.langchain.dropin.differential import (
    CLOCK,
    END,
    KINDS,
    LIMIT,
    METHODS,
    SCENARIOS,
    Recorder,
    Script,
    Several,
    make_agent,
    make_tools,
    run_scenario,
    sleep,
    wait,
)

EXECUTORS: tuple[Any, ...] = (LangChainExecutor, AgentExecutor)
QUESTION = {"input": "question"}


def make(kind: Any, *turns: Any, **options: Any) -> Any:
    """Return an executor of an agent that follows a script."""
    return kind(agent=make_agent("single", Script(turns, empty=None)), tools=make_tools(), **options)


@pytest.mark.medium
@pytest.mark.parametrize("method", METHODS)
def test_runs_equal_those_of_langchain(method: str) -> None:
    """All 435 with `compat`, and 430 without: there an empty list of actions is a parsing error."""
    different = set[tuple[str, str]]()
    for name in SCENARIOS:
        for kind in KINDS:
            expected = run_scenario(LangChainExecutor, name, kind, method, observed=True)
            assert run_scenario(AgentExecutor, name, kind, method, observed=True, compat="langchain") == expected, name
            # Without callbacks, tools are called in another way.
            unobserved = run_scenario(AgentExecutor, name, kind, method, observed=False, compat="langchain")
            assert unobserved[:2] == expected[:2], name
            if run_scenario(AgentExecutor, name, kind, method, observed=True) != expected:
                different.add((name, kind))
    assert different == {("nothing", "multi")}


# The odd cases of docs/semantics.md: a run, and how it ends without `compat`.


def run_empty(kind: Any, **options: Any) -> object:
    script = Script([None, END], empty=[])
    executor = kind(agent=make_agent("multi", script), tools=make_tools(), handle_parsing_errors=True, **options)
    return executor.invoke(QUESTION)["output"]


async def time_out(query: str) -> str:
    """Raise what another library raises after a time of its own."""
    raise TimeoutError(query)


async def slow(query: str) -> str:
    """Never return."""
    await wait()
    return query


def run_async(kind: Any, function: Callable[..., Any], turn: Any, options: Any, method: str = "ainvoke") -> object:
    """Run an agent with a further tool, in an async run; return the output and the tools that it has steps of."""
    tools = [*make_tools(), tool(function)]
    script = Script([turn, END], empty=None)
    more: Any = {"return_intermediate_steps": True, **options}
    executor = kind(agent=make_agent("single", script), tools=tools, **more)

    async def run() -> Any:
        if method == "ainvoke":
            return await executor.ainvoke(QUESTION)
        return [chunk async for chunk in executor.astream(QUESTION)][-1]

    with CLOCK.patched():
        result = asyncio.run(run())
    return result["output"], [action.tool for action, _ in result["intermediate_steps"]]


def run_time_out(kind: Any, **options: Any) -> object:
    return run_async(kind, time_out, "time_out", options)


def stream_time_out(kind: Any, **options: Any) -> object:
    return run_async(kind, time_out, "time_out", options, "astream")


def run_cut(kind: Any, **options: Any) -> object:
    return run_async(kind, slow, Several(["echo", "slow"]), {"max_execution_time": 50.0, **options})


def run_kept(kind: Any, **options: Any) -> object:
    finish = AgentFinish({"output": "kept"}, "")
    agent = RunnableLambda[Any, AgentFinish](lambda _: finish)
    kind(agent=agent, tools=[], return_intermediate_steps=True, **options).invoke(QUESTION)
    return sorted(finish.return_values)


STOPPED = "Agent stopped due to iteration limit or time limit."


@cases(
    ("run", "langchain", "ours"),
    (run_empty, IndexError("list index out of range"), "2"),
    (run_time_out, (STOPPED, []), TimeoutError("time_out-1")),
    (stream_time_out, (STOPPED, []), TimeoutError("time_out-1")),
    (run_cut, (STOPPED, []), (STOPPED, ["echo"])),
    (run_kept, ["intermediate_steps", "output"], ["output"]),
)
def test_odd_cases_need_compat(run: Callable[..., object], langchain: object, ours: object) -> None:
    def end(*given: Any, **options: Any) -> str:
        try:
            return repr(run(*given, **options))
        except Exception as error:  # noqa: BLE001 - it is compared
            return repr(error)

    assert end(LangChainExecutor) == end(AgentExecutor, compat="langchain") == repr(langchain)
    assert end(AgentExecutor) == repr(ours)


def test_calls_beside_a_failed_one_are_cancelled() -> None:
    ends = list[str]()

    async def wait_for_ever(query: str) -> str:
        """Never return."""
        try:
            await asyncio.Event().wait()
        finally:
            ends.append(query)
        return query

    with pytest.raises(RuntimeError, match="broken-1"):
        run_async(AgentExecutor, wait_for_ever, Several(["wait_for_ever", "broken"]), {"compat": "langchain"})
    assert ends == ["wait_for_ever-1"]


def test_agent_gets_a_copy_of_the_steps() -> None:
    def forget(steps: list[Any]) -> list[Any]:
        steps.clear()
        return steps

    executor = make(AgentExecutor, "echo", END, trim_intermediate_steps=forget, return_intermediate_steps=True)
    assert len(executor.invoke(QUESTION)["intermediate_steps"]) == 1


def add_step(iterator: Any, kind: Any) -> None:
    iterator.intermediate_steps.append((AgentAction("added", "", ""), "added"))


def drop_steps(iterator: Any, kind: Any) -> None:
    iterator.intermediate_steps = []


def change_inputs(iterator: Any, kind: Any) -> None:
    iterator.inputs = {"input": "another question", "more": 1}


def lower_limit(iterator: Any, kind: Any) -> None:
    iterator.agent_executor.max_iterations = 2


def count_again(iterator: Any, kind: Any) -> None:
    iterator.iterations -= iterator.iterations == 2


def replace_executor(iterator: Any, kind: Any) -> None:
    iterator.agent_executor = make(kind, "number", END, max_iterations=3)


@pytest.mark.medium
@cases("change", add_step, drop_steps, change_inputs, lower_limit, count_again, replace_executor)
def test_iterator_takes_changes_between_turns(change: Callable[[Any, Any], None]) -> None:
    def collect(kind: Any, *, is_async: bool) -> list[Any]:
        script = Script(["echo", "number", "plain", "echo", END], empty=None)
        executor = kind(agent=make_agent("single", script), tools=make_tools(), max_iterations=4)
        iterator, chunks = executor.iter(QUESTION, include_run_info=True), list[Any]()

        def take(chunk: Any) -> None:
            chunks.append({key: value for key, value in chunk.items() if key != "__run"})
            change(iterator, kind)

        async def run() -> None:
            async for chunk in iterator:
                take(chunk)

        if is_async:
            asyncio.run(run())
        else:
            for chunk in iterator:
                take(chunk)
        return [chunks, script.seen, iterator.iterations, iterator.intermediate_steps]

    for is_async in (False, True):
        expected, given = (collect(kind, is_async=is_async) for kind in EXECUTORS)
        assert given == expected


def test_iterator_takes_langchains_executor() -> None:
    def make_langchains() -> Any:
        return make(LangChainExecutor, "echo", END)

    assert [*AgentExecutorIterator(make_langchains(), QUESTION)] == [*make_langchains().iter(QUESTION)]


def test_time_of_the_consumer_counts() -> None:
    def collect(kind: Any) -> list[list[str]]:
        executor, chunks = make(kind, "echo", "echo", END, max_execution_time=LIMIT), list[list[str]]()
        with CLOCK.patched():
            for chunk in executor.stream(QUESTION):
                chunks.append(sorted(chunk))
                if "steps" in chunk:
                    sleep()
        return chunks

    expected, given = map(collect, EXECUTORS)
    assert given == expected


def test_tool_runs_only_when_its_step_is_wanted() -> None:
    calls = list[str]()

    def note(query: str) -> str:
        """Note the call."""
        calls.append(query)
        return query

    script = Script([Several(["note", "note"]), END], empty=None)
    executor = AgentExecutor(agent=make_agent("single", script), tools=[tool(note)])
    chunks, seen = executor.stream(QUESTION), list[int]()
    for _ in zip(range(3), chunks, strict=False):
        seen.append(len(calls))
    chunks.close()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue] - it is a generator
    assert (seen, len(calls)) == ([0, 0, 1], 1)


@cases("options", {"tags": ["a"], "metadata": {"b": 1}}, {"config": {"configurable": {"c": 1}}}, {"tool_call_id": "d"})
def test_agent_sets_options_of_calls(options: dict[str, Any]) -> None:
    def collect(kind: Any) -> list[Any]:
        executor, recorder = make(kind, "config", END, return_intermediate_steps=True), Recorder()
        type(executor.agent).tool_run_logging_kwargs = staticmethod(options.copy)
        return [executor.invoke(QUESTION, {"callbacks": [recorder]}), recorder.events]

    expected, given = map(collect, EXECUTORS)
    assert given == expected


def test_argument_named_config_is_dropped() -> None:
    def read(query: str, config: str = "none") -> str:
        """Return both."""
        return f"{query} {config}"

    def choose() -> AgentAction:
        return AgentAction("read", {"query": "x", "config": "given"}, "")

    for kind in EXECUTORS:
        agent = make_agent("single", Script([choose, END], empty=None))
        executor = kind(agent=agent, tools=[tool(read)], return_intermediate_steps=True)
        assert executor.invoke(QUESTION)["intermediate_steps"][0][1] == "x none", kind


def test_tools_are_not_kept_alive() -> None:
    class Service:
        def echo(self, query: str) -> str:
            """Repeat it."""
            return query

    service = Service()
    executor = AgentExecutor(agent=make_agent("single", Script(["echo", END], empty=None)), tools=[tool(service.echo)])
    assert executor.invoke(QUESTION)["output"] == "2"
    kept = ref(service)
    del service, executor
    gc.collect()
    assert kept() is None


@pytest.mark.filterwarnings("ignore:The class")
def test_executor_is_langchains_class() -> None:
    memory = ConversationBufferMemory(output_key="output")
    script = Script([END], empty=None)
    # Any: LangChain's annotation is of its own class.
    kind: Any = AgentExecutor
    executor = kind.from_agent_and_tools(make_agent("single", script), make_tools(), memory=memory, metadata={"a": 1})
    assert isinstance(executor, LangChainExecutor)
    assert type(executor).__name__ == "AgentExecutor"
    assert executor.lookup_tool("echo").name == "echo"
    with pytest.raises(ValueError, match="Saving not supported"):
        executor.save("agent.json")
    assert executor.invoke(QUESTION) == {"input": "question", "history": "", "output": "1"}
    assert executor.invoke({"input": "again"})["history"] == "Human: question\nAI: 1"
    assert executor.batch([QUESTION, QUESTION], return_exceptions=True)[0]["output"] == "3"


def test_executor_is_made_of_langchains() -> None:
    langchains = make(LangChainExecutor, "echo", END, max_iterations=1, return_intermediate_steps=True)
    executor = AgentExecutor(**dict(langchains))
    assert len(executor.invoke(QUESTION)["intermediate_steps"]) == 1
    assert executor.verify().limits.iterations == 1


def test_executor_is_proved_and_drawn(tmp_path: Path) -> None:
    executor = make(AgentExecutor, END, max_iterations=3, max_execution_time=1.0)
    verdict = executor.verify()
    assert verdict.proof is not None
    # A sync run waits for its tools, however long they take.
    assert verdict.bounds is not None
    assert verdict.bounds.seconds.number is None
    # LangChain counts no runs within a run.
    assert (verdict.limits.iterations, verdict.limits.depth, verdict.limits.nested_runs) == (3, None, None)
    assert {node.name for node in executor.graph} >= {"plan", "dispatch_tools"}
    assert "dispatch_tools" in executor.draw(tmp_path / "executor.mmd").read_text(encoding="utf-8")
    assert make(AgentExecutor, END, max_iterations=None).verify().proof is None


def test_nested_run_shares_the_outer_limits() -> None:
    inner = make(AgentExecutor, "echo", "echo", END)

    @graphexec.tool
    def ask(question: str) -> str:
        """Ask the inner agent."""
        return str(inner.invoke({"input": question})["output"])

    def decide(steps: Any, inputs: Any) -> Any:
        return graphexec.AgentFinish({"output": steps[-1].observation}, "") if steps else action

    action = graphexec.AgentAction("ask", {"question": "x"}, "")
    outer = graphexec.AgentExecutor(agent=graphexec.callable_agent(decide), tools=[ask], max_tool_calls=2)
    assert outer.invoke("question")["output"] == STOPPED


@pytest.mark.filterwarnings("ignore:Field name")
def test_subclass_has_a_field_of_any_name(tmp_path: Path) -> None:
    members = {"__annotations__": {"graph": str}, "__module__": __name__, "graph": ""}
    executor = make(type("Own", (AgentExecutor,), members), END, graph="neo4j")
    assert (executor.invoke(QUESTION)["output"], executor.graph) == ("1", "neo4j")
    assert executor.draw(tmp_path / "executor.mmd").exists()


def test_subclass_of_the_loop_is_refused() -> None:
    with pytest.raises(InputError, match="_take_next_step"):
        type("Own", (AgentExecutor,), {"_take_next_step": None})
    mixin = type("Mixin", (), {"_should_continue": None})
    with pytest.raises(InputError, match="_should_continue"):
        type("Own", (mixin, AgentExecutor), {})


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "graphexec.integrations.langchain.dropin.executor"
    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "langchain_classic.agents", None)
    with pytest.raises(InputError, match="pip install"):
        import_module(module)


@pytest.mark.medium
def test_step_costs_less_than_langchains() -> None:
    """Calls of functions, in place of time: benchmarks/langchain_dropin.py measures that, with the same goal."""

    def count(executor_class: Any, kind: str) -> int:
        script = Script([*["echo"] * 20, END, *["echo"] * 20, END], empty=None)
        executor = executor_class(agent=make_agent(kind, script), tools=make_tools(), max_iterations=30)
        # The first run loads what runs need.
        executor.invoke(QUESTION)
        return count_calls(lambda: executor.invoke(QUESTION))

    for kind in KINDS:
        theirs, ours = (count(one, kind) for one in EXECUTORS)
        assert ours <= 0.9 * theirs, (kind, ours, theirs)
