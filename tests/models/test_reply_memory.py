"""The memory and the time that hostile replies take, at the default limits, measured in a process of their own."""

import asyncio
import itertools
import resource
import time
from multiprocessing.connection import Connection
from typing import Any

import pytest

from graphexec import errors, messages, models
from tests.forks import warm_context
from tests.models.actors import LoopbackServer
from tests.models.hostile import PROTOCOLS, Attack, Protocol, list_of, once, respond, streamed_attacks, whole_attacks
from tests.parameters import cases

REQUEST = messages.ChatRequest([messages.UserMessage("hello")])


def measure_call(kind: str, url: str, mode: str, timeout: float) -> tuple[str, float, float]:
    """Return the class of a call's error, or nothing; its processor seconds, and its megabytes at their peak."""
    receiver, sender = warm_context().Pipe(duplex=False)
    process = warm_context().Process(target=_measure, args=(kind, url, mode, timeout, sender))
    process.start()
    sender.close()
    try:
        measured: tuple[str, float, float] = receiver.recv()
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
    sender.send((error, time.process_time() - begun, taken / 1024))


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


# Processor seconds, which other programs hardly change, and megabytes above what the process takes before the call.
SECONDS, MEGABYTES = 6.0, 200.0

# Seconds that a call may wait: for a stream that adds little to the reply, and otherwise more than it needs.
SHORT, LONG = 2.0, 100.0


BODIES: dict[str, Attack] = {
    **whole_attacks(1_000),
    "wrong calls": lambda protocol: list_of(protocol, b"1", 1_000),
    # Nearly as many bytes as a reply may have, with a string for each level.
    "nested strings": lambda _: respond(once(b'{"a":' * 1_600_000)),
    # As many bytes as an error may have, which are three million objects.
    "values of an error": lambda _: respond(
        lambda: itertools.chain([b"["], itertools.repeat(b"{}," * 1_000, 2_700)), status="400 No"
    ),
}
STREAMS = streamed_attacks(1_000)
CASES = [("complete", "acomplete", BODIES), ("stream", "astream", STREAMS)]


@pytest.mark.slow
@cases(
    ("protocol", "mode", "name"),
    *[
        (protocol, mode, name)
        for *modes, attacks in CASES
        for mode in modes
        for name in attacks
        # The others are the same bytes for each protocol.
        for protocol in (PROTOCOLS if "calls" in name else PROTOCOLS[:1])
    ],
)
def test_hostile_reply_is_a_cheap_error(protocol: Protocol, mode: str, name: str) -> None:
    make_act = (STREAMS if "stream" in mode else BODIES)[name](protocol)
    endless_stream = name in ("endless comments", "endless text")
    with LoopbackServer(*[make_act] * 3) as server:
        error, seconds, megabytes = measure_call(str(protocol), server.url, mode, SHORT if endless_stream else LONG)
    others = {"wrong calls": "InvalidReplyError", "values of an error": "BadRequestError"}
    other = "ModelTimeoutError" if endless_stream else others.get(name)
    assert error in ("ReplyLimitError", other)
    assert seconds < SECONDS
    assert megabytes < MEGABYTES
