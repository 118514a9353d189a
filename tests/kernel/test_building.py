"""A graph needs a total table; every fault is reported at once, with its remedy."""

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import pytest
from pydantic import BaseModel, ConfigDict

from graphexec import END, AgentFinish, Asks, Graph, GraphError, StoppedResponse, ask, edges, graph, node, on
from graphexec.effects import CallTool
from graphexec.executor import Replied, Stopped, parse, plan, stopped_response
from graphexec.executor.nodes import check_return_direct, dispatch_tools
from graphexec.executor.outcomes import Acted, Observed, Ready
from tests.kernel import machines as m
from tests.parameters import cases

# Any: type checkers refuse these tables, too (see tests/typing).
row: Any = edges
loosely: Any = on
built: Any = graph


HALVE, TRIPLE = edges(m.halve, on(m.Sum, m.join)), edges(m.triple, on(m.Sum, m.join))
JOIN, TOCK = edges(m.join, on(m.Total, END)), edges(m.tock, on(m.Tick, m.tick))
SPLIT: Any = edges(m.split, on(m.Even, m.halve) | on(m.Odd, m.triple))


def texts_of(table: Any, start: Any) -> list[str]:
    return m.error_message(GraphError, built, table, start=start).splitlines()


def test_node_without_a_row_has_its_code() -> None:
    with pytest.raises(GraphError) as refused:
        built(SPLIT | TRIPLE | JOIN, start=m.split)
    assert [(one.code, one.node) for one in refused.value.faults] == [("GX005", "halve")]


def test_total_table_is_built() -> None:
    assert str(m.DIAMOND) == (
        "split --Even--> halve\nsplit --Odd--> triple\nhalve --Sum--> join\njoin --Total--> END\ntriple --Sum--> join"
    )
    assert repr(m.DIAMOND) == "<graph of 4 nodes and 5 edges, start=split>"
    assert [one.name for one in m.DIAMOND] == ["split", "halve", "triple", "join"]
    assert len(m.DIAMOND) == 4
    assert "halve" in m.DIAMOND
    assert m.DIAMOND["halve"] is m.halve
    assert repr(END) == "END"


@cases(
    ("machine", "name", "hint"),
    (m.DIAMOND, "hlave", "the graph has no node hlave; did you mean halve?"),
    (m.CLOCK, "walk", "the graph has no node walk; its nodes are tick, tock"),
)
def test_lookup_of_an_unknown_node_gives_a_hint(machine: Graph[Any, Any], name: str, hint: str) -> None:
    assert hint in m.error_message(KeyError, machine.__getitem__, name)


@node
def ticking(at: m.Tick) -> m.Tock:
    return m.Tock(at.count)


@node
def look_up(left: m.Left) -> Asks[CallTool, m.Total]:
    result = yield from ask(CallTool("search", "tea"))
    return m.Total(str(result.observation))


@node(opaque=True)
def read(left: m.Left) -> m.Total:
    return m.Total("read")


@node
async def fetch(left: m.Left) -> m.Total:
    return m.Total("fetched")


NAMED_END = node(name="END")(m.join)
NO_EDGE = "{0} may return {1}, which no edge takes; add on({1}, {2})"
STOPPABLE = "which a limit may stop, but has no outcome for that; write @node(when_spent=...) and route"
TO_END = "cannot reach END; route an outcome of it, or of a node after it, to END"


@cases(
    ("start", "table", "texts"),
    (m.split, row(m.split, on(m.Even, m.halve)) | HALVE | JOIN, [NO_EDGE.format("split", "Odd", "...")]),
    (m.tick, row(m.tick, on(m.Tock, m.tock)) | TOCK, [NO_EDGE.format("tick", "Stopped", "...")]),
    # The only node that takes an outcome is proposed.
    (m.tick, row(m.tick, on(m.Stopped, END)) | TOCK, [NO_EDGE.format("tick", "Tock", "tock")]),
    # Without the edge for Even, nothing reaches halve; only the missing edge is reported.
    (m.split, row(m.split, on(m.Odd, m.triple)) | HALVE | TRIPLE | JOIN, [NO_EDGE.format("split", "Even", "halve")]),
    (m.split, SPLIT | TRIPLE | JOIN, ["halve has no row; add edges(halve, ...)"]),
    (
        m.split,
        JOIN,
        [
            "split has no row; add edges(split, ...)",
            "join cannot be reached from split; route an outcome to it, or remove its row",
        ],
    ),
    (m.join, row(m.join, on(m.Total, END) | on(m.Even, END)), ["join never returns Even; remove on(Even, END)"]),
    (m.join, edges(m.join, on(m.Total, END) | on(m.Total, END)), ["join routes Total twice; remove on(Total, END)"]),
    (
        m.split,
        row(m.split, loosely(m.Even, m.join) | loosely(m.Odd, m.join)) | JOIN,
        [f"split sends {one} to join, which takes Sum; send it to a node that takes it" for one in ("Even", "Odd")],
    ),
    (m.join, JOIN | JOIN, ["join has two rows; join its routes with | in one row"]),
    (
        m.split,
        edges(m.split, on(m.Even, m.halve) | on(m.Odd, node(name="halve")(m.triple))) | HALVE | JOIN,
        [
            "two nodes are named halve; rename one of the functions",
            # An edge has only the name of its target, so it counts as an edge to the first node.
            "split sends Odd to halve, which takes Even; send it to a node that takes it",
        ],
    ),
    (
        NAMED_END,
        edges(NAMED_END, on(m.Total, END)),
        [
            "the name END is reserved for the end of a run; rename the node's function",
            "END sends Total to END, which takes Sum; send it to a node that takes it",
        ],
    ),
    (m.join, JOIN | HALVE, ["halve cannot be reached from join; route an outcome to it, or remove its row"]),
    (
        ticking,
        edges(ticking, on(m.Tock, m.tock)) | edges(m.tock, on(m.Tick, ticking)),
        [f"ticking {TO_END}", f"tock {TO_END}"],
    ),
    (look_up, edges(look_up, on(m.Total, END)), [f"look_up asks for CallTool, {STOPPABLE} that outcome"]),
    (read, edges(read, on(m.Total, END)), [f"read is opaque, {STOPPABLE} that outcome"]),
    (fetch, edges(fetch, on(m.Total, END)), [f"fetch is an async function, {STOPPABLE} that outcome"]),
)
def test_fault_of_a_table_is_reported_once(start: Any, table: Any, texts: list[str]) -> None:
    assert texts_of(table, start) == texts


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
    def create(number: m.Number) -> Any:
        return kind()

    create.__annotations__["return"] = kind
    return node(create)


