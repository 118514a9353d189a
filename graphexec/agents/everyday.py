"""Worked examples for the everyday tools: from them a small model learns the form, and when to use which tool.

Found by trying them on the built-in model of 135 million parameters. Three things helped it: answers that are the
observation as it stands, which it copies rather than rephrases; whole numbers of four digits, behind which it otherwise
invents decimals; and no more than six examples, one for each way to ask.
"""

from __future__ import annotations

from graphexec.agents.structured import WorkedExample

EVERYDAY_EXAMPLES: tuple[WorkedExample, ...] = (
    WorkedExample("What is 36 * 52?", (("calculator", {"expression": "36 * 52"}, "1872"),), "1872"),
    WorkedExample(
        "How many kilometers are 3 miles?",
        (("convert_units", {"value": 3, "from_unit": "miles", "to_unit": "kilometers"}, "3 mi = 4.82803 km"),),
        "3 mi = 4.82803 km",
    ),
    WorkedExample("What day is it today?", (("today", {}, "Tuesday, 2025-03-04"),), "Tuesday, 2025-03-04"),
    WorkedExample(
        "I have 5 bags with 14 coins each. How many coins do I have?",
        (("calculator", {"expression": "5 * 14"}, "70"),),
        "70",
    ),
    WorkedExample(
        "Convert 98.6 F to Celsius.",
        (("convert_units", {"value": 98.6, "from_unit": "F", "to_unit": "C"}, "98.6 °F = 37 °C"),),
        "98.6 °F = 37 °C",
    ),
    WorkedExample("84*19", (("calculator", {"expression": "84 * 19"}, "1596"),), "1596"),
)
