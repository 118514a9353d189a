"""Measure a call of a model in a process of its own."""

import asyncio
import resource
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from graphexec import errors, messages, models
from tests.forks import warm_context

REQUEST = messages.ChatRequest([messages.UserMessage("hello")])


@dataclass(frozen=True)
class Measured:
    """The class of a call's error, or nothing; its processor seconds, and the megabytes that it took at its peak."""

    error: str
    seconds: float
    megabytes: float


def measure_call(kind: str, url: str, mode: str, timeout: float) -> Measured:
    """Call a method of a model at a server."""
    receiver, sender = warm_context().Pipe(duplex=False)
    process = warm_context().Process(target=_measure, args=(kind, url, mode, timeout, sender))
    process.start()
    sender.close()
    try:
        measured: Measured = receiver.recv()
    finally:
        process.join()
    return measured


def _measure(kind: str, url: str, mode: str, timeout: float, sender: Connection) -> None:
    # A call that fails at once loads what a call needs.
    unreachable = models.OpenAICompatible("tiny", base_url="http://127.0.0.1:1", max_retries=0)
    assert _error_of(unreachable, "complete")
    model = getattr(models, kind)("tiny", base_url=url, api_key="", timeout=timeout)
    peak, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    error = _error_of(model, mode)
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    sender.send(Measured(error, time.process_time() - begun, taken / 1024))


# Any: the model of any provider.
def _error_of(model: Any, mode: str) -> str:
    async def read() -> None:
        async for _ in model.astream(REQUEST):
            pass

    try:
        if mode == "complete":
            model.complete(REQUEST)
        elif mode == "stream":
            for _ in model.stream(REQUEST):
                pass
        else:
            asyncio.run(model.acomplete(REQUEST) if mode == "acomplete" else read())
    except errors.ModelError as error:
        return type(error).__name__
    return ""
