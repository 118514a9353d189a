"""A graph needs a total table; every fault is reported at once, with its remedy."""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import pytest
from pydantic import BaseModel, ConfigDict

from graphexec import END, Asks, Graph, GraphError, ask, edges, graph, node, on, opaque
from graphexec.effects import CallTool
from graphexec.errors import Fault
from graphexec.kernel import rename
from tests.kernel.machines import (
    CLOCK,
    DIAMOND,
    Even,
    Left,
    Number,
    Odd,
    Stopped,
    Sum,
    Tick,
    Tock,
    Total,
    countdown,
    halve,
    join,
    split,
    tick,
    tock,
    triple,
)
from tests.parameters import cases

# Any: type checkers refuse these tables, too (see tests/typing).
row: Any = edges
built: Any = graph


def faults_of(table: Any, start: Any) -> list[str]:
    with pytest.raises(GraphError) as caught:
        built(table, start=start)
    assert str(caught.value) == "\n".join(map(str, caught.value.faults))
    return [fault.text for fault in caught.value.faults]


def test_total_table_is_built() -> None:
    assert str(DIAMOND) == (
        "split --Even--> halve\nsplit --Odd--> triple\nhalve --Sum--> join\ntriple --Sum--> join\njoin --Total--> END"
    )
    assert repr(DIAMOND) == "<graph of 4 nodes and 5 edges, start=split>"
    assert [one.name for one in DIAMOND] == ["split", "halve", "triple", "join"]
    assert len(DIAMOND) == 4
    assert "halve" in DIAMOND
    assert DIAMOND["halve"] is halve
    assert repr(END) == "END"


def test_lookup_of_an_unknown_node_gives_a_hint() -> None:
    with pytest.raises(KeyError, match=r"the graph has no node hlave; did you mean halve\?"):
        DIAMOND["hlave"]
    with pytest.raises(KeyError, match="the graph has no node walk; its nodes are tick, tock"):
        CLOCK["walk"]


def test_missing_edge_is_reported_with_its_only_target() -> None:
    table = row(split, on(Even, halve)) | edges(halve, on(Sum, join)) | edges(join, on(Total, END))
    assert "split may return Odd, which no edge takes; add on(Odd, ...)" in faults_of(table, split)
    table = row(tick, on(Tock, tock)) | edges(tock, on(Tick, tick))
    assert faults_of(table, tick) == ["tick may return Stopped, which no edge takes; add on(Stopped, ...)"]
    table = row(tick, on(Stopped, END)) | edges(tock, on(Tick, tick))
    assert faults_of(table, tick) == ["tick may return Tock, which no edge takes; add on(Tock, tock)"]


def test_node_without_a_row_is_reported() -> None:
    table = edges(split, on(Even, halve) | on(Odd, triple)) | edges(triple, on(Sum, join)) | edges(join, on(Total, END))
    assert faults_of(table, split) == ["halve has no row; add edges(halve, ...)"]


def test_start_without_a_row_is_reported() -> None:
    assert "split has no row; add edges(split, ...)" in faults_of(edges(join, on(Total, END)), split)


def test_impossible_outcome_is_reported() -> None:
    table = row(join, on(Total, END) | on(Even, END))
    assert faults_of(table, join) == ["join never returns Even; remove on(Even, END)"]


def test_outcome_with_two_edges_is_reported() -> None:
    table = edges(join, on(Total, END) | on(Total, END))
    assert faults_of(table, join) == ["join routes Total twice; remove on(Total, END)"]


def test_outcome_that_its_target_rejects_is_reported() -> None:
    to_join: Any = on
    table = row(split, to_join(Even, join) | to_join(Odd, join)) | edges(join, on(Total, END))
    assert faults_of(table, split) == [
        "split sends Even to join, which takes Sum; send it to a node that takes it",
        "split sends Odd to join, which takes Sum; send it to a node that takes it",
    ]


def test_two_rows_of_one_node_are_reported_once() -> None:
    table = edges(join, on(Total, END)) | edges(join, on(Total, END))
    assert faults_of(table, join) == ["join has two rows; join its routes with | in one row"]


