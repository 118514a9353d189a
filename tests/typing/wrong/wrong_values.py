"""Nodes that take, return, ask or pass on something else than their annotation or their neighbour says."""

from dataclasses import dataclass
from typing import final

from graphexec import Asks, Graph, ask, ask_all, node, on, wrap
from graphexec.effects import CallModel, CallTool
from graphexec.kernel import begin
from graphexec.messages import CompletionRequest
from graphexec.runtime import run
from tests.kernel.machines import DIAMOND, Even, Left, Number, Odd, Question, Sum, Total, halve


@node
def lies(number: Number) -> Even | Odd:
    return Total("")  # error: mypy return-value, pyright reportReturnType


@node
async def lies_later(number: Number) -> Even:
    return Odd(3)  # error: mypy return-value, pyright reportReturnType


@node
def lies_after_asking(number: Number) -> Asks[Question, Even]:
    yield from ask(Question("?"))
    return Odd(3)  # error: mypy return-value, pyright reportReturnType


@node
def forgets(number: Number) -> Even | Odd:  # error: mypy return, pyright reportReturnType
    if number.value > 3:
        return Even(3)


@node
def asks_for_more(number: Number) -> Asks[Question, Total]:
    yield from ask(CallTool("rm", "everything"))  # error: mypy misc, pyright reportReturnType
    return Total("")


@node
def asks_for_more_at_once(number: Number) -> Asks[Question, Total]:
    yield from ask_all([CallTool("rm", "everything")])  # error: mypy misc, pyright reportReturnType
    return Total("")


@node
def takes_it_for_a_number(number: Number) -> Asks[Question, Total]:
    answer = yield from ask(Question("how many?"))
    return Total(f"{answer + 1}")  # error: mypy operator, pyright reportOperatorIssue


@node
def takes_it_for_a_text(number: Number) -> Asks[CallModel, Total]:
    reply = yield from ask(CallModel(CompletionRequest("?")))
    return Total(reply)  # error: mypy arg-type, pyright reportArgumentType


@node
def takes_one_for_all(number: Number) -> Asks[CallTool, Total]:
    results = yield from ask_all([CallTool("a", "1")])
    return Total(results.observation)  # error: mypy attr-defined, pyright reportAttributeAccessIssue


@node
def asks_nothing_that_can_be_asked(number: Number) -> Asks[Question, Total]:
    yield from ask("how many?")  # error: mypy arg-type, pyright reportArgumentType
    return Total("")


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
