"""An effect that is not declared, a reply that is taken for something else, an effect that is none."""

from graphexec import Asks, ask, ask_all, node
from graphexec.effects import CallModel, CallTool
from graphexec.messages import CompletionRequest
from tests.kernel.machines import Number, Question, Total


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
