"""A piece that ends a run in place of an error of its model: `catch_errors`."""

from __future__ import annotations

from collections.abc import Callable

from graphexec._arguments import NAME, TEXT, validate
from graphexec.actions import Refusal, StoppedResponse
from graphexec.errors import InputError, ModelError, RefusalError, described, format_value
from graphexec.executor.outcomes import Replied
from graphexec.executor.plugging import Piece
from graphexec.executor.plugging.memory import attaching
from graphexec.executor.streams import passing
from graphexec.kernel.node import node
from graphexec.messages import ModelReply
from graphexec.runtime.retry import ERRORS, TRANSIENT_ERRORS, ErrorTest, to_predicate


def catch_errors(
    message: str | Callable[[str], str] = "The model failed: {}".format,
    *,
    on: ErrorTest = (RefusalError, *TRANSIENT_ERRORS),
    name: str = "catch_errors",
) -> Piece:
    """End a run with a message where its model refuses to answer or fails, in place of the exception.

        patient = retrying(model, attempts=4)
        executor = create_agent(patient, tools, nodes=[catch_errors("The model is away. Please try again later.")])
        result = executor.run("How do I pick a lock?")
        print(result.output, result.stopped)  # The message, and a StoppedResponse whose cause has the server's words.

    `on` are the classes of the errors, or a function of the error: by default the refusals that a provider declares,
    and the failures that `retrying` retries. Other errors, and a missing API key, are raised. `message` is the output,
    or a function that makes it of the error's class and text, such as "ServerError: the server is down". The cause is a
    `Refusal` by the piece. What pieces ask of a model themselves is not watched, nor a function as the agent.

    It adds one transition for each reply, and no model call. Raises `InputError` for invalid options, and in a run for
    a message that is no string.
    """
    validate(
        "catch_errors",
        ("message", message, TEXT),
        ("on", on, ERRORS),
        ("name", name, NAME),
    )
    applies, label = to_predicate(on), f"{name}: "

    # The reply in place of the error names the piece: another one may catch other errors.
    def catch(error: ModelError) -> ModelReply | None:
        reply = ModelReply(f"{label}{described(error)}", finish_reason="failed", cost=0.0)
        return reply if applies(error) else None

    @node(name=name)
    def end_failed(replied: Replied) -> Replied | StoppedResponse:
        """End the run with the message after an error."""
        reply = replied.reply
        if not isinstance(reply, ModelReply) or reply.finish_reason != "failed" or not reply.content.startswith(label):
            return replied
        why = reply.content.removeprefix(label)
        said = message(why) if callable(message) else message
        # A function of the user's may return anything.
        if not isinstance(said, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"{name}: the message is {format_value(said)}; return a string")
        return StoppedResponse(said, Refusal(name, why), replied.run)

    # Its ending has the run, and a reply of the model is not changed.
    attaching.add(end_failed.function)
    passing.add(end_failed.function)
    return Piece(name, (end_failed,), catches=catch)
