"""The limits of replies: no answer of a server takes more bytes, calls, levels or values than they allow."""

import json
import tracemalloc
from dataclasses import replace
from typing import Any

import httpx
import pytest
from httpx_sse import EventSource
from hypothesis import given
from hypothesis import strategies as st

from graphexec.errors import InputError, InvalidReplyError, ModelError, ReplyLimitError
from graphexec.models import LocalModel, create_model
from graphexec.models.http.endpoint import MOST, REPLY_BYTES, Endpoint
from graphexec.models.http.receiving import Body, EventReader, find_excess
from tests.models import hostile
from tests.models.actors import HELLO, LoopbackServer, response, send, serve
from tests.models.call_modes import MODES, Ask, all_modes, both_streams, call_blocking, stream_async, stream_blocking
from tests.models.recorded import CHAT, CHAT_REPLY, STREAM
from tests.parameters import cases

PEER = Endpoint("tiny", "http://127.0.0.1:1/v1")
LIMITS = {"bytes": 10_000, "calls": 3, "depth": 20, "values": 1_000, "events": 100_000}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits that are no options."""
    for name in MOST:
        monkeypatch.setitem(MOST, name, LIMITS[name])


ARGUMENTS = '{"a": ' + "[" * 900
# The attacks of any size, others, and the limit that stops each: of bytes if it is not here.
PLAIN: dict[str, hostile.Attack] = {
    **hostile.whole_attacks(1),
    # Those of a thousand have too many values as well.
    "many calls": lambda protocol: hostile.respond(hostile.once(protocol.calls(["{}"] * 4))),
    "values": lambda _: hostile.respond(hostile.once(b'{"error": [' + b"1," * 1_000 + b"1]}")),
    "nested arguments": lambda protocol: hostile.respond(hostile.once(protocol.calls([ARGUMENTS]))),
}
STREAMED: dict[str, hostile.Attack] = {
    **hostile.streamed_attacks(1),
    "endless event": lambda _: hostile.respond(hostile.endless(b"data: xxxxxxxxxx\n"), kind=hostile.EVENTS_TYPE),
    "endless events": lambda _: hostile.respond(
        hostile.endless(hostile.event({"type": "ping"})), kind=hostile.EVENTS_TYPE
    ),
}
STOPPED_BY = {
    **dict.fromkeys(("many calls", "endless calls"), "calls"),
    **dict.fromkeys(("nested body", "nested arguments", "nested event"), "depth"),
    "values": "values",
}


def check_attacks(protocol: hostile.Protocol, ask: Ask, attacks: dict[str, hostile.Attack]) -> None:
    for name, make_act in attacks.items():
        limit = STOPPED_BY.get(name, "bytes")
        with LoopbackServer(make_act(protocol)) as server:
            # A retry would find no further act.
            model = protocol.model(server.url, max_reply_bytes=LIMITS["bytes"], timeout=60)
            with pytest.raises(ReplyLimitError) as caught:
                ask(model)
            model.close()
            error = caught.value
            assert server.connections == 1, name
        assert (error.limit, error.allowed) == (limit, LIMITS[limit]), name
        assert error.seen > error.allowed
        assert str(error).endswith("or pass a higher max_reply_bytes") is (limit == "bytes")
        assert error.status == (int(name[-3:]) if name[-1].isdigit() else 200)


# A server may ignore that a request asks for a stream.
@pytest.mark.medium
@pytest.mark.usefixtures("small")
@cases("ask", call_blocking, stream_async)
@cases("protocol", *hostile.PROTOCOLS)
def test_hostile_replies_exceed_a_limit(protocol: hostile.Protocol, ask: Ask) -> None:
    check_attacks(protocol, ask, PLAIN)


@pytest.mark.medium
@pytest.mark.usefixtures("small")
@both_streams
@cases("protocol", *hostile.PROTOCOLS)
def test_hostile_streams_exceed_a_limit(protocol: hostile.Protocol, ask: Ask) -> None:
    check_attacks(protocol, ask, STREAMED)


@pytest.mark.medium
@cases(
    ("ask", "body", "kind"),
    *((ask, CHAT, hostile.JSON_TYPE) for ask in MODES),
    *((ask, STREAM, hostile.EVENTS_TYPE) for ask in MODES[2:]),
)
@cases("name", *hostile.WINDOWS)
def test_compressed_replies_are_read(ask: Ask, body: bytes, kind: str, name: str) -> None:
    packed = hostile.once(hostile.compress(body, hostile.WINDOWS[name]))
    with serve(hostile.respond(packed, kind=kind, encoding=name.split(maxsplit=1)[0])) as (_, model):
        assert ask(model) == CHAT_REPLY


@pytest.mark.medium
@all_modes
@cases(
    ("body", "encoding", "fact"),
    *((CHAT, encoding, f"Content-Encoding: {encoding}") for encoding in ("br", "zstd", "gzip, gzip")),
    (b"no gzip", "gzip", "cannot be read"),
)
def test_other_encodings_are_refused(ask: Ask, body: bytes, encoding: str, fact: str) -> None:
    act = hostile.respond(hostile.once(body), encoding=encoding)
    with serve(act) as (_, model), pytest.raises(InvalidReplyError, match=fact):
        ask(model)


@pytest.mark.medium
@all_modes
@cases("body", b'{"choices": [], "usage": {"prompt_tokens": %s}}', b'{"error": %s}')
def test_numbers_of_any_length_are_model_errors(ask: Ask, body: bytes) -> None:
    with serve(send(response(body % (b"9" * 100_000)))) as (_, model):
        with pytest.raises(ModelError) as caught:
            ask(model)
        assert len(str(caught.value)) < 2_000


@cases(("part", "error"), *((one, InvalidReplyError) for one in ("1", "{}")), ('{"index": 0}', ReplyLimitError))
def test_long_lists_are_not_read_to_their_end(part: str, error: type[ModelError]) -> None:
    """Each of a hundred thousand parts, or of their errors, would take a kilobyte."""
    body = f'{{"choices": [{{"message": {{"tool_calls": [{",".join([part] * 50_000)}]}}}}]}}'.encode()
    with serve(send(response(body))) as (_, model), pytest.raises(error):
        model.complete(HELLO)


@cases("make", LocalModel, *(protocol.make for protocol in hostile.PROTOCOLS))
def test_every_model_has_the_option(make: Any) -> None:
    assert REPLY_BYTES == 8_388_608
    for name in ("openai:gpt-5-mini", "local"):
        create_model(name, max_reply_bytes=9)
    with pytest.raises(InputError, match=r"max_reply_bytes=0; give a whole number, 1 or more"):
        make("tiny", max_reply_bytes=0)


def depth_of(value: Any) -> int:
    is_container = isinstance(value, (dict, list))
    inner: list[Any] = [*(value.values() if isinstance(value, dict) else value)] if is_container else []
    return is_container + max(map(depth_of, inner), default=0)


TEXTS = st.text('[]{},:"\\ a\n')
DOCUMENTS = st.recursive(
    st.none() | st.integers() | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=30
)


@given(DOCUMENTS, st.sampled_from([None, 1]))
def test_levels_of_json_are_counted_exactly(value: Any, indent: int | None) -> None:
    depth, text = depth_of(value), json.dumps(value, indent=indent)
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(MOST, "depth", depth)
        assert find_excess(text) is None
        if depth:
            patched.setitem(MOST, "depth", depth - 1)
            assert find_excess(text) == ("depth", depth)
        # Any string may hold a comma.
        patched.setitem(MOST, "values", 0)
        assert find_excess(text) is None or find_excess(text) == ("values", sum(map(text.count, "[{,")))


@cases("part", '{"a":1,', '"\\"",', "[")
def test_measuring_takes_little_memory(part: str) -> None:
    text = "{" * 65 + part * 100_000
    tracemalloc.start()
    try:
        find_excess(text)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


DATA = [b"data: a", b"data:b", b"data", b"data: \xc3\xa9"]
LINES = st.lists(st.sampled_from([*DATA, b": x", b"event: e", b"id: 1", b"", b"retry: 5"]))


@given(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.integers(1, 7))
def test_events_are_those_of_httpx_sse(lines: list[bytes], end: bytes, size: int) -> None:
    body = b"".join(line + end for line in [*lines, b""])
    reader = EventReader(PEER)
    found = [data for start in range(0, len(body), size) for data in reader.take(body[start : start + size])]
    found += reader.end()
    source = EventSource(httpx.Response(200, headers={"content-type": hostile.EVENTS_TYPE}, content=body))
    # An event without data has no meaning in any of the protocols.
    assert found == [one.data for one in source.iter_sse() if one.data]


@cases("size", 1, 2, 3, 5, 7, 64, 1_000)
@cases("end", b"\n", b"\r\n", b"\r")
def test_events_do_not_depend_on_the_pieces(size: int, end: bytes) -> None:
    """Characters that end a line elsewhere, bytes that are no UTF-8, comments, names, and an event that is cut."""
    lines = [
        *(b": hello", b"", b"data: \xe2\x80\xa8\xc2\x85\x0b", b"", b"data:a", b"data: b", b"", b"data: \xff\xc3", b""),
        *(b"id: 1", b"", b": hello", b"", b"event: error", b"data: no", b"", b"event: error", b'data: {"a": 1}', b""),
    ]
    body = b"".join(line + end for line in lines) + b"data: cut" + end
    reader = EventReader(PEER)
    found = [data for start in range(0, len(body), size) for data in reader.take(body[start : start + size])]
    wanted = ["\u2028\x85\x0b", "a\nb", "\ufffd\ufffd", '{"error": "no"}', '{"error": {"a": 1}}']
    assert [*found, *reader.end()] == wanted


@cases("piece", b"x", b"data: x\n", b": x\n\n", b"data:\n\n")
@cases("times", 1, 40)
def test_no_line_and_no_event_is_held_beyond_the_limit(piece: bytes, times: int) -> None:
    reader = EventReader(replace(PEER, reply_bytes=1_000))
    with pytest.raises(ReplyLimitError) as caught:
        any(event for _ in range(2_000) for event in reader.take(piece * times))
    assert 1_000 < caught.value.seen <= 1_000 + len(piece * times)


@pytest.mark.medium
def test_stream_has_no_more_events_than_its_limit() -> None:
    reader, piece = EventReader(PEER), b"data: a\n\n" * 1_000
    assert sum(1 for _ in range(MOST["events"] // 1_000) for _ in reader.take(piece)) == MOST["events"]
    with pytest.raises(ReplyLimitError) as caught:
        any(reader.take(piece))
    assert (caught.value.limit, caught.value.seen) == ("events", MOST["events"] + 1)


@given(st.binary(max_size=300), st.sampled_from(sorted(hostile.WINDOWS)), st.integers(1, 50))
def test_decompression_does_not_depend_on_the_pieces(data: bytes, name: str, size: int) -> None:
    packed = hostile.compress(data, hostile.WINDOWS[name])
    body = Body(PEER, name.split(maxsplit=1)[0])
    pieces = [packed[start : start + size] for start in range(0, len(packed), size)]
    assert b"".join(part for piece in pieces for part in body.take(piece)) == data


def test_stream_may_be_longer_than_its_content() -> None:
    """A token of four characters comes in an event of several hundred."""
    events = hostile.PROTOCOLS[0].text_event("abcd") * 100
    end = hostile.event({"choices": [{"finish_reason": "stop"}]}) + b"data: [DONE]\n\n"
    act = hostile.respond(hostile.once(events + end), kind=hostile.EVENTS_TYPE)
    with serve(act, max_reply_bytes=1_000) as (_, model):
        assert stream_blocking(model).content == "abcd" * 100
