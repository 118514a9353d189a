"""Dominators and shortest paths in the tables of machines, with networkx as their oracle."""

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
    check_return_direct,
    dispatch_tools,
    parse,
    plan,
)
from graphexec.kernel.node import Edge
from graphexec.verify import dominates, shortest_path
from tests.checks.strategies import graphs
from tests.kernel.machines import error_message, stub
from tests.parameters import cases
from tests.verify.orders import Order, Paid, Refused


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


def network_of(machine: Machine[Any, Any]) -> "nx.DiGraph[str]":
    return nx.DiGraph([(edge.source, edge.target) for edge in machine.edges])


# ---- dominators


@given(graphs(most=6))
def test_dominators_agree_with_networkx(machine: Machine[Any, Any]) -> None:
    network = network_of(machine)
    immediate = nx.immediate_dominators(network, machine.start)
    for other in network:
        chain = [other]
        while chain[-1] != machine.start:
            chain.append(immediate[chain[-1]])
        assert {name for name in network if dominates(machine, name, other)} == {*chain}


spin, begin = stub("spin", Order, Order | Over), stub("begin", Order, Order)
SPINNING: Machine[Any, Any] = graph(
    edges(begin, on(Order, spin)) | edges(spin, on(Order, spin) | on(Over, END)), start=begin
)


@cases(
    ("machine", "first", "second", "options", "holds"),
    # An approval comes before a payment. It may have been refused at first.
    (PAYMENTS, ask_first, pay, {}, True),
    (PAYMENTS, "ask_first", "pay", {}, True),
    (PAYMENTS, ask_first, pay, {"outcome": Approved}, False),
    (PAYMENTS, ask_first, refuse, {"outcome": Refused}, True),
    (PAYMENTS, refuse, pay, {}, False),
    # Not each payment has an approval of its own.
    (PAYMENTS, ask_first, pay, {"each": True}, False),
    (PAYMENTS, refuse, pay, {"each": True}, False),
    (PAYMENTS, pay, decide, {"each": True}, True),
    (PAYMENTS, pay, decide, {"outcome": Paid, "each": True}, True),
    (AGENT_EXECUTOR, parse, dispatch_tools, {"outcome": Acted, "each": True}, True),
    # A self-loop is a cycle.
    (SPINNING, begin, spin, {}, True),
    (SPINNING, begin, spin, {"each": True}, False),
    # Nodes dominate themselves, and the end nothing else.
    (PAYMENTS, pay, pay, {"each": True}, True),
    (PAYMENTS, pay, pay, {"outcome": Paid}, False),
    (PAYMENTS, ask_first, END, {}, True),
    (PAYMENTS, END, pay, {}, False),
)
def test_node_dominates_what_it_comes_before(
    machine: Machine[Any, Any], first: Any, second: Any, options: Any, holds: bool
) -> None:
    assert dominates(machine, first, second, **options) is holds


def test_a_spliced_node_dominates_what_it_guards() -> None:
    guard = stub("guard", Acted, Acted | AgentFinish)
    safe = splice(AGENT_EXECUTOR, edges(guard, on(Acted, dispatch_tools) | on(AgentFinish, END)), after=parse, on=Acted)
    assert dominates(safe, guard, dispatch_tools, outcome=Acted, each=True)
    assert not dominates(safe, guard, END)


# ---- shortest paths


@given(graphs(most=6))
def test_paths_agree_with_networkx(machine: Machine[Any, Any]) -> None:
    lengths = nx.single_source_dijkstra_path_length(network_of(machine), machine.start)
    for name in (*machine.nodes, "END"):
        path = shortest_path(machine, name)
        assert path is not None
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
    (lambda: dominates(PAYMENTS, pay, "wood"), "no node wood; its nodes are ask_first, refuse, pay, decide"),
    (lambda: shortest_path(PAYMENTS, plan), "the graph has no node plan; its nodes are"),
    (
        lambda: dominates(PAYMENTS, ask_first, pay, outcome=Over),
        "ask_first does not have the outcome Over; give one of Approved, Refused",
    ),
    (lambda: dominates(PAYMENTS, END, pay, outcome=Over), "END does not have the outcome Over; give a node that has"),
    (lambda: shortest_path(PAYMENTS, Stopped), "the graph does not have the outcome Stopped; give "),
    (lambda: dominates(NAME, pay, pay), "'plan' is not a graph; write dominates(executor.graph, node, other)"),
    # In drafts, nodes may be out of reach.
    (lambda: dominates(UNREACHED, pay, decide), "decide cannot be reached from pay"),
)
def test_mistakes_have_a_remedy(asked: Callable[[], object], message: str) -> None:
    assert message in error_message(errors.InputError, asked)
