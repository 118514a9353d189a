"""Tools for everyday questions: a calculator and the date. They need no network and no API key."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING

from graphexec._mistakes import explain_names
from graphexec.tools.arithmetic import evaluate, format_number
from graphexec.tools.tool import AnyTool, Tool, tool

# Characters: more than these tools need, few enough that none of them is worth attacking.
MAX_INPUT = 2_000

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@tool(max_tool_input=MAX_INPUT)
def calculator(expression: str) -> str:
    """Calculate an arithmetic expression, such as (2 + 3) * 4."""
    return format_number(evaluate(expression))


def make_today(clock: Callable[[], dt.date]) -> Tool[[], str]:
    """Make a tool that returns the date given by `clock`."""

    @tool(max_tool_input=MAX_INPUT)
    def today() -> str:
        """Tell today's date and weekday."""
        date = clock()
        # The weekday names of strftime depend on the locale of the process.
        return f"{_WEEKDAYS[date.weekday()]}, {date.isoformat()}"

    return today


today = make_today(dt.date.today)

EVERYDAY_TOOLS: tuple[AnyTool, ...] = (calculator, today)

if not TYPE_CHECKING:
    __getattr__ = explain_names(__name__)
