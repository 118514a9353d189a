"""Twenty-four bugs of ten kinds that users write, each given to the plugin: its report names the node or the tool."""

import math
import re
import sys
import threading
import time
import traceback

import pytest

from tests.parameters import mark_except
from tests.testing.test_plugin import result_of

pytest_plugins = ["pytester"]

# Real seconds for one call; what hangs takes so long to be found, once in each of two checks. Others have more: on a
# busy machine a call that returns may take as long.
PATIENCE = 0.4
LONG_PATIENCE = 30

PROGRAM = """
import asyncio, itertools, threading, time
import dataclasses

import pytest
from graphexec import *
from graphexec.actions import AgentStep, Run
from graphexec.executor import *
from graphexec.memory import BufferMemory
from graphexec.testing import ScriptedModel

ROUTES = on(Acted, dispatch_tools) | on(AgentFinish, END) | on(LimitReached, stopped_response)
visits = itertools.count(1)

@tool
def echo(text: str) -> str:
    "Say it again."
    return text

def executor(*tools, agent=None, nodes=(), **settings):
    tools = tools or (echo,)
    agent = agent or create_tool_calling_agent(ScriptedModel([]), tools)
    settings = {"max_iterations": 15, "max_tool_calls": 30, "handle_parsing_errors": True, **settings}
    made = AgentExecutor(agent=agent, tools=tools, **settings)
    for one in nodes:
        returned = set(one.outcomes)
        routes = on(Acted, dispatch_tools)
        for kind, target in ((AgentFinish, END), (LimitReached, stopped_response), (Ready, plan)):
            if kind in returned:
                routes = routes | on(kind, target)
        made = made.with_graph(splice(made.graph, edges(one, routes), after=parse, on=Acted))
    return made
"""

# The bugs: the name of each with its machine, what the report says, and the code.
PROGRAMS = """
# ---- A node that does not return

### hang in a node, busy: executor(nodes=[spin])
#> spin does not return: it is at *test_mine.py:*
@node
def spin(acted: Acted) -> Acted:
    while True:
        pass

### hang in a node, asleep: executor(nodes=[nap])
#> nap does not return: it is at *test_mine.py:*
@node
def nap(acted: Acted) -> Acted:
    time.sleep(3600)
    return acted

### hang in an asking node, after its reply: executor(nodes=[confirm])
#> confirm does not return: it is at *test_mine.py:*
@charged(when_spent=limit_reached, asks=1)
@node
def confirm(acted: Acted) -> Asks[AskHuman, Acted]:
    answer = yield from ask(AskHuman("ok?"))
    while answer == "no":
        pass
    return acted

# ---- A tool that does not return

### hang in a tool, busy: executor(count)
#> dispatch_tools: the tool count does not return: it is at *test_mine.py:*
@tool
def count(text: str) -> str:
    "Count."
    while True:
        pass

### hang in a tool, asleep: executor(wait)
#> dispatch_tools: the tool wait does not return: it is at *test_mine.py:*
@tool
def wait(text: str) -> str:
    "Wait."
    time.sleep(3600)
    return text

### hang in an async tool, awaiting: executor(listen)
#> dispatch_tools: the tool listen does not return: it is at *test_mine.py:*
@tool
async def listen(text: str) -> str:
    "Listen."
    await asyncio.Event().wait()
    return text

### hang in an async tool that blocks the loop: executor(block)
#> dispatch_tools: the tool block does not return: it is at *test_mine.py:*
@tool
async def block(text: str) -> str:
    "Block."
    time.sleep(3600)
    return text

# ---- An agent function that does not return

### hang in an agent function: executor(agent=decide)
#> plan: the agent function decide does not return: it is at *test_mine.py:*
def decide(steps, inputs):
    while len(steps) >= 2:
        pass
    return AgentAction("echo", {"text": "x"})

# ---- A memory, an observer or a policy that does not return

### hang in a memory: executor(agent=agent, memory=Diary(as_messages=True))
#> load_memory: the memory Diary does not return: it is at *test_mine.py:*
class Diary(BufferMemory):
    def load(self, inputs):
        time.sleep(3600)

    async def aload(self, inputs):
        await asyncio.Event().wait()

agent = create_tool_calling_agent(ScriptedModel([]), [echo], system="{chat_history}")

### hang in an observer: executor(observers=[watch])
#> plan does not return: it is at *test_mine.py:* in watch*
def watch(event):
    while True:
        pass

### hang in a policy: executor(handle_parsing_errors=feedback)
#> parse does not return: it is at *test_mine.py:* in feedback*
def feedback(error):
    while True:
        pass

# ---- A node that asks until it likes the answer

### ask until yes: executor(nodes=[approve])
#> approve asks for AskHuman 100 times in one visit*
@charged(when_spent=limit_reached)
@node
def approve(acted: Acted) -> Asks[AskHuman, Acted]:
    while (yield from ask(AskHuman("ok?"))) != "yes":
        pass
    return acted

### ask a tool until it succeeds: executor(nodes=[insist], max_tool_calls=None)
#> insist asks for CallTool 100 times in one visit*
@charged(when_spent=limit_reached)
@node
def insist(acted: Acted) -> Asks[CallTool, Acted]:
    while (yield from ask(CallTool("echo", {}))).status != "ok":
        pass
    return acted

# ---- What fails late, or for some replies only

### a node that fails at the fifth step: executor(nodes=[index])
#> index raises IndexError*test_mine.py:*
@node
def index(acted: Acted) -> Acted:
    [0, 1, 2, 3][len(acted.run.steps)]
    return acted

### an agent function that fails at the twelfth step: executor(agent=decide)
#> plan: the agent function decide raises KeyError('twelfth')*test_mine.py:*
def decide(steps, inputs):
    if len(steps) == 11:
        raise KeyError("twelfth")
    return AgentAction("echo", {"text": "x"})

### a node that fails after an unknown tool and a good one: executor(nodes=[judge])
#> judge raises ValueError('unexpected')*
@node
def judge(acted: Acted) -> Acted:
    if [step.status for step in acted.run.steps[-2:]] == ["unknown_tool", "ok"]:
        raise ValueError("unexpected")
    return acted

# ---- State that leaks from one run to the next

### a tool that remembers: executor(recall)
#> dispatch_tools: the tool recall differs between runs: under one script it*
seen = []

@tool
def recall(text: str) -> str:
    "Recall."
    seen.append(text)
    return f"{len(seen)} so far"

### an agent function that remembers: executor(agent=decide)
#> plan: the agent function decide differs between runs: under one script it*
turns = []

def decide(steps, inputs):
    turns.append(inputs)
    return AgentFinish({"output": "x"}) if len(turns) % 2 else AgentAction("echo", {"text": "x"})

# ---- An action of the agent's that nothing answers

### a node that drops an action: executor(nodes=[only_first])
#> only_first loses an action*
@node
def only_first(acted: Acted) -> Acted:
    return dataclasses.replace(acted, actions=acted.actions[:1])

### a node that goes back without an observation: executor(nodes=[refuse])
#> refuse loses an action*
@node
def refuse(acted: Acted) -> Acted | Ready:
    return acted if len(acted.actions) == 1 else Ready(acted.run)

# ---- A tool that starts runs

### a tool whose runs are beyond the proof: executor(research, max_iterations=3, max_tool_calls=None, max_fan_out=2)
#> dispatch_tools: the tool research charges model calls that the proof does not count*
def many(steps, inputs):
    return AgentAction("echo", {"text": "x"})

@tool
def research(text: str) -> str:
    "Do research."
    inner = AgentExecutor(agent=many, tools=[echo], max_iterations=9)
    return inner.invoke(text)["output"]

### a tool whose runs are not charged: executor(delegate)
#> dispatch_tools: the tool delegate starts a run that is not charged to the run around it*
def once(steps, inputs):
    return AgentFinish({"output": "x"})

@tool
def delegate(text: str) -> str:
    "Delegate."
    inner = AgentExecutor(agent=once, tools=[echo])
    thread = threading.Thread(target=inner.invoke, args=(text,))
    thread.start()
    thread.join()
    return text

# ---- What a node declares and does not keep

### a node that returns another outcome: executor(nodes=[lie])
#> lie raises UndeclaredOutcomeError*
@node
def lie(acted: Acted) -> Acted:
    return Ready(acted.run) if len(acted.run.steps) == 4 else acted

### a node that asks for another effect: executor(nodes=[stray])
#> stray raises UndeclaredEffectError*
@charged(when_spent=limit_reached, asks=1)
@node
def stray(acted: Acted) -> Asks[AskHuman, Acted]:
    yield from ask(CallTool("echo", {"text": "x"}))
    return acted
"""
BUGS: dict[str, tuple[str, str, str]] = {
    name: (code, machine, report)
    for name, machine, report, code in re.findall(r"### (.+?): (.+)\n#> (.+)\n((?:(?!#).*\n)+)", PROGRAMS)
}


