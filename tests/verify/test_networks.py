"""Machines as graphs of networkx: attributes, exports, dominators and shortest paths."""

import io
import json
from collections.abc import Callable
from typing import Any, final

import networkx as nx
from hypothesis import given

from graphexec import END, AgentFinish, Machine, Node, StoppedResponse, edges, errors, graph, on, splice
from graphexec.executor import (
    AGENT_EXECUTOR,
    Acted,
    Ready,
    Stopped,
    agent_graph,
    check_return_direct,
    dispatch_tools,
    parse,
    plan,
)
from graphexec.kernel.node import Edge
from graphexec.verify import dominates, postdominates, shortest_path, to_networkx
from tests.checks.strategies import graphs
from tests.kernel.machines import error_message, stub
from tests.parameters import cases
from tests.verify.orders import Order, Paid, Refused
from tests.verify.proofs import require
from tests.verify.writing import WRITER


@final
class Approved: ...


@final
class Repeat: ...


@final
class Over: ...


# What is refused may be approved behind `ask_first`; what is repeated is not asked for again.
ask_first, refuse = stub("ask_first", Order, Approved | Refused), stub("refuse", Refused, Approved | Over)
pay, decide = stub("pay", Approved | Repeat, Paid), stub("decide", Paid, Order | Repeat | Over)
PAYMENTS: Machine[Any, Any] = graph(
    edges(ask_first, on(Approved, pay) | on(Refused, refuse))
    | edges(refuse, on(Approved, pay) | on(Over, END))
    | edges(pay, on(Paid, decide))
    | edges(decide, on(Order, ask_first) | on(Repeat, pay) | on(Over, END)),
    start=ask_first,
)


ROUND = [Edge("pay", Paid, "END"), *(Edge("decide", kind, "decide") for kind in (Order, Repeat, Over))]
UNREACHED: Machine[Any, Any] = Machine(list[Node[Any, Any]]([pay, decide]), ROUND, "pay")

# ---- as a graph of networkx


def test_attributes_of_nodes_edges_and_budgets() -> None:
    network = AGENT_EXECUTOR.to_networkx()
    assert network.graph == {"start": "plan", "end": "END", "meters": ""}
    assert network.nodes["plan"] == {
        "kind": "asks",
        "takes": "Ready",
        "outcomes": "Replied Stopped",
        "effects": " ".join(effect.__name__ for effect in plan.effects),
        "charges": "model_calls tokens",
        "meters": "iterations",
        "spent_outcome": "Stopped",
        "least": plan.least,
        "most": plan.most,
    }
    assert "most" not in network.nodes["dispatch_tools"]
    assert network.nodes["dispatch_tools"]["charges"] == "tool_calls"
    assert network.nodes["END"].keys() == network.nodes["plan"].keys() - {"least", "most"}
    assert network.nodes["END"]["takes"].split() == ["AgentFinish", "StoppedResponse"]
    reached, ready = network.edges["plan", "stopped_response", "Stopped"], network.edges["parse", "plan", "Ready"]
    assert reached == {"outcome": "Stopped", "resets": "", "spent": True, "returned": False}
    assert ready == {"outcome": "Ready", "resets": "", "spent": False, "returned": True}
    network = WRITER.to_networkx()
    assert network.graph["meters"] == "revisions=2"
    assert network.edges["edit", "write", "Chapter"]["resets"] == "revisions"
    reserved = agent_graph(generate=True).to_networkx().nodes["stopped_response"]
    assert (reserved["grace"], reserved["most"]) == (10.0, 1)


def contents(network: Any) -> tuple[dict[str, Any], dict[tuple[str, str, str], Any]]:
    """Nodes and edges with their attributes; Any: the stubs of networkx know neither keys nor exports."""
    return dict(network.nodes(data=True)), {
        (source, target, key): data for source, target, key, data in network.edges(keys=True, data=True)
    }


@given(graphs())
def test_every_node_and_edge_is_there_once(machine: Machine[Any, Any]) -> None:
    nodes, found = contents(to_networkx(machine))
    assert nodes.keys() == {*machine.nodes, "END"}
    assert sorted(found) == sorted((edge.source, edge.target, edge.outcome.__name__) for edge in machine.edges)


@given(graphs())
def test_exports_hold_every_attribute(machine: Machine[Any, Any]) -> None:
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


def test_each_graph_is_new() -> None:
    PAYMENTS.to_networkx().remove_node("pay")
    assert "pay" in PAYMENTS.to_networkx()


# ---- dominators


@given(graphs(most=6))
def test_dominators_agree_with_networkx(machine: Machine[Any, Any]) -> None:
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


spin, begin = stub("spin", Order, Order | Over), stub("begin", Order, Order)
SPINNING: Machine[Any, Any] = graph(
    edges(begin, on(Order, spin)) | edges(spin, on(Order, spin) | on(Over, END)), start=begin
)


