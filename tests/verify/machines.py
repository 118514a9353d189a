"""Random machines: nodes of every kind with random meters, charges and edges. Their bodies are never called."""

from collections.abc import Generator, Mapping
from dataclasses import make_dataclass
from typing import Any, ClassVar, final

from hypothesis import strategies as st

from graphexec import END, AskHuman, Effect, Machine
from graphexec.effects import MODEL_CALLS, TOKENS, TOOL_CALLS, CallModel, CallTool
from graphexec.kernel import ITERATIONS, Limits, Meter, Node
from graphexec.kernel.effects import Perform
from graphexec.kernel.node import Edge

FIRST, SECOND = Meter("first", 1), Meter("second", 2)
BUDGETS = [ITERATIONS, FIRST, SECOND]
# An outcome class for each node and target; the inputs of nodes do not matter here.
KINDS = [final(make_dataclass(f"Outcome{number}", (), frozen=True)) for number in range(4)]
SPENT = final(make_dataclass("Spent", (), frozen=True))

GOLD, SILVER = Meter("gold"), Meter("silver")


class Buy(Effect[None]):
    """Charges two meters, one of them several units."""

    charges: ClassVar[Mapping[Meter, int]] = {GOLD: 3, SILVER: 1}


class Weigh(Effect[float]):
    """Its reply reports the amount of one meter."""

    charges: ClassVar[Mapping[Meter, int]] = {SILVER: 2}
    measures: ClassVar[tuple[Meter, ...]] = (GOLD,)

    def measure(self, reply: float) -> tuple[float]:
        return (reply,)


# The effects of a node: mostly one kind.
ASKED: list[tuple[type[Effect[Any]], ...]] = [
    (Buy,),
    (Weigh,),
    (Buy, Weigh),
    (CallModel,),
    (CallTool,),
    (CallModel, CallTool),
    (AskHuman, CallTool),
    (AskHuman, CallModel, CallTool),
]


def _never(value: object) -> Any:
    raise AssertionError("nothing calls this")


def _never_asks(value: object) -> Generator[Any, Any, Any]:
    raise AssertionError("nothing calls this")
    yield


def _never_leaves(value: object, limit: object) -> Any:
    raise AssertionError("nothing calls this")


@st.composite
def graphs(draw: st.DrawFn, most_nodes: int = 4) -> Machine[Any, Any]:
    """Return a graph with an edge for each outcome, whose first node leads to the end when a limit is reached."""
    names = [f"n{number}" for number in range(draw(st.integers(1, most_nodes)))]
    nodes: list[Node[Any, Any]] = []
    edges: list[Edge] = []
    for name in names:
        node = draw(_nodes(name))
        nodes.append(node)
        for outcome in node.returns:
            resets = draw(st.lists(st.sampled_from(BUDGETS), unique=True, max_size=1))
            edges.append(Edge(name, outcome, draw(st.sampled_from([*names, END.name])), tuple(resets)))
        if node.spent_outcome is not None:
            edges.append(Edge(name, SPENT, draw(st.sampled_from([*names, END.name, END.name, END.name]))))
    used = {budget for node in nodes for budget in node.meters}
    kept = [Edge(e.source, e.outcome, e.target, tuple(b for b in e.resets if b in used)) for e in edges]
    return Machine(nodes, kept, names[0])


@st.composite
def _nodes(draw: st.DrawFn, name: str) -> Node[Any, Any]:
    returns = tuple(KINDS[: draw(st.integers(1, 3))])
    meters = tuple(draw(st.lists(st.sampled_from(BUDGETS), unique=True, max_size=2)))
    kind: Any = draw(st.sampled_from(["pure", "pure", "asks", "opaque"]))
    least = draw(st.integers(0, 2)) if kind == "asks" else int(kind == "opaque")
    most = draw(st.sampled_from([None, least, least + 1])) if kind == "asks" else least
    charged = bool(meters) or kind != "pure"
    effects: Any = {"pure": (), "opaque": (Perform,), "asks": draw(st.sampled_from(ASKED))}[kind]
    return Node(
        name,
        kind,
        _never_asks if kind == "asks" else _never,
        takes=(object,),
        outcomes=(*returns, SPENT) if charged else returns,
        returns=returns,
        effects=effects,
        meters=meters,
        when_spent=_never_leaves if charged else None,
        spent_outcome=SPENT if charged else None,
        least=least,
        most=most,
    )


@st.composite
def limits(draw: st.DrawFn, most: int = 2) -> Limits:
    """Return small random limits; most are `None`."""
    some = st.sampled_from([None, *range(most + 1)])
    more = st.sampled_from([None, *range(3 * most + 1)])
    return Limits(
        {MODEL_CALLS: draw(some), TOOL_CALLS: draw(some), TOKENS: draw(some), GOLD: draw(more), SILVER: draw(more)},
        iterations=draw(some),
        seconds=draw(st.sampled_from([None, None, 0.0, 1.0])),
        # A lower limit would make the node impossible to enter.
        fan_out=draw(st.sampled_from([None, 2, 3])),
        restarts=draw(st.sampled_from([None, None, 0, 1])),
    )
