"""The values of worked examples that are dummies: those that a model makes up, and does not choose."""

from typing import Any

from graphexec import tool, tools
from graphexec.agents import WorkedExample
from graphexec.agents.small.synthesis import find_dummies, is_choice
from tests.parameters import cases

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
    (refer("Loop"), True),
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
    assert find_dummies(worked, [weather]) == ("Hi!", "Oslo", 3)
    worked = [WorkedExample("?", (("weather", {"city": city, "days": 3}, "1"),), "") for city in ("Oslo", "Rome")]
    found = find_dummies(worked, [weather], "The user lives in ROME, and wants 3 days.")
    assert found == ("Oslo",), "values in the instructions are no dummies"
