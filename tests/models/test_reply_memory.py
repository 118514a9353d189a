"""The memory and the time that hostile replies take, at the default limits, measured in a process of their own."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.models.actors import Act, LoopbackServer
from tests.models.hostile import (
    EVENTS_TYPE,
    PROTOCOLS,
    WINDOWS,
    Protocol,
    endless,
    make_bomb,
    once,
    respond,
)
from tests.parameters import cases

# Seconds, and megabytes above what the process takes before the call.
TIMEOUT = 5.0
MOST = 200.0

# The program makes one call, and prints the class of the error, the seconds, and the megabytes of the call.
PROGRAM = """
import asyncio, resource, sys, time
import httpcore, httpx
from graphexec import models
from graphexec.errors import ModelError
from graphexec.messages import ChatRequest, UserMessage

kind, url, mode, timeout = sys.argv[1:]
model = getattr(models, kind)("tiny", base_url=url, api_key="", timeout=float(timeout))
request = ChatRequest([UserMessage("hello")])

async def aread():
    async for _ in model.astream(request):
        pass

def read():
    for _ in model.stream(request):
        pass

ways = {
    "complete": lambda: model.complete(request),
    "stream": read,
    "acomplete": lambda: asyncio.run(model.acomplete(request)),
    "astream": lambda: asyncio.run(aread()),
}
# A call that fails at once loads what a call needs.
try:
    models.OpenAICompatible("tiny", base_url="http://127.0.0.1:1", max_retries=0).complete(request)
except ModelError:
    pass
before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
try:
    ways[mode]()
    name = "no error"
except ModelError as error:
    name = type(error).__name__
taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(name, time.monotonic() - begun, taken / 1024)
"""


def gigabyte() -> Iterator[bytes]:
    return itertools.repeat(b" " * 65_536, 16_384)


def many(begin: bytes, part: bytes, end: bytes) -> Callable[[], Iterator[bytes]]:
    """Write a million parts of a list."""
    parts = b",".join([part] * 1_000)
    return lambda: itertools.chain([begin, parts], itertools.repeat(b"," + parts, 999), [end])


def calls(protocol: Protocol) -> Callable[[], Iterator[bytes]]:
    return lambda: (protocol.call_events(position, "{}") for position in range(1_000_000))


LISTS = {
    "OpenAICompatible": (b'{"choices": [{"message": {"tool_calls": [', b"]}}]}"),
    "OpenAIResponses": (b'{"output": [', b"]}"),
    "Anthropic": (b'{"content": [', b"]}"),
}

BODIES: dict[str, Callable[[Protocol], Act]] = {
    "gigabyte": lambda _: respond(gigabyte),
    "error 500": lambda _: respond(gigabyte, status="500 Oops"),
    "error 401": lambda _: respond(gigabyte, status="401 No"),
    "gzip bomb": lambda _: respond(once(make_bomb(WINDOWS["gzip"], 1_000)), encoding="gzip"),
    "deflate bomb": lambda _: respond(once(make_bomb(WINDOWS["deflate"], 1_000)), encoding="deflate"),
    "million calls": lambda one: respond(many(LISTS[str(one)][0], b"{}", LISTS[str(one)][1])),
    "wrong calls": lambda one: respond(many(LISTS[str(one)][0], b"1", LISTS[str(one)][1])),
    "nested": lambda _: respond(once(b"[" * 1_000_000)),
    # Nearly as many bytes as a reply may have, with a string for each level.
    "nested strings": lambda _: respond(once(b'{"a":' * 1_600_000)),
    # As many bytes as an error may have, which are three million objects.
    "values of an error": lambda _: respond(
        lambda: itertools.chain([b"["], itertools.repeat(b"{}," * 1_000, 2_700)), status="400 No"
    ),
}
STREAMS: dict[str, Callable[[Protocol], Act]] = {
    "million calls": lambda one: respond(calls(one), kind=EVENTS_TYPE),
    "gigabyte": lambda _: respond(lambda: itertools.chain([b"data: "], gigabyte()), kind=EVENTS_TYPE),
    "gzip bomb": lambda _: respond(once(make_bomb(WINDOWS["gzip"], 1_000)), kind=EVENTS_TYPE, encoding="gzip"),
    "text": lambda one: respond(endless(one.text_event("hello") * 100), kind=EVENTS_TYPE),
    "comments": lambda _: respond(endless(b": hello\n\n" * 1_000), kind=EVENTS_TYPE),
    "nested": lambda _: respond(once(b"data: " + b"[" * 1_000_000 + b"\n\n"), kind=EVENTS_TYPE),
}
CASES = [("complete", "acomplete", BODIES), ("stream", "astream", STREAMS)]


@pytest.mark.slow
@cases(
    ("protocol", "mode", "name"),
    [
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
    with LoopbackServer(*[make_act] * 3) as server:
        command = [sys.executable, "-c", PROGRAM, str(protocol), server.url, mode, str(TIMEOUT)]
        ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    error, seconds, megabytes = ended.stdout.split()
    others = {
        # A stream that adds little to the reply may end at the timeout instead.
        "comments": "ModelTimeoutError",
        "text": "ModelTimeoutError",
        "wrong calls": "InvalidReplyError",
        "values of an error": "BadRequestError",
    }
    assert error in ("ReplyLimitError", others.get(name))
    assert float(seconds) < TIMEOUT + 1
    assert float(megabytes) < MOST
