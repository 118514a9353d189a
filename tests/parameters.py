"""The parameters of tests: how many values and examples they try."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

# For long properties: ten times as many examples as others.
TEN_TIMES = settings(max_examples=10 * settings().max_examples)


# Any: a parameter may have any values.
def mark_except(values: Iterable[Any], *quick: object, mark: pytest.MarkDecorator = pytest.mark.medium) -> list[Any]:
    """Return the values for `parametrize`; all but the `quick` ones, which the usual tests try, are marked."""
    values = list(values)
    assert all(one in values for one in quick), "each quick value is one of the values"
    return [value if value in quick else pytest.param(value, marks=mark) for value in values]
