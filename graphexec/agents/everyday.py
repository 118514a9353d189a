"""Worked examples for the everyday tools: what a small model learns the form, and the use of the tools, from."""

from __future__ import annotations

from graphexec.agents.structured import WorkedExample

EVERYDAY_EXAMPLES: tuple[WorkedExample, ...] = (
    WorkedExample("What is 12 * 7?", (("calculator", {"expression": "12 * 7"}, "84"),), "12 * 7 is 84."),
    WorkedExample(
        "How many kilometers are 3 miles?",
        (("convert_units", {"value": 3, "from_unit": "miles", "to_unit": "kilometers"}, "3 mi = 4.82803 km"),),
        "3 miles are 4.82803 kilometers.",
    ),
    WorkedExample("What day is it?", (("today", {}, "Tuesday, 2025-03-04"),), "It is Tuesday, 2025-03-04."),
    WorkedExample(
        "I buy 4 pens at 2.50 each and pay with 20. How much do I get back?",
        (("calculator", {"expression": "20 - 4 * 2.50"}, "10"),),
        "You get 10 back.",
    ),
    WorkedExample(
        "Convert 98.6 F to Celsius.",
        (("convert_units", {"value": 98.6, "from_unit": "F", "to_unit": "C"}, "98.6 °F = 37 °C"),),
        "98.6 F is 37 C.",
    ),
)
