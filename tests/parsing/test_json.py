"""The reader of JSON: what can only mean one thing is read, also while it streams; all else is refused."""

import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec._parsing import json as parsing
from graphexec._parsing.json import open_string, read_beginning, read_container, read_object, valid_json
from tests.parameters import cases


@cases(
    ("text", "value"),
    ('{"a": "x\ny\tz\r"}', {"a": "x\ny\tz\r"}),
    ('{"a": [1, 2,], "b": {"c": 3,},}', {"a": [1, 2], "b": {"c": 3}}),
    ("{'a': 'b', \"c\": 'say \"d\"'}", {"a": "b", "c": 'say "d"'}),
    ("{'a': \"it's\", 'b': 'it\\'s'}", {"a": "it's", "b": "it's"}),
    ('{"a": "it\\\'s"}', {"a": "it's"}),
    ("{“a”： “b”，“c”: [“d”，]}", {"a": "b", "c": ["d"]}),
    ("{'a': None, 'b': [True, False]}", {"a": None, "b": [True, False]}),
    ('{"a": 1, "a": 1}', {"a": 1}),
    ('{"None": "True, None,}"}', {"None": "True, None,}"}),
    ('{"a": "：，,]"}', {"a": "：，,]"}),
    ('{‘a’: ‘say "b"’, ‘c’: [‘d’]}', {"a": 'say "b"', "c": ["d"]}),
    ('{"a": 1e300, "b": 1e-999}', {"a": 1e300, "b": 0.0}),
)
def test_clear_json_is_read(text: str, value: dict[str, Any]) -> None:
    assert read_object(text) == value
    assert json.loads(valid_json(text)) == value


@cases(
    "text",
    *('{"a": 1e999}', "[-1e400]", '{"a": [{"b": 1' + "0" * 400 + ".5}]}", "{‘a’: ‘it’s’}", "", "{", "}", '{"a"}'),
    *('{"a": }', '{"a": "b', '{"a": "b"', '{"a": tru', '{"a": 1} {"b": 2}', '{"a": 1} x', "{a: 1}"),
    *("{'a': 'it's'}", "{'a': 'b' c'}", '{"a": "b"c"}', "{“a”: “b”c”}", '{"a": "b\\\nc"}', '{"a": "\\x41"}'),
    *("{'a': 'b", '{"a": NaN}', '{"a": Infinity}', '{"a": "\\ud800"}', "\ud800", '{"a": 1, "a": 2}'),
    *('{"a": {"b": [], "b": {}}}', '"text"', "3", "null", ",", "{,}", "[,]", "'"),
)
def test_unclear_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        read_container(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)


@pytest.mark.medium
@given(st.dictionaries(st.text(st.characters(codec="utf-8")), VALUES), st.booleans())
def test_valid_json_is_read_as_it_is(value: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert valid_json(text) == text
    assert read_object(text) == value


@pytest.mark.medium
@given(st.dictionaries(st.text(st.characters(codec="utf-8")), VALUES), st.integers(0))
def test_truncated_json_is_never_completed(value: dict[str, Any], cut: int) -> None:
    text = json.dumps(value)
    with pytest.raises(ValueError, match=r"\S"):
        read_object(text[: cut % len(text)])


@given(st.text(st.sampled_from("{}[]\"'“”,:：，\\\n ab1")))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        value = read_container(text)
    except ValueError:
        return
    assert read_container(json.dumps(value)) == value


def test_beginning_is_read_up_to_its_last_string() -> None:
    text = '{"a": "b", "c": "d\ne'
    assert read_beginning(text) == {"a": "b", "c": "d\ne"}
    assert read_beginning(text, strings=False) == {"a": "b"}
    assert open_string(text) == len(text) - len("d\ne")
    assert open_string(text + "\\") == open_string(text)
    assert [*map(open_string, ["", '{"a": "b"', "{'a': 'b", '{"a": 1', '{"a": "b" \\'])] == [None] * 5
    # A list is no object.
    assert read_container("[1]") == [1]
    with pytest.raises(ValueError, match="it is a list"):
        read_object("[1]")


def decode(text: str, cuts: list[int]) -> tuple[str, bool]:
    """Return what a decoder makes of a string, received in pieces, and whether it has ended."""
    decoder = parsing.StringDecoder()
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    pieces = [decoder.take(text[start:end]) for start, end in itertools.pairwise(places)]
    return "".join(pieces), decoder.ended


CUTS = st.lists(st.integers(0, 500))


@given(st.text(st.characters(codec="utf-8")), st.booleans(), CUTS)
def test_string_is_decoded_in_pieces(value: str, ascii_only: bool, cuts: list[int]) -> None:
    written = json.dumps(value, ensure_ascii=ascii_only)[1:]
    assert decode(f'{written}, "more": "x"}}', cuts) == (value, True)
    assert decode(written[:-1], cuts) == (value, False)


@given(st.text(st.sampled_from('ab\\"\nu0d83e/')), CUTS)
def test_decoded_text_does_not_depend_on_the_pieces(text: str, cuts: list[int]) -> None:
    whole, _ = decode(text, [])
    assert whole.startswith(decode(text, cuts)[0]) or decode(text, cuts)[0].startswith(whole)
    # An invalid escape ends a string.
    assert decode("a\\qb", [1, 2, 3]) == decode("a\\\nb", [1, 2, 3]) == ("a", True)


@pytest.mark.medium
@cases("piece", "\\ux", "x", "\\u4e2d", "\\ud83d\\ude00", "\\\\", "\n", "\\n\\\\", "\\")
def test_string_is_decoded_in_linear_time(piece: str) -> None:
    def seconds(length: int) -> float:
        decoder = parsing.StringDecoder()
        text = piece * (length // len(piece))
        began = time.process_time()
        for character in text:
            decoder.take(character)
        return time.process_time() - began

    # Each character takes some microseconds; with a quadratic decoder these would take ten seconds and more.
    assert seconds(20_000) < 1.5


@pytest.mark.medium
@cases("piece", '"\\', "'\\'", "'", "“", ", ", "{'a'", '{"a":', "[", "'a',", "\n")
def test_hostile_text_is_refused_in_linear_time(piece: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match=r"\S"):
        read_container("{" + piece * 50_000)
    assert time.process_time() - began < 1
