"""Limits, handlers and results that are none."""

from graphexec import AgentExecutor, Limits, Snapshot
from graphexec.runtime import arun, make_run_context, run
from tests.kernel.machines import DIAMOND, Number, Question

Limits(15)  # error: mypy arg-type, pyright reportArgumentType
Limits(iterations="15")  # error: mypy arg-type, pyright reportArgumentType
Limits(turns=15)  # error: mypy call-arg, pyright reportCallIssue
Limits().iterations = 3  # error: mypy misc, pyright reportAttributeAccessIssue
make_run_context({Question: "fine"})  # error: mypy dict-item, pyright reportArgumentType
make_run_context({str: lambda question: "fine"})  # error: mypy dict-item, pyright reportArgumentType
Snapshot.from_json("{}")  # error: mypy call-arg, pyright reportCallIssue
run(DIAMOND, Number(1))  # error: mypy call-arg, pyright reportCallIssue
arun(DIAMOND, Number(1), make_run_context({})).outcome  # error: mypy attr-defined, pyright reportAttributeAccessIssue
AgentExecutor(agent=3, tools=[])  # error: mypy arg-type, pyright reportArgumentType
