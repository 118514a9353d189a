"""Inputs, answers and the state of pieces are read back as they were, with the types that JSON lacks."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

import graphexec as gx
from graphexec.actions import Aside, Run, Steps
from graphexec.errors import SnapshotError
from graphexec.executor import AGENT_EXECUTOR, Ready
from graphexec.kernel.serialization import to_json_data
from graphexec.messages import AssistantMessage, Image, Reasoning, SystemMessage, ToolCall, ToolMessage, UserMessage
from graphexec.messages.stored import Original, ReturnValues, TypedValues

CAT = Image("https://example.com/cat.png")
MESSAGES = (
    SystemMessage("Be brief."),
    UserMessage("Hello\ud800", (CAT,)),
    AssistantMessage("", (ToolCall("1", "look", "{}"),), (Reasoning("hm", '{"a": 1}', "anthropic"),)),
    ToolMessage("1", "a cat", (CAT,)),
)
SCALARS = st.one_of(
    st.sampled_from([None, True, 1, -0.0, 1.5, float("inf"), "", "#0", "\ud800", 10**700, b"abc", CAT, *MESSAGES]),
    st.sampled_from([date(2026, 1, 1), datetime(2026, 1, 1), timedelta(1), Decimal("1.50"), UUID(int=5)]),
)
KEYS = st.sampled_from(["kind", "type", "data", "text", "url", "a"])
KINDS = st.sampled_from([f"graphexec.{kind}" for kind in ("image", "data", "value", "answer")])
VALUES = st.recursive(
    SCALARS | KINDS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
        st.dictionaries(st.integers(0, 3) | st.dates() | st.none(), inner, max_size=2),
        st.sets(st.integers(0, 5), max_size=2),
        st.frozensets(st.integers(0, 5), max_size=2),
    ),
    max_leaves=8,
)


def stored(run: Run) -> Run:
    snapshot = gx.Snapshot("plan", Ready(run))
    text = snapshot.to_json()
    read: Any = gx.Snapshot.from_json(text, AGENT_EXECUTOR)
    assert read.to_json() == text
    found: Run = read.value.run
    return found


@given(VALUES)
def test_values_of_a_run_are_read_back(value: Any) -> None:
    run = Run({"input": value}, aside=Aside(state={"mine": value}))
    read = stored(run)
    assert (repr(read), read) == (repr(run), run)
    finish = gx.AgentFinish({"output": value, "kind": "graphexec.answer"}, run=run)
    held: Mapping[str, Any] = gx.AgentFinish(finish.return_values, run=stored(run)).return_values
    assert repr(held) == repr(finish.return_values)


@dataclass(frozen=True)
class Point:
    x: int


def test_value_of_another_type_is_refused_with_its_place() -> None:
    for value in (Point(1), [Point(1)], {"a": Point(1)}):
        with pytest.raises(SnapshotError, match=r"Ready\.run\.inputs\['input'\].* is a Point, and would be read back"):
            stored(Run({"input": value}))
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(SnapshotError, match="nested more than"):
        stored(Run({"input": endless}))


def test_action_with_other_arguments_than_json_is_refused() -> None:
    steps = Steps([gx.AgentStep(gx.AgentAction("pay", {"when": date(2026, 1, 1)}), "paid")])
    with pytest.raises(SnapshotError, match=r"run\.steps\[0\]\.action\.tool_input\['when'\] is a date"):
        stored(Run({}, steps))
    paid = gx.AgentStep(gx.AgentAction("pay", {"amount": 1}), (1, date(2026, 1, 1)))
    run = Run({}, Steps([paid]))
    # What a tool returned is stored as what has the same text.
    assert stored(run).steps[0].observation == [1, "2026-01-01"]
    longer = run.with_steps([gx.AgentStep(gx.AgentAction("pay", {"amount": (1,)}), "paid")])
    with pytest.raises(SnapshotError, match=r"steps\[1\]\.action\.tool_input\['amount'\] is a tuple"):
        stored(longer)


def test_values_without_json_are_kept_and_others_refused() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(ReturnValues)
    for values in ({"output": float("inf")}, {"output": Decimal("1.50"), "when": (date(2026, 1, 1),)}):
        assert adapter.validate_json(adapter.dump_json(values)) == values
    for data in ('{"output": {"kind": "graphexec.value", "type": "socket", "data": 1}}', "3"):
        with pytest.raises(ValueError, match=r"unknown type socket|not an object"):
            adapter.validate_json(data)
    typed = TypedValues({"output": 1}, "output", form="data")
    assert pickle.loads(pickle.dumps(typed)) == {"output": 1}
    assert typed.with_values({"output": 2}).stored() == {"kind": "graphexec.answer", "data": 2}
    assert Original(1, str) == Original(data="1") != Original(data=[1])
    assert hash(Original(1)) == hash(Original(2))
    assert to_json_data([AssistantMessage("hi"), (1,)])[1] == [1]
