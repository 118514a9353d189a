"""Errors of the model that end a run with a message: which ones, and that nothing takes the message for an answer."""

from typing import Any

import pytest

import graphexec as gx
from graphexec import errors
from graphexec.executor import AnswerDiscarded
from graphexec.messages import ModelReply
from graphexec.models import ScriptedModel, retrying
from graphexec.nodes import Piece, catch_errors, critic, guard_output
from tests.executor.actors import run_executor
from tests.models.actors import FakeTime
from tests.models.call_modes import Typewriter
from tests.nodes.test_tool_calls import Scene, call
from tests.parameters import cases

REFUSED = errors.RefusalError("gpt refuses to answer (no)", status=200)
DOWN = errors.ServerError("503: busy")
BAD = errors.BadRequestError("the schema is wrong")


@cases(
    ("error", "piece", "output"),
    (REFUSED, catch_errors(), "The model failed: RefusalError: gpt refuses to answer (no)"),
    (DOWN, catch_errors("Come back later."), "Come back later."),
    (DOWN, catch_errors(str.upper), "SERVERERROR: 503: BUSY"),
    (BAD, catch_errors("No.", on=(errors.BadRequestError,)), "No."),
    (BAD, catch_errors("No.", on=lambda error: "schema" in str(error)), "No."),
)
def test_caught_error_is_a_typed_stop(error: errors.ModelError, piece: Piece, output: str) -> None:
    def make() -> gx.AgentExecutor[Any]:
        return Scene(call("search a"), error, nodes=(piece,), early_stopping_method="generate").executor

    result = run_executor(make)
    ending = result.outcome
    assert isinstance(ending, gx.StoppedResponse)
    assert (ending.output, len(ending.steps), result.spent["model_calls"]) == (output, 1, 2)
    assert str(ending.cause) == f"refused by catch_errors: {errors.described(error)}"


@cases(
    ("error", "piece"),
    (BAD, catch_errors()),
    (errors.MissingAPIKeyError("no key"), catch_errors(on=(errors.ModelError,))),
)
def test_other_errors_are_raised(error: errors.ModelError, piece: Piece) -> None:
    with pytest.raises(type(error)):
        Scene(error, nodes=(piece,)).executor.run("hi")


def test_each_piece_catches_its_errors() -> None:
    refusals = catch_errors("refused", on=(errors.RefusalError,), name="refusals")
    failures = catch_errors("failed", on=(errors.ServerError,))
    for nodes in ((refusals, failures), (failures, refusals)):
        assert [Scene(one, nodes=nodes).executor.run("hi").output for one in (REFUSED, DOWN)] == ["refused", "failed"]


def test_other_pieces_do_not_take_it_for_an_answer() -> None:
    """Neither a rule that asks again, nor the last word, nor a critic, nor a reply in the words of an agent."""
    caught = catch_errors("away")
    again = Scene(call("search a"), DOWN, nodes=(caught, guard_output(lambda _: None), critic()))
    assert again.executor.run("hi").output == "away"
    # The repeated call makes the rule ask once more, and its request fails.
    replies: list[ModelReply | BaseException] = [call("look a"), call("look a"), DOWN]
    ruled = gx.create_agent(ScriptedModel(replies), [look], kind="tool_calling", nodes=[caught])
    assert ruled.run("hi").output == "away"
    last = Scene(call("search a"), DOWN, nodes=(caught,), early_stopping_method="generate", max_iterations=1)
    result = last.executor.run("hi")
    assert (result.reason, "away" in result.output, len(last.model.requests)) == ("iterations", False, 2)
    final = ScriptedModel([errors.ServerError("Final Answer: 4")])
    assert gx.create_agent(final, [look], kind="react", nodes=[caught]).run("hi").reason == "refused"


def look(word: str) -> str:
    """Look at a word."""
    return word


def test_message_follows_a_streamed_reply_that_is_discarded() -> None:
    executor = gx.create_agent(Typewriter([("ha", REFUSED)]), [look], kind="tool_calling", nodes=[catch_errors("No.")])
    assert [*executor.stream_answer("hi")] == ["h", "a", AnswerDiscarded("\n"), "No."]


def test_retries_come_first_and_surgery_keeps_the_piece() -> None:
    model = ScriptedModel([DOWN, DOWN, DOWN, "up"])
    patient = retrying(model, attempts=3, clock=FakeTime().clock)
    executor = gx.create_agent(patient, kind="tool_calling", nodes=[catch_errors("away")], max_cost=1.0)
    changed = executor.with_graph(executor.graph)
    assert (changed.run("hi").output, len(model.requests)) == ("away", 3)
    unplugged = Scene(DOWN, nodes=(catch_errors(),)).executor.unplug("catch_errors")
    with pytest.raises(errors.ServerError):
        unplugged.run("hi")


@cases(
    ("make", "text"),
    (lambda: catch_errors(3), "message=3; give a string, or a function"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: catch_errors(on=DOWN), "a tuple of classes of exceptions, or a function"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: Scene(DOWN, nodes=(catch_errors(len),)).run(), "the message is 22; return a string"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
)
def test_wrong_options_are_refused(make: Any, text: str) -> None:
    with pytest.raises(gx.InputError, match=text):
        make()
