"""A node that is given, or sends on, something else than its neighbour takes."""

from dataclasses import dataclass
from typing import final

from graphexec import Graph, node, on, wrap
from graphexec.kernel import begin
from graphexec.runtime import run
from tests.kernel.machines import DIAMOND, Even, Left, Number, Sum, Total, halve


@final
@dataclass(frozen=True)
class Other:
    value: int


@node
def shorten(other: Other) -> Total:
    return Total(str(other.value))


on(Even, shorten)  # error: mypy misc, pyright reportArgumentType reportCallIssue
run(DIAMOND, Left(1))  # error: mypy misc, pyright reportArgumentType
begin(DIAMOND, "7")  # error: mypy misc, pyright reportArgumentType
# pyright widens what halve takes to an Even or an int.
wrap(DIAMOND, halve, before=lambda even: even.value)  # error: mypy arg-type return-value


def format_sum(total: Sum) -> Total:
    return Total(total.way)


wrap(DIAMOND, halve, after=format_sum)  # error: mypy arg-type, pyright reportArgumentType
ended = run(DIAMOND, Number(1))
ended.outcome.value  # error: mypy attr-defined, pyright reportAttributeAccessIssue
later: Graph[Number, Sum] = DIAMOND  # error: mypy assignment, pyright reportAssignmentType
