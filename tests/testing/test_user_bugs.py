"""Forty bugs that users write, each given to the plugin: its report names the node or the tool."""

import math
import re
import sys
import threading
import time
import traceback

import pytest

from tests.parameters import mark_except
from tests.stopwatch import Stopwatch
from tests.testing.test_plugin import result_of

pytest_plugins = ["pytester"]

# Real seconds for one call; what hangs takes so long to be found, once in each of two checks. Others have more: on a
# busy machine a call that returns may take as long.
PATIENCE = 0.4
LONG_PATIENCE = 30

PROGRAM = """
import asyncio, dataclasses, itertools, json, threading, time

import pytest
from graphexec import *
from graphexec.actions import AgentStep, Run
from graphexec.effects import CallModel, CallTool
from graphexec.executor import *
from graphexec.memory import BufferMemory
from graphexec.messages import ChatRequest, ModelReply, UserMessage
from graphexec.testing import ScriptedModel
from tests.executor.actors import echo
from tests.kernel.machines import Halted, machine_of, value
from tests.testing.test_properties import Draft, Printed

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

# Machines without an agent; a function that makes one also sets the options of the marker.
class Lock(Effect[None]):
    pass

class Unlock(Effect[None]):
    pass

OPTIONS = {}

def say(text):
    return CallModel(ChatRequest((UserMessage(text),)))

def replying(*texts, locks=False):
    return {"replies": {CallModel: list(map(ModelReply, texts)), **({Lock: [None], Unlock: [None]} if locks else {})}}

def looped(first, *others, **options):
    return started(first, Draft("so"), *others, **options)

def started(first, value, *others, **options):
    OPTIONS.update(options, start=value)
    return machine_of(first, *others)
"""

# The bugs: the name of each with its machine, what the report says, and the code.
PROGRAMS = """
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

### hang in an agent function: executor(agent=decide)
#> plan: the agent function decide does not return: it is at *test_mine.py:*
def decide(steps, inputs):
    while len(steps) >= 2:
        pass
    return AgentAction("echo", {"text": "x"})

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
# Sixteen bugs more, most of them in machines without an agent.
PLANTED = """
### a text that is no number: looped(rate, limits=Limits(iterations=3), **replying("0.5", "0.9"))
#> rate raises ValueError("could not convert string to float: *test_mine.py:*
@metered(when_spent=Halted, asks=1)
@node
def rate(draft: Draft) -> Asks[CallModel, Draft | Printed]:
    reply = yield from ask(say(draft.text))
    return Printed(draft.text) if float(reply.content) > 0.8 else draft

### a number beyond the list: looped(choose, **replying("0", "1"))
#> choose raises IndexError*test_mine.py:*
@metered(when_spent=Halted, asks=1)
@node
def choose(draft: Draft) -> Asks[CallModel, Draft | Printed]:
    reply = yield from ask(say("0 or 1?"))
    return Printed(("left", "right")[int(reply.content)]) if reply.content.isdigit() else draft

### JSON of another kind: looped(judge, **replying('{"verdict": "good"}', "so"))
#> judge raises TypeError*test_mine.py:*
@metered(when_spent=Halted, asks=1)
@node
def judge(draft: Draft) -> Asks[CallModel, Draft | Printed]:
    reply = yield from ask(say(draft.text))
    try:
        read = json.loads(reply.content)
    except ValueError:
        return draft
    return Printed(read["verdict"])

### no return for some replies: looped(approve)
#> approve raises UndeclaredOutcomeError*
@metered(when_spent=Halted, asks=1)
@node
def approve(draft: Draft) -> Asks[AskHuman, Draft | Printed]:
    reply = yield from ask(AskHuman("ok?"))
    if reply == "yes":
        return Printed(draft.text)
    if reply == "no":
        return draft

### ask until it is a number: looped(count, **replying("3"))
#> count asks for CallModel 100 times in one visit*
@metered(when_spent=Halted)
@node
def count(draft: Draft) -> Asks[CallModel, Draft | Printed]:
    while not (reply := (yield from ask(say("How many?")))).content.isdigit():
        pass
    return Printed(reply.content)

### an ask in finally: looped(work, **replying("so", locks=True))
#> work asks for Unlock in a finally or an except after a limit has stopped it*node that takes Halted*
@metered(when_spent=Halted, asks=(2, 3))
@node
def work(draft: Draft) -> Asks[CallModel | Lock | Unlock, Draft | Printed]:
    yield from ask(Lock())
    try:
        reply = yield from ask(say(draft.text))
        return Printed(reply.content)
    finally:
        yield from ask(Unlock())

### a stop before the first step: executor().replace(stopped_response)
#> the run ended at stopped_response with IndexError*test_mine.py:*
@node
def stopped_response(reached: LimitReached) -> StoppedResponse:
    return StoppedResponse(f"stopped after {reached.run.steps[-1].observation}", reached.limit)

### a conversation of all runs: looped(chat, **replying("so"))
#> chat differs between runs: *asks for CallModel*
history = []

@metered(when_spent=Halted, asks=1)
@node
def chat(draft: Draft) -> Asks[CallModel, Draft | Printed]:
    history.append(draft.text)
    reply = yield from ask(say(" ".join(history)))
    return Printed(reply.content)

