"""Limits, options, outputs, pieces, tools and calls that are none, or whose names are those of other libraries."""

from __future__ import annotations

from dataclasses import dataclass

import graphexec
from graphexec import AgentExecutor, AgentFinish, Limits, Snapshot, Tool, create_agent, node, tool
from graphexec.executor import Acted
from graphexec.messages import ChatRequest
from graphexec.models import ScriptedModel, create_model, retrying
from graphexec.nodes import limit_tool
from graphexec.runtime import arun, run
from graphexec.tools import tool_from_schema
from tests.kernel.machines import DIAMOND, Number, Question

Limits(15)  # error: mypy arg-type, pyright reportArgumentType
Limits(iterations="15")  # error: mypy arg-type, pyright reportArgumentType
Limits(turns=15)  # error: mypy call-arg, pyright reportCallIssue
Limits().iterations = 3  # error: mypy misc, pyright reportAttributeAccessIssue
run(DIAMOND, Number(1), handlers={Question: "fine"})  # error: mypy dict-item, pyright reportArgumentType
run(DIAMOND, Number(1), handlers={str: lambda question: "fine"})  # error: mypy dict-item, pyright reportArgumentType
Snapshot.from_json("{}")  # error: mypy call-arg, pyright reportCallIssue
run(DIAMOND, Number(1), worlds=3)  # error: mypy call-arg, pyright reportCallIssue
arun(DIAMOND, Number(1)).outcome  # error: mypy attr-defined, pyright reportAttributeAccessIssue
limit_tool("search", 3, on_limit="stop")  # error: mypy arg-type, pyright reportArgumentType
retrying(ScriptedModel([]), on=ValueError)  # error: mypy arg-type, pyright reportArgumentType
AgentExecutor(agent=3, tools=[])  # error: mypy arg-type, pyright reportArgumentType

# Names of other libraries, which raise errors with remedies at run time.
graphexec.StateGraph()  # error: mypy attr-defined, pyright reportAttributeAccessIssue

executor = AgentExecutor(agent=lambda steps, inputs: AgentFinish({}), tools=[])


async def wait() -> None:
    await executor.run("q")  # error: mypy misc, pyright reportGeneralTypeIssues


executor.run_sync("q")  # error: mypy attr-defined, pyright reportAttributeAccessIssue
executor.run()  # error: mypy call-overload, pyright reportCallIssue
executor("q")  # error: mypy operator, pyright reportCallIssue
executor.run("q")["output"]  # error: mypy index, pyright reportIndexIssue
ChatRequest("q")  # error: mypy arg-type, pyright reportArgumentType
Limits(max_iterations=3)  # error: mypy call-arg, pyright reportCallIssue


def double(number: int) -> int:
    return 2 * number


class Shop:
    @tool
    def price(self, item: str) -> str:
        """Tell the price."""
        return item


create_agent("local", [double], max_iteration=3)  # error: mypy call-overload call-overload, pyright reportCallIssue
create_agent("local", [double], max_iterations="3")  # error: mypy call-overload, pyright reportArgumentType
create_agent("local", [double], kind="tool-calling")  # error: mypy call-overload, pyright reportArgumentType
create_agent("local", [3])  # error: mypy list-item, pyright reportArgumentType
create_agent(3, [double])  # error: mypy call-overload, pyright reportArgumentType
create_model("openai:gpt-5-mini", temprature=0)  # error: mypy call-arg, pyright reportCallIssue
tool_from_schema("double", "Double it.", {}, double, timeuot=3)  # error: mypy call-arg, pyright reportCallIssue
Tool("double", double, "Double it.")("3")  # error: mypy arg-type, pyright reportArgumentType
Shop().price(3)  # error: mypy arg-type, pyright reportArgumentType


@dataclass
class Answer:
    total: int


typed = create_agent("local", [], output_type=Answer)
other: AgentExecutor[str] = typed  # error: mypy assignment, pyright reportAssignmentType
text: str = typed.run("q").output  # error: mypy assignment, pyright reportAssignmentType
typed.run("q").output.sum  # error: mypy attr-defined, pyright reportAttributeAccessIssue
typed.plug().run("q").output.sum  # error: mypy attr-defined, pyright reportAttributeAccessIssue


# Pieces that take or return a class which no agent's machine has.
@dataclass(frozen=True)
class Foreign:
    """An outcome of another machine."""


@node
def take_foreign(foreign: Foreign) -> Acted:
    raise AssertionError(foreign)


@node
def return_foreign(acted: Acted) -> Foreign:
    raise AssertionError(acted)


@node
def pass_on(acted: Acted) -> Acted:
    return acted


executor.plug(take_foreign)  # error: mypy arg-type, pyright reportArgumentType
executor.plug(return_foreign)  # error: mypy arg-type, pyright reportArgumentType
executor.plug(pass_on)