def test_two_nodes_with_one_name_are_reported_once() -> None:
    other = rename(triple, "halve")
    table = edges(split, on(Even, halve) | on(Odd, other)) | edges(halve, on(Sum, join)) | edges(join, on(Total, END))
    assert faults_of(table, split) == [
        "two nodes are named halve; rename one of the functions",
        # An edge has only the name of its target, so it counts as an edge to the first node.
        "split sends Odd to halve, which takes Even; send it to a node that takes it",
    ]


def test_node_named_end_is_reported() -> None:
    named = rename(join, "END")
    assert "the name END is reserved for the end of a run; rename the node's function" in faults_of(
        edges(named, on(Total, END)), named
    )


def test_unreachable_node_is_reported() -> None:
    table = edges(join, on(Total, END)) | edges(halve, on(Sum, join))
    assert faults_of(table, join) == ["halve cannot be reached from join; route an outcome to it, or remove its row"]


def test_node_that_cannot_reach_end_is_reported() -> None:
    @node
    def ticking(at: Tick) -> Tock:
        return Tock(at.count)

    table = edges(ticking, on(Tock, tock)) | edges(tock, on(Tick, ticking))
    assert faults_of(table, ticking) == [
        "ticking cannot reach END; route an outcome of it, or of a node after it, to END",
        "tock cannot reach END; route an outcome of it, or of a node after it, to END",
    ]


def test_missing_edge_is_reported_only_once() -> None:
    # Without the edge for Even, nothing reaches halve; only the missing edge is reported.
    table = row(split, on(Odd, triple)) | (
        edges(halve, on(Sum, join)) | edges(triple, on(Sum, join)) | edges(join, on(Total, END))
    )
    assert faults_of(table, split) == ["split may return Even, which no edge takes; add on(Even, halve)"]


def test_asking_node_needs_a_when_spent() -> None:
    @node
    def look_up(left: Left) -> Asks[CallTool, Total]:
        result = yield from ask(CallTool("search", "tea"))
        return Total(str(result.observation))

    @opaque
    def read(left: Left) -> Total:
        return Total("read")

    assert faults_of(edges(look_up, on(Total, END)), look_up) == [
        "look_up asks for CallTool, which a limit may stop, but has no outcome for that; decorate it with "
        "@charged(when_spent=...) and route that outcome"
    ]
    assert faults_of(edges(read, on(Total, END)), read) == [
        "read is @opaque, which a limit may stop, but has no outcome for that; decorate it with "
        "@charged(when_spent=...) and route that outcome"
    ]


# ---- classes of outcomes


@dataclass(frozen=True)
class NotFinal:
    pass


@final
@dataclass
class NotFrozen:
    pass


@final
class PlainWithFields:
    def __init__(self) -> None:
        self.count = 0


@final
class PlainMarker:
    pass


@final
class FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True)
    count: int = 0


@final
class LooseModel(BaseModel):
    count: int = 0


@final
class Pair(NamedTuple):
    first: int
    second: int


class Colour(enum.Enum):
    RED = "red"


def node_returning(kind: type) -> Any:
    def create(number: Number) -> Any:
        return kind()

    create.__annotations__["return"] = kind
    return node(create)


@cases(
    ("kind", "texts"),
    [
        (NotFinal, ["create returns NotFinal, which is not final; write @final above class NotFinal"]),
        (
            NotFrozen,
            ["create returns NotFrozen, which is not frozen; write @dataclass(frozen=True) above class NotFrozen"],
        ),
        (
            PlainWithFields,
            [
                "create returns PlainWithFields, which is not frozen; write @dataclass(frozen=True) above class "
                "PlainWithFields"
            ],
        ),
        (
            LooseModel,
            ["create returns LooseModel, which is not frozen; write @dataclass(frozen=True) above class LooseModel"],
        ),
        (str, ["create returns str, which is a built-in class; return a frozen dataclass that holds the value"]),
    ],
)
def test_outcome_must_be_final_and_frozen(kind: type, texts: list[str]) -> None:
    create = node_returning(kind)
    assert faults_of(row(create, on(kind, END)), create) == texts


@cases("kind", [PlainMarker, FrozenModel, Pair, Colour])
def test_outcomes_may_be_markers_models_tuples_and_enums(kind: type) -> None:
    create = node_returning(kind)
    machine: Graph[Any, Any] = built(row(create, on(kind, END)), start=create)
    assert [edge.outcome for edge in machine.edges] == [kind]