### a cache of the first answer: looped(confirm)
#> confirm differs between runs: *asks for AskHuman in the first run, but returns Printed in the second*
answers = {}

@metered(when_spent=Halted, asks=(0, 1))
@node
def confirm(draft: Draft) -> Asks[AskHuman, Draft | Printed]:
    if draft.text not in answers:
        answers[draft.text] = yield from ask(AskHuman("ok?"))
    return Printed(answers[draft.text])

### a number in an answer: executor(agent=None).plug(number)
#> number differs between runs: *returns AgentFinish*
numbers = itertools.count(1)

@node
def number(finish: AgentFinish) -> AgentFinish:
    return AgentFinish({"output": f"{next(numbers)}. {finish.output}"}, run=finish.run)

### a list within a frozen value: started(collect, Items([]))
#> collect differs between runs: *returns Printed*
@value
class Items:
    texts: list[str]

@metered(when_spent=Halted, asks=1)
@node
def collect(items: Items) -> Asks[AskHuman, Printed]:
    items.texts.append((yield from ask(AskHuman("more?"))))
    return Printed(", ".join(items.texts))

### a value that JSON changes: looped(sort, collect)
#> a run cannot be paused: the state at collect cannot be stored as JSON: Places.names has the key 1, which is an int*
@value
class Places:
    names: object

@node
def sort(draft: Draft) -> Places:
    return Places({1: draft.text})

@charged(when_spent=Halted, asks=1)
@node
def collect(places: Places) -> Asks[AskHuman, Printed]:
    yield from ask(AskHuman("ok?"))
    return Printed(places.names[1])

### a guard that misses an exit: executor(page).splice(edges(redact, on(AgentFinish, END)), after=parse, on=AgentFinish)
#> GX027 at redact: *check_return_direct --AgentFinish--> END bypasses it*
@tool(return_direct=True)
def page(text: str) -> str:
    "Read a page."
    return text

@node
def redact(finish: AgentFinish) -> AgentFinish:
    return AgentFinish({"output": finish.output.replace("secret", "***")}, run=finish.run)

### a tool that raises for an empty text: executor(first_word)
#> dispatch_tools: the tool first_word raises IndexError*calls first_word with {'text': ''}*
@tool(on_error="raise")
def first_word(text: str) -> str:
    "The first word."
    return text.split()[0]

### a tool that raises for a zero: executor(share, handle_tool_errors="raise")
#> dispatch_tools: the tool share raises ZeroDivisionError*calls share with {'whole': 0, 'parts': 0}*
@tool
def share(whole: int, parts: int) -> float:
    "A share."
    return whole / parts

### a policy that expects a form: executor(agent=reacting, handle_parsing_errors=feedback)
#> parse raises IndexError*test_mine.py:*
reacting = create_react_agent(ScriptedModel([]), [echo])

def feedback(error):
    return error.llm_output.split("Action:")[1]
"""


def read_bugs(programs: str) -> dict[str, tuple[str, str, str]]:
    """Return the code, the machine and the report of each bug, by its name."""
    found = re.findall(r"### (.+?): (.+)\n#> (.+)\n((?:(?!#).*\n)+)", programs)
    return {name: (code, machine, report) for name, machine, report, code in found}


# The first have other options; `OPTIONS` are those of the others.
BUGS, SIXTEEN = read_bugs(PROGRAMS), read_bugs(PLANTED)
FORTY = BUGS | SIXTEEN


@pytest.fixture(autouse=True)
def _without_spin(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    monkeypatch.setattr("graphexec.testing.spin_checker.is_installed", lambda: False)


# Of each kind some, which take a second each, and an ask that a limit drops; all of them are among the long tests.
QUICK = {
    *("hang in a node, busy", "hang in a tool, asleep", "hang in an agent function", "ask until yes"),
    *("a node that fails at the fifth step", "a tool whose runs are not charged", "a text that is no number"),
    *("an ask in finally", "a cache of the first answer", "a guard that misses an exit"),
    "a tool that raises for an empty text",
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
@pytest.mark.parametrize("bug", mark_except(FORTY, *QUICK, mark=pytest.mark.slow))
def test_a_bug_is_reported_with_its_node(pytester: pytest.Pytester, bug: str) -> None:
    """Each of the sixteen is reported within ten seconds."""
    assert (len(BUGS), len(SIXTEEN), len(FORTY)) == (24, 16, 40), "there are bugs of every kind"
    code, machine, report = FORTY[bug]
    options = f"examples=40, patience={PATIENCE if bug.startswith('hang') else LONG_PATIENCE}"
    # The options are known once the machine has been made.
    marked = f"@pytest.mark.graphexec({options if bug in BUGS else '**OPTIONS'})\ndef machine():\n    return MACHINE\n"
    pytester.makepyfile(test_mine=f"{PROGRAM}\n{code}\nMACHINE = {machine}\n\n{marked}")
    before = {thread for thread in threading.enumerate() if not thread.daemon}
    with Stopwatch() as watch:
        result = result_of(pytester, "-r", "N")
    assert bug in BUGS or watch.elapsed < watch.extend(10)
    assert result.parseoutcomes()["failed"] >= 1
    assert result.ret == 1
    result.stdout.fnmatch_lines([report])
    assert {thread for thread in threading.enumerate() if not thread.daemon} <= before
    assert not busy_threads()
