"""A `when_spent` function that does not take the node's value, or whose outcome has no edge."""

from graphexec import END, ITERATIONS, Exhausted, edges, node, on
from tests.kernel.machines import Left, Stopped, Total, halve


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
