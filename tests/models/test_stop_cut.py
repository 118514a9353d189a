"""The position of the cut if the server does not support stop strings."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from graphexec._parsing.reasoning import split_reasoning
from graphexec.models.http.stop_cutter import StopCutter
from tests.parameters import cases

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
    content = split_reasoning(text).content
    assert found == text.removesuffix(content) + before_the_first(content, ("STOP", "a\na"))


def test_closing_tag_revokes_a_cut_in_reasoning() -> None:
    cut = StopCutter(("\nObservation:",))
    shown = [
        cut.take("If I act,\nObservation: 3."),
        cut.take(" So.\n</think>\nAction: f"),
        cut.take("\nObservation: 4"),
    ]
    assert shown == ["If I act,", "\nObservation: 3. So.\n</think>\nAction: f", ""]
    assert (cut.done, cut.rest()) == (True, "")


@cases(("piece", "at_once"), [("so\nObs", "so"), ("so\nObs.", "so\nObs."), ("so\n\n", "so\n"), ("so", "so")])
def test_only_possible_stop_beginning_is_held_back(piece: str, at_once: str) -> None:
    cut = StopCutter(("\nObservation",))
    assert cut.take(piece) == at_once
    assert at_once + cut.rest() == piece


def test_nothing_is_shown_after_the_cut() -> None:
    cut = StopCutter(("STOP",))
    assert [cut.take("1 ST"), cut.take("OP 2"), cut.take("3"), cut.rest()] == ["1 ", "", "", ""]
    assert cut.done
