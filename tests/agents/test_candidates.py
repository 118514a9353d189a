"""The values of examples that are dummies, and those of a question among which a model chooses that copied one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import tool, tools
from graphexec.agents import WorkedExample
from graphexec.agents.small.candidates import find_candidates
from graphexec.agents.small.dummies import find_dummies, is_choice
from graphexec.agents.small.tool_choice import find_subjects
from tests.parameters import cases

STRING, NUMBER, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}


@tool
def washing_temperature(fabric: str) -> int:
    """The washing temperature of a fabric, in degrees Celsius."""
    return 30


SUBJECTS = find_subjects([washing_temperature])


@cases(
    ("question", "expected"),
    ("At what temperature should I wash wool?", ["wool"]),
    ("Washing temperatures for merino wool, please", ["merino", "merino wool", "wool"]),
    ('How should I wash "the red one"?', ["the red one", "red"]),
    ("And what of Lord of the Rings costumes?", ["Lord of the Rings", "Lord", "Rings", "Rings costumes", "costumes"]),
    ("What is it?", []),
    ("", []),
)
def test_words_of_the_question_are_candidates(question: str, expected: list[str]) -> None:
    assert list(find_candidates(STRING, [question], SUBJECTS)) == expected


@cases(
    ("schema", "expected"),
    (NUMBER, [91, -2.5, 7]),
    (WHOLE, [91, 7]),
    ({"anyOf": [WHOLE, {"type": "null"}]}, [91, 7]),
    ({"type": "array", "items": WHOLE}, []),
    ({}, []),
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


# ---- dummies

ENUMERATION = {"enum": ["C", "F"]}
DEFINITIONS = {
    "Unit": ENUMERATION,
    "Alias": {"$ref": "#/$defs/Unit"},
    "Loop": {"anyOf": [{"const": 1}, {"$ref": "#/$defs/Loop"}]},
    "Name": {"type": "string"},
}


def measure_unit(unit: Any = None) -> str:
    return f"1 {unit}"


def refer(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


@cases(
    ("schema", "expected"),
    (ENUMERATION, True),
    ({"const": "C"}, True),
    ({"type": "boolean"}, True),
    (refer("Unit"), True),
    (refer("Alias"), True),
    (refer("Name"), False),
    (refer("Loop"), False),
    ({"anyOf": [refer("Unit"), {"type": "null"}]}, True),
    ({"oneOf": [refer("Unit"), {"type": "string"}]}, False),
    ({"type": "string"}, False),
    ({"type": "array", "items": ENUMERATION}, False),
)
def test_choices_are_found_in_schemas(schema: dict[str, Any], expected: bool) -> None:
    parameters = {"type": "object", "properties": {"unit": schema}, "$defs": DEFINITIONS}
    measure = tools.tool_from_schema("measure", "Measure it.", parameters, measure_unit)
    assert is_choice(measure, "unit") == expected


@tool
def weather(city: str, days: int) -> str:
    """Get the weather in a city."""
    return f"{city} {days}"


def test_values_of_known_tools_are_dummies() -> None:
    calls = (("weather", {"city": "Oslo", "days": 3}, "1"), ("unknown", {"city": "Rome"}, "2"))
    worked = [WorkedExample("?", calls, "3"), WorkedExample("Hello!", (), "Hi!")]
    assert find_dummies(worked, [weather]) == {
        "weather": {"city": ("Oslo",), "days": (3,)},
        "final_answer": {"answer": ("Hi!",)},
    }
    worked = [WorkedExample("?", (("weather", {"city": city, "days": 3}, "1"),), "") for city in ("Oslo", "Rome")]
    found = find_dummies(worked, [weather], "The user lives in ROME, and wants 3 days.")
    assert found == {"weather": {"city": ("Oslo",)}}, "values in the instructions are no dummies"
