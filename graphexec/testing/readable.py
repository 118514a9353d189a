"""Drawn values that Hypothesis shows by their `repr`, where it would take a dataclass apart."""

from __future__ import annotations

from typing import Any


class Readable:
    """Shown by its `repr` in a failure of Hypothesis, too."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: FBT001 - IPython's protocol
        del cycle
        printer.text(repr(self))
