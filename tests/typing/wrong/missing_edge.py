"""A row that leaves out an outcome, a target that does not take it, an unknown outcome."""

from graphexec import END, AgentExecutor, AgentFinish, Node, edges, graph, on
from graphexec.executor import Ready, parse
from tests.kernel.machines import Even, Odd, Tock, Total, countdown, halve, join, split, tick, tock, triple

edges(split, on(Even, halve))  # error: mypy arg-type, pyright reportArgumentType
edges(tick, on(Tock, tock))  # error: mypy arg-type, pyright reportArgumentType
edges(split, on(Even, END))  # error: mypy arg-type, pyright reportArgumentType
edges(split, on(Even, END) | on(Total, END))  # error: mypy arg-type, pyright reportArgumentType
edges(countdown, on(Total, END))  # error: mypy arg-type, pyright reportArgumentType
# Routes are seen as a function, so any function passes: `TypeError` when the module is loaded.
edges(tick, lambda outcome: outcome)
on(Even, triple)  # error: mypy misc, pyright reportArgumentType reportCallIssue
on(Odd, halve) | on(Even, halve)  # error: mypy misc, pyright reportArgumentType reportCallIssue
on(Total, join)  # error: mypy misc, pyright reportArgumentType reportCallIssue
graph(edges(split, on(Even, halve)), start=split)  # error: mypy arg-type, pyright reportArgumentType
graph(edges(join, on(Total, END)), start="join")  # error: mypy arg-type, pyright reportArgumentType
on("Total", END)  # error: mypy call-overload, pyright reportArgumentType reportCallIssue


def judged(executor: AgentExecutor, judge: Node[AgentFinish, Ready]) -> AgentExecutor:
    table = edges(judge, on(Ready, END))
    return executor.splice(table, after=parse, on=AgentFinish)  # error: mypy arg-type, pyright reportArgumentType
