"""A folder with a user's machines: proved and unproved ones, and modules that cannot be imported."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

# A module with an executor and a graph.
MACHINES = """
from graphexec import AgentExecutor, AgentFinish
from graphexec.executor import AGENT_EXECUTOR

class Company:
    executor = AgentExecutor(
        agent=lambda steps, inputs: AgentFinish({"output": "yes"}), tools=[], handle_parsing_errors=True
    )

machine = AGENT_EXECUTOR
number = 5
"""

# The user's modules, by name.
FILES = {
    "writing": (Path(__file__).parents[1] / "verify" / "writing.py").read_text(encoding="utf-8"),
    "agents": """
from graphexec import AgentExecutor, AgentFinish
from writing import PERFECTIONIST as _PERFECTIONIST

def answer(steps, inputs):
    return AgentFinish({"output": "yes"})

executor = AgentExecutor(agent=answer, tools=[], max_iterations=3, max_tool_calls=4)
patient = AgentExecutor(agent=answer, tools=[], max_iterations=9, max_tool_calls=4)
again = executor
number = 5
print("a module prints")
""",
    "lacking": """
from graphexec import END, edges, graph, on
from writing import *

machine = graph(
    edges(write, on(Text, criticize) | on(GivenUp, END))
    | edges(criticize, on(Poor, polish)) | edges(polish, on(Text, criticize)),
    start=write,
)
""",
    "faulty": """
from graphexec import edges, graph, on
from writing import *

machine = graph(edges(write, on(Text, criticize)) | edges(criticize, on(Poor, polish)), start=write)
""",
    "whole": "import graphexec.executor as gx\n\nmine = gx.AGENT_EXECUTOR\n",
    "refused": """
from graphexec import UnprovedError
from graphexec.verify import verify
from writing import PERFECTIONIST

raise UnprovedError(verify(PERFECTIONIST))
""",
    "boundless": """
from graphexec import AgentExecutor, AgentFinish

executor = AgentExecutor(
    agent=lambda steps, inputs: AgentFinish({}), tools=[], max_iterations=None, handle_parsing_errors=True
)
""",
    "leaky": """
from graphexec import END, AgentExecutor, AgentFinish, edges, node, on
from graphexec.executor import parse

@node
def redact(finish: AgentFinish) -> AgentFinish:
    return finish

plain = AgentExecutor(agent=lambda steps, inputs: AgentFinish({}), tools=[], max_tool_calls=4)
executor = plain.splice(edges(redact, on(AgentFinish, END)), after=parse, on=AgentFinish)
""",
    "empty": "number = 5\n",
    "broken": "def answer(:\n",
    "helped": """
from graphexec import *
from graphexec.executor import *
from graphexec.executor import table as _made
from writing import PERFECTIONIST, WRITER

agents_own = AGENT_EXECUTOR
""",
    "endless": """
from graphexec import *; from graphexec.executor import *
from graphexec import AgentExecutor as _Executor

@node
def again(reached: LimitReached) -> Ready:
    return Ready(reached.run)

def answer(steps, inputs):
    return AgentFinish({})

rows = edges(again, on(Ready, plan, resets=[ITERATIONS]))
extended = splice(AGENT_EXECUTOR, rows, after=plan, on=LimitReached, allow_nonterminating=True)
executor = None
if rows:
    executor = _Executor(
        agent=answer, tools=[], max_iterations=None, handle_parsing_errors=True, allow_nonterminating=True
    )

class Company:
    first, second = executor, executor
""",
}


def lay_out(folder: Path, monkeypatch: pytest.MonkeyPatch, modules: Mapping[str, str]) -> Path:
    """Go into a folder with these modules; forget afterwards that a command has imported them."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.setitem(sys.modules, name, sys)
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return folder
