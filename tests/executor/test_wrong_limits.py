"""Limits and budgets of invalid types raise an error with a message of one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from graphexec import Budget, Limits
from graphexec.errors import LimitsError
from tests.parameters import cases


# Any: wrong on purpose, here and below.
def limits_of(budgets: Any) -> Limits:
    return Limits(budgets=budgets)


def limit_of(budget: Any) -> Limits:
    return Limits(budgets={budget: 2})


WRONG: list[tuple[Callable[..., object], Any, str]] = [
    *(
        (Budget, name, f"a budget cannot be named {name!r}; give it a name that a variable could have")
        for name in (3, None, ["revisions"])
    ),
    *(
        (limits_of, given, f"budgets is {given!r}; give a dict of names and limits")
        for given in (3, "revisions", ["revisions"])
    ),
    *(
        (
            limit_of,
            name,
            f"budgets has {name!r}, which is not a budget name; give names and limits",
        )
        for name in (3, "", Budget("revisions"))
    ),
]


@cases(("make", "given", "message"), WRONG)
def test_invalid_budget_is_named_with_a_remedy(make: Callable[..., object], given: Any, message: str) -> None:
    with pytest.raises(LimitsError, match=f"^{re.escape(message)}"):
        make(given)
