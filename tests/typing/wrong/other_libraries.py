"""Names of other libraries, which raise errors with remedies at run time, are errors of types, too."""

import graphexec
from graphexec import AgentExecutor, AgentFinish, Limits
from graphexec.messages import ChatRequest

graphexec.StateGraph()  # error: mypy attr-defined, pyright reportAttributeAccessIssue

executor = AgentExecutor(agent=lambda steps, inputs: AgentFinish({}), tools=[])


async def wait() -> None:
    await executor.run("q")  # error: mypy misc, pyright reportGeneralTypeIssues


executor.run_sync("q")  # error: mypy attr-defined, pyright reportAttributeAccessIssue
executor.run()  # error: mypy call-arg, pyright reportCallIssue
executor("q")  # error: mypy operator, pyright reportCallIssue
executor.run("q")["output"]  # error: mypy index, pyright reportIndexIssue
ChatRequest("q")  # error: mypy arg-type, pyright reportArgumentType
Limits(max_iterations=3)  # error: mypy call-arg, pyright reportCallIssue
