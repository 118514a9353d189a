"""A table is total, or it is not built; everything that is wrong with it is said at once, with what to write."""

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

# The checkers refuse these tables too (see tests/typing); here they have to get past them.
row: Any = edges
built: Any = graph


def faults_of(table: Any, start: Any) -> list[str]:
    with pytest.raises(GraphError) as caught:
        built(table, start=start)
    assert str(caught.value) == "\n".join(map(str, caught.value.faults))
    return [fault.text for fault in caught.value.faults]


def test_a_total_table_is_built() -> None:
    assert str(DIAMOND) == (
        "split --Even--> halve\nsplit --Odd--> triple\nhalve --Sum--> join\ntriple --Sum--> join\njoin --Total--> END"
    )
    assert repr(DIAMOND) == "<graph of 4 nodes and 5 edges, start=split>"
    assert [one.name for one in DIAMOND] == ["split", "halve", "triple", "join"]
    assert len(DIAMOND) == 4
    assert "halve" in DIAMOND
    assert DIAMOND["halve"] is halve
    assert repr(END) == "END"


def test_an_unknown_node_is_looked_up_with_a_hint() -> None:
    with pytest.raises(KeyError, match=r"the graph has no node hlave; did you mean halve\?"):
        DIAMOND["hlave"]
    with pytest.raises(KeyError, match="the graph has no node walk; its nodes are tick, tock"):
        CLOCK["walk"]


def test_a_missing_edge_is_said_with_the_only_node_that_takes_it() -> None:
    table = row(split, on(Even, halve)) | edges(halve, on(Sum, join)) | edges(join, on(Total, END))
    assert "split may return Odd, which no edge takes; add on(Odd, ...)" in faults_of(table, split)
    table = row(tick, on(Tock, tock)) | edges(tock, on(Tick, tick))
    assert faults_of(table, tick) == ["tick may return Stopped, which no edge takes; add on(Stopped, ...)"]
    table = row(tick, on(Stopped, END)) | edges(tock, on(Tick, tick))
    assert faults_of(table, tick) == ["tick may return Tock, which no edge takes; add on(Tock, tock)"]


def test_a_node_without_a_row_is_said() -> None:
    table = edges(split, on(Even, halve) | on(Odd, triple)) | edges(triple, on(Sum, join)) | edges(join, on(Total, END))
    assert faults_of(table, split) == ["halve has no row; add edges(halve, ...)"]


def test_a_start_without_a_row_is_said() -> None:
    assert "split has no row; add edges(split, ...)" in faults_of(edges(join, on(Total, END)), split)


def test_an_outcome_that_cannot_occur_is_said() -> None:
    table = row(join, on(Total, END) | on(Even, END))
    assert faults_of(table, join) == ["join never returns Even; remove on(Even, END)"]


def test_an_outcome_with_two_edges_is_said() -> None:
    table = edges(join, on(Total, END) | on(Total, END))
    assert faults_of(table, join) == ["join routes Total twice; remove on(Total, END)"]


def test_an_outcome_that_does_not_fit_its_target_is_said() -> None:
    to_join: Any = on
    table = row(split, to_join(Even, join) | to_join(Odd, join)) | edges(join, on(Total, END))
    assert faults_of(table, split) == [
        "split sends Even to join, which takes Sum; send it to a node that takes it",
        "split sends Odd to join, which takes Sum; send it to a node that takes it",
    ]


def test_two_rows_of_one_node_are_said_once() -> None:
    table = edges(join, on(Total, END)) | edges(join, on(Total, END))
    assert faults_of(table, join) == ["join has two rows; join its routes with | in one row"]


def test_two_nodes_of_one_name_are_said_once() -> None:
    other = rename(triple, "halve")
    table = edges(split, on(Even, halve) | on(Odd, other)) | edges(halve, on(Sum, join)) | edges(join, on(Total, END))
    assert faults_of(table, split) == [
        "two nodes are named halve; rename one of the functions",
        # A name is all that an edge has, so the other one's edge is taken for one to the first.
        "split sends Odd to halve, which takes Even; send it to a node that takes it",
    ]


def test_a_node_named_end_is_said() -> None:
    named = rename(join, "END")
    assert "the name END is reserved for the end of a run; rename the node's function" in faults_of(
        edges(named, on(Total, END)), named
    )