@cases(
    ("kind", "fault"),
    (NotFinal, "not final; write @final above class NotFinal"),
    (NotFrozen, "not frozen; write @dataclass(frozen=True) above class NotFrozen"),
    (PlainWithFields, "not frozen; write @dataclass(frozen=True) above class PlainWithFields"),
    (LooseModel, "not frozen; write @dataclass(frozen=True) above class LooseModel"),
    (str, "a built-in class; return a frozen dataclass that holds the value"),
)
def test_outcome_must_be_final_and_frozen(kind: type, fault: str) -> None:
    create = node_returning(kind)
    assert texts_of(row(create, on(kind, END)), create) == [f"create returns {kind.__name__}, which is {fault}"]


@cases("kind", PlainMarker, FrozenModel, Pair, Colour)
def test_outcomes_may_be_markers_models_tuples_and_enums(kind: type) -> None:
    assert [edge.outcome for edge in m.machine_of(node_returning(kind)).edges] == [kind]


def test_faults_name_outcomes_and_nodes() -> None:
    other: Any = final(dataclass(frozen=True)(type("Total", (), {})))
    create = node_returning(other)
    table = SPLIT | HALVE | TRIPLE | JOIN | row(create, on(other, END))
    assert texts_of(table, m.split) == [
        "two outcomes are named Total; rename one of the classes",
        "create cannot be reached from split; route an outcome to it, or remove its row",
    ]
    table = (
        row(plan, on(Replied, parse))
        | edges(parse, on(Acted, dispatch_tools) | on(Ready, plan) | on(AgentFinish, END))
        | edges(dispatch_tools, on(Observed, check_return_direct) | on(Stopped, stopped_response))
        | edges(check_return_direct, on(Ready, plan) | on(AgentFinish, END))
        | edges(stopped_response, on(StoppedResponse, END))
    )
    assert texts_of(table, plan) == ["plan may return Stopped, which no edge takes; add on(Stopped, stopped_response)"]


def test_every_fault_is_reported_at_once() -> None:
    @node
    def loose(left: m.Left) -> NotFinal | NotFrozen | m.Left:
        return NotFinal()

    table = (
        row(m.split, on(m.Even, m.halve) | loosely(m.Odd, m.join) | loosely(m.Total, END))
        | row(m.halve, on(m.Sum, m.join) | on(m.Sum, m.join))
        | JOIN
        | JOIN
        | row(loose, loosely(NotFinal, END))
    )
    assert m.faults_of(built, table, start=m.split) == [
        "GX020 join None: join has two rows; join its routes with | in one row",
        "GX022 split Odd: split sends Odd to join, which takes Sum; send it to a node that takes it",
        "GX003 split Total: split never returns Total; remove on(Total, END)",
        "GX021 halve Sum: halve routes Sum twice; remove on(Sum, join)",
        "GX002 loose NotFrozen: loose may return NotFrozen, which no edge takes; add on(NotFrozen, ...)",
        "GX002 loose Left: loose may return Left, which no edge takes; add on(Left, loose)",
        "GX023 loose NotFinal: loose returns NotFinal, which is not final; write @final above class NotFinal",
        "GX023 loose NotFrozen: loose returns NotFrozen, which is not frozen; write @dataclass(frozen=True) above "
        "class NotFrozen",
        "GX004 loose None: loose cannot be reached from split; route an outcome to it, or remove its row",
    ]


def test_routes_need_on() -> None:
    with pytest.raises(AssertionError, match="joined in edges"):
        (on(m.Even, END) | on(m.Odd, m.triple))(m.Even(2))
    text = "the routes of join are 'somewhere'; write on(Outcome, target) | on(...)"
    assert m.error_message(TypeError, row, m.join, "somewhere") == text
