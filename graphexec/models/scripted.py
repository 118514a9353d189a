"""A model with predefined replies, for tests, examples and benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, TypeAlias

from graphexec._arguments import Constraint, validate
from graphexec.errors import InputError
from graphexec.messages import ModelReply, ModelRequest, ToolCall
from graphexec.messages.model import is_long

ScriptedReply: TypeAlias = str | ModelReply | ToolCall | Sequence[ToolCall] | BaseException


_REPLIES = Constraint(
    "a list of replies", lambda given: isinstance(given, Iterable) and not isinstance(given, (str, Mapping))
)
_CALLS = Constraint(
    "a string, a ModelReply, a ToolCall or a list of them, or an exception to raise",
    lambda given: isinstance(given, Sequence) and all(isinstance(call, ToolCall) for call in given),  # pyright: ignore[reportUnknownVariableType]
)


class ScriptedModel:
    """A model that returns `replies` in their order, without waiting, I/O or threads.

    A reply is a string, a `ModelReply`, one or several tool calls, or an exception to raise. After the last reply the
    model raises `AssertionError`, or with `repeat_last` returns the last reply again. `requests` are the requests it
    received. Threads may share it: each reply is returned once.
    """

    name: ClassVar[str] = "scripted"
    provider: ClassVar[str] = "scripted"

    __slots__ = ("_instant", "_last", "_left", "_scripted", "requests")

    def __init__(self, replies: Iterable[ScriptedReply], *, repeat_last: bool = False) -> None:
        # A string is an iterable, too: of its characters.
        validate("ScriptedModel", ("replies", replies, _REPLIES))
        scripted = tuple(_reply(reply) for reply in replies)
        if repeat_last and not scripted:
            raise InputError("ScriptedModel has no reply to repeat; give it at least one, or leave repeat_last out")
        self.requests: list[ModelRequest] = []
        self._scripted = len(scripted)
        self._instant = not any(isinstance(reply, ModelReply) and is_long(reply) for reply in scripted)
        # Replies are popped from the end, which is atomic: two threads never get the same reply.
        self._left = list(reversed(scripted))
        self._last = scripted[-1] if repeat_last else None

    @property
    def instant(self) -> bool:
        """True if the model needs no thread: it answers without blocking, and no reply takes long to read."""
        return self._instant

    # The protocol has a `timeout`, but there is nothing to wait for.
    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:  # noqa: ARG002
        """Return the next reply, or raise the next exception."""
        self.requests.append(request)
        try:
            reply = self._left.pop()
        except IndexError:
            if self._last is None:
                raise AssertionError(
                    f"ScriptedModel was called {len(self.requests)} times and has {self._scripted} replies; "
                    "add another reply, or pass repeat_last=True"
                ) from None
            reply = self._last
        if isinstance(reply, BaseException):
            raise reply
        return reply

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the next reply, as `complete` does."""
        return self.complete(request, timeout=timeout)

    def assert_complete(self) -> None:
        """Raise `AssertionError` if some replies have not been used."""
        if self._left:
            raise AssertionError(
                f"ScriptedModel has {len(self._left)} of {self._scripted} replies left after {len(self.requests)} "
                f"requests; next is {self._left[-1]!r}; remove replies, or find out why the run ended early"
            )

    def __repr__(self) -> str:
        return f"<ScriptedModel: {len(self._left)} of {self._scripted} replies left>"


def _reply(scripted: ScriptedReply) -> ModelReply | BaseException:
    match scripted:
        case str():
            return ModelReply(scripted)
        case ModelReply() | BaseException():
            return scripted
        case ToolCall():
            return ModelReply("", (scripted,), finish_reason="tool_calls")
        # Users may pass any value.
        case _:
            validate("ScriptedModel", ("a reply", scripted, _CALLS))
            return ModelReply("", tuple(scripted), finish_reason="tool_calls")