def test_an_unreachable_node_is_said() -> None:
    table = edges(join, on(Total, END)) | edges(halve, on(Sum, join))
    assert faults_of(table, join) == ["halve cannot be reached from join; route an outcome to it, or remove its row"]


def test_a_node_that_cannot_reach_the_end_is_said() -> None:
    @node
    def ticking(at: Tick) -> Tock:
        return Tock(at.count)

    table = edges(ticking, on(Tock, tock)) | edges(tock, on(Tick, ticking))
    assert faults_of(table, ticking) == [
        "ticking cannot reach END; route an outcome of it, or of a node after it, to END",
        "tock cannot reach END; route an outcome of it, or of a node after it, to END",
    ]


def test_a_missing_edge_is_not_blamed_on_its_neighbours_too() -> None:
    # Without the edge for Even, halve is out of reach and split's part of the way is open; only the edge is named.
    table = row(split, on(Odd, triple)) | (
        edges(halve, on(Sum, join)) | edges(triple, on(Sum, join)) | edges(join, on(Total, END))
    )
    assert faults_of(table, split) == ["split may return Even, which no edge takes; add on(Even, halve)"]


def test_a_node_that_asks_has_to_say_what_a_spent_limit_makes_of_it() -> None:
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


# ---- outcomes as classes


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


def returning(kind: type) -> Any:
    def made(number: Number) -> Any:
        return kind()

    made.__annotations__["return"] = kind
    return node(made)


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (NotFinal, ["made returns NotFinal, which is not final; write @final above class NotFinal"]),
        (
            NotFrozen,
            ["made returns NotFrozen, which is not frozen; write @dataclass(frozen=True) above class NotFrozen"],
        ),
        (
            PlainWithFields,
            [
                "made returns PlainWithFields, which is not frozen; write @dataclass(frozen=True) above class "
                "PlainWithFields"
            ],
        ),
        (
            LooseModel,
            ["made returns LooseModel, which is not frozen; write @dataclass(frozen=True) above class LooseModel"],
        ),
        (str, ["made returns str, which is a built-in class; return a frozen dataclass that holds the value"]),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_an_outcome_that_is_not_final_and_frozen_is_said(kind: type, texts: list[str]) -> None:
    made = returning(kind)
    assert faults_of(row(made, on(kind, END)), made) == texts


@pytest.mark.parametrize("kind", [PlainMarker, FrozenModel, Pair, Colour])
def test_outcomes_may_be_markers_models_tuples_and_enums(kind: type) -> None:
    made = returning(kind)
    machine: Graph[Any, Any] = built(row(made, on(kind, END)), start=made)
    assert [edge.outcome for edge in machine.edges] == [kind]


def test_two_outcomes_of_one_name_are_said_once() -> None:
    def other_total() -> type:
        @final
        @dataclass(frozen=True)
        class Total:
            pass

        return Total

    other = other_total()
    made = returning(other)
    table = row(split, on(Even, halve) | on(Odd, triple)) | (
        edges(halve, on(Sum, join))
        | edges(triple, on(Sum, join))
        | edges(join, on(Total, END))
        | row(made, on(other, END))
    )
    assert faults_of(table, split) == [
        "two outcomes are named Total; rename one of the classes",
        "made cannot be reached from split; route an outcome to it, or remove its row",
    ]


# ---- everything at once


def test_everything_that_is_wrong_is_said_at_once() -> None:
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


def test_a_missing_stop_edge_names_the_stopped_response() -> None:
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


@pytest.mark.parametrize("draw", [str, repr, "{:mermaid}".format, "{:dot}".format])
def test_a_self_loop_is_shown_in_every_form(draw: Callable[[object], str]) -> None:
    machine = graph(edges(countdown, on(Left, countdown) | on(Stopped, END) | on_landed()), start=countdown)
    assert "countdown" in draw(machine)


def on_landed() -> Any:
    from tests.kernel.machines import Landed

    return on(Landed, END)


# ---- routes


def test_routes_are_a_function_of_the_outcomes_that_end_the_run() -> None:
    routes = on(Even, END) | on(Odd, triple)
    assert routes(Even(2)) == Even(2)
    with pytest.raises(LookupError, match="Odd does not end the run"):
        routes(Odd(1))


def test_routes_that_are_not_made_of_on_are_refused() -> None:
    with pytest.raises(TypeError) as caught:
        row(join, "somewhere")
    assert str(caught.value) == "the routes of join are 'somewhere'; write on(Outcome, target) | on(...)"
