"""Stubs for the effects of a machine, which cost the same and have no reply."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

from graphexec.kernel.effects import Effect, answers_cut
from graphexec.kernel.meters import Exhausted, Limits, Meter
from graphexec.kernel.node import Node


class StubEffect(Effect[None]):
    """Stands for an effect: it has the same charges, and its reply reports nothing beyond them.

    If it is `answered`, it has a reply for a cut at the deadline. It costs one of the meter `quota`, if it has one.
    """

    __slots__ = ()
    answered: ClassVar[bool] = False
    quota: ClassVar[str] = ""

    def measure(self, reply: None) -> tuple[float, ...]:  # noqa: ARG002 - no reply reports anything
        """Return 0 for each meter: nothing beyond the charge."""
        return (0,) * len(self.measures)

    def cut(self, exhausted: Exhausted) -> bool | None:  # noqa: ARG002 - any limit
        """Return the reply for a cut effect, if it has one."""
        return self.answered or None


@cache
def _stub_effect(
    charges: frozenset[tuple[Meter, int]], measures: frozenset[Meter], *, answered: bool, quota: str
) -> StubEffect:
    given = {"charges": dict(charges), "measures": tuple(measures), "answered": answered, "quota": quota}
    kind: type[StubEffect] = type("StubEffect", (StubEffect,), {"__slots__": (), **given})
    return kind()


def make_stub_effects(node: Node[Any, Any], limits: Limits) -> list[StubEffect]:
    """Return the stubs of the effects that a node asks for, one for each of its quotas."""
    effects: dict[StubEffect, None] = {}
    quotas = [one.name for one in node.quotas] or [""]
    for effect in node.effects:
        # A limit on fractions is above 0 and never reached, because the stubs report nothing.
        compared = (
            meter
            for meter in effect.measures
            if meter.whole and meter not in effect.charges and limits[meter] is not None
        )
        answered = answers_cut(effect)
        charges, measures = frozenset(effect.charges.items()), frozenset(compared)
        for quota in quotas:
            effects[_stub_effect(charges, measures, answered=answered, quota=quota)] = None
    return list(effects)
