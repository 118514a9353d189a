"""The user's own code is called under scripted models: what keeps its promises passes, and what does not is named."""

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import graphexec as gx
from graphexec.effects import CallTool, ToolResult
from graphexec.executor import parse
from graphexec.memory import BufferMemory
from graphexec.testing import ScriptedModel, verify_termination
from graphexec.testing.explorer.oracle import Replies
from graphexec.testing.own_code.watchdog import HangError, Watchdog
from graphexec.tools import AnyTool
from tests.parameters import cases
from tests.stopwatch import Stopwatch


@gx.tool
def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


ADDING = gx.AgentAction("add", {"first": 1, "second": 1})
DONE = gx.AgentFinish({"output": "done"})


def executor_of(*tools: AnyTool, **settings: Any) -> gx.AgentExecutor:
    chosen: dict[str, Any] = {"max_iterations": 4, "max_tool_calls": 6, "handle_parsing_errors": True, **settings}
    agent = gx.create_tool_calling_agent(ScriptedModel([]), tools)
    return gx.AgentExecutor(agent=agent, tools=tools, **chosen)


def deciding(decide: Callable[[Any, Any], Any], *tools: AnyTool, **settings: Any) -> gx.AgentExecutor:
    return gx.AgentExecutor(agent=decide, tools=tools or [add], **settings)


@pytest.mark.medium
def test_tools_are_called_with_what_fits() -> None:
    seen: list[int] = []

    @gx.tool
    def note(number: int) -> str:
        """Take a note."""
        seen.append(number)
        return "noted"

    verify_termination(executor_of(note), replies={CallTool: [ToolResult("noted")]}, examples=5)
    assert seen == []
    verify_termination(executor_of(note), examples=5)
    assert {*seen} == {1}

    @gx.tool
    def greet(call: gx.CallContext[User]) -> str:
        """Greet the user."""
        return call.context.name

    verify_termination(executor_of(greet), context=User("Ann"), examples=5)


@pytest.mark.medium
@cases("as_messages", True, False)
def test_a_memory_may_remember(as_messages: bool) -> None:
    agent = gx.create_tool_calling_agent(ScriptedModel([]), [add])
    if not as_messages:
        template = "{tools} {tool_names} {chat_history} {input} {agent_scratchpad}"
        agent = gx.create_react_agent(ScriptedModel([]), [add], prompt=template)
    memory = BufferMemory(as_messages=as_messages)
    made = gx.AgentExecutor(agent=agent, tools=[add], memory=memory, max_iterations=3, handle_parsing_errors=True)
    verify_termination(made, examples=5)


numbers = itertools.count()


@gx.tool
def ticket() -> int:
    """Draw a number."""
    return next(numbers)


@gx.node
def number(finish: gx.AgentFinish) -> gx.AgentFinish:
    return gx.AgentFinish({"output": next(numbers)}, run=finish.run)


@pytest.mark.medium
def test_tools_may_remember_and_so_may_stateful_nodes() -> None:
    verify_termination(executor_of(ticket), examples=5)
    numbering = executor_of(add).plug(number)
    with pytest.raises(AssertionError, match=r"number differs between runs: .* pass stateful=\('number',\)"):
        verify_termination(numbering, examples=5)
    verify_termination(numbering, examples=5, stateful=["number"])


@dataclass(frozen=True)
class User:
    name: str


@gx.node
def sign(finish: gx.AgentFinish, call: gx.CallContext[User]) -> gx.AgentFinish:
    return gx.AgentFinish({"output": f"{finish.output} ({call.context.name})"}, run=finish.run)


@gx.node
def redact(finish: gx.AgentFinish) -> gx.AgentFinish:
    return finish


@gx.tool
def doze(text: str) -> str:
    """Take real time."""
    time.sleep(0.1)
    return text


@pytest.mark.medium
@cases(
    ("machine", "options"),
    (executor_of(add).plug(sign), {"context": User("Ann")}),
    (executor_of(add, max_cost=0.5), {}),
    (executor_of(doze, max_execution_time=0.3), {}),
    (
        executor_of(add).splice(gx.edges(redact, gx.on(gx.AgentFinish, gx.END)), after=parse, on=gx.AgentFinish),
        {"ignore": ["GX027"]},
    ),
)
def test_machine_without_a_bug_passes(machine: gx.AgentExecutor, options: dict[str, Any]) -> None:
    verify_termination(machine, examples=8, **options)