def test_two_outcomes_with_one_name_are_reported_once() -> None:
    def other_total() -> type:
        @final
        @dataclass(frozen=True)
        class Total:
            pass

        return Total

    other = other_total()
    create = node_returning(other)
    table = row(split, on(Even, halve) | on(Odd, triple)) | (
        edges(halve, on(Sum, join))
        | edges(triple, on(Sum, join))
        | edges(join, on(Total, END))
        | row(create, on(other, END))
    )
    assert faults_of(table, split) == [
        "two outcomes are named Total; rename one of the classes",
        "create cannot be reached from split; route an outcome to it, or remove its row",
    ]


# ---- several faults


def test_every_fault_is_reported_at_once() -> None:
    @node
    def loose(left: Left) -> NotFinal | NotFrozen | Left:
        return NotFinal()

    wrong: Any = on
    with pytest.raises(GraphError) as caught:
        built(
            row(split, on(Even, halve) | wrong(Odd, join) | wrong(Total, END))
            | row(halve, on(Sum, join) | on(Sum, join))
            | row(join, on(Total, END))
            | row(join, on(Total, END))
            | row(loose, wrong(NotFinal, END)),
            start=split,
        )
    assert caught.value.faults == (
        Fault("GX020", "join", None, "join has two rows; join its routes with | in one row"),
        Fault("GX022", "split", "Odd", "split sends Odd to join, which takes Sum; send it to a node that takes it"),
        Fault("GX003", "split", "Total", "split never returns Total; remove on(Total, END)"),
        Fault("GX021", "halve", "Sum", "halve routes Sum twice; remove on(Sum, join)"),
        Fault("GX002", "loose", "NotFrozen", "loose may return NotFrozen, which no edge takes; add on(NotFrozen, ...)"),
        Fault("GX002", "loose", "Left", "loose may return Left, which no edge takes; add on(Left, loose)"),
        Fault(
            "GX023",
            "loose",
            "NotFinal",
            "loose returns NotFinal, which is not final; write @final above class NotFinal",
        ),
        Fault(
            "GX023",
            "loose",
            "NotFrozen",
            "loose returns NotFrozen, which is not frozen; write @dataclass(frozen=True) above class NotFrozen",
        ),
        Fault("GX004", "loose", None, "loose cannot be reached from split; route an outcome to it, or remove its row"),
    )


def test_missing_stop_edge_names_stopped_response() -> None:
    from graphexec import AgentFinish, StoppedResponse
    from graphexec.executor import LimitReached, Replied, parse, plan, stopped_response
    from graphexec.executor.table import Acted, Observed, Ready, check_return_direct, dispatch_tools

    table = (
        row(plan, on(Replied, parse))
        | edges(parse, on(Acted, dispatch_tools) | on(Ready, plan) | on(AgentFinish, END))
        | edges(dispatch_tools, on(Observed, check_return_direct) | on(LimitReached, stopped_response))
        | edges(check_return_direct, on(Ready, plan) | on(AgentFinish, END))
        | edges(stopped_response, on(StoppedResponse, END))
    )
    assert faults_of(table, plan) == [
        "plan may return LimitReached, which no edge takes; add on(LimitReached, stopped_response)"
    ]


@cases("draw", [str, repr, "{:mermaid}".format, "{:dot}".format])
def test_self_loop_is_drawn_in_every_format(draw: Callable[[object], str]) -> None:
    machine = graph(edges(countdown, on(Left, countdown) | on(Stopped, END) | on_landed()), start=countdown)
    assert "countdown" in draw(machine)


def on_landed() -> Any:
    from tests.kernel.machines import Landed

    return on(Landed, END)


# ---- routes


def test_routes_return_only_outcomes_that_end_the_run() -> None:
    routes = on(Even, END) | on(Odd, triple)
    assert routes(Even(2)) == Even(2)
    with pytest.raises(LookupError, match="Odd does not end the run"):
        routes(Odd(1))


def test_routes_without_on_are_refused() -> None:
    with pytest.raises(TypeError) as caught:
        row(join, "somewhere")
    assert str(caught.value) == "the routes of join are 'somewhere'; write on(Outcome, target) | on(...)"
