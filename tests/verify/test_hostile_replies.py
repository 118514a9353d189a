"""Random machines with hostile replies: no run exceeds its proved bounds, or raises a foreign error."""

import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import Limits, errors
from graphexec.effects import CallModel, CallTool, ToolResult
from graphexec.kernel import Effect, Moved
from graphexec.messages import ModelReply, Usage
from graphexec.testing.strategies import limits
from tests.checks.random_graphs import DrawnGraph, errand_class
from tests.checks.strategies import drawn_graphs

AMOUNTS: st.SearchStrategy[Any] = (
    st.sampled_from([None, True, 0, 1, 2, -1, 0.01, 1.0, 1e-9, math.nan, math.inf, -math.inf, "1", b"1", [1]])
    | st.just(1).map((10**5000).__mul__)
    | st.floats()
    | st.integers()
)


@st.composite
def replies(draw: st.DrawFn) -> ModelReply:
    return ModelReply("so", usage=Usage(draw(AMOUNTS), draw(AMOUNTS)), cost=draw(AMOUNTS))


# Most random machines ask for nothing, or are not proved.
@pytest.mark.medium
@settings(max_examples=3 * settings().max_examples)
@given(
    drawn=(drawn_graphs() | drawn_graphs(loops=False)).filter(
        lambda drawn: any(one.asks != "nothing" for one in drawn.nodes)
    ),
    allowed=limits(),
    amounts=st.lists(AMOUNTS, min_size=1, max_size=4),
    model_replies=st.lists(replies(), min_size=1, max_size=4),
    choices=st.lists(st.integers(0, 5), max_size=4),
)
def test_no_report_makes_a_run_exceed_its_bounds(
    drawn: DrawnGraph, allowed: Limits, amounts: list[Any], model_replies: list[ModelReply], choices: list[int]
) -> None:
    verdict = drawn.graph.verify(allowed)
    if not verdict.proved or verdict.bounds is None:
        return
    made: Counter[str] = Counter()

    def answering(given: list[Any]) -> Callable[[Effect[Any]], Any]:
        def answer(effect: Effect[Any]) -> Any:
            made.update({meter.name: amount for meter, amount in effect.charges.items()})
            return given[made.total() % len(given)]

        return answer

    nodes = [part for one in drawn.nodes for part in (one, *one.inner)]
    errands = [errand_class(errand) for one in nodes for errand in one.errands]
    kinds: dict[type[Effect[Any]], list[Any]] = {CallModel: model_replies, CallTool: [ToolResult("x")]}
    kinds |= dict.fromkeys(errands, amounts)
    handlers = {kind: answering(given) for kind, given in kinds.items()}
    steps = 0
    # Anything that is not our own error fails the test.
    with suppress(errors.GraphexecError):
        for event in drawn.graph.stream(drawn.value(choices), handlers=handlers, limits=allowed):
            steps += isinstance(event, Moved)
    most = verdict.bounds.transitions.number
    assert most is None or steps <= most
    for name, bound in verdict.bounds.meters.items():
        assert bound.number is None or made[name] <= bound.number, name
