"""The handler of an agent that is a runnable of LangChain: it calls, awaits or streams it, and reports its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, final

from graphexec.agents.runnables import Config, Method, RunnableFunction, convert_decision, convert_error, text_of
from graphexec.effects import CallAgent, Decided, Unreadable
from graphexec.errors import ParseError
from graphexec.executor.handlers.functions import check_decision
from graphexec.kernel.effects import CallContext
from graphexec.messages import ReplyDelta
from graphexec.runtime.handlers import Handler, iterate_unless_cancelled
from graphexec.runtime.io import IO
from graphexec.runtime.progress import report, wait_for_capacity, wants_pieces


def make_runnable_handler(function: RunnableFunction) -> Handler:
    """Return a handler that answers `CallAgent` with a runnable; its chunks are joined to one decision.

    Sync runs use `stream`, `invoke` or `ainvoke`, async runs `astream`, `ainvoke`, `stream` or `invoke`: the first one
    that it has. What blocks runs in a thread in async runs. Raises `AgentError` for an invalid decision.
    """
    name = function.name
    invoke, ainvoke = function.method("invoke"), function.method("ainvoke")
    stream, astream = function.method("stream"), function.method("astream")

    async def answer(effect: CallAgent, call: CallContext[Any], io: IO) -> Decided:
        inputs, config = function.inputs(effect.run), function.config_of(call)
        if wants_pieces():
            config["callbacks"] = _add_listener(config.get("callbacks"))
        try:
            chunks = await decide(inputs, config, io)
        except ValueError as error:
            unreadable = error if isinstance(error, ParseError) else convert_error(error)
            if unreadable is None:
                raise
            return Decided(Unreadable(str(unreadable), unreadable.observation, unreadable.llm_output, unreadable.prose))
        return check_decision(function.runnable, *(convert_decision(name, chunk) for chunk in chunks))

    async def decide(inputs: dict[str, Any], config: dict[str, Any], io: IO) -> list[Any]:
        if stream is not None and (io.blocking or (astream is None and ainvoke is None)):
            return await io.call(_list_chunks, stream, inputs, config)
        if astream is not None and not io.blocking:
            chunks: list[Any] = []
            read = partial(astream, inputs, config)
            async with aclosing(io.iterate(tuple[Any, ...], read)) as pieces:
                async for chunk in pieces:
                    # A stream that never waits could not be cut.
                    await io.checkpoint()
                    chunks.append(chunk)
                    await wait_for_capacity()
            return chunks
        if ainvoke is not None and (not io.blocking or invoke is None):
            return [await io.call_async(ainvoke, inputs, config)]
        assert invoke is not None, "a runnable has invoke or ainvoke"
        return [await io.call(invoke, inputs, config)]

    return Handler(answer)


def _list_chunks(stream: Method, inputs: dict[str, Any], config: Config) -> list[Any]:
    # The stream is read here, where it may block.
    return list(iterate_unless_cancelled(stream(inputs, config)))


def _add_listener(callbacks: Any) -> Any:
    """Return LangChain's callbacks, a list or a manager, with a listener that reports the tokens of models."""
    listener = _TokenListener()
    if callbacks is None:
        return [listener]
    if hasattr(callbacks, "add_handler"):
        manager = callbacks.copy()
        manager.add_handler(listener)
        return manager
    return [*callbacks, listener]


@final
class _TokenListener:
    """A callback handler in LangChain's form, which reports the tokens that models stream."""

    # LangChain reads these: it calls the handler in the thread or task of the model, and only about models.
    raise_error = False
    run_inline = True
    ignore_llm = False
    ignore_chain = ignore_agent = ignore_retriever = ignore_retry = ignore_chat_model = ignore_custom_event = True

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **others: Any) -> None:
        """Report a token, and the parts of tool calls in its chunk."""
        del others
        if text := text_of(token):
            report(ReplyDelta(text))
        # Any: a list of LangChain's `ToolCallChunk`.
        parts: Any = getattr(getattr(chunk, "message", None), "tool_call_chunks", ())
        for part in parts:
            report(_delta_of(part))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return _ignore_event
        raise AttributeError(name)


def _delta_of(part: Mapping[str, Any]) -> ReplyDelta:
    index: Any = part.get("index")
    return ReplyDelta(
        index=index if isinstance(index, int) else 0,
        call_id=part.get("id") or "",
        name=part.get("name") or "",
        arguments=part.get("args") or "",
    )


def _ignore_event(*args: Any, **kwargs: Any) -> None:
    del args, kwargs
