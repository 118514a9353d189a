"""The parameters of tests: the usual tests try some values, and those that are left out by default the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


# Any: a parameter may have any values.
def mark_except(values: Iterable[Any], *quick: object, mark: pytest.MarkDecorator = pytest.mark.medium) -> list[Any]:
    """Return the values for `parametrize`; all but the `quick` ones are marked."""
    values = list(values)
    assert all(one in values for one in quick), "each quick value is one of the values"
    return [value if value in quick else pytest.param(value, marks=mark) for value in values]