@cases(
    ("relation", "machine", "first", "second", "options", "holds"),
    # An approval comes before a payment. It may have been refused at first.
    (dominates, PAYMENTS, ask_first, pay, {}, True),
    (dominates, PAYMENTS, "ask_first", "pay", {}, True),
    (dominates, PAYMENTS, ask_first, pay, {"outcome": Approved}, False),
    (dominates, PAYMENTS, ask_first, refuse, {"outcome": Refused}, True),
    (dominates, PAYMENTS, refuse, pay, {}, False),
    # Not each payment has an approval of its own.
    (dominates, PAYMENTS, ask_first, pay, {"each": True}, False),
    (dominates, PAYMENTS, refuse, pay, {"each": True}, False),
    (dominates, PAYMENTS, pay, decide, {"each": True}, True),
    (dominates, PAYMENTS, pay, decide, {"outcome": Paid, "each": True}, True),
    (dominates, AGENT_EXECUTOR, parse, dispatch_tools, {"outcome": Acted, "each": True}, True),
    # A self-loop is a cycle.
    (dominates, SPINNING, begin, spin, {}, True),
    (dominates, SPINNING, begin, spin, {"each": True}, False),
    # Nodes dominate themselves, and the end nothing else.
    (dominates, PAYMENTS, pay, pay, {"each": True}, True),
    (dominates, PAYMENTS, pay, pay, {"outcome": Paid}, False),
    (dominates, PAYMENTS, ask_first, END, {}, True),
    (dominates, PAYMENTS, END, pay, {}, False),
    # Started work is completed.
    (postdominates, PAYMENTS, decide, pay, {}, True),
    (postdominates, PAYMENTS, decide, pay, {"each": True}, True),
    (postdominates, PAYMENTS, decide, ask_first, {}, False),
    (postdominates, PAYMENTS, decide, pay, {"outcome": Over}, False),
    (postdominates, SPINNING, spin, spin, {"outcome": Over}, True),
    (postdominates, SPINNING, spin, spin, {"outcome": Over, "each": True}, False),
    (postdominates, PAYMENTS, END, pay, {}, True),
)
def test_node_dominates_what_it_comes_before(
    relation: Any, machine: Machine[Any, Any], first: Any, second: Any, options: Any, holds: bool
) -> None:
    assert relation(machine, first, second, **options) is holds


def test_a_spliced_node_dominates_what_it_guards() -> None:
    guard = stub("guard", Acted, Acted | AgentFinish)
    safe = splice(AGENT_EXECUTOR, edges(guard, on(Acted, dispatch_tools) | on(AgentFinish, END)), after=parse, on=Acted)
    assert dominates(safe, guard, dispatch_tools, outcome=Acted, each=True)
    assert not dominates(safe, guard, END)


# ---- shortest paths


@given(graphs(most=6))
def test_paths_agree_with_networkx(machine: Machine[Any, Any]) -> None:
    lengths = nx.single_source_dijkstra_path_length(machine.to_networkx(), machine.start)
    for name in (*machine.nodes, "END"):
        path = require(shortest_path(machine, name))
        assert len(path) == lengths[name]
        assert [machine.start, *(edge.target for edge in path)] == [*(edge.source for edge in path), name]


@given(graphs(most=6))
def test_a_path_around_is_there_unless_dominated(machine: Machine[Any, Any]) -> None:
    for name in machine.nodes:
        for avoided in machine.nodes:
            path = shortest_path(machine, name, avoiding=avoided)
            assert (path is None) == dominates(machine, avoided, name)
            assert path is None or all(avoided not in (edge.source, edge.target) for edge in path)


@cases(
    ("target", "options", "path"),
    (dispatch_tools, {}, ["plan --Replied--> parse", "parse --Acted--> dispatch_tools"]),
    (END, {}, ["plan --Replied--> parse", "parse --AgentFinish--> END"]),
    (StoppedResponse, {}, ["plan --Stopped--> stopped_response", "stopped_response --StoppedResponse--> END"]),
    (plan, {}, []),
    (
        Ready,
        {"start": dispatch_tools},
        ["dispatch_tools --Observed--> check_return_direct", "check_return_direct --Ready--> plan"],
    ),
    # It may avoid a node, and then there may be none.
    (AgentFinish, {"start": parse, "avoiding": dispatch_tools}, ["parse --AgentFinish--> END"]),
    (dispatch_tools, {"avoiding": "parse"}, None),
    (plan, {"avoiding": plan}, None),
    (AgentFinish, {"avoiding": END}, None),
    (check_return_direct, {"start": "stopped_response"}, None),
)
def test_shortest_path_to_node_outcome_or_end(target: Any, options: Any, path: list[str] | None) -> None:
    found = shortest_path(AGENT_EXECUTOR, target, **options)
    assert found == path if path is None else list(map(str, found or ())) == path


# ---- mistakes


# Any: a name is not a graph.
NAME: Any = "plan"


@cases(
    ("asked", "message"),
    (lambda: dominates(PAYMENTS, "ask_frist", pay), "the graph has no node ask_frist; did you mean ask_first?"),
    (lambda: postdominates(PAYMENTS, pay, "wood"), "no node wood; its nodes are ask_first, refuse, pay, decide"),
    (lambda: shortest_path(PAYMENTS, plan), "the graph has no node plan; its nodes are"),
    (
        lambda: dominates(PAYMENTS, ask_first, pay, outcome=Over),
        "ask_first does not have the outcome Over; give one of Approved, Refused",
    ),
    (lambda: dominates(PAYMENTS, END, pay, outcome=Over), "END does not have the outcome Over; give a node that has"),
    (lambda: shortest_path(PAYMENTS, Stopped), "the graph does not have the outcome Stopped; give "),
    (lambda: to_networkx(NAME), "'plan' is not a graph; write to_networkx(executor.graph)"),
    # In drafts, nodes may be out of reach.
    (lambda: dominates(UNREACHED, pay, decide), "decide cannot be reached from pay"),
    (lambda: postdominates(UNREACHED, decide, decide), "END cannot be reached from decide"),
)
def test_mistakes_have_a_remedy(asked: Callable[[], object], message: str) -> None:
    assert message in error_message(errors.InputError, asked)
