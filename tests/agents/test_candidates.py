"""The values of a question among which a model chooses that copied an argument of an example."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import tool
from graphexec.agents.candidates import find_candidates
from graphexec.agents.tool_choice import find_subjects
from tests.parameters import cases

STRING, NUMBER, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}


@tool
def washing_temperature(fabric: str) -> int:
    """The washing temperature of a fabric, in degrees Celsius."""
    return 30


SUBJECTS = find_subjects([washing_temperature])


@cases(
    ("question", "expected"),
    [
        ("At what temperature should I wash wool?", ["wool"]),
        ("Washing temperatures for merino wool, please", ["merino", "merino wool", "wool"]),
        ('How should I wash "the red one"?', ["the red one", "red"]),
        (
            "And what of Lord of the Rings costumes?",
            ["Lord of the Rings", "Lord", "Rings", "Rings costumes", "costumes"],
        ),
        ("What is it?", []),
        ("", []),
    ],
)
def test_words_of_the_question_are_candidates(question: str, expected: list[str]) -> None:
    assert list(find_candidates(STRING, [question], SUBJECTS)) == expected


@cases(
    ("schema", "expected"),
    [
        (NUMBER, [91, -2.5, 7]),
        (WHOLE, [91, 7]),
        ({"anyOf": [WHOLE, {"type": "null"}]}, [91, 7]),
        ({"type": "array", "items": WHOLE}, []),
        ({}, []),
    ],
)
def test_candidates_fit_the_schema(schema: dict[str, Any], expected: list[float]) -> None:
    assert list(find_candidates(schema, ["Is 91 or -2.5 more than 7? Not 3rd, nor 1.2.3"], SUBJECTS)) == expected


@pytest.mark.medium
@given(text=st.text(max_size=200))
def test_candidates_stand_in_the_question(text: str) -> None:
    assert find_candidates(STRING, [" ".join(f"fabric{number}x" for number in range(90))], frozenset()) == ()
    for value in find_candidates(STRING, [text], SUBJECTS):
        assert value.split()
        assert all(word in text for word in value.split())
