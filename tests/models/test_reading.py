"""How replies are read: the type that a server gives to them, and the cut at stop strings."""

from itertools import pairwise

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec._parsing.reasoning import split_reasoning
from graphexec.errors import InvalidReplyError, ModelError
from graphexec.messages import ModelReply
from graphexec.models.http.draft import StopCutter
from graphexec.models.http.receiving import is_event_stream, skip_blanks
from tests.models.actors import Content, scripted_server
from tests.models.call_modes import Ask, all_modes, stream_blocking
from tests.models.recorded import CHAT, CHAT_REPLY, STREAM
from tests.parameters import cases


def read(ask: Ask, content_type: str | None, body: bytes) -> ModelReply:
    """Read a body that comes byte by byte."""
    headers = {} if content_type is None else {"content-type": content_type}
    letters = [body[i : i + 1] for i in range(len(body))]
    return ask(scripted_server(httpx.Response(200, headers=headers, stream=Content(letters))))


STREAMED = [
    *("text/event-stream", "Text/Event-Stream; Charset=UTF-8", "TEXT/EVENT-STREAM"),
    *(" text/event-stream ;charset=utf-8", "text/event-stream;charset=iso-8859-1"),
]
WRONG = ["application/json", "text/plain", "", "?", None]


JSON = ["application/json", "APPLICATION/JSON", "application/json ; Charset=UTF-8"]
BEGINNINGS = [b": a comment\n\n", b"\xef\xbb\xbf", b"\n\n", b"event: x\n", b"id: 1\n", b"retry: 5\n"]


@cases(
    ("content_type", "body"),
    *((one, STREAM) for one in (*STREAMED, *WRONG)),
    *((one, begin + CHAT) for one in (*JSON, "text/html", None, STREAMED[1]) for begin in (b"", b"\r\n \n")),
    *(("application/json", begin + STREAM) for begin in BEGINNINGS),
)
@all_modes
def test_body_is_known_by_its_beginning_and_may_have_any_type(ask: Ask, content_type: str | None, body: bytes) -> None:
    assert read(ask, content_type, body) == CHAT_REPLY


@cases("content_type", "text/event-stream", "application/json", None)
@cases("body", b"", b"\n\n", b"<html>", b"dat", b"x: y", b"{", b"[]", b"null")
@all_modes
def test_other_bodies_are_clear_errors(ask: Ask, body: bytes, content_type: str | None) -> None:
    with pytest.raises(InvalidReplyError, match="check that the base URL is"):
        read(ask, content_type, body)


@cases(
    ("body", "content_type", "needed"),
    (b"data: x", "text/event-stream", 1),
    (b"data: x", "application/json", 5),
    (b'{"a": 1}', "application/json", 1),
    (b"dark", "application/json", 3),
    (b"dat", "application/json", None),
)
def test_type_is_decided_by_as_few_bytes_as_possible(body: bytes, content_type: str, needed: int | None) -> None:
    found = [end for end in range(len(body) + 1) if is_event_stream(body[:end], content_type, ended=False) is not None]
    assert next(iter(found), None) == needed
    assert needed or not is_event_stream(body, content_type, ended=True)
    assert skip_blanks(b"\xef\xbb\xbf \r\n\tdata") == b"data"


def test_errors_are_read_as_json_whatever_their_type() -> None:
    body = b'{"error": {"message": "because"}}'
    model = scripted_server(httpx.Response(400, headers={"content-type": "text/event-stream"}, content=body))
    with pytest.raises(ModelError, match="400: because"):
        stream_blocking(model)


# Few characters, so that stop strings occur, overlap and appear partially.
FEW = st.text("ab\n", max_size=12)


def cut(pieces: list[str], stops: tuple[str, ...]) -> str:
    cut = StopCutter(stops)
    return "".join(cut.take(piece) for piece in pieces) + cut.rest()


def before_the_first(text: str, stops: tuple[str, ...]) -> str:
    """Return the output of a server that checks for stop strings after every character."""
    for end in range(1, len(text) + 1):
        lengths = [len(stop) for stop in stops if stop and text[:end].endswith(stop)]
        if lengths:
            return text[: end - max(lengths)]
    return text


@given(FEW, st.lists(st.text("ab\n", max_size=4), max_size=3).map(tuple), st.lists(st.integers(0, 12)))
def test_cut_does_not_depend_on_the_pieces(text: str, stops: tuple[str, ...], cuts: list[int]) -> None:
    ends = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[begin:end] for begin, end in pairwise(ends)]
    assert cut(pieces, stops) == before_the_first(text, stops)


PARTS = ["<think>", "</think>", "a", "\n", "STOP", "ST", "OP", "`", " ", "<"]


@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join), st.lists(st.integers(0, 60)))
def test_only_content_is_cut(text: str, cuts: list[int]) -> None:
    ends = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    found = cut([text[begin:end] for begin, end in pairwise(ends)], ("STOP", "a\na"))
    content = split_reasoning(text)[1]
    assert found == text.removesuffix(content) + before_the_first(content, ("STOP", "a\na"))


@cases(
    ("stop", "pieces", "shown"),
    ("STOP", ["1 ST", "OP 2", "3"], ["1 ", "", ""]),
    # A closing tag revokes the cut in the reasoning.
    (
        "\nObservation:",
        ["If I act,\nObservation: 3.", " So.\n</think>\nAction: f", "\nObservation: 4"],
        ["If I act,", "\nObservation: 3. So.\n</think>\nAction: f", ""],
    ),
)
def test_nothing_is_shown_after_the_cut(stop: str, pieces: list[str], shown: list[str]) -> None:
    cut = StopCutter((stop,))
    assert [cut.take(piece) for piece in pieces] == shown
    assert (cut.done, cut.rest()) == (True, "")


@cases(("piece", "at_once"), ("so\nObs", "so"), ("so\nObs.", "so\nObs."), ("so\n\n", "so\n"), ("so", "so"))
def test_only_possible_stop_beginning_is_held_back(piece: str, at_once: str) -> None:
    cut = StopCutter(("\nObservation",))
    assert cut.take(piece) == at_once
    assert at_once + cut.rest() == piece
