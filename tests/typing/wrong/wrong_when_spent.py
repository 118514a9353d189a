"""A `when_spent` function that does not take the node's value, or whose outcome has no edge."""

from graphexec import END, Exhausted, charged, edges, metered, node, on
from tests.kernel.machines import Left, Stopped, Total, halve


def give_up(left: Left, limit: Exhausted) -> Stopped:
    return Stopped(left, limit)


def no_limit(left: Left) -> Stopped:
    raise AssertionError


def limit_of_iterations(left: Left, limit: int) -> Stopped:
    raise AssertionError


# That give_up takes a Left and halve an Even is seen by neither: `NodeError` when the module is loaded.
charged(when_spent=give_up)(halve)
metered(when_spent=no_limit)  # error: mypy arg-type, pyright reportArgumentType
metered(when_spent=limit_of_iterations)  # error: mypy arg-type, pyright reportArgumentType
metered(give_up)  # error: mypy call-arg, pyright reportCallIssue
metered()  # error: mypy call-arg, pyright reportCallIssue


@metered(when_spent=give_up)
@node
def land(left: Left) -> Total:
    return Total("")


edges(land, on(Total, END))  # error: mypy arg-type, pyright reportArgumentType


@metered(when_spent=give_up)  # error: mypy arg-type, pyright reportArgumentType
def not_a_node(left: Left) -> Total:
    return Total("")
