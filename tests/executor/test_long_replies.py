"""A long reply is read once, within the call of the model, in a thread of an async run or of one with a deadline."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

import graphexec as gx
from graphexec import AgentFinish, ParseError, effects, models
from graphexec.agents.reading.answers import READ_AHEAD, read_ahead, read_reply
from graphexec.messages import ModelReply, ReplyDelta, ToolCall
from graphexec.messages.model import LONG, VERY_LONG
from tests import garbage
from tests.executor.actors import snapshot_in
from tests.parameters import cases
from tests.runtime.actors import LONG as SECONDS

TEXT = "x" * (LONG + 1)


class Model:
    """A model that answers with the same reply, and may stream it in one piece."""

    def __init__(self, reply: ModelReply) -> None:
        self.reply = reply

    def complete(self, request: object, *, timeout: float | None = None) -> ModelReply:
        return self.reply

    async def acomplete(self, request: object, *, timeout: float | None = None) -> ModelReply:
        return self.reply

    async def astream(self, request: object, *, timeout: float | None = None) -> AsyncIterator[Any]:
        yield ReplyDelta(self.reply.content)
        yield self.reply


REPLIES = [ModelReply(TEXT), ModelReply("", (ToolCall("1", "t", TEXT),))]


def make_executor(reply: ModelReply, read: Any, kind: str, **options: Any) -> gx.AgentExecutor:
    """Return an executor of an agent with this reader; its model is of the library or of the user, or a handler."""
    model: Any = models.ScriptedModel([reply], repeat_last=True) if kind == "scripted" else Model(reply)
    made = gx.create_tool_calling_agent(model, [])
    agent = gx.Agent(made.ask, read, model=model, answer=made.answer)

    def answer(effect: effects.CallModel) -> ModelReply:
        return reply

    handlers: Any = {effects.CallModel: answer} if kind == "handler" else {}
    return gx.AgentExecutor(agent=agent, tools=[], handlers=handlers, **options)


@pytest.mark.medium
@cases("kind", "scripted", "model", "handler")
@cases("reply", *REPLIES)
def test_deadline_cuts_a_slow_reader(kind: str, reply: ModelReply) -> None:
    held = threading.Event()

    def read(found: Any) -> AgentFinish:
        held.wait(SECONDS)
        return AgentFinish({"output": "late"})

    executor = make_executor(reply, read, kind, max_execution_time=0.1)
    assert executor.run("?").reason == "seconds"

    async def main() -> None:
        waiting = asyncio.create_task(executor.arun("?"))
        async for event in executor.astream("?"):
            assert not held.is_set(), event
        result = await waiting
        held.set()
        assert (result.reason, result.spent["model_calls"]) == ("seconds", 1)

    asyncio.run(main())


@cases("kind", "scripted", "model", "handler")
@cases("reply", *REPLIES)
@cases("error", None, ParseError("unclear", observation="again"))
def test_long_reply_is_read_once(kind: str, reply: ModelReply, error: ParseError | None) -> None:
    threads: list[int] = []

    def read(found: Any) -> AgentFinish:
        threads.append(threading.get_ident())
        if error is not None:
            raise error
        return AgentFinish({"output": "read"})

    executor = make_executor(reply, read, kind, max_iterations=1, handle_parsing_errors=True)
    result = asyncio.run(executor.arun("?"))
    assert [step.observation for step in result.steps] == ([] if error is None else ["again"])
    # In a sync run it is read by its node, but what was read of this reply is known.
    assert executor.run("?").steps == result.steps
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


def test_mistake_of_a_reader_is_raised_by_its_node() -> None:
    def read(found: Any) -> AgentFinish:
        raise LookupError("a mistake")

    with pytest.raises(LookupError, match="a mistake") as raised:
        asyncio.run(make_executor(ModelReply(TEXT), read, "model").arun("?"))
    assert snapshot_in(raised.value).node == "parse"


def test_decision_is_forgotten_with_its_reply() -> None:
    def read(found: Any) -> AgentFinish:
        raise ParseError("unclear")

    reply = read_ahead(read, ModelReply(TEXT))
    assert any(known[1] is read for known in READ_AHEAD.values())
    with pytest.raises(ParseError, match="unclear"):
        read_reply(read, reply)
    del reply
    garbage.collect()
    assert not any(known[1] is read for known in READ_AHEAD.values())


def test_answer_in_a_long_piece_streams_in_one() -> None:
    text = "x" * (VERY_LONG + 1)
    executor = gx.AgentExecutor(agent=gx.create_tool_calling_agent(Model(ModelReply(text)), []), tools=[])

    async def main() -> list[str]:
        return [piece async for piece in executor.astream_answer("?")]

    assert asyncio.run(main()) == [text]
