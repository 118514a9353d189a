"""A model that is a function, such as a call of another library."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, final

from graphexec._arguments import Constraint, validate
from graphexec.errors import InputError, InvalidReplyError, format_value
from graphexec.messages import ModelReply, ModelRequest
from graphexec.runtime.io import ASYNC, BLOCKING, IO, run_sync

# A function, `def` or `async def`, from a request to the reply, or to its text. Any: all agents but those with a
# completion protocol send a ChatRequest, so functions may be annotated with that class.
ModelFunction: TypeAlias = Callable[[Any], "str | ModelReply | Awaitable[str | ModelReply]"]

_FUNCTION = Constraint(
    "a function from a request to its reply", lambda one: callable(one) and not isinstance(one, type)
)


@final
class FunctionModel:
    """A model whose replies a function writes: it takes the request, and returns a string or a `ModelReply`.

    `FunctionModel(lambda request: request.messages[-1].content)` repeats the last message.

    The function may be `async def`. In an async run a blocking one is called in a thread. It decides itself how long it
    waits: the `timeout` of a call is not passed on. Raises `InputError` for anything but a function of one argument; a
    call raises `InvalidReplyError` for a reply that is neither, and raises what the function raises.
    """

    __slots__ = ("_function",)

    provider = "function"

    def __init__(self, function: ModelFunction) -> None:
        validate("FunctionModel", ("function", function, _FUNCTION))
        self._function = function
        _require_one_argument(self.name, function)

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(getattr(self._function, "__name__", type(self._function).__name__))

    def __repr__(self) -> str:
        return f"FunctionModel({self.name})"

    # The protocol has a `timeout`, which a function cannot obey.
    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:  # noqa: ARG002
        """Return the reply of the function."""
        return run_sync(self._complete(request, BLOCKING))

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:  # noqa: ARG002
        """Return the reply of the function, as `complete` does."""
        return await self._complete(request, ASYNC)

    async def _complete(self, request: ModelRequest, io: IO) -> ModelReply:
        # Any: a user's function may return any value.
        reply: Any = None
        if inspect.iscoroutinefunction(self._function):
            reply = await io.call_async(self._function, request)
        else:
            reply = awaitable = await io.call(self._function, request)
            if inspect.isawaitable(awaitable):
                reply = await io.call_async(lambda: awaitable)
        if isinstance(reply, str):
            return ModelReply(reply)
        if isinstance(reply, ModelReply):
            return reply
        raise InvalidReplyError(f"{self.name} returned {format_value(reply)}; return a string, or a ModelReply")


def _require_one_argument(name: str, function: ModelFunction) -> None:
    """Raise `InputError` if the function cannot be called with the request alone."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Some functions written in C have no signature; a call says whether they fit.
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise InputError(
            f"FunctionModel has the function {name}{signature}, which cannot be called with a request alone ({error}); "
            "write a function of one argument, the request"
        ) from None
