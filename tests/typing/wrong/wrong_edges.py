"""Rows that leave out an outcome, targets that do not take it, and functions of spent limits that do not fit."""

from graphexec import END, ITERATIONS, AgentExecutor, AgentFinish, Exhausted, Node, edges, graph, node, on
from graphexec.executor import Ready, parse
from tests.kernel.machines import (
    Even,
    Left,
    Odd,
    Stopped,
    Tock,
    Total,
    countdown,
    halve,
    join,
    split,
    tick,
    tock,
    triple,
)

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


def give_up(left: Left, limit: Exhausted) -> Stopped:
    return Stopped(left, limit)


def no_limit(left: Left) -> Stopped:
    raise AssertionError


def limit_of_iterations(left: Left, limit: int) -> Stopped:
    raise AssertionError


# That give_up takes a Left and halve an Even is seen by neither: `NodeError` when the module is loaded.
node(when_spent=give_up)(halve)
node(when_spent=no_limit)  # error: mypy arg-type, pyright reportArgumentType
node(when_spent=limit_of_iterations)  # error: mypy arg-type, pyright reportArgumentType
node(meters=[ITERATIONS])  # error: mypy call-overload, pyright reportCallIssue
node(grace=2.0)  # error: mypy call-overload, pyright reportCallIssue
node(when_spent=give_up, meters=ITERATIONS)  # error: mypy call-overload, pyright reportArgumentType


@node(when_spent=give_up, meters=[ITERATIONS])
def land(left: Left) -> Total:
    return Total("")


edges(land, on(Total, END))  # error: mypy arg-type, pyright reportArgumentType


@node(name="twice")  # error: mypy arg-type, pyright reportCallIssue reportArgumentType reportUntypedFunctionDecorator
def without_value() -> Total:
    return Total("")