@pytest.mark.medium
def test_failures_of_observers_and_scripts_are_named() -> None:
    def count(event: object) -> None:
        raise KeyError(type(event).__name__)

    found = r"plan: the observer \S*count raises KeyError\('Entered'\) at \S*test_own"
    with pytest.raises(AssertionError, match=found):
        verify_termination(executor_of(add, observers=[count]), examples=5)

    def decide(steps: Any, inputs: Any) -> Any:
        if [step.status for step in steps] == ["ok", "error"]:
            raise KeyError("late")
        return ADDING

    results: Replies = {CallTool: [ToolResult("done"), ToolResult("it failed", "error")]}
    with pytest.raises(AssertionError) as raised:
        verify_termination(deciding(decide, max_iterations=4), replies=results, examples=20)
    assert "with the replies CallTool: ToolResult 1, CallTool: ToolResult 2; " in str(raised.value)


@cases(
    ("options", "text"),
    *(({"patience": wrong}, "patience") for wrong in (0, -1, "soon")),
    ({"stateful": "add"}, r"stateful is 'add'; give a list of names: \['add'\]"),
    ({"stateful": ["pars"]}, "no node of the machine; did you mean parse?"),
    ({"ignore": ["GX007"]}, "ignore has 'GX007', which is no warning that fails a test; did you mean GX027?"),
)
def test_invalid_option_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(gx.InputError, match=text):
        verify_termination(executor_of(add), examples=1, **options)


def test_check_without_user_code_is_not_interrupted() -> None:
    def check() -> str:
        time.sleep(0.3)
        return "done"

    assert Watchdog(0.1).run(check) == "done"
    with pytest.raises(KeyError):
        Watchdog().run(lambda: dict[str, str]()["mine"])


def run_watched(decide: Callable[[Any, Any], Any], patience: float = 0.2) -> None:
    Watchdog(patience).run(lambda: deciding(decide, max_iterations=2).run("q"))


@pytest.mark.medium
def test_hang_in_a_library_names_the_users_line() -> None:
    # A module that is installed as a library.
    library: dict[str, Any] = {"__name__": "library"}
    source = "def spin(done):\n    while not done():\n        pass\n"
    exec(compile(source, "/usr/lib/site-packages/library.py", "exec"), library)
    turns = itertools.count()

    def decide(steps: Any, inputs: Any) -> Any:
        return library["spin"](lambda: next(turns) > 10**7)

    with pytest.raises(HangError, match=r"it is at \S+test_own_code\.py:\d+ in \S*decide"):
        run_watched(decide)


@pytest.mark.medium
def test_nested_runs_within_a_set_limit_pass() -> None:
    inner = deciding(lambda steps, inputs: DONE if steps else ADDING, max_iterations=3)

    @gx.tool
    def helper(text: str) -> str:
        """Helps."""
        return str(inner.run(text).output)

    found = r"the tool helper charges model calls that the proof does not count: .*; set max_model_calls"
    with pytest.raises(AssertionError, match=found):
        verify_termination(executor_of(helper), examples=5)
    verify_termination(executor_of(helper, max_model_calls=10), examples=5)
    # What it charges is known, and part of the bound.
    verify_termination(executor_of(inner.as_tool("helper", "Helps.")), examples=5)


@pytest.mark.medium
@cases(
    ("finish", "memory"),
    # A finish needs no step for its actions.
    (gx.AgentFinish({}), None),
    (DONE, BufferMemory()),
)
def test_a_run_that_only_answers_passes(finish: gx.AgentFinish, memory: BufferMemory | None) -> None:
    verify_termination(gx.AgentExecutor(agent=lambda steps, inputs: finish, tools=[], memory=memory), examples=3)


@pytest.mark.medium
def test_allowed_error_ends_a_run() -> None:
    """A wait of eight virtual seconds is not repeated in a sync run, even if the run fails."""

    @gx.tool
    async def ponder(text: str) -> str:
        """Think for long."""
        await asyncio.sleep(8)
        raise KeyError(text)

    pondering = gx.AgentAction("ponder", {"text": "a"})
    agent = deciding(lambda steps, inputs: DONE if len(steps) > 1 else pondering, ponder, handle_tool_errors="raise")
    with Stopwatch() as watch:
        verify_termination(agent, examples=5, raises=(KeyError, gx.ParseError))
    assert watch.elapsed < watch.extend(8)
