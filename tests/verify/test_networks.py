"""Machines as graphs of networkx: attributes, exports, dominators and shortest paths."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any, final

import networkx as nx
import pytest
from hypothesis import given

from graphexec import END, AgentFinish, Graph, Node, StoppedResponse, edges, graph, node, on, splice
from graphexec.errors import InputError
from graphexec.executor import (
    AGENT_EXECUTOR,
    GENERATING_AGENT_EXECUTOR,
    Acted,
    LimitReached,
    Ready,
    check_return_direct,
    dispatch_tools,
    parse,
    plan,
)
from graphexec.kernel import Edge
from graphexec.testing.strategies import graphs as sound_graphs
from graphexec.verify import dominates, postdominates, shortest_path, to_networkx
from tests.parameters import cases
from tests.verify.machines import graphs
from tests.verify.writing import WRITER


@final
@dataclass(frozen=True)
class Job:
    pass


@final
@dataclass(frozen=True)
class Approved:
    pass


@final
@dataclass(frozen=True)
class Refused:
    pass


@final
@dataclass(frozen=True)
class Paid:
    pass


@final
@dataclass(frozen=True)
class Repeat:
    pass


@final
@dataclass(frozen=True)
class Over:
    pass


@node
def ask_first(job: Job) -> Approved | Refused:
    raise AssertionError("nothing calls this")


@node
def refuse(refused: Refused) -> Approved | Over:
    raise AssertionError("nothing calls this")


@node
def pay(approved: Approved | Repeat) -> Paid:
    raise AssertionError("nothing calls this")


@node
def decide(paid: Paid) -> Job | Repeat | Over:
    raise AssertionError("nothing calls this")


# What is refused may be approved behind `ask_first`; what is repeated is not asked for again.
PAYMENTS = graph(
    edges(ask_first, on(Approved, pay) | on(Refused, refuse))
    | edges(refuse, on(Approved, pay) | on(Over, END))
    | edges(pay, on(Paid, decide))
    | edges(decide, on(Job, ask_first) | on(Repeat, pay) | on(Over, END)),
    start=ask_first,
)


# ---- as a graph of networkx


def test_attributes_of_the_executors_machine() -> None:
    network = AGENT_EXECUTOR.to_networkx()
    assert network.graph == {"start": "plan", "end": "END", "budgets": ""}
    assert network.nodes["plan"] == {
        "kind": "asks",
        "takes": "Ready",
        "outcomes": "Replied LimitReached",
        "effects": " ".join(effect.__name__ for effect in plan.effects),
        "charges": "model_calls tokens",
        "meters": "iterations",
        "spent_outcome": "LimitReached",
        "least": plan.least,
        "most": plan.most,
    }
    assert "most" not in network.nodes["dispatch_tools"]
    assert network.nodes["dispatch_tools"]["charges"] == "tool_calls"
    assert network.nodes["END"].keys() == network.nodes["plan"].keys() - {"least", "most"}
    assert network.nodes["END"]["takes"].split() == ["AgentFinish", "StoppedResponse"]
    assert network.edges["plan", "stopped_response", "LimitReached"] == {
        "outcome": "LimitReached",
        "resets": "",
        "spent": True,
        "returned": False,
    }
    assert network.edges["parse", "plan", "Ready"] == {
        "outcome": "Ready",
        "resets": "",
        "spent": False,
        "returned": True,
    }


def test_budgets_resets_and_grace_are_attributes() -> None:
    network = WRITER.to_networkx()
    assert network.graph["budgets"] == "revisions=2"
    assert network.edges["edit", "write", "Chapter"]["resets"] == "revisions"
    reserved = GENERATING_AGENT_EXECUTOR.to_networkx().nodes["stopped_response"]
    assert (reserved["grace"], reserved["most"]) == (10.0, 1)


def contents(network: Any) -> tuple[dict[str, Any], dict[tuple[str, str, str], Any]]:
    """Nodes and edges with their attributes; Any: the stubs of networkx know neither keys nor exports."""
    return dict(network.nodes(data=True)), {
        (source, target, key): data for source, target, key, data in network.edges(keys=True, data=True)
    }


@given(graphs())
def test_every_node_and_edge_is_there_once(machine: Graph[Any, Any]) -> None:
    nodes, found = contents(to_networkx(machine))
    assert nodes.keys() == {*machine.nodes, "END"}
    assert sorted(found) == sorted((edge.source, edge.target, edge.outcome.__name__) for edge in machine.edges)


@given(graphs())
def test_exports_hold_every_attribute(machine: Graph[Any, Any]) -> None:
    network = to_networkx(machine)
    library: Any = nx
    file = io.BytesIO()
    library.write_graphml(network, file)
    file.seek(0)
    by_graphml = library.read_graphml(file, force_multigraph=True)
    text = json.dumps(library.node_link_data(network, edges="edges"))
    by_json = library.node_link_graph(json.loads(text), edges="edges")
    for read in (by_graphml, by_json):
        assert contents(read) == contents(network)
        assert read.graph.items() >= network.graph.items()


def test_each_call_returns_a_new_graph() -> None:
    PAYMENTS.to_networkx().remove_node("pay")
    assert "pay" in PAYMENTS.to_networkx()


def test_missing_nodes_of_drafts_are_marked() -> None:
    machine: Graph[Any, Any] = Graph([pay], [Edge("pay", Paid, "nowhere"), Edge("missing_source", Over, "END")], "pay")
    network = machine.to_networkx()
    assert network.nodes["nowhere"] == network.nodes["missing_source"] == {"kind": "missing"}
    assert network.edges["missing_source", "END", "Over"]["returned"] is False


# ---- dominators


@given(sound_graphs(most=6))
def test_dominators_agree_with_networkx(machine: Graph[Any, Any]) -> None:
    network: nx.DiGraph[str] = nx.DiGraph(machine.to_networkx())
    for immediate, holds, root in (
        (nx.immediate_dominators(network, machine.start), dominates, machine.start),
        (nx.immediate_dominators(network.reverse(), "END"), postdominates, "END"),
    ):
        for other in network:
            chain = {other}
            name = other
            while name != root:
                name = immediate[name]
                chain.add(name)
            assert {name for name in network if holds(machine, name, other)} == chain


def test_approval_comes_before_payment() -> None:
    assert dominates(PAYMENTS, ask_first, pay)
    assert dominates(PAYMENTS, "ask_first", "pay")
    # It may have been refused at first.
    assert not dominates(PAYMENTS, ask_first, pay, outcome=Approved)
    assert dominates(PAYMENTS, ask_first, refuse, outcome=Refused)
    assert not dominates(PAYMENTS, refuse, pay)


def test_each_payment_needs_an_approval_of_its_own() -> None:
    assert not dominates(PAYMENTS, ask_first, pay, each=True)
    assert not dominates(PAYMENTS, refuse, pay, each=True)
    assert dominates(PAYMENTS, pay, decide, each=True)
    assert dominates(PAYMENTS, pay, decide, outcome=Paid, each=True)
    assert dominates(AGENT_EXECUTOR, parse, dispatch_tools, outcome=Acted, each=True)


def test_started_work_is_completed() -> None:
    assert postdominates(PAYMENTS, decide, pay)
    assert postdominates(PAYMENTS, decide, pay, each=True)
    assert not postdominates(PAYMENTS, decide, ask_first)
    assert not postdominates(PAYMENTS, decide, pay, outcome=Over)


def test_self_loop_is_a_cycle() -> None:
    @node
    def spin(job: Job) -> Job | Over:
        raise AssertionError("nothing calls this")

    @node
    def begin(job: Job) -> Job:
        raise AssertionError("nothing calls this")

    machine = graph(edges(begin, on(Job, spin)) | edges(spin, on(Job, spin) | on(Over, END)), start=begin)
    assert dominates(machine, begin, spin)
    assert not dominates(machine, begin, spin, each=True)
    assert postdominates(machine, spin, spin, outcome=Over)
    assert not postdominates(machine, spin, spin, outcome=Over, each=True)


def test_nodes_dominate_themselves_and_the_end_nothing_else() -> None:
    assert dominates(PAYMENTS, pay, pay, each=True)
    assert not dominates(PAYMENTS, pay, pay, outcome=Paid)
    assert dominates(PAYMENTS, ask_first, END)
    assert not dominates(PAYMENTS, END, pay)
    assert postdominates(PAYMENTS, END, pay)


def test_a_spliced_node_dominates_what_it_guards() -> None:
    @node
    def guard(acted: Acted) -> Acted | AgentFinish:
        raise AssertionError("nothing calls this")

    guarded = splice(
        AGENT_EXECUTOR, edges(guard, on(Acted, dispatch_tools) | on(AgentFinish, END)), after=parse, on=Acted
    )
    assert dominates(guarded, guard, dispatch_tools, outcome=Acted, each=True)
    assert not dominates(guarded, guard, END)


# ---- shortest paths


@given(sound_graphs(most=6))
def test_paths_agree_with_networkx(machine: Graph[Any, Any]) -> None:
    lengths = nx.single_source_dijkstra_path_length(machine.to_networkx(), machine.start)
    for name in (*machine.nodes, "END"):
        path = shortest_path(machine, name)
        assert path is not None
        assert len(path) == lengths[name]
        assert [machine.start, *(edge.target for edge in path)] == [*(edge.source for edge in path), name]


@given(sound_graphs(most=6))
def test_a_path_around_is_there_unless_dominated(machine: Graph[Any, Any]) -> None:
    for name in machine.nodes:
        for avoided in machine.nodes:
            path = shortest_path(machine, name, avoiding=avoided)
            assert (path is None) == dominates(machine, avoided, name)
            assert path is None or all(avoided not in (edge.source, edge.target) for edge in path)


def written(path: tuple[Edge, ...] | None) -> list[str]:
    return list(map(str, path or ()))


def test_paths_to_nodes_outcomes_and_the_end() -> None:
    assert written(shortest_path(AGENT_EXECUTOR, dispatch_tools)) == [
        "plan --Replied--> parse",
        "parse --Acted--> dispatch_tools",
    ]
    assert written(shortest_path(AGENT_EXECUTOR, END)) == ["plan --Replied--> parse", "parse --AgentFinish--> END"]
    assert written(shortest_path(AGENT_EXECUTOR, StoppedResponse)) == [
        "plan --LimitReached--> stopped_response",
        "stopped_response --StoppedResponse--> END",
    ]
    assert shortest_path(AGENT_EXECUTOR, plan) == ()
    assert written(shortest_path(AGENT_EXECUTOR, Ready, start=dispatch_tools)) == [
        "dispatch_tools --Observed--> check_return_direct",
        "check_return_direct --Ready--> plan",
    ]


def test_paths_may_avoid_a_node() -> None:
    path = shortest_path(AGENT_EXECUTOR, AgentFinish, start=parse, avoiding=dispatch_tools)
    assert written(path) == ["parse --AgentFinish--> END"]
    assert shortest_path(AGENT_EXECUTOR, dispatch_tools, avoiding="parse") is None
    assert shortest_path(AGENT_EXECUTOR, plan, avoiding=plan) is None
    assert shortest_path(AGENT_EXECUTOR, AgentFinish, avoiding=END) is None
    assert shortest_path(AGENT_EXECUTOR, check_return_direct, start="stopped_response") is None


# ---- mistakes


@cases(
    ("asked", "message"),
    [
        (lambda: dominates(PAYMENTS, "ask_frist", pay), "the graph has no node ask_frist; did you mean ask_first?"),
        (
            lambda: postdominates(PAYMENTS, pay, "wood"),
            "the graph has no node wood; its nodes are ask_first, refuse, pay, decide",
        ),
        (lambda: shortest_path(PAYMENTS, plan), "the graph has no node plan; its nodes are"),
        (
            lambda: dominates(PAYMENTS, ask_first, pay, outcome=Over),
            "ask_first does not have the outcome Over; give one of Approved, Refused",
        ),
        (
            lambda: dominates(PAYMENTS, END, pay, outcome=Over),
            "END does not have the outcome Over; give a node that has outcomes",
        ),
        (
            lambda: shortest_path(PAYMENTS, LimitReached),
            "the graph does not have the outcome LimitReached; give ",
        ),
        (lambda: to_networkx("plan"), "'plan' is not a graph; write to_networkx(executor.graph)"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    ],
)
def test_mistakes_have_a_remedy(asked: Any, message: str) -> None:
    with pytest.raises(InputError) as raised:
        asked()
    assert message in str(raised.value)


def test_unreachable_node_of_draft_has_no_dominators() -> None:
    nodes: list[Node[Any, Any]] = [pay, decide]
    machine: Graph[Any, Any] = Graph(nodes, [Edge("pay", Paid, "END")], "pay")
    with pytest.raises(InputError, match="decide cannot be reached from pay"):
        dominates(machine, pay, decide)
    with pytest.raises(InputError, match="END cannot be reached from decide"):
        postdominates(machine, decide, decide)
