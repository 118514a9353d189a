"""The memory and the time that hostile replies take, at the default limits, measured in a process of their own."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.models.actors import Act, LoopbackServer
from tests.models.hostile import EVENTS_TYPE, PROTOCOLS, WINDOWS, Protocol, endless, make_bomb, once, respond
from tests.models.measuring import measure_call
from tests.parameters import cases

# Processor seconds, which other programs hardly change, and megabytes above what the process takes before the call.
SECONDS, MEGABYTES = 6.0, 200.0

# Seconds that a call may wait: for a stream that adds little to the reply, and otherwise more than it needs.
SHORT, LONG = 2.0, 100.0


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
    endless_stream = name in ("comments", "text")
    with LoopbackServer(*[make_act] * 3) as server:
        measured = measure_call(str(protocol), server.url, mode, SHORT if endless_stream else LONG)
    others = {"wrong calls": "InvalidReplyError", "values of an error": "BadRequestError"}
    other = "ModelTimeoutError" if endless_stream else others.get(name)
    assert measured.error in ("ReplyLimitError", other)
    assert measured.seconds < SECONDS
    assert measured.megabytes < MEGABYTES