@pytest.fixture(autouse=True)
def _without_spin(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    monkeypatch.setattr("graphexec.testing.spin_checker.is_installed", lambda: False)


# Of each kind some, which take a second each; all of them are among the long tests.
QUICK = {
    *("hang in a node, busy", "hang in a tool, asleep", "hang in an agent function", "ask until yes"),
    *("a node that fails at the fifth step", "a tool whose runs are not charged"),
}


# Seconds in which threads that were interrupted come to rest.
SOON = 20.0


def used_by(thread: threading.Thread) -> float:
    """Return the seconds of the processor that a thread has used; infinite if it has ended."""
    assert thread.ident is not None, "it has started"
    if not thread.is_alive():
        return math.inf
    try:
        return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    except OSError:
        return math.inf


def busy_threads() -> list[str]:
    """Wait until no other thread uses processor time, but not for long; return the stacks of those that still do."""
    deadline = time.monotonic() + SOON
    while True:
        others = [one for one in threading.enumerate() if one is not threading.current_thread()]
        before = [used_by(one) for one in others]
        time.sleep(0.1)
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
        busy = [
            f"{one.name}: {''.join(traceback.format_stack(frames[one.ident]) if one.ident in frames else ())}"
            for one, at in zip(others, before, strict=True)
            if one.is_alive() and used_by(one) - at > 0.01
        ]
        if not busy or time.monotonic() > deadline:
            return busy


@pytest.mark.medium
@pytest.mark.parametrize("bug", mark_except(BUGS, *QUICK, mark=pytest.mark.slow))
def test_a_bug_is_reported_with_its_node(pytester: pytest.Pytester, bug: str) -> None:
    assert len(BUGS) == 24, "there are bugs of every kind"
    code, machine, report = BUGS[bug]
    patience = PATIENCE if bug.startswith("hang") else LONG_PATIENCE
    marked = f"@pytest.mark.graphexec(examples=40, patience={patience})\ndef machine():\n    return {machine}\n"
    text = f"from graphexec.effects import CallTool\n{PROGRAM}\n{code}\n{marked}"
    pytester.makepyfile(test_mine=text)
    before = {thread for thread in threading.enumerate() if not thread.daemon}
    result = result_of(pytester, "-r", "N")
    assert result.parseoutcomes()["failed"] >= 1
    assert result.ret == 1
    result.stdout.fnmatch_lines([report])
    assert {thread for thread in threading.enumerate() if not thread.daemon} <= before
    assert not busy_threads()
