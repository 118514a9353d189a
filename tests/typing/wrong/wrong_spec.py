"""Limits, handlers and results that are none."""

from graphexec import AgentExecutor, Limits, Snapshot
from graphexec.runtime import arun, run
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
AgentExecutor(agent=3, tools=[])  # error: mypy arg-type, pyright reportArgumentType
