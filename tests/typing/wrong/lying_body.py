"""A body that returns what its annotation does not say."""

from graphexec import Asks, ask, node
from tests.kernel.machines import Even, Number, Odd, Question, Total


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
